"""ONNX import of reductions and normalisations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ...dialects.tensor.formula import Formula
from ..problems import ProblemError, refuse
from .onnx_builder import Builder, Call, Results, Rule
from .rules_index import lowest_of
from .rules_shape import axes_of
from .sizes import Free, product, static

Reduce = Callable[[Builder, SSAValue, list[int], bool], SSAValue]


def reduction(function: Reduce, before: Callable[[Formula], Formula] | None = None) -> Rule:
    """A rule for a reduction of what `before` makes of the operand."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x, keep = call[0], call.flag("keepdims", True)
        axes = axes_of(e, call, 1, e.rank(x)) or []
        if not axes and not call.integer("noop_with_empty_axes", 0):
            axes = list(range(e.rank(x)))
        value = before(Formula(e, x)).value if before is not None else x
        return function(e, value, axes, keep)

    return rule


def total(e: Builder, x: SSAValue, axes: list[int], keep: bool) -> SSAValue:
    """Σ x over the axes."""
    if not axes:
        return x
    return e.add(tensor.ReduceSumOp(x, axes, keepdims=keep))


def mean(e: Builder, x: SSAValue, axes: list[int], keep: bool) -> SSAValue:
    """The mean of x over the axes; whole numbers are divided like whole numbers."""
    if not axes:
        return x
    if is_float(tensor_type(x)):
        return e.add(tensor.ReduceMeanOp(x, axes, keepdims=keep))
    count = static([product([e.sizes(x)[axis] for axis in axes])])[0]
    return e.add(tensor.DivOp(total(e, x, axes, keep), e.number(count, x)))


def _extreme(kind: type[tensor.ReduceMaxOp | tensor.ReduceMinOp], sign: int) -> Reduce:
    def function(e: Builder, x: SSAValue, axes: list[int], keep: bool) -> SSAValue:
        if not axes:
            return x
        sizes = e.sizes(x)
        if any(sizes[axis] == 0 for axis in axes):
            left = [1 if a in axes else n for a, n in enumerate(sizes) if keep or a not in axes]
            return e.stretch(e.reshape(_end(e, x, sign), [1] * len(left)), left)
        return e.add(kind(x, axes, keepdims=keep))

    return function


def _end(e: Builder, x: SSAValue, sign: int) -> SSAValue:
    """The least value of the type for a maximum, the greatest for a minimum."""
    least = lowest_of(x)
    if sign > 0:
        return e.number(least, x)
    if least is False:
        return e.number(True, x)
    if is_float(tensor_type(x)):
        return e.number(np.inf, x)
    return e.number(int(np.iinfo(numpy_dtype(tensor_type(x).element_type)).max), x)


greatest, least = _extreme(tensor.ReduceMaxOp, 1), _extreme(tensor.ReduceMinOp, -1)


def _prod(e: Builder, x: SSAValue, axes: list[int], keep: bool) -> SSAValue:
    return e.add(tensor.ReduceProdOp(x, axes, keepdims=keep)) if axes else x


def _l2(e: Builder, x: SSAValue, axes: list[int], keep: bool) -> SSAValue:
    summed = total(e, x, axes, keep)
    if is_float(tensor_type(x)):
        return e.add(tensor.SqrtOp(summed))
    return e.convert(e.add(tensor.SqrtOp(e.convert(summed, f32))), x)


def _log_sum(e: Builder, x: SSAValue, axes: list[int], keep: bool) -> SSAValue:
    return e.add(tensor.LogOp(total(e, x, axes, keep)))


def _log_sum_exp(e: Builder, x: SSAValue, axes: list[int], keep: bool) -> SSAValue:
    if any(e.sizes(x)[axis] == 0 for axis in axes):
        return _log_sum(e, e.add(tensor.ExpOp(x)), axes, keep)
    return e.add(tensor.ReduceLogSumExpOp(x, axes, keepdims=keep)) if axes else x


# Normalisations.


def _batch_norm(e: Builder, call: Call) -> Results:
    x, scale, bias, mean_, var = (call[index] for index in range(5))
    e.buffers.update((mean_, var))
    epsilon = call.number("epsilon", 1e-5)
    if call.integer("training_mode", 0):
        return _batch_statistics(e, call, epsilon)
    if call.opset < 9 and not call.integer("spatial", 1):
        raise ProblemError("it has statistics for each element; only those of channels are known")
    scale, bias, mean_, var = (e.convert(v, x) for v in (scale, bias, mean_, var))
    if e.rank(x) == 1:
        x = e.add(tensor.UnsqueezeOp(x, [1]))
        result = e.add(tensor.BatchNormOp(x, scale, bias, mean_, var, epsilon))
        return e.add(tensor.SqueezeOp(result, [1]))
    return e.add(tensor.BatchNormOp(x, scale, bias, mean_, var, epsilon))


