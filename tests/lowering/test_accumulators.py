"""Trits times integers of every width: what each engine sums, beside Python's own integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp, TensorType, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute
from xdsl.rewriter import InsertPoint

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store, dense_constant
from triton_dsl.dialects.registry import triton_context, verify_module
from triton_dsl.ir.errors import LoweringError, UnsupportedError
from triton_dsl.ir.instrument import run_passes
from triton_dsl.ir.pipeline import parse_pipeline
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_onnx.calls import element_type
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.passes.universe import everything

Array = NDArray[Any]
RequireTool = Callable[[str, str], str]

INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
GRAPH = ([(0, 1, -1, 0), (4, 2, 1, 3)], [(5, 1), (4, -1), (0, 0)])
"""The columns 8·x2 + x0 - x1, x1 - x0 and 0, as nodes and outputs of an adder graph."""

WEIGHT = np.array([[1, 1, -1], [-1, 1, -1], [0, 1, -1], [1, 1, 0]], np.int8)
KERNEL = np.array([[[1, -1, 1], [1, 0, 1]], [[-1, -1, -1], [0, 0, 1]]], np.int8)


def summed(dtype: str) -> str:
    """The type of sums: 64 bits where 32 with a sign do not hold one element."""
    return "int64" if dtype in ("uint32", "int64", "uint64") else "int32"


def program(element: Attribute, sums: Attribute, bias: Array) -> ModuleOp:
    """A product, others with thresholds and a bias, a convolution, an adder graph: of one input."""
    function = FuncOp("forward", ([TensorType(element, [3, 4])], []))
    at = Builder(InsertPoint.at_end(function.body.block))
    x = function.args[0]
    weight = at.insert(ternary.ConstantOp(WEIGHT.reshape(-1).tolist(), WEIGHT.shape)).result
    kernel = at.insert(ternary.ConstantOp(KERNEL.reshape(-1).tolist(), KERNEL.shape)).result
    image = at.insert(tensor.ReshapeToOp(x, [3, 2, 2])).result
    added = at.insert(dense_constant(bias, sums)).result
    levels = at.insert(dense_constant(np.stack([bias - 1, bias], axis=1), sums)).result
    made = [
        at.insert(ternary.MatmulOp(x, weight)),
        at.insert(ternary.LinearOp(x, weight, thresholds=levels)),
        at.insert(ternary.LinearOp(x, weight, bias=added, activation="relu")),
        at.insert(
            ternary.ConvOp(image, kernel, strides=[1], padding=[1, 1], dilation=[1], groups=1)
        ),
        at.insert(ternary.AdderGraphOp(x, 4, *GRAPH)),
    ]
    at.insert(ReturnOp(*[op.result for op in made]))
    function.update_function_type()
    module = ModuleOp([function])
    verify_module(module)
    return module


def wrapped(values: Array, dtype: str) -> Array:
    """Python's integers modulo the width of `dtype`."""
    bits = np.iinfo(dtype).bits
    half = 1 << (bits - 1)
    return np.array((values + half) % (1 << bits) - half, object).astype(dtype)


def expected(x: Array, bias: Array, sums: str) -> list[Array]:
    """The same as `program`, in integers without bounds."""
    wide = x.astype(object)
    product = wide @ WEIGHT.astype(object)
    image = np.pad(x.reshape(3, 2, 2), ((0, 0), (0, 0), (1, 1))).astype(object)
    windows = np.stack([image[:, :, p : p + 3].reshape(3, 6) for p in range(2)], axis=1)
    convolved = (windows @ KERNEL.reshape(2, 6).T.astype(object)).transpose(0, 2, 1)
    shared = np.stack(
        [wide[:, 0] - wide[:, 1] + 8 * wide[:, 2], wide[:, 1] - wide[:, 0], 0 * wide[:, 0]], axis=1
    )
    added = wrapped(wrapped(product, sums).astype(object) + bias.astype(object), sums)
    levels = np.stack([bias - 1, bias], axis=1).astype(object)
    return [
        wrapped(product, sums),
        (wrapped(product, sums).astype(object)[..., None] >= levels).sum(axis=2).astype(np.int8),
        np.maximum(added, 0),
        wrapped(convolved, sums),
        wrapped(shared, sums),
    ]


def extremes(dtype: str) -> Array:
    """The ends of a type, and numbers that 32 bits and float64 do not hold."""
    info = np.iinfo(dtype)
    known = [info.min, info.max, info.max, info.max - 1, 1, 1 << 40, (1 << 53) + 1, 5, 1 << 31]
    known += [(1 << 32) - 1, (1 << 62) + 3, 127]
    return np.array([n if info.min <= n <= info.max else 3 for n in known], dtype).reshape(3, 4)


