"""Quantisation ops: the interpreter beside ONNX Runtime, integers bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType, f32, f64, i8, i16, i32, i64
from xdsl.ir import Attribute

from triton_dsl.dialects import tensor
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.shapes import DYNAMIC

Array = np.ndarray[Any, Any]
ANY = DYNAMIC
HALVES = [
    -1e30,
    -129.5,
    -128.5,
    -2.5,
    -1.5,
    -0.5,
    0.0,
    0.5,
    1.5,
    2.5,
    126.5,
    127.5,
    1e30,
    0.49999997,
]


def full(element: Attribute) -> tuple[int, int]:
    info = np.iinfo(numpy_dtype(element))
    return int(info.min), int(info.max)


@pytest.mark.parametrize("element", (i8, i16, i32), ids=str)
@pytest.mark.parametrize("bounds", ["full", "narrow"])
@pytest.mark.parametrize(("scale", "zero"), [((), ()), ((4,), (4,)), ((4,), ()), ((), (4,))])
def test_quantize(
    bench: Any,
    opset: int,
    element: Attribute,
    bounds: str,
    scale: tuple[int, ...],
    zero: tuple[int, ...],
) -> None:
    low, high = full(element) if bounds == "full" else (-7, 8)
    types = [
        TensorType(f32, [ANY, 4, 3]),
        TensorType(f32, scale),
        TensorType(element, zero),
    ]
    module = bench.build(
        types, lambda add, *x: add(tensor.QuantizeOp(*x, axis=1, low=low, high=high))
    )
    random = np.random.default_rng(0)
    x = (random.standard_normal((60, 4, 3)) * 90).astype(np.float32)
    x.reshape(-1)[: len(HALVES)] = HALVES
    steps = np.asarray(random.uniform(0.01, 2, scale), np.float32)
    zeros = np.asarray(random.integers(-9, 9, zero), numpy_dtype(element))
    bench.check(module, [x, steps, zeros], opset)
    bench.check(module, [x, np.ones(scale, np.float32), np.zeros_like(zeros)], opset)


def test_quantize_over_the_whole_range_is_one_node(bench: Any) -> None:
    types = [TensorType(f32, [ANY, 4]), TensorType(f32, []), TensorType(i8, [])]
    module = bench.build(types, lambda add, *x: add(tensor.QuantizeOp(*x)))
    data = bench.bytes_of(module)
    assert b"QuantizeLinear" in data and b"Round" not in data


@pytest.mark.parametrize("element", (i8, i16, i32), ids=str)
@pytest.mark.parametrize(("scale", "zero"), [((), ()), ((4,), (4,)), ((4,), ()), ((), (4,))])
def test_dequantize_is_exact(
    bench: Any, opset: int, element: Attribute, scale: tuple[int, ...], zero: tuple[int, ...]
) -> None:
    types = [
        TensorType(element, [ANY, 4]),
        TensorType(f32, scale),
        TensorType(element, zero),
    ]
    module = bench.build(types, lambda add, *x: add(tensor.DequantizeOp(*x)))
    random = np.random.default_rng(0)
    low, high = full(element)
    x = random.integers(low, high, (9, 4), numpy_dtype(element), endpoint=True)
    x[0], x[1] = low, high
    zeros = np.asarray(random.integers(low, high, zero), numpy_dtype(element))
    inputs = [x, np.asarray(random.uniform(0.01, 2, scale), np.float32), zeros]
    expected = (x.astype(np.int64) - zeros).astype(np.float32) * inputs[1]
    (got,) = bench.run(bench.bytes_of(module, opset=opset), inputs)
    np.testing.assert_array_equal(got, expected)
    bench.check(module, inputs, opset, scale=0)


def rescaled(x: int, multiplier: int, shift: int, zero: int, low: int, high: int) -> int:
    """The equation of `tensor.requantize` in Python's own integers."""
    return min(max(((x * multiplier + (1 << shift - 1)) >> shift) + zero, low), high)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_requantize_is_exact_for_every_operand(bench: Any, data: st.DataObject) -> None:
    draw = data.draw
    known = draw(st.booleans())
    edges = [-(2**31), 2**31 - 1, -1, 0, 1]
    numbers = st.one_of(st.sampled_from(edges), st.integers(-(2**31), 2**31 - 1))
    xs = draw(st.lists(numbers, min_size=1, max_size=8))
    multiplier, shift = draw(numbers), draw(st.integers(1, 62))
    zero = draw(st.integers(-128, 127))
    element = draw(st.sampled_from([i8, i16, i32]))
    low, high = full(element)
    stored = {"m": np.array(multiplier, np.int32), "s": np.array(shift, np.int32)}
    scalar = TensorType(i32, [])

    def body(add: Any, x: Any, z: Any, *given: Any) -> Any:
        m, s = (add(tensor.ParameterOp(k, scalar)) for k in "ms") if known else given
        return add(tensor.RequantizeOp(x, m, s, z, axis=0, low=low, high=high))

    types = [TensorType(i32, [ANY]), TensorType(element, []), *([] if known else [scalar] * 2)]
    module = bench.build(types, body, stored)
    inputs = [
        np.array(xs, np.int32),
        np.array(zero, numpy_dtype(element)),
        *([] if known else stored.values()),
    ]
    (got,) = bench.run(bench.bytes_of(module, opset=draw(st.sampled_from([13, 21]))), inputs)
    assert got.tolist() == [rescaled(x, multiplier, shift, zero, low, high) for x in xs]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_requantize_per_channel(bench: Any, opset: int, axis: int) -> None:
    shape = (4, 3, 5)
    count = shape[axis]
    types = [TensorType(i32, shape), *[TensorType(i32, [count])] * 2, TensorType(i8, [])]
    module = bench.build(types, lambda add, *x: add(tensor.RequantizeOp(*x, axis=axis)))
    random = np.random.default_rng(0)
    inputs = [
        random.integers(-(2**31), 2**31 - 1, shape).astype(np.int32),
        random.integers(2**30, 2**31 - 1, count).astype(np.int32),
        random.integers(50, 62, count).astype(np.int32),
        np.array(5, np.int8),
    ]
    bench.check(module, inputs, opset)


@pytest.mark.parametrize("element", (f32, f64, i8, i16, i32, i64), ids=str)
@pytest.mark.parametrize(("shape", "axis"), [((6, 4), 1), ((2, 4, 3, 3), 1), ((4, 5), 0)])
@pytest.mark.parametrize("count", [0, 3, 200])
@pytest.mark.parametrize("shared", [False, True])
def test_multi_threshold(
    bench: Any,
    opset: int,
    element: Attribute,
    shape: tuple[int, ...],
    axis: int,
    count: int,
    shared: bool,
) -> None:
    rows = 1 if shared else 4
    types = [TensorType(element, shape), TensorType(element, [rows, count])]
    module = bench.build(types, lambda add, *x: add(tensor.MultiThresholdOp(*x, axis=axis)))
    random = np.random.default_rng(0)
    dtype = numpy_dtype(element)
    x = random.integers(-100, 100, shape).astype(dtype)
    bench.check(module, [x, random.integers(-100, 100, (rows, count)).astype(dtype)], opset)
