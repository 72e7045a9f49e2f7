"""Integer products of emitted files on processors without VNNI, which add pairs in 16 bits.

`vpmaddubsw` multiplies bytes without and with a sign, and saturates the sum of two products at 16
bits. The files are read here as any reader would: weights, types and zero points from their bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.inliner import inline_local_functions
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from triton_dsl import optimize_onnx_model
from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.to_onnx.byte_weights import fits
from triton_dsl.passes.calibration.ranges import Calibration, Range, record_ranges

Array = np.ndarray[Any, Any]

HERE = Path(__file__)
BYTES = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
PRODUCTS = ("MatMul", "Gemm", "Conv")
PROVIDERS = ["CPUExecutionProvider"]

SHAPES = {
    "linear": (24, 12),
    "tokens": (24, 12),
    "conv": (12, 8, 3, 3),
    "pointwise": (16, 24, 1, 1),
    "groups": (12, 4, 3, 3),
    "depthwise": (32, 1, 3, 3),
    "trits": (24, 12),
    "trit tokens": (24, 12),
    "trit conv": (12, 8, 3, 3),
}
"""The programs of these tests, by the shapes of their weights."""

EXTREMES = st.sampled_from([-1.0, 1.0, 0.5, 0.51, -0.5, 0.49, 0.0, 1 / 127])


def weights(shape: tuple[int, ...], draw: Callable[[st.SearchStrategy[Any]], Any]) -> Array:
    """Random weights of one of several distributions; some fit pairs at 8 bits, most do not."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["normal", "ends", "lonely", "chosen"]))
    if kind == "normal":
        return random.standard_normal(shape).astype(np.float32)
    if kind == "ends":
        return random.choice([-1.0, 1.0], shape).astype(np.float32)
    if kind == "lonely":  # one large weight in a channel, at most
        small = random.uniform(-0.007, 0.007, shape)
        small.reshape(-1)[random.integers(small.size)] = 1
        return small.astype(np.float32)
    palette = draw(st.lists(EXTREMES, min_size=1, max_size=4))
    return random.choice(palette, shape).astype(np.float32)


def program(bench: Any, kind: str, weight: Array) -> tuple[ModuleOp, Array]:
    """A product with `weight`, with the ranges of input and result; and an input.

    The input has levels at both ends of its grid, among them those that make the sums of pairs of
    each channel largest.
    """
    trits = kind.startswith("trit")
    convolution = weight.ndim == 4
    groups = {"groups": 2, "depthwise": len(weight)}.get(kind, 1)
    random = np.random.default_rng(weight.size)
    if convolution:
        depth = weight.shape[1] * groups
        shape: tuple[int, ...] = (3, depth, 6, 6)
        free = [DYNAMIC, *shape[1:]]
        x = random.choice([-1.0, 1.0], shape).astype(np.float32)
        x[0], x[1] = 1, -1
    else:
        x = np.concatenate([np.sign(weight.T), -np.sign(weight.T), np.ones((2, len(weight)))])
        x = x.astype(np.float32)
        x[0, 0], x[0, 1] = -1, 1
        if "tokens" in kind:
            x = np.stack([x, x[::-1]])
        free = [DYNAMIC, *x.shape[1:]]
    bias = random.standard_normal(weight.shape[0 if convolution else 1]).astype(np.float32)
    pads = (1, 1, 1, 1) if weight.shape[-1] == 3 else (0, 0, 0, 0)
    options: dict[str, Any] = {"padding": pads, "groups": groups} if convolution else {}

    def body(add: Any, x: Any) -> Any:
        b = add(tensor.ParameterOp("b", TensorType(f32, bias.shape)))
        op: Any
        if trits:
            w = add(ternary.ParameterOp("w", weight.shape))
            op = ternary.ConvOp if convolution else ternary.LinearOp
        else:
            w = add(tensor.ParameterOp("w", TensorType(f32, weight.shape)))
            op = tensor.ConvOp if convolution else tensor.LinearOp
        return add(op(x, w, bias=b, **options))

    stored = pack_trits(np.sign(weight).astype(np.int8)) if trits else weight
    module = bench.build([TensorType(f32, free)], body, {"w": stored, "b": bias})
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    (argument,) = function.body.block.args
    result = next(op for op in function.walk() if len(op.operands) == 3).results[0]
    channels = weight.reshape(len(weight), -1) if convolution else weight.T
    reach = float(np.abs(channels).sum(axis=1).max() + np.abs(bias).max())
    ranges: dict[SSAValue, Range] = {argument: Range(-1.0, 1.0), result: Range(-reach, reach)}
    record_ranges(function, ranges, Calibration("minmax", 8, 1))
    return module, x


