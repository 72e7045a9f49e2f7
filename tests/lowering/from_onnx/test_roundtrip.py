"""What the ONNX target writes comes back: the same ops or fewer, the same results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f16, f32, i8, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.printing import module_text
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.passes.quantize_activations.recognize_quantizers import RecognizeQuantizersPass

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(1)
TRITS = RNG.integers(-1, 2, (9, 5)).astype(np.int8)
FILTERS = RNG.integers(-1, 2, (4, 2, 3, 3)).astype(np.int8)
SCALE = RNG.random(5).astype(np.float32)
STORE = {"fc": pack_trits(TRITS), "conv": pack_trits(FILTERS), "scale": SCALE}
WINDOW: dict[str, Any] = {"strides": [2, 2], "padding": [1, 1, 1, 1], "dilation": [1, 1]}


def program(type: Attribute, body: Callable[..., SSAValue]) -> ModuleOp:
    block = Block(arg_types=[type])

    def add(op: Operation) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    result = body(add, block.args[0])
    block.add_op(ReturnOp(result))
    kind = FunctionType.from_lists([type], [result.type])
    module = ModuleOp([FuncOp("forward", kind, Region(block))])
    attach_store(module, ParameterStore.of(STORE))
    module.verify()
    return module


def there_and_back(module: ModuleOp, **options: Any) -> ModuleOp:
    artifact = compile_to_target(module.clone(), "onnx", options)
    assert artifact.primary is not None
    return from_onnx(artifact.files[artifact.primary])


def same(module: ModuleOp, back: ModuleOp, inputs: Sequence[Array], tolerance: float = 0) -> None:
    for want, got in zip(run_module(module, inputs), run_module(back, inputs), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(
            got.astype(np.float64), want.astype(np.float64), tolerance, tolerance
        )


def linear(add: Callable[[Operation], SSAValue], x: SSAValue, scaled: bool) -> SSAValue:
    weight = add(ternary.ParameterOp("fc", TRITS.shape))
    scale = add(tensor.ParameterOp("scale", TensorType(f32, [5]))) if scaled else None
    return add(ternary.LinearOp(x, weight, scale=scale))


@pytest.mark.parametrize("element", [f32, f16, i8, i32], ids=str)
@pytest.mark.parametrize("opset", [13, 21, 23])
def test_ternary_products_come_back(bench: Any, element: Attribute, opset: int) -> None:
    module = program(
        TensorType(element, [DYNAMIC, 9]), lambda add, x: linear(add, x, scaled=element == f32)
    )
    back = there_and_back(module, opset=opset)
    assert bench.ops(back).count("ternary.linear") == 1
    assert not {"tensor.matmul", "tensor.linear"} & set(bench.ops(back))
    x = RNG.integers(-9, 9, (3, 9)).astype(numpy_dtype(element))
    same(module, back, [x], 1e-6 if element == f32 else 0)


def test_products_of_bytes_with_trits_are_one_op_again(bench: Any) -> None:
    module = program(TensorType(i8, [DYNAMIC, 9]), lambda add, x: linear(add, x, scaled=False))
    assert bench.ops(there_and_back(module)) == ["ternary.linear"]


def test_the_packed_form_of_onnx_runtime_comes_back(bench: Any) -> None:
    module = program(TensorType(f32, [DYNAMIC, 9]), lambda add, x: linear(add, x, scaled=True))
    back = there_and_back(module, form="fast")
    assert bench.ops(back) == ["ternary.linear"]
    same(module, back, [RNG.standard_normal((3, 9)).astype(np.float32)], 1e-6)


@pytest.mark.parametrize("element", [f32, i8], ids=str)
def test_ternary_convolutions_come_back(bench: Any, element: Attribute) -> None:
    module = program(
        TensorType(element, [DYNAMIC, 2, 7, 7]),
        lambda add, x: add(
            ternary.ConvOp(x, add(ternary.ParameterOp("conv", FILTERS.shape)), **WINDOW)
        ),
    )
    back = there_and_back(module)
    assert bench.ops(back) == ["ternary.conv"]
    x = RNG.integers(-128, 128, (2, 2, 7, 7)).astype(numpy_dtype(element))
    same(module, back, [x])


def test_rescaled_integers_come_back_bit_for_bit(bench: Any) -> None:
    def body(add: Callable[[Operation], SSAValue], x: SSAValue) -> SSAValue:
        sums = linear(add, x, scaled=False)
        from triton_dsl.dialects.parameters import dense_constant

        numbers = [
            add(dense_constant(np.array(value), element))
            for value, element in ((1 << 14, i32), (16, i32), (3, i8))
        ]
        return add(tensor.RequantizeOp(sums, *numbers, low=-7, high=7))

    module = program(TensorType(i8, [DYNAMIC, 9]), body)
    same(module, there_and_back(module), [RNG.integers(-128, 128, (50, 9)).astype(np.int8)])


# Quantised weights of other writers.


@pytest.mark.parametrize("form", ["dequantize", "quant", "bits"])
def test_ternary_weights_behind_quantisers_become_trits(bench: Any, form: str) -> None:
    weight = (TRITS * np.float32(0.25)).astype(np.float32)
    domain = ""
    if form == "dequantize":
        nodes = [helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=1)]
        constants = {"q": TRITS, "s": np.full(5, 0.25, np.float32), "z": np.zeros(5, np.int8)}
    elif form == "quant":
        domain = "qonnx.custom_op.general"
        nodes = [helper.make_node("Quant", ["q", "s", "z", "b"], ["w"], domain=domain, narrow=1)]
        constants = {
            "q": weight + np.float32(0.05),
            "s": np.array(0.25, np.float32),
            "z": np.array(0, np.float32),
            "b": np.array(2, np.float32),
        }
    else:
        nodes = [helper.make_node("Cast", ["q"], ["i"], to=TensorProto.FLOAT),
                 helper.make_node("Mul", ["i", "s"], ["w"])]  # fmt: skip
        constants = {"q": TRITS, "s": np.array(0.25, np.float32)}
    nodes.append(helper.make_node("MatMul", ["x", "w"], ["y"]))
    domains = [domain] if domain else []
    inputs: dict[str, Any] = {"x": (np.float32, ["N", 9])}
    module = from_onnx(bench.model(nodes, inputs, ["y"], constants, domains=domains))
    assert bench.ops(module) == ["ternary.linear"]
    x = RNG.integers(-9, 9, (3, 9)).astype(np.float32)
    np.testing.assert_array_equal(run_module(module, [x])[0], x @ weight)


def test_weights_of_four_bits_are_read(bench: Any) -> None:
    node = helper.make_node("DequantizeLinear", ["q", "s"], ["w"], block_size=16, axis=0)
    codes = RNG.integers(-8, 8, (32, 3)).astype(np.int8)
    scale = RNG.random((2, 3)).astype(np.float32)
    model = bench.model([node, helper.make_node("MatMul", ["x", "w"], ["y"])],
                        {"x": (np.float32, ["N", 32])}, ["y"], {"s": scale})  # fmt: skip
    packed = helper.make_tensor("q", TensorProto.INT4, codes.shape, codes.reshape(-1).tolist())
    model.graph.initializer.append(packed)
    x = RNG.standard_normal((2, 32)).astype(np.float32)
    want = x @ (codes * np.repeat(scale, 16, axis=0))
    np.testing.assert_allclose(run_module(from_onnx(model), [x])[0], want, 1e-5, 1e-5)


@pytest.mark.parametrize("scaled", [True, False])
def test_trits_are_left_alone_on_request(bench: Any, scaled: bool) -> None:
    weight = TRITS * SCALE if scaled else TRITS.astype(np.float32)
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], alpha=0.5, transB=1)]
    constants = {"w": np.ascontiguousarray(weight.T), "b": np.arange(5, dtype=np.float32)}
    model = bench.model(nodes, {"x": (np.float32, ["N", 9])}, ["y"], constants)
    x = RNG.standard_normal((4, 9)).astype(np.float32)
    assert bench.ops(bench.check(model, {"x": x})) == ["ternary.linear"]
    plain = from_onnx(model, recognize_ternary=False)
    assert bench.ops(plain) == ["tensor.linear"]
    np.testing.assert_allclose(run_module(plain, [x])[0], bench.run(model, {"x": x})[0], 1e-5, 1e-5)


def test_equal_input_gives_equal_text(bench: Any) -> None:
    module = program(TensorType(f32, [DYNAMIC, 9]), lambda add, x: linear(add, x, scaled=True))
    assert str(there_and_back(module)) == str(there_and_back(module))


# qonnx.


def quantizer(
    bench: Any, op: str, x: Array, inputs: Sequence[Any], dtype: Any = np.float32, **attributes: Any
) -> Array:
    names = [f"p{index}" for index in range(len(inputs))]
    domain = "qonnx.custom_op.general"
    node = helper.make_node(op, ["x", *names], ["y"], domain=domain, **attributes)
    constants = {n: np.asarray(v, dtype) for n, v in zip(names, inputs, strict=True)}
    model = bench.model([node], {"x": (np.float32, ["N"])}, ["y"], constants, domains=[domain])
    return run_module(from_onnx(model), [x])[0]


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("narrow", [0, 1])
@pytest.mark.parametrize(
    ("mode", "function"),
    [
        ("ROUND", np.round),
        ("FLOOR", np.floor),
        ("CEIL", np.ceil),
        ("DOWN", np.trunc),
        ("UP", lambda v: np.sign(v) * np.ceil(np.abs(v))),
        ("HALF_UP", lambda v: np.sign(v) * np.floor(np.abs(v) + 0.5)),
        ("HALF_DOWN", lambda v: np.sign(v) * np.ceil(np.abs(v) - 0.5)),
    ],
)
def test_quantisers_of_qonnx(
    bench: Any, signed: int, narrow: int, mode: str, function: Callable[[Array], Array]
) -> None:
    x = np.arange(-40, 41).astype(np.float32) / 4
    low, high = (-8 + narrow, 7) if signed else (0, 15 - narrow)
    want = (function(np.clip(x / 0.5 + 1, low, high)) - 1) * 0.5
    got = quantizer(
        bench, "Quant", x, [0.5, 1, 4], signed=signed, narrow=narrow, rounding_mode=mode
    )
    np.testing.assert_array_equal(got, want.astype(np.float32))


@pytest.mark.parametrize(("signed", "narrow"), [(0, 0), (1, 0), (1, 1)])
def test_quantisers_of_qonnx_become_integers(bench: Any, signed: int, narrow: int) -> None:
    """What is rounded in float is a quantisation to the same numbers."""
    domain = "qonnx.custom_op.general"
    node = helper.make_node(
        "Quant", ["x", "s", "z", "b"], ["y"], domain=domain, signed=signed, narrow=narrow
    )
    constants = {"s": np.float32(0.3), "z": np.float32(0), "b": np.float32(8)}
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    module = from_onnx(
        bench.model([node], {"x": (np.float32, ["N"])}, ["y"], arrays, domains=[domain])
    )
    x = np.linspace(-50, 90, 1401, dtype=np.float32)
    (want,) = run_module(module, [x])
    RecognizeQuantizersPass().apply(Context(), module)
    assert "tensor.quantize" in str(module) and "tensor.round" not in str(module)
    (got,) = run_module(module, [x])
    np.testing.assert_array_equal(got, want)


def test_quantisers_of_one_bit(bench: Any) -> None:
    x = np.array([-3, -0.0, 0, 0.1, 5], np.float32)
    want = np.where(x >= 0, 0.5, -0.5)
    np.testing.assert_array_equal(quantizer(bench, "BipolarQuant", x, [0.5]), want)
    np.testing.assert_array_equal(quantizer(bench, "Quant", x, [0.5, 0, 1], signed=1), want)


def test_quantisers_with_whole_numbers(bench: Any) -> None:
    """Files have int64 for scales, zero points and numbers of bits too."""
    x = np.linspace(-50, 50, 301, dtype=np.float32)
    want = (np.clip(np.round(x / 2 + 1), -8, 7) - 1) * 2
    got = quantizer(bench, "Quant", x, [2, 1, 4], np.int64, signed=1)
    np.testing.assert_array_equal(got, want.astype(np.float32))
    want = np.where(x >= 0, 3, -3)
    np.testing.assert_array_equal(quantizer(bench, "BipolarQuant", x, [3], np.int64), want)


def test_quantisers_have_one_number_of_bits(bench: Any) -> None:
    x = np.linspace(-5, 5, 41, dtype=np.float32)
    want = np.clip(np.round(x * 2), -8, 7) / 2
    got = quantizer(bench, "IntQuant", x, [0.5, 0, [4, 4]], signed=1, narrow=0)
    np.testing.assert_array_equal(got, want)
    with pytest.raises(UnsupportedError, match="its bit width is 2 different numbers, not one"):
        quantizer(bench, "Quant", x, [0.5, 0, [4, 3]], signed=1)
    for bits in (0, -3, 1e9):
        with pytest.raises(
            UnsupportedError, match=re.escape(f"its bit width is {bits:g}, and not 1 to 64")
        ):
            quantizer(bench, "Quant", x, [0.5, 0, bits], signed=1)


@pytest.mark.parametrize(("signed", "narrow"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("mode", "function"), [("FLOOR", np.floor), ("ROUND", np.round)])
def test_truncation_to_a_scale(
    bench: Any, signed: int, narrow: int, mode: str, function: Callable[[Array], Array]
) -> None:
    """The second `Trunc`: six inputs, and a result within its bits."""
    x = np.arange(-80, 81).astype(np.float32) / 4
    low, high = (-8 + narrow, 7) if signed else (0, 15 - narrow)
    want = (function(np.clip((x / 0.25 + 8) / 4, low, high)) - 2).astype(np.float32)
    given = [0.25, 8, 10, 1.0, 4]
    got = quantizer(bench, "Trunc", x, given, signed=signed, narrow=narrow, rounding_mode=mode)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("shape", "layout", "axis"),
    [
        ((5, 3), "", 1),
        ((5, 3, 4, 2), "", 1),
        ((5, 4, 3), "", 2),
        ((5, 3, 4), "NCW", 1),
        ((5, 4, 2, 3), "NHWC", 3),
    ],
)
@pytest.mark.parametrize("rows", [1, 3])
def test_thresholds_of_qonnx(
    bench: Any, shape: tuple[int, ...], layout: str, axis: int, rows: int
) -> None:
    """`MultiThreshold`; rank 3 has its channels behind where no layout is stated."""
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, shape).astype(np.float32)
    thresholds = np.sort(rng.integers(-9, 9, (rows, 7)), axis=1).astype(np.float32)
    domain, given = "qonnx.custom_op.general", {"data_layout": layout} if layout else {}
    node = helper.make_node("MultiThreshold", ["x", "t"], ["y"], domain=domain, out_dtype="INT3",
                            out_scale=0.5, out_bias=-2.0, **given)  # fmt: skip
    model = bench.model(
        [node], {"x": (np.float32, shape)}, ["y"], {"t": thresholds}, domains=[domain]
    )
    last = np.moveaxis(x, axis, -1)[..., None]
    want = np.moveaxis((last >= thresholds).sum(axis=-1), -1, axis) * 0.5 - 2
    np.testing.assert_array_equal(run_module(from_onnx(model), [x])[0], want)


@pytest.mark.parametrize("last", [False, True])
def test_pools_of_integers(bench: Any, last: bool) -> None:
    """qonnx's `QuantAvgPool2d`, and `MaxPoolNHWC`."""
    x = np.random.default_rng(0).integers(0, 16, (2, 5, 7, 3)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))[:, ::2, ::2]
    # 15 · 9 has 8 bits, of which the highest 5 stay.
    want, given = np.floor(windows.sum(axis=(-2, -1)) / 8), x
    if not last:
        want, given = want.transpose(0, 3, 1, 2), np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    domain = "qonnx.custom_op.general"
    nodes = [helper.make_node("QuantAvgPool2d", ["x"], ["y"], domain=domain, kernel=3, stride=2,
                              ibits=4, obits=5, signed=0,
                              data_layout="NHWC" if last else "NCHW")]  # fmt: skip
    if last:
        nodes.append(helper.make_node("MaxPoolNHWC", ["x"], ["z"], domain=domain,
                                      kernel_shape=[3, 3], strides=[2, 2]))  # fmt: skip
    results = ["y", "z"][: len(nodes)]
    model = bench.model(nodes, {"x": (np.float32, given.shape)}, results, domains=[domain])
    got = run_module(from_onnx(model), [given])
    np.testing.assert_array_equal(got[0], want)
    if last:
        np.testing.assert_array_equal(got[1], windows.max(axis=(-2, -1)))


