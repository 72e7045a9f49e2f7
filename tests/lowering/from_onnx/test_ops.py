"""Operators beside ONNX Runtime: with a free batch, in several versions, of several types.

The standard's own tests (`test_standard`) have fixed shapes; these have what they lack.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_onnx import OnnxWarning, from_onnx
from triton_dsl.lowering.from_onnx.sizes import Free, fitted, probes
from triton_dsl.lowering.problems import ProblemError

make = helper.make_node
RNG = np.random.default_rng(2)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


IMAGE = ["N", 4, 9, 8]

ON_IMAGES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("AveragePool", {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}, {}),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, {}),
    ("AveragePool", {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}, {}),
    ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, {}),
    ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 3]}, {}),
    ("MaxPool", {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 1]}, {}),
    ("LpPool", {"kernel_shape": [2, 2], "p": 3}, {}),
    ("GlobalAveragePool", {}, {}),
    ("GlobalMaxPool", {}, {}),
    ("LRN", {"size": 3, "alpha": 0.01, "beta": 0.6, "bias": 1.5}, {}),
    ("InstanceNormalization", {}, {"s": floats(4), "b": floats(4)}),
    ("BatchNormalization", {},
     {"s": floats(4), "b": floats(4), "m": floats(4), "v": floats(4) ** 2}),
    ("Conv", {"pads": [1, 0, 1, 2], "strides": [2, 1]}, {"w": floats(6, 4, 3, 3), "b": floats(6)}),
    ("Conv", {"group": 2, "dilations": [2, 1]}, {"w": floats(6, 2, 3, 3)}),
    ("Conv", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"w": floats(2, 4, 3, 3)}),
    ("ConvTranspose", {"strides": [2, 3], "pads": [1, 0, 1, 1]}, {"w": floats(4, 3, 3, 3)}),
    ("ConvTranspose", {"group": 2, "output_padding": [1, 0], "strides": [2, 2]},
     {"w": floats(4, 3, 2, 2), "b": floats(6)}),
    ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}, {}),
    ("Transpose", {"perm": [0, 3, 1, 2]}, {}),
    ("Flatten", {"axis": 2}, {}),
    ("Softmax", {"axis": 1}, {}),
    ("ReduceMean", {"keepdims": 0}, {"axes": np.array([2, 3])}),
    ("ReduceL2", {"keepdims": 1}, {"axes": np.array([1])}),
    ("ReduceProd", {"keepdims": 0}, {"axes": np.array([-1])}),
    ("ReduceLogSumExp", {"keepdims": 0}, {"axes": np.array([1, 2])}),
    ("Pad", {"mode": "reflect"}, {"p": np.array([0, 0, 2, 1, 0, 0, 0, 3])}),
    ("Pad", {}, {"p": np.array([0, 0, -2, 1, 0, 0, 1, -3]), "v": np.array(1.5, np.float32)}),
    ("Slice", {}, {"s": np.array([1, -1]), "e": np.array([9, -9]), "a": np.array([2, 3]),
                   "t": np.array([3, -2])}),
    ("Gather", {"axis": 2}, {"i": np.array([[0, -1], [3, 2]])}),
    ("Gather", {"axis": 2}, {"i": np.array(-1)}),
    ("Resize", {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
     {"r": np.zeros(0, np.float32), "f": np.array([1, 1, 2, 1.5], np.float32)}),
    ("Resize", {"mode": "cubic"},
     {"r": np.zeros(0, np.float32), "f": np.array([1, 1, 0.6, 2], np.float32)}),
    ("Resize", {"mode": "nearest"},
     {"r": np.zeros(0, np.float32), "f": np.array([1, 1, 1.7, 0.5], np.float32)}),
    ("Tile", {}, {"n": np.array([1, 2, 1, 3])}),
    ("TopK", {"axis": 1}, {"k": np.array([3])}),
    ("TopK", {"axis": 1}, {"k": np.array([1])}),
    ("TopK", {"axis": -1, "largest": 0}, {"k": np.array([1])}),
    ("ArgMax", {"axis": 3, "select_last_index": 1}, {}),
    ("CumSum", {"reverse": 1, "exclusive": 1}, {"a": np.array(2)}),
    ("Clip", {}, {"l": np.array(-0.5, np.float32), "h": np.array(0.25, np.float32)}),
    ("LayerNormalization", {"axis": 2}, {"s": floats(9, 8), "b": floats(9, 8)}),
    ("Gelu", {"approximate": "tanh"}, {}),
    ("Trilu", {"upper": 0}, {"k": np.array(1)}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "attributes", "constants"),
    ON_IMAGES,
    ids=[f"{i}-{c[0]}" for i, c in enumerate(ON_IMAGES)],
)
def test_images_with_a_free_batch(
    bench: Any, op: str, attributes: dict[str, Any], constants: dict[str, Any]
) -> None:
    outputs = ["y", "i"] if op == "TopK" else ["y"]
    node = make(op, ["x", *constants], outputs, **attributes)
    model = bench.model([node], {"x": (np.float32, IMAGE)}, outputs, constants)
    module = bench.check(model, {"x": floats(3, 4, 9, 8)}, 2e-4)
    text = str(module)
    assert '"N"' in text and "size1" not in text


@pytest.mark.parametrize(
    ("op", "gates", "activations"),
    [("RNN", 1, ["Relu", "Tanh"]), ("GRU", 3, ["Tanh", "Sigmoid", "Sigmoid", "Relu"]),
     ("LSTM", 4, ["Sigmoid", "Relu", "Tanh", "Tanh", "Tanh", "Sigmoid"])],
)  # fmt: skip
def test_recurrent_cells_with_activations_of_their_own(
    bench: Any, op: str, gates: int, activations: list[str]
) -> None:
    weights = {"w": floats(2, gates * 4, 5) * 0.4, "r": floats(2, gates * 4, 4) * 0.4}
    node = make(op, ["x", "w", "r"], ["y"], hidden_size=4, direction="bidirectional",
                activations=activations)  # fmt: skip
    model = bench.model([node], {"x": (np.float32, [3, "N", 5])}, ["y"], weights)
    bench.check(model, {"x": floats(3, 2, 5)}, 1e-5)


@pytest.mark.parametrize(
    "op", ["Elu", "Selu", "Softplus", "Softsign", "HardSigmoid", "HardSwish", "Mish", "Erf", "Sign",
           "Ceil", "Floor", "Round", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh",
           "Reciprocal", "Tanh", "Sigmoid", "ThresholdedRelu", "IsNaN", "IsInf"],
)  # fmt: skip
def test_functions_of_one_number(bench: Any, op: str) -> None:
    x = np.concatenate([floats(50) * 3, np.array([0.0, -0.5, 0.5, 1.5, 20, -20], np.float32)])
    if op in ("IsNaN", "IsInf"):
        x[:3] = [np.nan, np.inf, -np.inf]
    x = x[x != 0] if op == "Reciprocal" else x
    model = bench.model([make(op, ["x"], ["y"])], {"x": (np.float32, ["N"])}, ["y"])
    bench.check(model, {"x": x}, 1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sums_of_exponentials_at_the_ends_of_a_type(bench: Any, dtype: Any) -> None:
    node = make("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=0)
    model = bench.model([node], {"x": (dtype, ["N", 3])}, ["y"], {"axes": np.array([1])})
    least = np.finfo(dtype).min
    x = np.array([[-np.inf] * 3, [np.inf, 0, 1], [least] * 3, [1, 2, 3]], dtype)
    (actual,) = run_module(from_onnx(model), [x])
    np.testing.assert_allclose(actual[:3], np.array([-np.inf, np.inf, least], dtype), rtol=1e-3)
    np.testing.assert_allclose(actual[3], np.log(np.exp([1.0, 2, 3]).sum()), rtol=1e-3)


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize(
    "op", ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
)
def test_reductions_over_no_axis_keep_what_is_done_to_each_number(
    bench: Any, op: str, keep: int
) -> None:
    options: dict[str, Any] = {"keepdims": keep, "noop_with_empty_axes": 1}
    node = make(f"Reduce{op}", ["x", "axes"], ["y"], **options)
    axes = {"axes": np.zeros(0, np.int64)}
    model = bench.model([node], {"x": (np.float32, ["N", 3])}, ["y"], axes)
    x = np.abs(floats(4, 3)) if op == "LogSum" else floats(4, 3)
    expected: Any = ReferenceEvaluator(model).run(None, {"x": x})
    (actual,) = run_module(from_onnx(model), [x])
    np.testing.assert_allclose(actual, expected[0], rtol=1e-6)


@pytest.mark.parametrize("op", ["HardSigmoid", "LeakyRelu", "Selu"])
def test_defaults_are_numbers_of_float32(bench: Any, op: str) -> None:
    x = RNG.standard_normal(20)
    model = bench.model([make(op, ["x"], ["y"])], {"x": (np.float64, ["N"])}, ["y"])
    expected: Any = ReferenceEvaluator(model).run(None, {"x": x})
    (actual,) = run_module(from_onnx(model), [x])
    np.testing.assert_allclose(actual, expected[0], rtol=1e-14)


@pytest.mark.parametrize("op", ["Asin", "Acos", "Atanh", "Log", "Sqrt", "Acosh"])
def test_functions_of_part_of_the_numbers(bench: Any, op: str) -> None:
    x = RNG.random(60).astype(np.float32) * 0.98 + (1 if op == "Acosh" else 0.01)
    model = bench.model([make(op, ["x"], ["y"])], {"x": (np.float32, ["N"])}, ["y"])
    bench.check(model, {"x": x}, 1e-5)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Mod", "Equal", "Greater", "Max"])
def test_integers(bench: Any, op: str, dtype: Any) -> None:
    if np.dtype(dtype) == np.uint8 and op in ("Add", "Sub", "Mul", "Div"):
        pytest.skip("ONNX Runtime has no kernel for it")
    low = 0 if np.dtype(dtype).kind == "u" else -20
    x, y = (RNG.integers(low, 20, (4, 5)).astype(dtype) for _ in range(2))
    y[y == 0] = 1
    inputs: dict[str, Any] = {"x": (dtype, ["N", 5]), "y": (dtype, ["N", 5])}
    bench.check(bench.model([make(op, ["x", "y"], ["z"])], inputs, ["z"]), {"x": x, "y": y})


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bits(bench: Any, direction: str) -> None:
    nodes = [
        make("BitShift", ["x", "n"], ["s"], direction=direction),
        make("BitwiseXor", ["s", "x"], ["t"]),
        make("BitwiseAnd", ["t", "m"], ["u"]),
        make("BitwiseNot", ["u"], ["y"]),
    ]
    constants = {"n": np.array([1, 3, 7], np.uint8), "m": np.array([0x5A], np.uint8)}
    model = bench.model(nodes, {"x": (np.uint8, ["N", 3])}, ["y"], constants)
    bench.check(model, {"x": RNG.integers(0, 256, (50, 3)).astype(np.uint8)})


OLD: list[tuple[int, Any, dict[str, Any]]] = [
    (6, make("Add", ["x", "b"], ["y"], axis=1, broadcast=1), {"b": floats(4)}),
    (6, make("Dropout", ["x"], ["y"]), {}),
    (7, make("Clip", ["x"], ["y"], min=-0.5, max=0.5), {}),
    (9, make("Slice", ["x"], ["y"], starts=[1], ends=[3], axes=[1]), {}),
    (9, make("Softmax", ["x"], ["y"], axis=1), {}),
    (10, make("Resize", ["x", "f"], ["y"], mode="nearest"),
     {"f": np.array([1, 1, 2, 3], np.float32)}),
    (11, make("Squeeze", ["z"], ["y"], axes=[0]), {}),
    (11, make("ReduceSum", ["x"], ["y"], axes=[2], keepdims=0), {}),
    (11, make("Split", ["x"], ["y", "y2"], axis=1, split=[1, 3]), {}),
    (11, make("Pad", ["x", "p"], ["y"]), {"p": np.array([0, 1, 0, 0, 0, 0, 2, 0])}),
    (8, make("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 2.0]), {}),
]  # fmt: skip


@pytest.mark.parametrize(("opset", "node", "constants"), OLD, ids=lambda v: str(v)[:12])
def test_older_versions(bench: Any, opset: int, node: Any, constants: dict[str, Any]) -> None:
    nodes = [node]
    if node.input[0] == "z":
        nodes = [make("Unsqueeze", ["x"], ["z"], axes=[0]), node]
    model = bench.model(nodes, {"x": (np.float32, [2, 4, 3, 5])}, ["y"], constants, opset=opset)
    model.ir_version = 6
    x = floats(2, 4, 3, 5)
    if opset == 6:
        want = x + constants["b"].reshape(4, 1, 1) if constants else x
        np.testing.assert_allclose(run_module(from_onnx(model), [x])[0], want, 1e-6)
    else:
        bench.check(model, {"x": x})


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1, 3, 4), (2, 1, 5, 3), (1, 2, 2, 3, 4)])
def test_grids_of_affine_maps(bench: Any, shape: tuple[int, ...], corners: int) -> None:
    """ONNX Runtime has a kernel; the standard's own parts of it fail for a batch of one."""
    axes = len(shape) - 2
    matrix = np.random.default_rng(0).normal(size=(shape[0], axes, axes + 1)).astype(np.float32)
    node = make("AffineGrid", ["x", "s"], ["y"], align_corners=corners)
    model = bench.model([node], {"x": (np.float32, matrix.shape)}, ["y"], {"s": np.array(shape)})
    bench.check(model, {"x": matrix})