@pytest.fixture
def small_files_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files of any size ask the processor."""
    monkeypatch.setattr("triton_dsl.lowering.to_onnx.target.ASKED_FROM", 0)


# Reading a file.


def inlined(data: bytes) -> Any:
    """A model without functions of its own, every value of which is an output."""
    model = inline_local_functions(onnx.load_from_string(data))
    for entry in model.opset_import:  # the evaluator has no DequantizeLinear of version 13
        entry.version = max(entry.version, 21) if entry.domain == "" else entry.version
    known = {port.name for port in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name not in known]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return model


@dataclass
class Product:
    """The operands of an integer product, as matrices of levels [rows, K] and [K, channels].

    `x` and its zero point are absent where the file has not been run.
    """

    w: Array
    x: Array | None = None
    x_zero: int = 0


def products(data: bytes, inputs: Array | None = None) -> Iterator[Product]:
    """The integer products that a runtime can make of a file; what it computes on `inputs`."""
    model = inlined(data)
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    values = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    fixed = set(values)
    constant: list[Any] = []
    for node in graph.node:
        if fixed.issuperset(node.input):
            fixed.update(node.output)
            constant.append(node)
    if inputs is not None:
        names = [port.name for port in graph.output]
        found: Any = ReferenceEvaluator(model).run(names, {graph.input[0].name: inputs})
        values |= dict(zip(names, found, strict=True))
    elif constant:
        ports = [onnx.ValueInfoProto(name=name) for node in constant for name in node.output]
        part = helper.make_graph(constant, "constants", [], ports, graph.initializer)
        reader = helper.make_model(part, opset_imports=model.opset_import)
        found = ReferenceEvaluator(reader).run(None, {})
        values |= dict(zip([port.name for port in ports], found, strict=True))

    def zero(name: str) -> int:
        levels: Any = np.unique(values[name]) if name in values else [0]
        (level,) = levels
        return int(level)

    for node in graph.node:
        if node.op_type == "MatMulInteger":
            x, w = node.input[:2]
            x_zero = node.input[2]
        elif node.op_type in PRODUCTS:
            sources = [makers.get(name) for name in node.input[:2]]
            if any(made is None or made.op_type != "DequantizeLinear" for made in sources):
                continue
            (x, _, x_zero), (w, *_) = (made.input for made in sources if made is not None)
        else:
            continue
        weight = values[w]
        if node.op_type == "Conv":
            if inputs is None:
                yield Product(weight.reshape(len(weight), -1).T)
                continue
            yield from windows(node, values[x], weight, zero(x_zero))
        elif inputs is None:
            yield Product(weight)
        else:
            yield Product(weight, values[x].reshape(-1, len(weight)), zero(x_zero))


def windows(node: Any, x: Array, weight: Array, zero: int) -> Iterator[Product]:
    """A convolution as products of its windows, one for each group."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    groups, pads = given.get("group", 1), given.get("pads", [0, 0, 0, 0])
    padded = np.pad(
        x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])], constant_values=zero
    )
    size = weight.shape[2:]
    for inside, outside in zip(np.split(padded, groups, 1), np.split(weight, groups), strict=True):
        columns = torch.nn.functional.unfold(torch.from_numpy(inside).double(), size)
        rows = columns.numpy().transpose(0, 2, 1).reshape(-1, columns.shape[1])
        yield Product(outside.reshape(len(outside), -1).T, rows.astype(x.dtype), zero)


# What must hold.


def assert_pairs_fit(w: Array) -> None:
    """Products of any bytes with any two weights of a channel add up within 16 bits."""
    assert w.dtype in (np.int8, np.uint8)
    if w.dtype == np.uint8:
        return  # no instruction multiplies two bytes without signs and saturates
    for part in (np.maximum(w.T, 0).astype(int), np.minimum(w.T, 0).astype(int)):
        both = 255 * (part[:, :, None] + part[:, None, :])
        both[:, np.arange(len(w)), np.arange(len(w))] = 0
        assert both.max(initial=0) <= 32767
        assert both.min(initial=0) >= -32768


