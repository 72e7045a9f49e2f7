"""TFLite import of arithmetic, comparisons, logic and conversions."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ...ir.arrays import Array
from ..from_onnx.rules_elementwise import Binary
from ..operator_names import TFLITE
from ..problems import ProblemError
from . import interpolation
from .fixed_point import (
    activation_range,
    centred,
    grid_range,
    has_float_kernel,
    quantized,
    real_values,
    rescaled,
    rescaled_in_floats,
    shifted,
)
from .gemmlowp import inverse_root_table
from .interpolation import HIGH, LOW
from .rules_activation import (
    activated,
    between,
    fixed_table,
    formula,
    regridded,
    tabulated,
    through_floats,
    unary,
)
from .tflite_builder import Builder, Node, Results, Rule, is_real, like, standard

_SQUARE_BITS = 7
"""By which the operands of a squared difference are finer than their scales."""


def binary(kind: Binary) -> Rule:
    """A rule for an op of two operands with a fused activation."""
    return lambda e, node: activated(e, node, e.add(kind(node[0], node[1])))


def _floor_div(e: Builder, node: Node) -> SSAValue:
    x, y = node[0], node[1]
    if is_real(x):
        return e.add(tensor.FloorOp(e.add(tensor.DivOp(x, y))))
    return (Formula(e, x) // Formula(e, y)).value


def _where(e: Builder, node: Node) -> SSAValue:
    condition, x = node[0], node[1]
    if node.kind == "SELECT" and e.rank(condition) == 1 and e.rank(x) > 1:
        condition = e.along(condition, 0, e.rank(x))
    return e.add(tensor.WhereOp(condition, x, node[2]))


# Between grids.


def _quantize(e: Builder, node: Node) -> SSAValue:
    x, stored = node[0], node.stored[0]
    if is_real(x):
        return quantized(e, x, node.result_scales(), node.element)
    if stored is None or stored.quantization is None:
        raise ProblemError("its input has no scale")
    return regridded(e, x, node.scales(0), node.result_scales(), node)


def _dequantize(e: Builder, node: Node) -> SSAValue:
    x = node[0]
    if is_real(x):
        return e.convert(x, f32)
    return real_values(e, x, node.scales(0))


# Integers on grids.


def _sum(sign: int) -> Rule:
    """ADD and SUB: both operands on one fine grid, then one rescaling of the sum."""

    def rule(e: Builder, node: Node) -> SSAValue:
        scales = [node.scales(0), node.scales(1)]
        result, element = node.result_scales(), node.element
        if grid_range(element)[1] == 32767 and any(s.zero for s in (*scales, result)):
            raise ProblemError("its 16-bit operands have zero points")
        fine = 15 if grid_range(element)[1] == 32767 else 20
        if has_float_kernel(e, element):
            return _weighted_sum(e, node, sign)
        parts, largest = _on_fine_grid(e, node, fine)
        kind = tensor.AddOp if sign > 0 else tensor.SubOp
        total = e.add(kind(parts[0], parts[1]))
        factor = largest / (2.0**fine * np.float64(result.scale[0]))
        bounds = activation_range(node)
        return rescaled(e, total, factor, result.zero, element, bounds)

    return rule


def _on_fine_grid(e: Builder, node: Node, fine: int) -> tuple[list[SSAValue], float]:
    """Both operands in steps of the second number by 2^-fine: twice the larger scale."""
    scales = [node.scales(0), node.scales(1)]
    largest = 2.0 * max(float(s.scale[0]) for s in scales)
    parts: list[SSAValue] = []
    for index, grid in enumerate(scales):
        factor = np.float64(grid.scale[0]) / largest
        wide = centred(e, node[index], grid)
        if e.rounding == "once":
            parts.append(rescaled(e, wide, factor * 2.0**fine, 0, i32))
        else:
            # Apart, since both of the two roundings are of the shifted number.
            shifted = e.add(tensor.MulOp(wide, e.number(1 << fine, wide)))
            parts.append(rescaled(e, shifted, factor, 0, i32))
    return parts, largest


def _squared_difference(e: Builder, node: Node) -> Results:
    """Both operands on one fine grid, then one rescaling of the square."""
    if grid_range(node.element)[1] == HIGH:
        return through_floats(RULES["SQUARED_DIFFERENCE"])(e, node)
    parts, largest = _on_fine_grid(e, node, _SQUARE_BITS)
    difference, result = e.add(tensor.SubOp(*parts)), node.result_scales()
    factor = largest**2 / (2.0 ** (2 * _SQUARE_BITS) * np.float64(result.scale[0]))
    square = e.add(tensor.MulOp(difference, difference))
    return rescaled(e, square, factor, result.zero, node.element)


def _weighted_sum(e: Builder, node: Node, sign: int) -> SSAValue:
    """ADD and SUB as XNNPACK has them (`xnn_init_qs8_add_minmax_params`).

    Multipliers have 21 bits, those of the larger operand all of them; the sum rounds once, halves
    up.
    """
    result = node.result_scales()
    real = [node.scales(index).scale[0] / result.scale[0] for index in (0, 1)]
    shift = 21 - int(np.frexp(max(real))[1])
    terms: list[SSAValue] = []
    for index in (0, 1):
        factor = e.number(int(np.rint(np.ldexp(np.float64(real[index]), shift))), i32)
        terms.append(e.add(tensor.MulOp(centred(e, node[index], node.scales(index)), factor)))
    kind = tensor.AddOp if sign > 0 else tensor.SubOp
    total, bounds = e.add(kind(*terms)), activation_range(node)
    return shifted(e, total, shift, result.zero, node.element, bounds)


def _product(e: Builder, node: Node) -> SSAValue:
    scales, result = [node.scales(0), node.scales(1)], node.result_scales()
    wide = [centred(e, node[index], scales[index]) for index in (0, 1)]
    # In float32, as LiteRT computes it.
    factor = scales[0].scale[0] * scales[1].scale[0] / result.scale[0]
    product, bounds = e.add(tensor.MulOp(*wide)), activation_range(node)
    if has_float_kernel(e, node.element):
        return rescaled_in_floats(e, product, factor, result.zero, node.element, bounds)
    return rescaled(e, product, np.float64(factor), result.zero, node.element, bounds)


def _same_grid(kind: Binary) -> Rule:
    """MAXIMUM and MINIMUM: on integers of one grid."""

    def rule(e: Builder, node: Node) -> SSAValue:
        values = [regridded(e, node[i], node.scales(i), node.result_scales(), node) for i in (0, 1)]
        return e.add(kind(*values))

    return rule


RULES: dict[str, Rule] = {
    **{name: unary(kind) for kind, name in TFLITE.items()},
    "ABS": unary(tensor.AbsOp),
    "ADD": binary(tensor.AddOp),
    "ADD_N": like("Sum"),
    "BITWISE_XOR": like("BitwiseXor"),
    "CAST": lambda e, node: e.convert(node[0], node.element),
    "DEQUANTIZE": _dequantize,
    "DIV": binary(tensor.DivOp),
    "EQUAL": like("Equal"),
    "FLOOR_DIV": _floor_div,
    "FLOOR_MOD": lambda e, node: e.add(tensor.ModOp(node[0], node[1])),
    "GREATER": like("Greater"),
    "GREATER_EQUAL": like("GreaterOrEqual"),
    "LESS": like("Less"),
    "LESS_EQUAL": like("LessOrEqual"),
    "LOGICAL_AND": lambda e, node: e.add(tensor.AndOp(node[0], node[1])),
    "LOGICAL_OR": lambda e, node: e.add(tensor.OrOp(node[0], node[1])),
    "MAXIMUM": binary(tensor.MaximumOp),
    "MINIMUM": binary(tensor.MinimumOp),
    "MUL": binary(tensor.MulOp),
    "NOT_EQUAL": lambda e, node: e.add(tensor.NotOp(standard(e, "Equal", node.inputs))),
    "POW": like("Pow"),
    "QUANTIZE": _quantize,
    "RIGHT_SHIFT": like("BitShift", direction="RIGHT"),
    "SELECT": _where,
    "SELECT_V2": _where,
    "SIGN": unary(tensor.SignOp),
    "SQUARE": formula(lambda x, node: x * x),
    "SQUARED_DIFFERENCE": lambda e, node: _squared(Formula(e, node[0]) - Formula(e, node[1])),
    "SUB": binary(tensor.SubOp),
    "ZEROS_LIKE": lambda e, node: e.add(tensor.SubOp(node[0], node[0])),
}
"""By the name of the operator."""


def _squared(x: Formula) -> SSAValue:
    return (x * x).value


def _floored_root(e: Builder, node: Node) -> SSAValue:
    """The square root on the grid of its result, which LiteRT rounds down."""
    scale = float(node.result_scales().scale[0])
    return ((Formula(e, node[0]).of(tensor.SqrtOp) / scale).of(tensor.FloorOp) * scale).value


def _roots(node: Node) -> Array:
    """`_floored_root` of all numbers of 16 bits; 0 of those below the zero point."""
    scales, result = node.scales(0), node.result_scales()
    x = np.arange(LOW, HIGH + 1) - scales.zero
    real = np.sqrt(scales.scale[0] * np.maximum(x, 0).astype(np.float32)) / result.scale[0]
    return np.minimum(np.floor(real) + result.zero, HIGH).astype(np.int16)


def _result_step(node: Node) -> np.floating:
    return node.result_scales().scale[0]


INTEGER: dict[str, Rule] = {
    "ADD": _sum(1),
    "DEQUANTIZE": _dequantize,
    "MAXIMUM": _same_grid(tensor.MaximumOp),
    "MINIMUM": _same_grid(tensor.MinimumOp),
    "MUL": _product,
    "QUANTIZE": _quantize,
    "SELECT": _where,
    "SELECT_V2": _where,
    "SQUARED_DIFFERENCE": _squared_difference,
    "SUB": _sum(-1),
    **{
        name: tabulated(RULES[name])
        for name in ("ABS", "CEIL", "COS", "FLOOR", "NEG", "ROUND", "SIGN", "SIN", "SQUARE")
    },
    "EXP": tabulated(RULES["EXP"], between(lambda node: interpolation.exponential)),
    "LOG": tabulated(
        RULES["LOG"], between(lambda node: interpolation.logarithm(_result_step(node)))
    ),
    "RSQRT": fixed_table(
        tabulated(
            RULES["RSQRT"], between(lambda node: interpolation.inverse_root(_result_step(node)))
        ),
        inverse_root_table,
    ),
    "SQRT": tabulated(_floored_root, _roots),
}  # fmt: skip
"""Those with an integer form, by the name of the operator; the others go through floats."""
