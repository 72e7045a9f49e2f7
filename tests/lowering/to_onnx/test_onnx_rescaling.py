"""Floats that stand for integer rescalings give the same byte for every sum.

What is expected is gemmlowp's arithmetic (`SaturatingRoundingDoublingHighMul`,
`RoundingDivideByPOT`), which LiteRT's reference kernels do; every sum is tried.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from triton_dsl.lowering.to_onnx.byte_steps import floats_of
from triton_dsl.lowering.to_onnx.rescaling import (
    Line,
    factors_of,
    lines_of,
    rounded_of,
    scales_of,
    signed_of,
    steps_of,
)
from triton_dsl.runtime.engines import open_session, run_session

Array = np.ndarray[Any, Any]


def twice(sums: Array, multiplier: int, right: int) -> Array:
    """x·m/2^31, then x/2^right, each rounded as gemmlowp does."""
    product = sums.astype(np.int64) * multiplier
    nudge = np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.trunc((product + nudge) / (1 << 31)).astype(np.int64)  # exact: below 2^53
    mask = (1 << right) - 1
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0))


def ends(random: np.random.Generator, right: int) -> tuple[int, int]:
    """Sums that give bytes, and some beyond."""
    size = int(random.integers(100, 260)) << right
    return -size, size


@settings(max_examples=30)
@given(
    st.integers(1 << 30, (1 << 31) - 1).map(lambda m: m ^ 0x155555),
    st.integers(1, 8),
    st.integers(-128, 127),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_two_roundings(multiplier: int, right: int, zero: int, relu: bool, seed: int) -> None:
    bounds = (zero if relu and zero < 127 else -128, 127)
    low, high = ends(np.random.default_rng(seed), right)

    def rescale(sums: Array) -> Array:
        return np.clip(twice(sums, multiplier, right) + zero, *bounds)

    steps = steps_of(rescale, np.array([low]), np.array([high]), bounds, zero)
    parts = np.array([multiplier / 2.0**31]), np.array([2.0**right])
    found = floats_of(steps, parts, np.array([high]), np.array([0]))
    assert isinstance(found, Line)
    sums = np.arange(low, high + 1)
    moved = (sums - found.centre[0]).astype(np.float32)
    assert (moved == sums - found.centre[0]).all()  # without any rounding
    if found.offset is not None:
        moved += np.sign(moved) * found.offset[0]
    levels = quantize(moved, found.scale[0], found.zero[0])  # as the file has it
    np.testing.assert_array_equal(np.clip(levels, *bounds), rescale(sums))
    assert found.offset is None or bounds[0] < zero


@settings(max_examples=20)
@given(
    st.integers(1 << 30, (1 << 31) - 1), st.integers(2, 9), st.integers(-128, 127), st.booleans()
)
def test_two_roundings_with_more_bits(multiplier: int, right: int, zero: int, both: bool) -> None:
    """A product in float64, and halves away from zero, in steps of a power of two."""
    low, high = -(200 << right), 200 << right

    def rescale(sums: Array) -> Array:
        if not both:
            return np.clip(
                ((sums * multiplier + (1 << 30 + right)) >> 31 + right) + zero, -128, 127
            )
        return np.clip(twice(sums, multiplier, right) + zero, -128, 127)

    steps = steps_of(rescale, np.array([low]), np.array([high]), (-128, 127), zero)
    first = right if both else 0
    found = rounded_of(
        steps, np.array([multiplier / 2.0 ** (31 + right - first)]), np.array([2.0**first])
    )
    if found is None:
        assert not multiplier & 1023  # products that lie on halves
        return
    sums = np.arange(low, high + 1)
    whole = np.rint(sums * found.factor[0]).astype(np.float32)
    np.testing.assert_array_equal(quantize(whole, found.scale[0], zero), rescale(sums))


def test_sums_are_exact_in_any_order() -> None:
    """With the centre in the bias: no partial sum of floats needs more than 24 bits."""
    random = np.random.default_rng(0)
    weight, x = random.integers(-127, 128, (300, 5)), random.integers(0, 256, (64, 300))
    factors = 0.001 * random.uniform(1, 2, 5)
    low, high = (np.minimum(weight * 255, 0).sum(0), np.maximum(weight * 255, 0).sum(0))
    steps = steps_of(
        lambda sums: np.clip(np.floor(sums * factors[:, None] + 0.9) - 128, -128, 127),
        low, high, (-128, 127), -128,
    )  # fmt: skip
    found = floats_of(steps, (factors, np.ones(5)), np.maximum(-low, high), np.zeros(5))
    assert isinstance(found, Line) and found.offset is None
    bias = (-found.centre).astype(np.float32)
    assert (bias == -found.centre).all() and (found.centre % 1 != 0).any()
    for first in (True, False):
        order = random.permutation(300)
        sums = np.zeros((64, 5), np.float32) + first * bias
        for k in order:
            sums += x[:, k : k + 1].astype(np.float32) * weight[k].astype(np.float32)
        np.testing.assert_array_equal(sums + (not first) * bias, x @ weight - found.centre)


@pytest.mark.parametrize("high", range(1, 9))
def test_what_few_sums_give(high: int) -> None:
    """Where steps are missing, the first and the last sum decide."""
    low = np.array([0])
    for factor in (0.5, 0.3, 0.08, 1e-9):
        steps = steps_of(
            lambda sums, by=factor: np.clip(np.rint(sums * by) - 3, -128, 127),
            low, np.array([high]), (-128, 127), -3,
        )  # fmt: skip
        sums, want = np.arange(high + 1), np.rint(np.arange(high + 1) * factor) - 3
        both, line = scales_of(steps), floats_of(steps, (np.array([factor]), np.ones(1)),
                                                 np.array([high]), np.zeros(1))  # fmt: skip
        assert both is not None and isinstance(line, Line)
        scaled = np.rint((sums + both[1][0]).astype(np.float32) * both[0][0]) - 3
        np.testing.assert_array_equal(scaled, want)
        moved = (sums - line.centre[0]).astype(np.float32)
        if line.offset is not None:
            moved += np.sign(moved) * line.offset[0]
        np.testing.assert_array_equal(quantize(moved, line.scale[0], line.zero[0]), want)


def quantize(x: Array, scale: Any, zero: int) -> Array:
    """QuantizeLinear with a scale a channel."""
    stored = {"s": np.full(1, scale, np.float32), "z": np.full(1, zero + 128, np.uint8)}
    graph = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], axis=1)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, x.size])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, 1, x.size])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    (levels,) = run_session(open_session(model.SerializeToString()), [x.reshape(1, 1, -1)])
    return levels.reshape(-1).astype(np.int64) - 128


@settings(max_examples=30)
@given(st.floats(0.02, 0.9), st.integers(-128, 127), st.booleans())
def test_one_rounding_is_a_product_with_a_float(factor: float, zero: int, half: bool) -> None:
    """QLinearConv rounds halves to even, and the program up."""
    low, high = np.array([-int(300 / factor)]), np.array([int(300 / factor)])
    factor = 1 / round(1 / factor) if half else factor * np.pi / 4

    def rescale(sums: Array) -> Array:
        return np.clip(np.floor(sums * factor + 0.5) + zero, -128, 127)

    found = scales_of(steps_of(rescale, low, high, (-128, 127), zero))
    if found is None:
        assert half  # ties that no float has
        return
    sums = np.arange(low[0], high[0] + 1)
    products = (sums + found[1][0]).astype(np.float32) * found[0][0]
    levels = np.clip(np.rint(products) + zero, -128, 127)
    np.testing.assert_array_equal(levels, rescale(sums))


def test_numbers_that_no_float_has_are_not_found() -> None:
    steps = steps_of(
        lambda sums: np.where(sums > 5, 3, 0), np.array([-9]), np.array([9]), (0, 3), 0
    )
    assert scales_of(steps) is None
    factor = np.array([0.5])
    assert lines_of(steps, factor, np.array([9]), np.array([0.5])) is None
    assert signed_of(steps, factor) is None and rounded_of(steps, factor, factor) is None
    table = np.arange(256)[:, None] * np.ones((1, 256)) - 128
    assert factors_of(table, 0, (0, 0), np.array([1.0, 0.5])) is None
    found = factors_of(table, 0, (0, 0), np.array([1.0, 0.0]))
    assert found is not None and found.factors.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("multipliers", "shift", "zeros", "zero"),
    [
        ((1485786, 1268556), 20, (74, -64), -55),
        ((1957135, 190147), 18, (0, 118), -128),
        ((380808, 1059039), 19, (36, -106), -128),
        ((889810, 1095175), 19, (-23, -21), -128),  # with other zeros, which move sums by a part
    ],
)
def test_sums_with_steps_close_by_become_one_kernel(
    multipliers: tuple[int, int], shift: int, zeros: tuple[int, int], zero: int
) -> None:
    """Of XNNPACK (`xnn_qs8_vadd`): factors farther off than a few floats are right."""
    a, b = ((np.arange(-128, 128) - z) * m for z, m in zip(zeros, multipliers, strict=True))
    total = a[:, None] + b[None, :]
    table = np.clip((total + (1 << (shift - 1)) >> shift) + zero, -128, 127)
    found = factors_of(table, zero, zeros, np.array(multipliers) / 2.0**shift)
    assert found is not None and found.joined
