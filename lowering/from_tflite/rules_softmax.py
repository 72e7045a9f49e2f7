"""TFLite import of the softmax of integers, in the arithmetic of LiteRT's kernels.

All look exponentials of the distance to the largest number up. Of 16 bits (`SoftmaxInt16`) these
and the reciprocal of their sum are tables of straight lines; all numbers between have 15 bits
behind the point. Of 8 bits the reference kernel (`reference_ops::Softmax`) has exponentials of 31
bits and divides by three steps of Newton's; the one that LiteRT takes by default
(`optimized_ops::Softmax`) adds floats up in the order of the numbers. Other grids go through
floats.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import f64, i16, i32, i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor import shape as shapes
from ...dialects.tensor.formula import Formula
from ...ir.arrays import Array
from ..problems import ProblemError
from ..to_tflite.multipliers import multiplier_of
from .fixed_point import clamped, grid_range, multiplied
from .gemmlowp import exp_of_negatives
from .interpolation import HIGH, LOW, Function, exponential, interpolated
from .rules_activation import RULES, looked_up, through_floats
from .tflite_builder import Builder, Node, Results, Rule, standard

_BITS = 15
_LEAST = 10.0
"""exp(-10) and less are 0."""

_WIDEST = 30
"""Bits of the largest sum; LiteRT adds in i32."""


def _fine_softmax(e: Builder, node: Node) -> SSAValue:
    """SOFTMAX along the last axis, i16; the result has 15 bits behind the point, as in LiteRT."""
    x, step = node[0], np.float32(node.scales(0).scale[0])
    if node.result_scales().zero:
        raise ProblemError("its 16-bit result has a zero point")
    axes = e.indices([e.rank(x) - 1])

    def reduced(op: str, value: SSAValue) -> SSAValue:
        return standard(e, op, [value, axes], keepdims=1)

    wide = e.convert(x, i32)
    below = e.add(tensor.SubOp(wide, reduced("ReduceMax", wide)))
    real = float(step * np.float32(node.number("beta"))) / (_LEAST / (HIGH - LOW))
    scaled = multiplied(e, below, *multiplier_of(np.asarray(real)), HIGH, (LOW, HIGH), i16)
    powers = _looked_up(e, _table(exponential, _LEAST, HIGH), scaled)
    total = reduced("ReduceSum", powers)
    extra = _bits_above(e, total, axes)
    sums = e.add(tensor.MulOp(total, _by(e, extra, lambda n: 1 << max(2 - n, 0))))
    sums = e.add(tensor.AddOp(sums, _by(e, extra, lambda n: 1 << max(n - 2, 0) >> 1)))
    sums = e.add(tensor.DivOp(sums, _by(e, extra, lambda n: 1 << max(n - 2, 0))))
    place = e.add(tensor.SubOp(sums, e.number((1 << 16) + (1 << 15), i32)))
    place = clamped(e, place, LOW, HIGH, i16)
    inverse = _looked_up(e, _table(lambda x: 1 / (1 + x), 1.0, LOW), place)
    product = e.add(tensor.MulOp(powers, inverse))
    product = e.add(tensor.AddOp(product, _by(e, extra, lambda n: 1 << (_BITS + n - 2))))
    result = e.add(tensor.DivOp(product, _by(e, extra, lambda n: 1 << (_BITS + n - 1))))
    return clamped(e, result, 0, HIGH, node.element)


_UNIT = 31
"""Bits behind the point of exponentials of 32 bits, and of products of two numbers."""

_DISTANCE_BITS = 5
"""Before the point of a distance in 32 bits."""

_SUM_BITS = 19
"""Behind the point of the sum of exponentials."""

_SHARE_BITS = 8
"""Behind the point of a result of 8 bits."""


def _byte_softmax(e: Builder, node: Node) -> SSAValue:
    """SOFTMAX along the last axis, of 8 bits and with as many behind the point of the result."""
    x, step = node[0], node.scales(0).scale[0]
    low, high = grid_range(node.element)
    axis = e.rank(x) - 1
    wide = e.convert(x, i32)
    most = standard(e, "ReduceMax", [wide, e.indices([axis])], keepdims=1)
    below = e.add(tensor.SubOp(most, wide))
    shares = _by_default if e.rounding == "xnnpack" else _by_reference
    levels = shares(e, below, axis, step * np.float32(node.number("beta")))
    return clamped(e, e.add(tensor.AddOp(levels, e.number(low, i32))), low, high, node.element)


def _by_default(e: Builder, below: SSAValue, axis: int, step: np.float32) -> SSAValue:
    """Steps of 1/256 for distances, by float32; sums depend on the order."""
    table = np.exp((-step * np.arange(256, dtype=np.float32)).astype(np.float64))
    powers = Formula(e, e.add(shapes.GatherRowsOp(e.known(table.astype(np.float32)), below)))
    sums = e.add(tensor.CumsumOp(powers.value, axis))
    total = Formula(e, e.cut(sums, axis, -1)) * 2.0**-_SHARE_BITS
    return (powers * (1 / total) + 0.5).convert(i32).value


def _by_reference(e: Builder, below: SSAValue, axis: int, step: np.float32) -> SSAValue:
    """Steps of 1/256 for distances, by whole numbers; a sum is less than 2^12."""
    table = _exponentials(float(step))
    powers, parts = (
        Formula(e, e.add(shapes.GatherRowsOp(e.known(values, i64), below)))
        for values in (table, _halves_up(table, _UNIT - _SUM_BITS))
    )
    total = standard(e, "ReduceSum", [parts.value, e.indices([axis])], keepdims=1)
    total = Formula(e, total).minimum((1 << _UNIT) - 1)
    # A sum of n bits by 2^(31 - n) is from a half to one.
    counted = np.left_shift(np.int64(1), np.arange(_SUM_BITS, _UNIT))
    reached = total.compare("lt", total.array(counted)).convert(i64)
    missing = standard(e, "ReduceSum", [reached.value, e.indices([axis])], keepdims=1)
    up = e.known(np.left_shift(np.int64(1), np.arange(_UNIT - _SUM_BITS + 1)), i64)
    up = Formula(e, e.add(shapes.GatherRowsOp(up, missing)))
    shares = _product(powers, _inverse(total * up))
    # Halves up, exactly: 31 bits in a float64.
    scaled = shares.convert(f64) * (up.convert(f64) * 2.0 ** -(_UNIT + 3))
    return (scaled + 0.5).of(tensor.FloorOp).convert(i32).value


def _exponentials(step: float) -> Array:
    """exp(-n·step) for n to 255 in 31 bits, int64; 0 beyond the distances that LiteRT holds."""
    fraction = _UNIT - _DISTANCE_BITS
    multiplier, exponent = multiplier_of(np.asarray(min(step * (1 << fraction), 2.0**31 - 1)))
    if exponent < 0:
        raise ProblemError("the scale of its operand is too small for LiteRT")
    farthest = (((1 << _DISTANCE_BITS) - 1) << fraction) >> int(exponent)
    distances = np.arange(256)
    held = np.minimum(distances, farthest)
    scaled = _halves_up(-(held << exponent) * multiplier, _UNIT)
    return np.where(distances <= farthest, exp_of_negatives(scaled, _DISTANCE_BITS, 32), 0)


def _inverse(half: Formula) -> Formula:
    """2^61/half in 31 bits, for 2^30 ≤ half < 2^31: gemmlowp's `one_over_one_plus_x_for_x_in_0_1`.

    Two bits of x are before the point. It begins with 48/17 - 32/17·half.
    """
    x = _product(half, half.number(-1010580540)) + 1515870810
    for _ in range(3):
        error = (1 << 29) - _product(half, x)
        x = x + _product(x, error) * 4
    return (x * 2).minimum((1 << _UNIT) - 1)


_LIFT = 29
"""Makes products positive, whose quotients then are rounded down."""


def _product(a: Formula, b: Formula) -> Formula:
    """a·b/2^31, halves up, of i64 in 32 bits; the product is at least -2^60."""
    lifted = a * b + ((1 << (_UNIT - 1)) + (1 << (_LIFT + _UNIT)))
    return lifted / (1 << _UNIT) - (1 << _LIFT)


def _halves_up(values: Array, bits: int) -> Array:
    return values + (1 << bits >> 1) >> bits


def _integers(e: Builder, node: Node) -> Results:
    element, is_alike = node.element, tensor_type(node[0]).element_type == node.element
    rule = through_floats(RULES["SOFTMAX"])
    if e.rounding != "once" and is_alike:
        low, high = grid_range(element)
        result = node.result_scales()
        in_shares = result.scale[0] == 2.0**-_SHARE_BITS and result.zero == low
        if element == i16:
            rule = _fine_softmax
        elif high - low == 255 and in_shares:
            rule = _byte_softmax
    return rule(e, node)


def _table(function: Function, reach: float, zero: int) -> Array:
    """All values of a function on a stretch of this length, twice a unit being 2^16."""
    one = np.float64(HIGH - LOW)
    return interpolated(function, np.float64(reach) / one, zero, np.float64(2) / one)


def _looked_up(e: Builder, table: Array, x: SSAValue) -> SSAValue:
    return e.convert(looked_up(e, e.known(table, i16), x), i32)


def _bits_above(e: Builder, total: SSAValue, axes: SSAValue) -> SSAValue:
    """How many bits a sum, at least 2^14, has above 15."""
    powers = e.known(np.left_shift(np.int32(1), np.arange(_BITS, _WIDEST + 1, dtype=np.int32)))
    reached = e.add(tensor.NotOp(e.add(tensor.CompareOp(total, powers, "lt"))))
    return standard(e, "ReduceSum", [e.convert(reached, i32), axes], keepdims=1)


def _by(e: Builder, count: SSAValue, power: Callable[[int], int]) -> SSAValue:
    """A number for each count of bits above 15."""
    values = np.asarray([power(n) for n in range(_WIDEST - _BITS + 2)], np.int32)
    return e.add(shapes.GatherRowsOp(e.known(values, i32), count))


RULE: Rule = _integers
"""SOFTMAX of integers."""
