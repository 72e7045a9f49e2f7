"""Every float constant reaches every target with its bits: ends, subnormals, zeros, infinities.

A constant is added to, compared with and chosen beside numbers of its type. NumPy, or ml_dtypes for
bfloat16, says what comes out. What engines do with special *inputs* stands in
`test_special_values`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
)

from triton_dsl.dialects import tensor
from triton_dsl.dialects.elements import nearest, numpy_dtype
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.printing import module_text
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.to_pytorch.literals import literal

Array = np.ndarray[Any, Any]
Build = Callable[..., ModuleOp]

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered")  # ml_dtypes, on NaN

WORDS: dict[AnyFloat, Any] = {f16: np.uint16, bf16: np.uint16, f32: np.uint32, f64: np.uint64}
ENGINES: dict[AnyFloat, tuple[str, ...]] = {
    f16: ("pytorch", "onnx", "native", "tflite"),
    bf16: ("pytorch", "native"),  # NumPy inputs of ONNX Runtime and LiteRT have no bfloat16
    f32: ("pytorch", "onnx", "native", "tflite"),
    f64: ("pytorch", "onnx", "native"),  # LiteRT has no arithmetic in double precision
}
CASES = [(element, engine) for element, engines in ENGINES.items() for engine in engines]

each_case = pytest.mark.parametrize(("element", "engine"), CASES)


def special(element: AnyFloat) -> Array:
    """Numbers that texts and conversions are apt to lose, and their neighbours."""
    dtype = numpy_dtype(element)
    info = ml_dtypes.finfo(dtype)
    values = [info.max, info.smallest_normal, info.smallest_subnormal, 0.0, math.inf, 0.1, 1 / 3]
    signed = np.array([sign * float(v) for v in values for sign in (1, -1)], dtype)
    bits = signed.view(WORDS[element])
    beside = np.concatenate([bits - 1, bits + 1]).view(dtype)
    return np.concatenate([signed, beside[~np.isnan(beside)], np.array([np.nan], dtype)])


def constant(value: Array, element: AnyFloat) -> tensor.ConstantOp:
    """A constant with exactly these bits."""
    type = TensorType(element, value.shape)
    return tensor.ConstantOp(DenseIntOrFPElementsAttr(type, BytesAttr(value.tobytes())))


def equal(got: Array, want: Array, element: AnyFloat, engine: str) -> None:
    """The same bits; any NaN is NaN, and XNNPACK may take subnormal numbers for zero."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    same = (got.view(WORDS[element]) == want.view(WORDS[element])) | (
        np.isnan(got) & np.isnan(want)
    )
    if engine == "tflite":
        tiny = float(ml_dtypes.finfo(want.dtype).smallest_normal)
        wide = want.astype(np.float64), got.astype(np.float64)
        same |= (np.abs(wide[0]) <= tiny) & (np.abs(wide[1]) <= tiny)
    assert same.all(), (engine, want[~same], got[~same])


@each_case
def test_a_constant_is_chosen_with_its_bits(
    element: AnyFloat, engine: str, build_module: Build
) -> None:
    numbers = special(element)
    for value in (numbers[None, :], *numbers[: 8 if element == f32 else 2 : 2]):
        value = np.asarray(value)
        x = np.ones((2, numbers.size), numbers.dtype)
        where = np.zeros((2, numbers.size), np.bool_)
        where[:, ::2] = True
        types = [TensorType(i1, where.shape), TensorType(element, x.shape)]

        def body(add: Any, mask: Any, x: Any, value: Array = value) -> Any:
            return add(tensor.WhereOp(mask, x, add(constant(value, element))))

        (got,) = run_target(build_module(types, body), engine, [where, x])[1]
        want = np.where(where, x, value)
        # ONNX Runtime's Where adds two halves, each 0 where it is not chosen: -0 becomes 0.
        if engine == "onnx":
            want, got = want + numbers.dtype.type(0), got + numbers.dtype.type(0)
        equal(got, want, element, engine)


@each_case
def test_a_constant_is_added_and_compared_with_its_bits(
    element: AnyFloat, engine: str, build_module: Build
) -> None:
    numbers = special(element)
    if engine == "tflite":  # XNNPACK flushes subnormal operands
        numbers = numbers[(np.abs(numbers) >= ml_dtypes.finfo(numbers.dtype).smallest_normal)]
    x = np.zeros((2, numbers.size), numbers.dtype)
    type = TensorType(element, x.shape)

    def added(add: Any, x: Any) -> Any:
        return add(tensor.AddOp(x, add(constant(numbers, element))))

    def compared(add: Any, x: Any) -> Any:
        return add(tensor.CompareOp(x, add(constant(numbers, element)), "eq"))

    (got,) = run_target(build_module([type], added), engine, [x])[1]
    equal(got, x + numbers, element, engine)
    given = np.stack([numbers, np.roll(numbers, 1)])
    (got,) = run_target(build_module([type], compared), engine, [given])[1]
    np.testing.assert_array_equal(got, given == numbers)