def _batch_statistics(e: Builder, call: Call, epsilon: float) -> Results:
    x, scale, bias = call[0], call[1], call[2]
    average, variance = _moments(e, x, [axis for axis in range(e.rank(x)) if axis != 1])
    flat = [e.reshape(v.value, (e.sizes(x)[1],)) for v in (average, variance)]
    result = e.add(tensor.BatchNormOp(x, scale, bias, flat[0], flat[1], epsilon))
    momentum = call.number("momentum", 0.9)
    statistics = [
        (Formula(e, call[index]) * momentum + Formula(e, new) * (1 - momentum)).value
        for index, new in zip((3, 4), flat, strict=True)
    ]
    return (result, *statistics)


def _moments(e: Builder, x: SSAValue, axes: list[int]) -> tuple[Formula, Formula]:
    """μ and σ² over the axes, which stay."""
    kinds = (tensor.ReduceMeanOp, tensor.ReduceVarianceOp)
    average, variance = (Formula(e, x).of(kind, axes=axes, keepdims=True) for kind in kinds)
    return average, variance


def normalized(e: Builder, x: SSAValue, axes: list[int], epsilon: float) -> SSAValue:
    """(x - μ)/√(σ² + ε) over the axes."""
    average, variance = _moments(e, x, axes)
    return ((Formula(e, x) - average) / (variance + epsilon).of(tensor.SqrtOp)).value


def _instance_norm(e: Builder, call: Call) -> SSAValue:
    x, rank = call[0], e.rank(call[0])
    result = normalized(e, x, list(range(2, rank)), call.number("epsilon", 1e-5))
    scale, bias = (e.along(call[index], 1, rank) for index in (1, 2))
    return e.add(tensor.AddOp(e.add(tensor.MulOp(result, scale)), bias))