def on_older_processors(product: Product, order: Array) -> Array:
    """Σ x·w with neighbours in `order` added in 16 bits where w has signs, zero points off."""
    assert product.x is not None and product.x.dtype == np.uint8
    x, w = product.x[:, order].astype(int), product.w[order].astype(int)
    if len(order) % 2:
        x, w = np.pad(x, ((0, 0), (0, 1))), np.pad(w, ((0, 1), (0, 0)))
    pairs = np.einsum("rkp,kpc->rkc", x.reshape(len(x), -1, 2), w.reshape(-1, 2, w.shape[1]))
    if product.w.dtype == np.int8:
        pairs = pairs.clip(-32768, 32767)
    w_zero = 0 if product.w.dtype == np.int8 else 128
    whole = pairs.sum(axis=1) - product.x_zero * w.sum(axis=0)
    return whole - w_zero * (x.sum(axis=1, keepdims=True) - len(order) * product.x_zero)


def exact(product: Product) -> Array:
    """(x - zero point)·(w - zero point) in 64 bits."""
    assert product.x is not None
    w_zero = 0 if product.w.dtype == np.int8 else 128
    return (product.x.astype(np.int64) - product.x_zero) @ (product.w.astype(np.int64) - w_zero)


@pytest.mark.parametrize("precision", ["int8", "dynamic-int8"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(list(SHAPES)),
    opset=st.sampled_from([13, 21]),
    bits=st.sampled_from([7, 8]),
    data=st.data(),
)
def test_sums_of_pairs_fit(
    bench: Any, precision: str, kind: str, opset: int, bits: int, data: Any
) -> None:
    module, x = program(bench, kind, weights(SHAPES[kind], data.draw))
    options = {"precision": precision, "opset": opset, "weight_bits": bits}
    made = bench.bytes_of(module, **options, int8_weights="safe")
    found = list(products(made))
    assert found or (precision == "dynamic-int8" and len(SHAPES[kind]) == 4)
    for product in found:
        assert_pairs_fit(product.w)
    random = np.random.default_rng(0)
    for product in products(made, x):
        depth = len(product.w)
        for order in (np.arange(depth), random.permutation(depth)):
            np.testing.assert_array_equal(on_older_processors(product, order), exact(product))


def test_ternary_products_on_bytes_fit(bench: Any) -> None:
    weight = np.random.default_rng(0).integers(-1, 2, (64, 10)).astype(np.int8)

    def body(add: Any, x: Any) -> Any:
        return add(ternary.LinearOp(x, add(ternary.ParameterOp("w", [64, 10]))))

    made = bench.bytes_of(
        bench.build([TensorType(i8, [DYNAMIC, 64])], body, {"w": pack_trits(weight)})
    )
    (product,) = products(made)
    np.testing.assert_array_equal(product.w, weight)
    assert_pairs_fit(product.w)


@given(
    st.lists(st.lists(st.integers(-128, 127), min_size=3, max_size=3), min_size=0, max_size=5),
)
def test_weights_that_fit_are_told_from_others(rows: list[list[int]]) -> None:
    w = np.array(rows, np.int8).reshape(-1, 3)
    try:
        assert_pairs_fit(w)
        wanted = True
    except AssertionError:
        wanted = False
    assert fits(w, 1) == wanted
    assert fits(w.T.reshape(3, -1, 1, 1), 0) == wanted


# Files of others.


def foreign(levels: int) -> Any:
    """UINT8 activations times INT8 weights of up to `levels`, as pairs around one product."""
    random = np.random.default_rng(0)
    weight = random.choice([-levels, levels], (64, 16)).astype(np.int8)
    stored = {
        "s": np.array(0.01, np.float32),
        "z": np.array(0, np.uint8),
        "w": weight,
        "ws": np.full(16, 0.02, np.float32),
        "wz": np.zeros(16, np.int8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=1),
        helper.make_node("MatMul", ["d", "dw"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "foreign",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 64])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 16])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("levels", [64, 65, 127])
