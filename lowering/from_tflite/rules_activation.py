"""TFLite import of activations, and those that other operators have fused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor import shape as shapes
from ...dialects.tensor.formula import Formula
from ...ir.arrays import Array
from ..from_onnx.calls import element_type, tensor_of
from ..problems import ProblemError, refuse
from . import interpolation
from .fixed_point import (
    activation_range,
    centred,
    grid_range,
    has_float_kernel,
    in_256ths,
    quantized,
    real_values,
    rescaled,
)
from .gemmlowp import hard_swish_table
from .model import Quantization
from .tflite_builder import Builder, Node, Results, Rule, is_real

_FUSED: dict[int, Callable[[Formula], Formula]] = {
    1: lambda x: x.maximum(0),
    2: lambda x: x.maximum(-1).minimum(1),
    3: lambda x: x.maximum(0).minimum(6),
    4: lambda x: x.of(tensor.TanhOp),
}
"""Fused activations by their number in the schema."""


def activated(e: Builder, node: Node, value: SSAValue) -> SSAValue:
    """The fused activation of `node`, on numbers as they are."""
    kind = node.integer("fusedActivationFunction")
    if kind == 0:
        return value
    if kind not in _FUSED or (kind == 4 and not is_real(value)):
        raise ProblemError(f"its fused activation {kind} is not known")
    if is_real(value) and kind in (1, 3):
        return e.add((tensor.ReluOp if kind == 1 else tensor.Relu6Op)(value))
    return _FUSED[kind](Formula(e, value)).value


def unary(kind: Callable[[SSAValue], Operation]) -> Rule:
    """A rule for an op of one operand."""
    return lambda e, node: e.add(kind(node[0]))


def formula(function: Callable[[Formula, Node], Formula]) -> Rule:
    """A rule for a formula of the first operand."""
    return lambda e, node: function(Formula(e, node[0]), node).value


def _gelu(e: Builder, node: Node) -> SSAValue:
    return e.add(tensor.GeluOp(node[0], "tanh" if node.flag("approximate") else "exact"))


def _softmax(e: Builder, node: Node) -> SSAValue:
    x, beta = node[0], node.number("beta")
    scaled = x if beta == 1.0 else e.add(tensor.MulOp(x, e.number(beta, x)))
    return e.add(tensor.SoftmaxOp(scaled, e.rank(x) - 1))


RULES: dict[str, Rule] = {
    "ELU": unary(tensor.EluOp),
    "GELU": _gelu,
    "HARD_SWISH": unary(tensor.HardSwishOp),
    "LEAKY_RELU": lambda e, node: e.add(tensor.LeakyReluOp(node[0], node.number("alpha"))),
    "LOGISTIC": unary(tensor.SigmoidOp),
    "LOG_SOFTMAX": lambda e, node: e.add(tensor.LogSoftmaxOp(node[0], e.rank(node[0]) - 1)),
    "PRELU": lambda e, node: e.add(tensor.PreluOp(node[0], node[1])),
    "RELU": unary(tensor.ReluOp),
    "RELU6": unary(tensor.Relu6Op),
    "RELU_0_TO_1": formula(lambda x, node: x.maximum(0).minimum(1)),
    "RELU_N1_TO_1": formula(lambda x, node: x.maximum(-1).minimum(1)),
    "SOFTMAX": _softmax,
    "TANH": unary(tensor.TanhOp),
}
"""By the name of the operator."""


# Integers on grids.


def _bounded(kind: int) -> Rule:
    """A rule for a cut-off function: one rescaling with bounds."""

    def rule(e: Builder, node: Node) -> SSAValue:
        scales, result = node.scales(0), node.result_scales()
        inner = Node(node.kind, [], [], node.outputs, {"fusedActivationFunction": kind}, node.model)
        bounds = activation_range(inner)
        return regridded(e, node[0], scales, result, node, bounds)

    return rule


def _leaky_integers(e: Builder, node: Node) -> SSAValue:
    """One factor above the zero point, another below."""
    scales, result = node.scales(0), node.result_scales()
    wide = centred(e, node[0], scales)
    step = scales.scale[0] / result.scale[0]
    if has_float_kernel(e, node.element) and _is_usual(step):
        slope = np.float32(step * np.float32(node.number("alpha")))
        parts = [in_256ths(e, wide, factor, result.zero, node.element) for factor in (step, slope)]
        return _signed_choice(e, wide, parts)
    above = np.float64(scales.scale[0] / result.scale[0])
    below = np.float64(scales.scale[0] * np.float32(node.number("alpha")) / result.scale[0])
    parts = [rescaled(e, wide, factor, result.zero, node.element) for factor in (above, below)]
    return _signed_choice(e, wide, parts)


def _signed_choice(e: Builder, wide: SSAValue, parts: Sequence[SSAValue]) -> SSAValue:
    negative = e.add(tensor.CompareOp(wide, e.number(0, i32), "lt"))
    return e.add(tensor.WhereOp(negative, parts[1], parts[0]))


def _is_usual(factor: np.floating) -> bool:
    """Whether XNNPACK takes a factor between two grids."""
    return bool(2.0**-8 <= factor <= 2.0**7)


def regridded(
    e: Builder, x: SSAValue, scales: Quantization, result: Quantization, node: Node,
    bounds: tuple[int, int] | None = None,
) -> SSAValue:  # fmt: skip
    """Integers of one grid on another."""
    element = node.element
    if scales.is_same(result) and tensor_type(x).element_type == element:
        if bounds in (None, grid_range(element)):
            return x
        assert bounds is not None
        low, high = (e.number(bound, x) for bound in bounds)
        return e.add(tensor.MinimumOp(e.add(tensor.MaximumOp(x, low)), high))
    wide, step = centred(e, x, scales), scales.scale[0] / result.scale[0]
    alike = has_float_kernel(e, element) and tensor_type(x).element_type == element
    if alike and node.kind == "QUANTIZE" and _is_usual(step):
        return in_256ths(e, wide, step, result.zero, element)
    factor = np.float64(scales.scale[0]) / np.float64(result.scale[0])
    return rescaled(e, wide, factor, result.zero, element, bounds)


def tabulated(rule: Rule, wide: Callable[[Node], Array] | None = None) -> Rule:
    """The integer form of a function of one number: a table of its values.

    Args:
        rule: on real numbers.
        wide: the 65,536 values of 16 bits that LiteRT has; without them, and with one rounding,
            numbers of 16 bits go through floats.
    """

    def on_integers(e: Builder, node: Node) -> Results:
        element = tensor_type(node[0]).element_type
        low, high = grid_range(element)
        if high - low == 255:
            steps = e.known(np.arange(low, high + 1), element)
            table = tensor_of(through_floats(rule)(e, node.with_inputs([steps, *node.inputs[1:]])))
        elif wide is None or element != node.element or e.rounding == "once":
            return through_floats(rule)(e, node)
        else:
            table = e.known(wide(node), element)
        return looked_up(e, table, node[0])

    return on_integers


def looked_up(e: Builder, table: SSAValue, x: SSAValue) -> SSAValue:
    """What a table of all values of an integer type, from the least on, has for x."""
    low, places = grid_range(tensor_type(x).element_type)[0], e.convert(x, i32)
    if low:
        places = e.add(tensor.SubOp(places, e.number(low, i32)))
    return e.add(shapes.GatherRowsOp(table, places))


def fixed_table(coarse: Rule, table: Callable[[Array, np.floating, np.floating], Array]) -> Rule:
    """The integer form of a function of 8 bits in LiteRT's fixed point.

    Args:
        coarse: the form of other integers.
        table: steps of the result without its zero point, of integers without theirs and the scales
            of both grids.
    """

    def rule(e: Builder, node: Node) -> Results:
        scales, result = node.scales(0), node.result_scales()
        low, high = grid_range(node.element)
        if high - low != 255 or tensor_type(node[0]).element_type != node.element:
            return coarse(e, node)
        x = np.arange(low, high + 1) - scales.zero
        steps = table(x, scales.scale[0], result.scale[0]) + result.zero
        known = e.known(np.clip(steps, low, high).astype(np.int32), node.element)
        return looked_up(e, known, node[0])

    return rule


def between(function: Callable[[Node], interpolation.Function]) -> Callable[[Node], Array]:
    """The values of 16 bits of a function that LiteRT interpolates."""

    def table(node: Node) -> Array:
        scales, result = node.scales(0), node.result_scales()
        refuse(result.zero, "its 16-bit result has a zero point")
        return interpolation.interpolated(function(node), _step(node), scales.zero, result.scale[0])

    return table


def _step(node: Node) -> np.floating:
    return node.scales(0).scale[0]


def through_floats(rule: Rule) -> Rule:
    """A rule on integers that stand for real numbers, by the real numbers."""

    def on_integers(e: Builder, node: Node) -> Results:
        inputs = [
            value
            if value is None or index >= len(node.stored) or is_real(value)
            else _as_real(e, node, index, value)
            for index, value in enumerate(node.inputs)
        ]
        results = rule(e, node.with_inputs(inputs))
        several = results if isinstance(results, tuple) else (results,)
        narrowed = tuple(
            value
            if stored.integers is None or not is_real(value)
            else quantized(e, value, stored.integers, element_type(stored.element.dtype))
            for value, stored in zip(several, node.outputs, strict=False)
        )
        return narrowed if isinstance(results, tuple) else narrowed[0]

    return on_integers


def _as_real(e: Builder, node: Node, index: int, value: SSAValue) -> SSAValue:
    stored = node.stored[index]
    if stored is None or stored.integers is None:
        return value
    return real_values(e, value, node.scales(index))


INTEGER: dict[str, Rule] = {
    "RELU": _bounded(1),
    "RELU6": _bounded(3),
    "RELU_N1_TO_1": _bounded(2),
    "LEAKY_RELU": _leaky_integers,
    **{name: tabulated(RULES[name]) for name in ("ELU", "RELU_0_TO_1")},
    "GELU": tabulated(
        _gelu,
        between(
            lambda node: (
                interpolation.gelu_by_tanh if node.flag("approximate") else interpolation.gelu
            )
        ),
    ),
    "HARD_SWISH": fixed_table(through_floats(RULES["HARD_SWISH"]), hard_swish_table),
    "LOGISTIC": tabulated(RULES["LOGISTIC"], lambda node: interpolation.sigmoid(_step(node))),
    "TANH": tabulated(RULES["TANH"], lambda node: interpolation.tanh(_step(node))),
}
"""Those with an integer form, by the name of the operator; the others go through floats."""
