"""The softmax of 8 bits as LiteRT's kernels compute it, 8 bits behind the point of the result.

Both look exponentials of the distance to the largest number up. The reference kernel
(`reference_ops::Softmax`) has 31 bits of them and divides by three steps of Newton's; the one that
LiteRT takes by default (`optimized_ops::Softmax`) adds floats up in the order of the numbers. Not
here: which files mean which (`rules_softmax`).
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32, f64, i8, i32, i64

from ...dialects import tensor
from ...dialects.tensor import shape as shapes
from ...dialects.tensor.formula import Formula
from ...ir.arrays import Array
from ..problems import ProblemError
from ..to_tflite.multipliers import multiplier_of
from .gemmlowp import exp_of_negatives

SHARE_BITS = 8
"""Behind the point of a result."""

_UNIT = 31
"""Bits behind the point of exponentials, and of products of two numbers."""

_DISTANCE_BITS = 5
"""Before the point of a distance."""

_SUM_BITS = 19
"""Behind the point of the sum of exponentials."""


def softmax_by_default(x: Formula, scale: np.floating, beta: float) -> Formula:
    """The kernel that LiteRT takes by default, along the last axis; float32."""
    low, axis = _least(x), x.rank - 1
    steps = -scale * np.float32(beta) * np.arange(256, dtype=np.float32)
    table = x.convert(f32).array(np.exp(steps.astype(np.float64)))
    powers = table.of(shapes.GatherRowsOp, _below(x))
    total = powers.of(tensor.CumsumOp, axis=axis).cut(axis, -1, shapes.SLICE_END)
    # ⌊share + 1/2⌋ of halves, since some engines round a product and a sum together. In float32 a
    # half less the last bit becomes 1.
    halves = powers * (1 / (total * 2.0 ** -(SHARE_BITS + 1)))
    almost = float(np.nextafter(np.float32(1), np.float32(0)))
    halves = (halves < almost).choose(halves, halves.maximum(1.0))
    return _levels((halves.convert(i32) + 1) / 2, low, x)


def softmax_by_reference(x: Formula, exponentials: Array) -> Formula:
    """The reference kernel, along the last axis, of `softmax_exponentials`; a sum is below 2^12."""
    low, axis, below = _least(x), x.rank - 1, _below(x)
    wide = below.convert(i64)
    powers, parts = (
        wide.array(values).of(shapes.GatherRowsOp, below)
        for values in (exponentials, _halves_up(exponentials, _UNIT - _SUM_BITS))
    )
    total = parts.of(tensor.ReduceSumOp, axes=[axis], keepdims=True).minimum((1 << _UNIT) - 1)
    # A sum of n bits by 2^(31 - n) is from a half to one.
    limits = total.array(np.left_shift(np.int64(1), np.arange(_SUM_BITS + 1, _UNIT)))
    missing = (total < limits).convert(i64).of(tensor.ReduceSumOp, axes=[axis], keepdims=True)
    up = total.array(np.left_shift(np.int64(1), np.arange(_UNIT - _SUM_BITS)))
    up = up.of(shapes.GatherRowsOp, missing)
    shares = _product(powers, _inverse(total * up))
    # Halves up, exactly: 31 bits in a float64.
    scaled = shares.convert(f64) * (up.convert(f64) * 2.0 ** -(_UNIT + 3))
    return _levels((scaled + 0.5).of(tensor.FloorOp).convert(i32), low, x)


def softmax_exponentials(scale: float, beta: float) -> Array:
    """exp(-n·scale·beta), n to 255, in 31 bits, int64; 0 beyond the distances that LiteRT holds.

    Raises:
        ProblemError: LiteRT has no multiplier for the scale.
    """
    fraction = _UNIT - _DISTANCE_BITS
    real = min(beta * scale * (1 << fraction), 2.0**_UNIT - 1)
    multiplier, exponent = multiplier_of(np.asarray(real))
    if exponent < 0:
        raise ProblemError("the scale of its operand is too small for LiteRT")
    farthest = (((1 << _DISTANCE_BITS) - 1) << fraction) >> int(exponent)
    distances = np.arange(256)
    held = np.minimum(distances, farthest)
    scaled = _halves_up(-(held << exponent) * multiplier, _UNIT)
    powers = exp_of_negatives(scaled, _DISTANCE_BITS, _UNIT + 1)
    return np.where(distances <= farthest, powers, 0)


def _least(x: Formula) -> int:
    """Of i8 or ui8."""
    return -128 if x.element == i8 else 0


def _below(x: Formula) -> Formula:
    """How far each number is below the largest, i32."""
    wide = x.convert(i32)
    return wide.of(tensor.ReduceMaxOp, axes=[x.rank - 1], keepdims=True) - wide


def _levels(steps: Formula, low: int, x: Formula) -> Formula:
    return (steps + low).maximum(low).minimum(low + 255).convert(x.element)


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
