"""TFLite import of reductions, along the axes that the operand had before a permutation."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import SSAValue

from ...dialects import tensor
from ..from_onnx.sizes import product, static
from ..problems import ProblemError
from ..to_tflite.multipliers import shared_multiplier
from .fixed_point import (
    centred,
    grid_range,
    has_float_kernel,
    multiplied,
    rescaled,
    rescaled_in_floats,
)
from .model import Quantization
from .rules_activation import regridded
from .tflite_builder import Builder, Node, Results, Rule, standard


def reduced(e: Builder, node: Node, x: SSAValue, op: str) -> SSAValue:
    """The reduction `op` of ONNX of x over the node's axes."""
    rank, keep = e.rank(x), node.flag("keepDims")
    axes = _axes(e, node, rank)
    if not axes:
        return x
    before = e.permuted(x)
    if before is None:
        return standard(e, op, [x, e.indices(axes)], keepdims=int(keep))
    source, perm = before
    inner = sorted(perm[axis] for axis in axes)
    result = standard(e, op, [source, e.indices(inner)], keepdims=int(keep))
    if keep:
        return e.permute(result, perm)
    left = [axis for axis in range(rank) if axis not in inner]
    return e.permute(result, [left.index(perm[axis]) for axis in range(rank) if axis not in axes])


def _axes(e: Builder, node: Node, rank: int) -> list[int]:
    axes = sorted({axis + rank if axis < 0 else axis for axis in e.int_list(node[1], "axes")})
    if any(not 0 <= axis < rank for axis in axes):
        raise ProblemError(f"its axes {axes} are outside a tensor of rank {rank}")
    return axes


def reduction(op: str) -> Rule:
    """A rule for a reduction of ONNX."""
    return lambda e, node: reduced(e, node, node[0], op)


def _logical(op: str) -> Rule:
    def rule(e: Builder, node: Node) -> SSAValue:
        return e.convert(reduced(e, node, e.convert(node[0], i32), op), i1)

    return rule


def _argument(op: str) -> Rule:
    """The place of the greatest or least element; the first where several are."""

    def rule(e: Builder, node: Node) -> SSAValue:
        (axis,) = e.int_list(node[1], "axis")
        place = standard(e, op, [node[0]], axis=axis, keepdims=0)
        return e.convert(place, node.element)

    return rule


def _cumulated(e: Builder, node: Node) -> SSAValue:
    options = {name: node.integer(name) for name in ("exclusive", "reverse")}
    return standard(e, "CumSum", [node[0], node[1]], **options)


def _top(e: Builder, node: Node) -> Results:
    (count,) = e.int_list(node[1], "k")
    values, places = e.add_all(tensor.TopKOp(node[0], count, e.rank(node[0]) - 1, largest=True))
    return values, e.convert(places, i32)


def _scaled_sum(is_mean: bool) -> Rule:
    """MEAN and SUM of integers on grids: one rescaling of the sum."""

    def rule(e: Builder, node: Node) -> SSAValue:
        x, scales, result = node[0], node.scales(0), node.result_scales()
        sizes = e.sizes(x)
        axes, in_floats = _axes(e, node, len(sizes)), has_float_kernel(e, node.element)
        count = 1
        if is_mean or in_floats:
            (count,) = static([product([sizes[axis] for axis in axes])], "sizes")
        raw = Quantization(scales.scale, np.zeros(1, np.int64), scales.axis)
        wide = _centred(e, x, raw if in_floats else scales)
        sums, perm = reduced(e, node, wide, "ReduceSum"), None
        if (before := e.permuted(sums)) is not None:
            sums, perm = before
        bounds = grid_range(node.element)
        factor = np.float64(scales.scale[0] / result.scale[0])
        if in_floats:
            # XNNPACK adds both zero points before it rounds.
            parts = np.float32(count if is_mean else 1)
            real = scales.scale[0] / (result.scale[0] * parts)
            added = np.float32(result.zero) - np.float32(scales.zero * count) * real
            scaled = rescaled_in_floats(e, sums, real, 0, node.element, bounds, added=added)
        elif not is_mean or e.rounding == "once":
            scaled = rescaled(e, sums, factor / max(count, 1), result.zero, node.element)
        else:
            multiplier, exponent = shared_multiplier(factor, max(count, 1))
            scaled = multiplied(e, sums, multiplier, exponent, result.zero, bounds, node.element)
            scaled = e.convert(scaled, node.element)
        return scaled if perm is None else e.permute(scaled, perm)

    return rule


def _centred(e: Builder, x: SSAValue, scales: Quantization) -> SSAValue:
    """`centred`, before a permutation."""
    if (before := e.permuted(x)) is None:
        return centred(e, x, scales)
    source, perm = before
    return e.permute(centred(e, source, scales), perm)


def _same_grid(op: str) -> Rule:
    """A reduction that picks elements."""

    def rule(e: Builder, node: Node) -> SSAValue:
        result = reduced(e, node, node[0], op)
        return regridded(e, result, node.scales(0), node.result_scales(), node)

    return rule


RULES: dict[str, Rule] = {
    "ARG_MAX": _argument("ArgMax"),
    "ARG_MIN": _argument("ArgMin"),
    "CUMSUM": _cumulated,
    "MEAN": reduction("ReduceMean"),
    "REDUCE_ALL": _logical("ReduceMin"),
    "REDUCE_ANY": _logical("ReduceMax"),
    "REDUCE_MAX": reduction("ReduceMax"),
    "REDUCE_MIN": reduction("ReduceMin"),
    "REDUCE_PROD": reduction("ReduceProd"),
    "SUM": reduction("ReduceSum"),
    "TOPK_V2": _top,
}
"""By the name of the operator."""

INTEGER: dict[str, Rule] = {
    "ARG_MAX": RULES["ARG_MAX"],
    "ARG_MIN": RULES["ARG_MIN"],
    "MEAN": _scaled_sum(True),
    "REDUCE_MAX": _same_grid("ReduceMax"),
    "REDUCE_MIN": _same_grid("ReduceMin"),
    "SUM": _scaled_sum(False),
    "TOPK_V2": _top,
}
"""Those with an integer form, by the name of the operator; the others go through floats."""
