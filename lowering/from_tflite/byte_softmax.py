"""The softmax of 8 bits as LiteRT's kernels compute it, 8 bits behind the point of the result.

Both look exponentials of the distance to the largest number up. The reference kernel
(`reference_ops::Softmax`) has 31 bits of them and divides by three steps of Newton's; the one that
LiteRT takes by default (`optimized_ops::Softmax`) adds floats up in the order of the numbers. Not
here: which files mean which (`rules_softmax`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import f32, f64, i8, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.interpret import evaluate
from ...dialects.parameters import dense_constant
from ...dialects.tensor import shape as shapes
from ...dialects.tensor.formula import Formula
from ...ir.arrays import Array
from ..problems import refuse
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
    if x.size(x.rank - 1) == 2:
        return _of_two(x, lambda pairs: _by_default(pairs, scale, beta))
    return _by_default(x, scale, beta)


def _by_default(x: Formula, scale: np.floating, beta: float) -> Formula:
    axis = x.rank - 1
    steps = -scale * np.float32(beta) * np.arange(256, dtype=np.float32)
    table = Formula(x.writer, x.writer.numbers(np.exp(steps.astype(np.float64)), f32))
    powers = table.of(shapes.GatherRowsOp, _below(x))
    total = powers.of(tensor.CumsumOp, axis=axis).cut(axis, -1, shapes.SLICE_END)
    return _levels(powers * (float(1 << SHARE_BITS) / total) + 0.5, x)


def softmax_by_reference(x: Formula, table: Array) -> Formula:
    """The reference kernel, along the last axis, of a `softmax_table`; a sum is below 2^12."""
    if x.size(x.rank - 1) == 2:
        return _of_two(x, lambda pairs: _by_reference(pairs, table))
    return _by_reference(x, table)


def _by_reference(x: Formula, table: Array) -> Formula:
    axis, below = x.rank - 1, _below(x)
    stored = Formula(x.writer, x.writer.numbers(table, i32))
    powers = stored.of(shapes.GatherRowsOp, below).convert(i64)
    parts = (powers + (1 << (_UNIT - _SUM_BITS) >> 1)) / (1 << (_UNIT - _SUM_BITS))
    total = parts.of(tensor.ReduceSumOp, axes=[axis], keepdims=True)
    if (x.size(axis) or 1 << _UNIT) >= 1 << (_UNIT - _SUM_BITS):
        total = total.minimum((1 << _UNIT) - 1)
    # A sum of n bits by 2^(31 - n) is from a half to one.
    limits = total.array(np.left_shift(np.int64(1), np.arange(_SUM_BITS + 1, _UNIT)))
    missing = (total < limits).convert(i64).of(tensor.ReduceSumOp, axes=[axis], keepdims=True)
    powers_of_two = np.left_shift(np.int64(1), np.arange(_UNIT - _SUM_BITS))
    up = total.array(powers_of_two).of(shapes.GatherRowsOp, missing)
    shares = _product(powers, _inverse(total * up))
    # Halves up, exactly: 31 bits in a float64.
    units = Formula(x.writer, x.writer.numbers(powers_of_two * 2.0 ** -(_UNIT + 3), f64))
    scaled = shares.convert(f64) * units.of(shapes.GatherRowsOp, missing)
    return _levels(scaled + 0.5, x)


def _of_two(x: Formula, kernel: Callable[[Formula], Formula]) -> Formula:
    """A softmax of two numbers of 8 bits: the table of how far apart they are, from -255 to 255."""
    apart, writer = np.arange(-255, 256), _Known()
    least = -128 if x.element == i8 else 0
    pairs = least + np.stack([apart.clip(min=0), (-apart).clip(min=0)], axis=1)
    values = writer.known[kernel(Formula(writer, writer.numbers(pairs, x.element))).value]
    wide, axes = x.convert(i32), [x.rank - 1]
    most, low = (
        wide.of(kind, axes=axes, keepdims=True) for kind in (tensor.ReduceMaxOp, tensor.ReduceMinOp)
    )
    return x.array(values[:, 0]).of(shapes.GatherRowsOp, (wide - low) - (most - wide) + 255)


class _Known:
    """Computes what it writes.

    Attributes:
        known: the values.
    """

    def __init__(self) -> None:
        self.known: dict[SSAValue, Array] = {}

    def add(self, op: Operation) -> SSAValue:
        (result,) = evaluate(op, [self.known[value] for value in op.operands])
        self.known[op.results[0]] = result
        return op.results[0]

    def number(self, value: float, element: Attribute) -> SSAValue:
        return self.numbers(np.array(value), element)

    def numbers(self, values: Array, element: Attribute) -> SSAValue:
        return self.add(dense_constant(np.asarray(values).astype(numpy_dtype(element)), element))


def softmax_table(scale: float, beta: float) -> Array:
    """exp(-n·scale·beta), n to 255, with 31 bits behind the point, int32.

    It is 0 beyond the distances that LiteRT holds.

    Raises:
        ProblemError: LiteRT has no multiplier for the scale.
    """
    fraction = _UNIT - _DISTANCE_BITS
    real = min(beta * scale * (1 << fraction), 2.0**_UNIT - 1)
    multiplier, exponent = multiplier_of(np.asarray(real))
    refuse(exponent < 0, "the scale of its operand is too small for LiteRT")
    farthest = (((1 << _DISTANCE_BITS) - 1) << fraction) >> int(exponent)
    distances = np.arange(256)
    held = np.minimum(distances, farthest)
    scaled = -(held << exponent) * multiplier + (1 << (_UNIT - 1)) >> _UNIT
    powers = exp_of_negatives(scaled, _DISTANCE_BITS, _UNIT + 1)
    return np.where(distances <= farthest, powers, 0).astype(np.int32)


def _below(x: Formula) -> Formula:
    """How far each number is below the largest, i32."""
    wide = x.convert(i32)
    return wide.of(tensor.ReduceMaxOp, axes=[x.rank - 1], keepdims=True) - wide


def _levels(steps: Formula, x: Formula) -> Formula:
    """Floats from 0 on, rounded down, as levels of the type of x; 256 becomes the greatest."""
    whole = steps.of(tensor.FloorOp).convert(f32)
    if x.element != i8:
        return whole.minimum(255).convert(x.element)
    zero = Formula(x.writer, x.writer.number(-128, i8))
    return whole.of(tensor.QuantizeOp, 1.0, zero, axis=0, low=-128, high=127)


def _inverse(half: Formula) -> Formula:
    """2^61/half in 31 bits, for 2^30 ≤ half < 2^31: gemmlowp's `one_over_one_plus_x_for_x_in_0_1`.

    Two bits of x are before the point. It begins with 48/17 - 32/17·half.
    """
    start = (half * 1010580540 + ((1 << (_UNIT - 1)) - 1)) / (1 << _UNIT)
    x = 1515870810 - start
    for _ in range(3):
        error = (1 << 29) - _product(half, x)
        # At least -2^60 before it is rounded down, which division does with what is positive.
        change = _product(x, error, lift=_LIFT) - _LIFT
        x = x + change * 4
    return (x * 2).minimum((1 << _UNIT) - 1)


_LIFT = 1 << 29
"""What makes quotients positive."""


def _product(a: Formula, b: Formula, lift: int = 0) -> Formula:
    """a·b/2^31 + lift, halves up, of i64 in 32 bits, where that is positive."""
    return (a * b + ((1 << (_UNIT - 1)) + (lift << _UNIT))) / (1 << _UNIT)