@pytest.mark.parametrize("element", ENGINES)
def test_text_keeps_the_bits_of_a_constant(element: AnyFloat, build_module: Build) -> None:
    rng = np.random.default_rng(0)
    dtype = numpy_dtype(element)
    drawn = rng.integers(0, np.iinfo(WORDS[element]).max, 40, WORDS[element]).view(dtype)
    for numbers in (special(element), drawn):
        type = TensorType(element, numbers.shape)

        def body(add: Any, x: Any, numbers: Array = numbers) -> Any:
            return add(tensor.AddOp(x, add(constant(numbers, element))))

        read = parse_module(module_text(build_module([type], body)), "printed.mlir")
        (found,) = (op for op in read.walk() if isinstance(op, tensor.ConstantOp))
        kept = np.frombuffer(found.value.data.data, dtype)
        equal(kept, numbers, element, "text")


@settings(max_examples=300)
@given(st.integers(0, 2**64 - 1), st.sampled_from(list(ENGINES)))
def test_a_python_number_rounds_to_the_same_bits(bits: int, element: AnyFloat) -> None:
    import torch

    word = WORDS[element]
    value = np.array([bits & np.iinfo(word).max], word).view(numpy_dtype(element))
    text = literal(value[0], value.dtype)
    number = eval(text, {"float": float, "__builtins__": {}})
    equal(np.array([number]).astype(value.dtype), value, element, "numpy")
    kind = getattr(torch, value.dtype.name)
    full = torch.full((1,), number, dtype=kind).view(torch.uint8).numpy().view(value.dtype)
    equal(full, value, element, "torch")


def test_a_short_literal_is_used_where_it_is_exact() -> None:
    assert literal(np.float32(0.1), np.dtype(np.float32)) == "0.1"
    largest = np.finfo(np.float32).max
    assert literal(largest, np.dtype(np.float32)) == "3.4028234663852886e+38"
    assert literal(-largest, np.dtype(np.float32)) == "-3.4028234663852886e+38"


BOUNDS = (-math.inf, -1e300, -3.4028234663852886e38, 0.1, 65520.0, math.inf)


@each_case
@pytest.mark.parametrize("side", ["min", "max"])
def test_a_bound_of_a_clamp_is_rounded_to_the_type(
    element: AnyFloat, engine: str, side: str, build_module: Build
) -> None:
    if (element, engine) == (f16, "tflite"):
        pytest.skip("LiteRT computes half precision as single")
    x = np.array([[-math.inf, -1000.0, 0.0, 1000.0, math.inf]], numpy_dtype(element))
    type = TensorType(element, x.shape)
    for bound in BOUNDS:

        def body(add: Any, x: Any, bound: float = bound) -> Any:
            return add(tensor.ClampOp(x, **{side: bound}))

        (got,) = run_target(build_module([type], body), engine, [x])[1]
        rounded = nearest(bound, x.dtype)
        want = np.maximum(x, rounded) if side == "min" else np.minimum(x, rounded)
        equal(got, want, element, engine)


@each_case
def test_a_pad_is_rounded_to_the_type(element: AnyFloat, engine: str, build_module: Build) -> None:
    x = np.ones((2, 3), numpy_dtype(element))
    type = TensorType(element, x.shape)
    for value in BOUNDS:

        def body(add: Any, x: Any, value: float = value) -> Any:
            return add(tensor.PadToOp(x, [0, 1], [0, 0], value))

        (got,) = run_target(build_module([type], body), engine, [x])[1]
        fill = nearest(value, x.dtype)
        equal(got, np.concatenate([np.full((2, 1), fill), x], axis=1), element, engine)


@pytest.mark.parametrize("engine", ["pytorch", "onnx", "native"])
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), (1, 0, 2)])
def test_a_constant_without_elements_keeps_its_shape(
    engine: str, shape: tuple[int, ...], build_module: Build
) -> None:
    value = np.zeros(shape, np.float32)
    type = TensorType(f32, (1,) * len(shape))

    def body(add: Any, x: Any) -> Any:
        return add(tensor.AddOp(x, add(constant(value, f32))))

    module = build_module([type], body)
    (got,) = run_target(module, engine, [np.ones((1,) * len(shape), np.float32)])[1]
    assert got.shape == np.broadcast_shapes(shape, (1,) * len(shape))