def test_squeeze_without_axes_warns_of_the_free_sizes_that_it_keeps(bench: Any) -> None:
    model = bench.model([make("Squeeze", ["x"], ["y"], name="drop")],
                        {"x": (np.float32, ["N", 1, 3])}, ["y"])  # fmt: skip
    with pytest.warns(OnnxWarning, match="Squeeze at 'drop' of ONNX model: it keeps axis 0, whose "
                      "size N is free.*'axes'"):  # fmt: skip
        bench.check(model, {"x": floats(4, 1, 3)})
    x = floats(1, 1, 3)
    np.testing.assert_array_equal(
        run_module(from_onnx(model, shapes={"x": x.shape}), [x])[0], x.reshape(3)
    )


def quantized_convolution() -> tuple[list[Any], dict[str, Any]]:
    nodes = [
        make("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        make("QLinearConv", ["q", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["c"]),
        make("DequantizeLinear", ["c", "ys", "yz"], ["y"]),
    ]
    constants = {
        "xs": np.array(0.05, np.float32),
        "xz": np.array(120, np.uint8),
        "w": RNG.integers(-127, 128, (3, 2, 3, 3)).astype(np.int8),
        "ws": RNG.random(3).astype(np.float32) * 0.02 + 0.01,
        "wz": np.zeros(3, np.int8),
        "ys": np.array(0.5, np.float32),
        "yz": np.array(128, np.uint8),
        "b": RNG.integers(-500, 500, 3).astype(np.int32),
    }
    return nodes, constants


def test_quantised_convolution(bench: Any) -> None:
    nodes, constants = quantized_convolution()
    model = bench.model(nodes, {"x": (np.float32, ["N", 2, 6, 6])}, ["y"], constants)
    x = 4 * floats(4, 2, 6, 6)
    got = run_module(from_onnx(model), [x])[0]
    step = np.abs(got - bench.run_standard(model, {"x": x})[0]) / constants["ys"]
    assert step.max() < 1.01 and (step > 0.01).mean() < 0.01


@pytest.mark.parametrize("signed", [True, False])
def test_dynamic_quantisation_and_an_integer_product(bench: Any, signed: bool) -> None:
    kind = np.int8 if signed else np.uint8
    nodes = [
        make("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        make("MatMulInteger", ["q", "w", "z", "wz"], ["p"]),
        make("Cast", ["p"], ["f"], to=TensorProto.FLOAT),
        make("Mul", ["f", "s"], ["y"]),
    ]
    info = np.iinfo(kind)
    constants = {
        "w": RNG.integers(info.min, info.max, (6, 4)).astype(kind),
        "wz": np.array(0 if signed else 128, kind),
    }
    model = bench.model(nodes, {"x": (np.float32, [5, 6])}, ["y"], constants)
    bench.check(model, {"x": floats(5, 6)}, 1e-4, bench.run_standard)


def test_values_that_depend_on_data_are_refused(bench: Any) -> None:
    inputs: dict[str, Any] = {"x": (np.float32, [4]), "n": (np.int64, [1])}
    for node in (make("NonZero", ["x"], ["y"]), make("Expand", ["x", "n"], ["y"])):
        with pytest.raises(UnsupportedError, match="must be known before the program runs"):
            from_onnx(bench.model([node], inputs, ["y"]))


# Sizes.

SIZES = st.recursive(
    st.sampled_from([Free.named("a"), Free.named("b"), 1, 2, 5]),
    lambda inner: st.builds(lambda x, y, s: x + y if s else x * y, inner, inner, st.booleans()),
    max_leaves=6,
)


@given(SIZES, SIZES, st.integers(1, 50), st.integers(1, 50))
def test_sizes_compute_like_numbers(x: Any, y: Any, a: int, b: int) -> None:
    def at(size: Any) -> int:
        return size.at({"a": a, "b": b}) if isinstance(size, Free) else size

    assert at(x + y) == at(x) + at(y)
    assert at(x * y) == at(x) * at(y)
    assert at(x - y) == at(x) - at(y)
    if isinstance(x, Free) and y != 0:
        assert x * y // y == x
        try:
            quotient = x // y
        except ProblemError:
            return
        assert at(quotient) * at(y) == at(x)


@settings(max_examples=50)
@given(st.integers(1, 9), st.integers(0, 9), st.sampled_from(["a", "b"]))
def test_a_size_is_found_from_its_values(factor: int, offset: int, name: str) -> None:
    at = probes(["a", "b"])
    size: Any = Free.named(name) * factor + offset
    candidates = [Free.named("a"), 3, Free.named("b")]
    assert fitted([size.at(values) for values in at], candidates, at) == size
    assert fitted([values[name] // 2 for values in at], candidates, at) is None


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
def test_integer_products_with_trits_are_those_of_the_standard(
    bench: Any, operator: str, dtype: str
) -> None:
    """Sums of all bits of the type, then float64. The standard's own Gemm goes through float32."""
    info = np.iinfo(dtype)
    ends = [info.max, info.min, info.max - 1, 1, min(1 << 40, info.max), 5, 7, (1 << 31) - 1]
    x = np.array(ends, dtype).reshape(2, 4)
    weight = np.array([[1, 1], [0, 1], [1, 0], [1, 1]], dtype)
    if info.min < 0:
        weight[2, 1] = -1
    stored, inputs = {"w": weight}, ["x", "w"]
    if operator == "Gemm":
        stored["b"] = np.array([info.max, 3], dtype)
        inputs.append("b")
    nodes = [make(operator, inputs, ["z"]), make("Cast", ["z"], ["y"], to=TensorProto.DOUBLE)]
    source = bench.model(nodes, {"x": (dtype, ["N", 4])}, ["z", "y"], stored)
    module = from_onnx(source)
    assert any(op.name == "ternary.linear" for op in module.walk())
    sums = x @ weight + stored.get("b", np.zeros(2, dtype))
    if operator == "MatMul":
        standard: Any = ReferenceEvaluator(source).run(None, {"x": x})
        np.testing.assert_array_equal(standard[0], sums)
    want = [sums, sums.astype(np.float64)]
    for target in ("interpreter", "pytorch", "onnx", "native"):
        reference = target == "interpreter"
        found = run_module(module, [x]) if reference else run_target(module, target, [x])[1]
        assert [a.dtype for a in found] == [a.dtype for a in want]
        for got, wanted in zip(found, want, strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=target)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32", "uint64"])
def test_powers_of_integers_wrap_around(bench: Any, dtype: str) -> None:
    """float64 holds no more than 53 bits, and a conversion from it saturates."""
    info = np.iinfo(dtype)
    x = np.array([[3, 7, info.max, info.max // 3], [info.min, 2, 10, 1]], dtype)
    for exponents in ([[0, 4, 5, 20], [3, 31, 15, 40]], 5, [0, 0, 0, 0]):
        stored = {"e": np.array(exponents, dtype)}
        source = bench.model(
            [make("Pow", ["x", "e"], ["y"])], {"x": (dtype, ["N", 4])}, ["y"], stored
        )
        want: Any = ReferenceEvaluator(source).run(None, {"x": x})
        found = run_module(from_onnx(source), [x])
        np.testing.assert_array_equal(found[0], want[0])


@pytest.mark.parametrize("exponent", ["int8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_powers_of_integers_to_what_is_computed(bench: Any, dtype: str, exponent: str) -> None:
    """Python's integers are exact; ONNX Runtime's own powers are rounded to float64."""
    most = np.iinfo(dtype).max
    powers = [(b, n) for b in (0, 1, -1, 2, -2, 3, -3, 7, 10, 46340, 2097151) for n in range(64)]
    powers += [(b, n) for b in (0, 1, -1) for n in (126, 127)]
    powers += [(2, 64), (-6, 65), (4, 127), (most, 1), (-most - 1, 1), (-most - 1, 0)]
    if exponent in ("int32", "int64"):
        powers += [(b, n) for b in (0, 1, -1) for n in (128, 129, 2**31 - 1)]
    held = [(b, n) for b, n in powers if abs(b**n) <= most or (b % 2 == 0 and n >= 64) or n == 1]
    want = [b**n if abs(b**n) <= most + 1 else 0 for b, n in held]
    if exponent == "uint64":
        held += [(-1, 2**64 - 1), (-1, 2**63), (1, 2**64 - 1), (0, 2**64 - 2)]
        want += [-1, 1, 1, 0]
    else:
        held += [(b, n) for b in (1, -1, 2, -3, most) for n in (-1, -2, -128)]
        want += [
            int(b == 1 or (b == -1 and n % 2 == 0)) - (b == -1 and n % 2)
            for b, n in held[len(want) :]
        ]
    x, n = (
        np.array(side, t)
        for side, t in zip(zip(*held, strict=True), (dtype, exponent), strict=True)
    )
    source = bench.model(
        [make("Pow", ["x", "n"], ["y"])], {"x": (dtype, ["N"]), "n": (exponent, ["N"])}, ["y"]
    )
    module = from_onnx(source)
    for target in ("interpreter", "pytorch", "onnx", "native"):
        reference = target == "interpreter"
        found = run_module(module, [x, n]) if reference else run_target(module, target, [x, n])[1]
        np.testing.assert_array_equal(found[0], np.array(want, dtype), err_msg=target)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("way", ["align_corners", "half_pixel", "pytorch_half_pixel"])
def test_images_become_as_large_as_others(bench: Any, mode: str, way: str) -> None:
    """To free sizes, one among them, which the modes put elsewhere."""
    nodes = [
        helper.make_node("Shape", ["r"], ["inner"], start=2),
        helper.make_node("Shape", ["x"], ["outer"], end=2),
        helper.make_node("Concat", ["outer", "inner"], ["sizes"], axis=0),
        helper.make_node(
            "Resize", ["x", "", "", "sizes"], ["y"], mode=mode, coordinate_transformation_mode=way
        ),
    ]
    inputs = {"x": (np.float32, (1, 2, "H", "W")), "r": (np.float32, (1, 2, "A", "B"))}
    model = bench.model(nodes, inputs, ["y"])
    x = np.random.default_rng(0).normal(size=(1, 2, 5, 4)).astype(np.float32)
    for size in ((1, 1), (9, 2)):
        bench.check(model, {"x": x, "r": np.zeros((1, 2, *size), np.float32)})


@pytest.mark.parametrize("mode", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("way", ["asymmetric", "half_pixel"])
def test_nearest_elements_by_scales_of_no_few_bits(bench: Any, mode: str, way: str) -> None:
    """Sizes and places are products and quotients in f32, whose rounding decides."""
    options: dict[str, Any] = {"nearest_mode": mode, "coordinate_transformation_mode": way}
    nodes = [
        helper.make_node("Resize", ["x", "", f"s{i}"], [f"y{i}"], mode="nearest", **options)
        for i in range(5)
    ]
    scales = (0.7, 1.3, 0.3, 2.1, 1.2)
    constants = {f"s{i}": np.array([1, 1, 1, v], np.float32) for i, v in enumerate(scales)}
    outputs = [f"y{i}" for i in range(5)]
    x = np.arange(30, dtype=np.float32).reshape(1, 1, 1, 30)
    bench.check(bench.model(nodes, {"x": (np.float32, x.shape)}, outputs, constants), {"x": x})