def test_products_that_onnx_runtime_fuses_fit(tmp_path: Path, levels: int) -> None:
    onnx.save(foreign(levels), tmp_path / "m.onnx")
    path = optimize_onnx_model(tmp_path / "m.onnx", tmp_path / "o.onnx", "extended")
    graph = onnx.load(path).graph
    assert "MatMulIntegerToFloat" in {node.op_type for node in graph.node}
    stored = [numpy_helper.to_array(t) for t in graph.initializer if list(t.dims) == [64, 16]]
    assert [w.dtype for w in stored] == [np.int8 if levels == 64 else np.uint8]
    assert_pairs_fit(stored[0])


OPTIMIZER = """
import sys
import numpy as np
import onnxruntime
from triton_dsl import optimize_onnx_model

folder = sys.argv[1]
for level in ("basic", "extended", "all"):
    path = optimize_onnx_model(f"{folder}/m.onnx", f"{folder}/{level}.onnx", level)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    np.save(f"{folder}/{level}.npy", session.run(None, {"x": np.load(f"{folder}/x.npy")})[0])
"""


@pytest.mark.parametrize("emulated", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_optimised_files_are_right(require_tool: Any, tmp_path: Path, emulated: bool) -> None:
    """Here, and with AVX2 alone, where ONNX Runtime's run of the file before is wrong."""
    model, x = foreign(127), np.random.default_rng(1).random((8, 64), np.float32) * 4
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", x)
    command = [sys.executable, "-c", OPTIMIZER, str(tmp_path)]
    if emulated:
        emulator = require_tool("qemu-x86_64", "apt install qemu-user")
        command = [emulator, "-cpu", "Haswell", *command]
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, capture_output=True, env=alone)
    found: Any = ReferenceEvaluator(model).run(None, {"x": x})
    for level in ("basic", "extended", "all"):
        got = np.load(tmp_path / f"{level}.npy")
        assert np.abs(got - found[0]).max() < 1e-5 * np.abs(found[0]).max(), level


# Processors that are not here.

RUNNER = """
import sys
import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.log_severity_level = 3
folder = sys.argv[1]
for name in sys.argv[2:]:
    options.optimized_model_filepath = f"{folder}/{name}.run.onnx"
    session = onnxruntime.InferenceSession(
        f"{folder}/{name}.onnx", options, providers=["CPUExecutionProvider"]
    )
    x = np.load(f"{folder}/{name}.x.npy")
    np.save(f"{folder}/{name}.y.npy", session.run(None, {session.get_inputs()[0].name: x})[0])
"""