@pytest.mark.parametrize(
    ("target", "dtype"),
    [
        (target, dtype)
        for target in ("interpreter", "pytorch", "onnx", "tflite", "native")
        for dtype in INTEGERS
        if target != "tflite" or dtype not in ("uint32", "uint64")
    ],
)
def test_sums_are_exact_in_the_accumulator(target: str, dtype: str) -> None:
    sums = summed(dtype)
    bias = np.array([np.iinfo(sums).max, -7, 1 << 30], sums)
    module = program(element_type(np.dtype(dtype)), element_type(np.dtype(sums)), bias)
    x = extremes(dtype)
    if target == "interpreter":
        found = run_module(module, [x])
    else:
        found = run_target(module, target, [x])[1]
    for got, want in zip(found, expected(x, bias, sums), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("dtype", "message"), [("uint32", "no TRANSPOSE kernel for UINT32"), ("uint64", "uint64")]
)
def test_litert_is_not_given_unsigned_words(dtype: str, message: str) -> None:
    module = program(element_type(np.dtype(dtype)), i64, np.zeros(3, np.int64))
    with pytest.raises(LoweringError, match=message):
        compile_to_target(module, "tflite")


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64"])
def test_a_circuit_is_exact_or_refused(dtype: str, require_tool: RequireTool) -> None:
    """A circuit has no width to wrap around at: sums that may leave their type are refused."""
    require_tool("iverilog", "apt-get install iverilog")
    function = FuncOp("forward", ([TensorType(element_type(np.dtype(dtype)), [1, 4])], []))
    at = Builder(InsertPoint.at_end(function.body.block))
    weight = at.insert(ternary.ConstantOp(WEIGHT.reshape(-1).tolist(), WEIGHT.shape)).result
    at.insert(ReturnOp(at.insert(ternary.LinearOp(function.args[0], weight)).result))
    function.update_function_type()
    module, x = ModuleOp([function]), extremes(dtype)[:1]
    if dtype in ("int8", "uint32"):
        (found,) = run_target(module, "verilog", [x])[1]
        want = wrapped(x.astype(object) @ WEIGHT.astype(object), summed(dtype))
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)
        return
    with pytest.raises(UnsupportedError, match=f"wrap around in i{summed(dtype)[3:]}"):
        run_target(module, "verilog", [x])


@pytest.mark.parametrize("options", ["", "{lut-budget=3000 time-budget=0.05}"])
def test_sums_of_more_than_64_bits_have_no_circuit(options: str) -> None:
    weight = np.random.default_rng(0).integers(-1, 2, (24, 24)).astype(np.int8)
    function = FuncOp("forward", ([TensorType(i64, [-1, 24])], []))
    at = Builder(InsertPoint.at_end(function.body.block))
    stored = at.insert(ternary.ParameterOp("w", weight.shape)).result
    at.insert(ReturnOp(at.insert(ternary.MatmulOp(function.args[0], stored)).result))
    function.update_function_type()
    module = ModuleOp([function])
    attach_store(module, ParameterStore.of({"w": pack_trits(weight)}))
    with pytest.raises(UnsupportedError, match="wrap around in i64"):
        compile_to_target(module, f"verilog{options}")


def test_passes_keep_the_accumulator() -> None:
    """A channel without weights goes, and what it held goes into the next bias, in 64 bits."""
    function = FuncOp("forward", ([TensorType(i64, [3, 4])], []))
    at = Builder(InsertPoint.at_end(function.body.block))
    first, second = WEIGHT.copy(), np.array([[1, -1], [0, 1], [1, 1]], np.int8)
    first[:, 1] = 0
    weights = [
        at.insert(ternary.ConstantOp(w.reshape(-1).tolist(), w.shape)).result
        for w in (first, second)
    ]
    bias = np.array([1 << 40, (1 << 62) + 1, -(1 << 61)], np.int64)
    sums = at.insert(ternary.MatmulOp(function.args[0], weights[0])).result
    hidden = at.insert(tensor.AddOp(sums, at.insert(dense_constant(bias, i64)).result)).result
    result = at.insert(ternary.MatmulOp(hidden, weights[1])).result
    again = at.insert(tensor.AddOp(result, at.insert(dense_constant(bias[:2], i64)).result))
    at.insert(ReturnOp(again.result))
    function.update_function_type()
    module, x = ModuleOp([function]), extremes("int64")
    wide = x.astype(object) @ first.astype(object) + bias.astype(object)
    want = wrapped(wide @ second.astype(object) + bias[:2].astype(object), "int64")
    passes = "canonicalize,fuse-linear,skip-zeros,canonicalize,infer-shapes"
    run_passes(triton_context(), module, parse_pipeline(passes, everything().all_passes))
    verify_module(module)
    kept = [op for op in module.walk() if isinstance(op, ternary.LinearOp)]
    assert [op.bias is not None for op in kept] == [True, True]
    assert tensor_type(kept[1].input).get_shape() == (3, 2)
    np.testing.assert_array_equal(run_module(module, [x])[0], want)
    np.testing.assert_array_equal(run_target(module, "native", [x])[1][0], want)