def test_channels_behind(bench: Any) -> None:
    """qonnx's convolution and pooling with channels last are the standard's between transposes."""
    rng, domain = np.random.default_rng(0), "qonnx.custom_op.channels_last"
    x = rng.normal(size=(2, 6, 7, 3)).astype(np.float32)
    weight = rng.normal(size=(4, 3, 3, 3)).astype(np.float32)

    def made(domain: str, x: Array, weight: Array) -> Any:
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["c"], domain=domain, kernel_shape=[3, 3]),
            helper.make_node("MaxPool", ["c"], ["y"], domain=domain, kernel_shape=[2, 2]),
        ]
        domains = [domain] if domain else []
        return bench.model(
            nodes, {"x": (np.float32, x.shape)}, ["y"], {"w": weight}, domains=domains
        )

    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    (want,) = bench.run(made("", first, weight), {"x": first})
    last = np.ascontiguousarray(weight.transpose(0, 2, 3, 1))
    (got,) = run_module(from_onnx(made(domain, x, last)), [x])
    np.testing.assert_allclose(got.transpose(0, 3, 1, 2), want, 1e-5, 1e-5)


def test_sizes_of_minus_one_are_free(bench: Any) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    module = from_onnx(bench.model([node], {"x": (np.float32, [-1, 3])}, ["y"]))
    assert "@forward(%x: tensor<?x3xf32>" in str(module)


def test_small_floats_of_qonnx_are_those_of_ml_dtypes(bench: Any) -> None:
    import ml_dtypes

    x = np.concatenate([RNG.standard_normal(500) * 100, RNG.standard_normal(500) * 0.01])
    x = np.clip(x, -448, 448).astype(np.float32)
    want = x.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    np.testing.assert_array_equal(quantizer(bench, "FloatQuant", x, [1, 4, 3, 7, 448]), want)


def test_names_in_other_scripts_can_be_printed_and_read() -> None:
    """Tensors are called as their author likes; the textual format has ASCII alone."""
    values = {"größe": np.ones((2, 2), np.float32), "длина": np.ones(2, np.float32)}
    nodes = [
        helper.make_node("MatMul", ["вход", "größe"], ["積"]),
        helper.make_node("Add", ["積", "длина"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("вход", TensorProto.FLOAT, ["N", 2])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])]
    tensors = [helper.make_tensor(n, 1, a.shape, a.ravel()) for n, a in values.items()]
    graph = helper.make_graph(nodes, "имя", inputs, outputs, tensors)
    text = module_text(from_onnx(helper.make_model(graph, ir_version=8)))
    assert module_text(parse_module(text)) == text
