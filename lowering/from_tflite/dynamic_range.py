"""Activations that LiteRT rounds to 8 bits in each run, for weights stored as integers.

As LiteRT's reference kernels do it (`SymmetricQuantizeFloats`, `AsymmetricQuantizeFloats`): one
scale for each row or image, halves rounded away from zero.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from .tflite_builder import Builder


def rounded_activations(
    e: Builder, x: SSAValue, axes: list[int], *, symmetric: bool
) -> tuple[SSAValue, SSAValue]:
    """x as integers of 9 bits, its zero points taken off, and the scale of each row.

    Args:
        x: f32.
        axes: along which elements have one scale.
        symmetric: whether the scale is that of the largest absolute value, and the zero point 0.

    Returns:
        The integers as i32, and scales that broadcast with x.
    """
    if symmetric:
        size = e.add(tensor.ReduceMaxOp(e.add(tensor.AbsOp(x)), axes, keepdims=True))
        top = Formula(e, size)
        safe = _or_one(top, top)
        steps = _nearest(Formula(e, x) * (127 / safe))
        return e.convert(steps.value, i32), (safe / 127).value
    low = Formula(e, e.add(tensor.ReduceMinOp(x, axes, keepdims=True))).minimum(0)
    top = Formula(e, e.add(tensor.ReduceMaxOp(x, axes, keepdims=True))).maximum(0)
    scale = _or_one((top - low) / 255, top - low)
    zero = _nearest(-128 - low / scale).maximum(-128).minimum(127)
    steps = _nearest(zero + Formula(e, x) * (1 / scale)).maximum(-128).minimum(127)
    return e.convert((steps - zero).value, i32), scale.value


def _or_one(x: Formula, size: Formula) -> Formula:
    """x, and 1 where `size` is 0."""
    return size.compare("eq", 0).choose(x.number(1), x)


def _nearest(x: Formula) -> Formula:
    """The nearest whole number, halves away from zero."""
    return (x.of(tensor.AbsOp) + 0.5).of(tensor.FloorOp) * x.of(tensor.SignOp)