def _group_norm(e: Builder, call: Call) -> SSAValue:
    x, sizes = call[0], e.sizes(call[0])
    groups, rank = call.integer("num_groups", 1), len(sizes)
    (channels,) = static([sizes[1]], "channels")
    refuse(groups < 1 or channels % groups, f"{channels} channels do not fall into {groups} groups")
    apart = (sizes[0], groups, channels // groups, *sizes[2:])
    wide = e.reshape(x, apart)
    wide = e.convert(wide, f32) if call.integer("stash_type", 1) == 1 else wide
    result = normalized(e, wide, list(range(2, rank + 1)), call.number("epsilon", 1e-5))
    result = e.convert(e.reshape(result, sizes), x)
    factors: list[SSAValue] = []
    for index in (1, 2):
        vector = call[index]
        if call.opset < 21:
            spread = e.stretch(e.add(tensor.UnsqueezeOp(vector, [1])), (groups, channels // groups))
            vector = e.reshape(spread, (channels,))
        factors.append(e.along(vector, 1, rank))
    return e.add(tensor.AddOp(e.add(tensor.MulOp(result, factors[0])), factors[1]))


def _layer_norm(e: Builder, call: Call) -> Results:
    x, rank = call[0], e.rank(call[0])
    axis = call.integer("axis", -1) % max(rank, 1)
    scale, bias, epsilon = call[1], call.optional(2), call.number("epsilon", 1e-5)
    if call.outputs == 1 and e.rank(scale) == rank - axis:
        return e.add(tensor.LayerNormOp(x, scale, bias, epsilon))
    wide = e.convert(x, f32)
    average, variance = _moments(e, wide, list(range(axis, rank)))
    inverse = 1 / (variance + epsilon).of(tensor.SqrtOp)
    normal = ((Formula(e, wide) - average) * inverse).value
    result = e.add(tensor.MulOp(e.convert(normal, x), scale))
    result = result if bias is None else e.add(tensor.AddOp(result, bias))
    return (result, average.value, inverse.value)[: call.outputs]


def _rms_norm(e: Builder, call: Call) -> SSAValue:
    x, rank = call[0], e.rank(call[0])
    axis = call.integer("axis", -1) % max(rank, 1)
    scale = e.reshape(call[1], e.sizes(call[1]))
    if e.rank(scale) == rank - axis:
        return e.add(tensor.RmsNormOp(x, scale, call.number("epsilon", 1e-5)))
    square = Formula(e, mean(e, e.add(tensor.MulOp(x, x)), list(range(axis, rank)), True))
    result = Formula(e, x) / (square + call.number("epsilon", 1e-5)).of(tensor.SqrtOp)
    return e.add(tensor.MulOp(result.value, scale))


def _lp_norm(e: Builder, call: Call) -> SSAValue:
    x, p = call[0], call.integer("p", 2)
    axis = call.integer("axis", -1) % e.rank(x)
    size = Formula(e, x).of(tensor.AbsOp)
    powers = size * size if p == 2 else size
    norm = Formula(e, total(e, powers.value, [axis], True))
    norm = norm.of(tensor.SqrtOp) if p == 2 else norm
    empty = e.add(tensor.CompareOp(norm.value, e.number(0, x), "eq"))
    safe = e.add(tensor.WhereOp(empty, e.number(1, x), norm.value))
    return e.add(tensor.DivOp(x, safe))


def _mean_variance(e: Builder, call: Call) -> SSAValue:
    axes = [axis % e.rank(call[0]) for axis in call.integers("axes", [0, 2, 3])]
    average, variance = _moments(e, call[0], axes)
    return ((Formula(e, call[0]) - average) / (variance.of(tensor.SqrtOp) + 1e-9)).value


def _local_response(e: Builder, call: Call) -> SSAValue:
    x, size = call[0], call.integer("size", 1)
    (channels,) = static([e.sizes(x)[1]], "channels")
    refuse(not 1 <= size <= 4096, f"it sums over {size} channels")
    low, high = [0] * e.rank(x), [0] * e.rank(x)
    low[1], high[1] = (size - 1) // 2, size // 2
    squares = e.add(tensor.PadToOp(e.add(tensor.MulOp(x, x)), low, high))
    summed = e.cut(squares, 1, 0, channels)
    for offset in range(1, size):
        summed = e.add(tensor.AddOp(summed, e.cut(squares, 1, offset, offset + channels)))
    base = Formula(e, summed) * (call.number("alpha", 1e-4) / size) + call.number("bias", 1.0)
    power = e.add(tensor.PowOp(base.value, e.number(call.number("beta", 0.75), x)))
    return e.add(tensor.DivOp(x, power))


def global_pool(function: Reduce) -> Rule:
    """A rule for a reduction of all spatial axes."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x = call[0]
        axes = list(range(2, e.rank(x)))
        if function is mean and axes and not any(isinstance(n, Free) for n in e.sizes(x)[2:]):
            return e.add(tensor.GlobalAvgPoolOp(x))
        return function(e, x, axes, True)

    return rule


def _global_lp(e: Builder, call: Call) -> SSAValue:
    x, p = call[0], call.integer("p", 2)
    powers = e.add(tensor.PowOp(e.add(tensor.AbsOp(x)), e.number(p, x)))
    summed = total(e, powers, list(range(2, e.rank(x))), True)
    return e.add(tensor.PowOp(summed, e.number(1 / p, x)))


RULES: dict[str, Rule] = {
    "BatchNormalization": _batch_norm,
    "GlobalAveragePool": global_pool(mean),
    "GlobalLpPool": _global_lp,
    "GlobalMaxPool": global_pool(greatest),
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "LRN": _local_response,
    "LayerNormalization": _layer_norm,
    "LpNormalization": _lp_norm,
    "MeanVarianceNormalization": _mean_variance,
    "RMSNormalization": _rms_norm,
    "SimplifiedLayerNormalization": _rms_norm,  # its name in ONNX Runtime, before the standard's
    "ReduceL1": reduction(total, lambda x: x.of(tensor.AbsOp)),
    "ReduceL2": reduction(_l2, lambda x: x * x),
    "ReduceLogSum": reduction(_log_sum),
    "ReduceLogSumExp": reduction(_log_sum_exp),
    "ReduceMax": reduction(greatest),
    "ReduceMean": reduction(mean),
    "ReduceMin": reduction(least),
    "ReduceProd": reduction(_prod),
    "ReduceSum": reduction(total),
    "ReduceSumSquare": reduction(total, lambda x: x * x),
}
"""By the type of the operator."""
