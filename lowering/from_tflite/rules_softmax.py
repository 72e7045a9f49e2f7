"""TFLite import of the softmax of integers, in the arithmetic of LiteRT's kernels.

Of 16 bits (`SoftmaxInt16`) exponentials of the distance to the largest number and the reciprocal of
their sum are tables of straight lines; all numbers between have 15 bits behind the point. That of 8
bits is in `byte_softmax`. Other grids go through floats.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import i16, i32
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor import shape as shapes
from ...dialects.tensor.formula import Formula
from ...ir.arrays import Array
from ...passes.calibration.integer_softmax import record_softmax
from ..problems import refuse
from ..to_tflite.multipliers import multiplier_of
from .byte_softmax import (
    SHARE_BITS,
    softmax_by_default,
    softmax_by_reference,
    softmax_table,
)
from .fixed_point import clamped, grid_range, multiplied
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
    refuse(node.result_scales().zero, "its 16-bit result has a zero point")
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


def _byte_softmax(e: Builder, node: Node) -> SSAValue:
    """SOFTMAX along the last axis, of 8 bits."""
    x, scale, beta = Formula(e, node[0]), node.scales(0).scale[0], node.number("beta")
    if e.rounding == "xnnpack":
        result = softmax_by_default(x, scale, beta).value
    else:
        result = softmax_by_reference(x, softmax_table(float(scale), beta)).value
    if isinstance(result.owner, Operation):
        record_softmax(result.owner, float(scale) * beta, int(node.scales(0).zero))
    return result


def _integers(e: Builder, node: Node) -> Results:
    element, is_alike = node.element, tensor_type(node[0]).element_type == node.element
    rule = through_floats(RULES["SOFTMAX"])
    if e.rounding != "once" and is_alike:
        low, high = grid_range(element)
        result = node.result_scales()
        in_shares = result.scale[0] == 2.0**-SHARE_BITS and result.zero == low
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