def mixed_product() -> Any:
    """UINT8 times INT8 in one MatMulInteger, with sums of pairs far beyond 16 bits."""
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = helper.make_graph(
        [node],
        "mixed",
        [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [8, 64])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [8, 16])],
        [numpy_helper.from_array(np.full((64, 16), 127, np.int8), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(
    ("processor", "saturates"),
    [("Haswell", True), pytest.param("IvyBridge", False, marks=pytest.mark.slow)],
)
def test_emitted_files_are_right_without_vnni(
    bench: Any,
    require_tool: Any,
    tmp_path: Path,
    small_files_ask: None,
    processor: str,
    saturates: bool,
) -> None:
    """With AVX2 alone, where a product of mixed signs shows that pairs saturate; and without."""
    emulator = require_tool("qemu-x86_64", "apt install qemu-user")
    random = np.random.default_rng(0)
    wanted: dict[str, Array] = {}

    def add(name: str, model: bytes, x: Array, want: Array | None = None) -> None:
        (tmp_path / f"{name}.onnx").write_bytes(model)
        np.save(tmp_path / f"{name}.x.npy", x)
        if want is None:
            read = onnx.load_from_string(model)
            found: Any = ReferenceEvaluator(read).run(None, {read.graph.input[0].name: x})
            want = found[0]
        wanted[name] = np.asarray(want)

    add("mixed", mixed_product().SerializeToString(), np.full((8, 64), 255, np.uint8))
    for precision in ("int8", "dynamic-int8"):
        for kind, shape in SHAPES.items():
            weight = random.choice([-1, -0.9, 0.9, 1], shape).astype(np.float32)
            module, x = program(bench, kind, weight)
            for form in ("safe", "asked"):
                made = bench.bytes_of(module, precision=precision, int8_weights=form)
                add(f"{precision} {form} {kind}", made, x)
    trits = random.choice([-1, 0, 1], (256, 12)).astype(np.float32)
    module, x = program(bench, "trits", trits)
    add("fast", bench.bytes_of(module, form="fast"), x, run_module(module, [x])[0])
    command = [emulator, "-cpu", processor, sys.executable, "-c", RUNNER, str(tmp_path), *wanted]
    subprocess.run(
        command, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    for name, want in wanted.items():
        got = np.load(tmp_path / f"{name}.y.npy")
        error = np.abs(got.astype(np.float64) - want).max() / np.abs(want).max()
        if name == "mixed":
            assert error == (pytest.approx(1 - 32767 / (2 * 255 * 127)) if saturates else 0)
        else:
            assert error < 0.01, name
    for name in wanted:
        if name.startswith("int8") and "trit" not in name and "fast" not in name:
            run = onnx.load(tmp_path / f"{name}.run.onnx").graph
            kinds = {t.data_type for t in run.initializer if np.prod(t.dims) > 100}
            stay = "asked" in name and not saturates
            assert kinds == {onnx.TensorProto.INT8 if stay else onnx.TensorProto.UINT8}, name
            assert "If" not in {node.op_type for node in run.node}, name


def test_the_processor_at_hand_is_asked(bench: Any, tmp_path: Path, small_files_ask: None) -> None:
    """A file keeps INT8 weights here exactly where a sum of pairs is right here."""
    import onnxruntime

    (tmp_path / "mixed.onnx").write_bytes(mixed_product().SerializeToString())
    session = onnxruntime.InferenceSession(tmp_path / "mixed.onnx", providers=PROVIDERS)
    found: Any = session.run(None, {"x": np.full((8, 64), 255, np.uint8)})
    exact = set(np.unique(found[0])) == {64 * 255 * 127}
    random = np.random.default_rng(0)
    module, _ = program(bench, "conv", random.choice([-1, 0.9], (12, 8, 3, 3)).astype(np.float32))
    made = bench.bytes_of(module, precision="int8")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "run.onnx")
    onnxruntime.InferenceSession(made, options, providers=PROVIDERS)
    run = onnx.load(tmp_path / "run.onnx").graph
    assert "If" not in {node.op_type for node in run.node}
    (weight,) = [t.data_type for t in run.initializer if list(t.dims) == [12, 8, 3, 3]]
    assert weight == (onnx.TensorProto.INT8 if exact else onnx.TensorProto.UINT8)
    (stored,) = [t for t in onnx.load_from_string(made).graph.initializer if len(t.dims) == 4]
    assert stored.data_type == onnx.TensorProto.INT8


def test_what_was_asked_comes_in_again_without_the_question(
    bench: Any, tmp_path: Path, small_files_ask: None
) -> None:
    random = np.random.default_rng(0)
    for precision, kind in (("int8", "conv"), ("dynamic-int8", "linear")):
        weight = random.choice([-1, 0.9], SHAPES[kind]).astype(np.float32)
        module, x = program(bench, kind, weight)
        made = bench.bytes_of(module, precision=precision)
        assert "int8.exact" in {f.name for f in onnx.load_from_string(made).functions}
        (tmp_path / "m.onnx").write_bytes(made)
        read = from_onnx(tmp_path / "m.onnx")
        kinds = [op.name for op in read.walk()]
        assert kinds.count("tensor.conv") + kinds.count("tensor.matmul") == 1
        found: Any = ReferenceEvaluator(onnx.load_from_string(made)).run(None, {"x": x})
        limit = 1e-4 * np.abs(found[0]).max()
        np.testing.assert_allclose(run_module(read, [x])[0], found[0], atol=limit)


def test_files_of_one_processor_hold_no_question(
    bench: Any, tmp_path: Path, small_files_ask: None
) -> None:
    """What ONNX Runtime optimises here is right on others too, but at the level `all`."""
    random = np.random.default_rng(0)
    module, _ = program(bench, "conv", random.choice([-1, 0.9], (12, 8, 3, 3)).astype(np.float32))
    (tmp_path / "m.onnx").write_bytes(bench.bytes_of(module, precision="int8"))
    path = optimize_onnx_model(tmp_path / "m.onnx", tmp_path / "o.onnx", "extended")
    run = onnx.load(path).graph
    kinds = {node.op_type for node in run.node}
    assert "QLinearConv" in kinds and "If" not in kinds
    (weight,) = [t.data_type for t in run.initializer if list(t.dims) == [12, 8, 3, 3]]
    assert weight == onnx.TensorProto.UINT8
