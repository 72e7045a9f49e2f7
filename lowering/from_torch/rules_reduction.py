"""Rules of reductions and normalisations of ATen."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_integer
from ...dialects.tensor.formula import Formula
from ...dialects.tensor.reduction import ReduceOp
from ..problems import ProblemError
from .calls import Call
from .rules_elementwise import first, pair
from .rules_shape import cut
from .sizes import Size, is_free, static
from .torch_builder import Builder, Result, Rule, element_type


def _axes(e: Builder, call: Call) -> list[int]:
    """The axes of a reduction, all of them where none are named."""
    rank = len(e.sizes(call["self"]))
    axes = {axis % rank for axis in call.integers("dim")} if rank else ()
    return sorted(axes) or list(range(rank))


def reduction(kind: type[ReduceOp]) -> Rule:
    """A rule for a reduction over axes."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x, axes = first(e, call), _axes(e, call)
        return e.add(kind(x, axes, keepdims=call.flag("keepdim"))) if axes else x

    return rule


def _extreme(
    kind: type[ReduceOp], arg: type[tensor.ArgOp], binary: type[tensor.MinimumOp | tensor.MaximumOp]
) -> Rule:
    """max and min: of everything, of two tensors, or along an axis with indices."""

    def rule(e: Builder, call: Call) -> Result:
        if "other" in call:
            return e.add(binary(*pair(e, call)))
        x = e.value(call["self"])
        if "dim" not in call:
            return e.add(kind(x, _axes(e, call)))
        axis, keepdims = call.axis(len(e.sizes(call["self"]))), call.flag("keepdim")
        values = e.add(kind(x, [axis], keepdims=keepdims))
        return [values, e.add(arg(x, axis, keepdims=keepdims))]

    return rule


def _arg(kind: type[tensor.ArgOp]) -> Rule:
    def rule(e: Builder, call: Call) -> SSAValue:
        x = e.value(call["self"])
        if "dim" not in call:
            x = e.add(tensor.ReshapeToOp(x, [-1]))
        return e.add(kind(x, call.integer("dim", 0), keepdims=call.flag("keepdim")))

    return rule


def _truth(kind: type[ReduceOp]) -> Rule:
    """any and all; of nothing the first is false and the other true."""

    def rule(e: Builder, call: Call) -> SSAValue:
        truth = e.operand(call["self"], torch.bool)
        number = e.convert(truth, element_type(torch.int32))
        result = e.add(kind(number, _axes(e, call), keepdims=call.flag("keepdim")))
        return (Formula(e, result) > 0).value

    return rule


def _var(e: Builder, call: Call) -> SSAValue:
    x, axes, keepdims = e.value(call["self"]), _axes(e, call), call.flag("keepdim")
    correction = call.flag("unbiased") if "unbiased" in call else call.number("correction", 1)
    return e.add(tensor.ReduceVarianceOp(x, axes, keepdims=keepdims, correction=correction))


def _var_mean(e: Builder, call: Call) -> list[SSAValue]:
    # With its axes: the mean from which a decomposed variance counts.
    x, axes = e.value(call["self"]), _axes(e, call)
    mean = e.add(tensor.ReduceMeanOp(x, axes, keepdims=True))
    is_whole = call.flag("keepdim") or not axes
    return [_var(e, call), mean if is_whole else e.add(tensor.SqueezeOp(mean, axes))]


def _norm(e: Builder, call: Call) -> SSAValue:
    order = call.number("ord" if "ord" in call else "p", 2)
    x, axes, keepdims = first(e, call), _axes(e, call), call.flag("keepdim")
    if order == 2:
        squares = e.add(tensor.MulOp(x, x))
        return e.add(tensor.SqrtOp(e.add(tensor.ReduceSumOp(squares, axes, keepdims=keepdims))))
    return _of_order(e, e.add(tensor.AbsOp(x)), order, axes, keepdims)


def _distances(e: Builder, call: Call) -> SSAValue:
    """`cdist`: norms of the differences of all rows of one matrix and all of another."""
    order, last = call.number("p", 2), call.rank
    # Rows and columns are axes from the end: the batches in front broadcast, also of other ranks.
    x = e.add(tensor.UnsqueezeOp(e.operand(call["x1"], call.value.dtype), [-2]))
    y = e.add(tensor.UnsqueezeOp(e.operand(call["x2"], call.value.dtype), [-3]))
    return _length(e, Formula(e, x) - Formula(e, y), order, last)


def _pair_distances(e: Builder, call: Call) -> SSAValue:
    """`pdist`: norms of the differences of each row of a matrix and all later ones."""
    x = e.value(call["self"])
    (rows,) = static(e.sizes(call["self"])[:1], "rows")
    earlier, later = (
        Formula(e, e.gather(x, 0, e.numbers(places, i64))) for places in np.triu_indices(rows, 1)
    )
    return _length(e, earlier - later, call.number("p", 2), 1)


def _length(e: Builder, x: Formula, order: float, axis: int) -> SSAValue:
    """The norm of vectors along one axis."""
    if order == 2:
        return (x * x).of(tensor.ReduceSumOp, axes=[axis]).of(tensor.SqrtOp).value
    return _of_order(e, x.of(tensor.AbsOp).value, order, [axis])


def _of_order(
    e: Builder, x: SSAValue, order: float, axes: list[int], keepdims: bool = False
) -> SSAValue:
    """The norm of any order of what is not negative; that of order 0 counts what is not 0."""
    kind = {math.inf: tensor.ReduceMaxOp, -math.inf: tensor.ReduceMinOp}.get(order)
    if order == 0:
        x, order = e.convert(Formula(e, x).compare("ne", 0).value, tensor_type(x).element_type), 1
    if kind is None and order != 1:
        powers = Formula(e, x).of(tensor.PowOp, order)
        total = powers.of(tensor.ReduceSumOp, axes=axes, keepdims=keepdims)
        return total.of(tensor.PowOp, 1 / order).value
    return e.add((kind or tensor.ReduceSumOp)(x, axes, keepdims=keepdims))


def _sorted(e: Builder, call: Call) -> list[SSAValue]:
    """`sort` and `topk`: of equal elements the first comes first."""
    x, sizes = e.value(call["self"]), e.sizes(call["self"])
    if not sizes:
        return [x, e.number(0, i64)]
    axis, is_top = call.integer("dim", -1), "k" in call
    if is_free(sizes[axis]) and not is_top and len(sizes) == 1 and is_integer(tensor_type(x)):
        return _ranked(e, x, sizes[0], call.flag("descending"))
    (k,) = static([call.size("k") if is_top else sizes[axis]], "number of elements")
    op = tensor.TopKOp(x, k, axis, largest=call.flag("largest", is_top) or call.flag("descending"))
    e.add(op)
    return list(op.results)


def _ranked(e: Builder, x: SSAValue, size: Size, is_descending: bool) -> list[SSAValue]:
    """As many integers as there are in order, and where they stood; each counts those before it."""
    numbers, places = Formula(e, x), Formula(e, e.arange(size))
    own, at = (value.of(tensor.UnsqueezeOp, axes=[1]) for value in (numbers, places))
    is_equal = numbers.compare("eq", own).of(tensor.AndOp, places < at)
    is_before = numbers.compare("gt" if is_descending else "lt", own).of(tensor.OrOp, is_equal)
    rank = is_before.convert(i64).of(tensor.ReduceSumOp, axes=[1])
    is_here = rank.compare("eq", at)
    order = is_here.choose(places, 0).of(tensor.ReduceSumOp, axes=[1]).value
    return [e.gather(x, 0, order), order]


def _median(e: Builder, call: Call) -> Result:
    """The lower median, NaN where an element is; of everything, or along an axis with indices."""
    x, sizes, is_along = e.value(call["self"]), e.sizes(call["self"]), "dim" in call
    if not is_along:
        x, sizes = e.add(tensor.ReshapeToOp(x, [-1])), (math.prod(static(sizes)),)
    axis = call.axis(len(sizes)) if is_along else 0
    middle = static([sizes[axis]])[0] // 2
    op = tensor.TopKOp(x, middle + 1, axis)
    e.add(op)
    # NaN is the largest of all.
    is_nan = (top := Formula(e, op.values).cut(axis, 0, 1)).compare("ne", top)
    parts = [Formula(e, result) for result in op.results]
    chosen = [is_nan.choose(p.cut(axis, 0, 1), p.cut(axis, middle, middle + 1)) for p in parts]
    if not call.flag("keepdim"):
        chosen = [part.of(tensor.SqueezeOp, axes=[axis]) for part in chosen]
    return [part.value for part in chosen] if is_along else chosen[0].value


def _median_but_nan(e: Builder, call: Call) -> Result:
    """The lower median of what is a number, NaN where nothing is."""
    x, sizes, is_along = e.value(call["self"]), e.sizes(call["self"]), "dim" in call
    if not is_along:
        x, sizes = e.add(tensor.ReshapeToOp(x, [-1])), (math.prod(static(sizes)),)
    axis = call.axis(len(sizes)) if is_along else 0
    is_number = (number := Formula(e, x)).compare("eq", number)
    known = is_number.choose(number, math.inf).value
    op = tensor.TopKOp(known, static([sizes[axis]])[0], axis, largest=False)
    e.add(op)
    count = is_number.convert(i32).of(tensor.ReduceSumOp, axes=[axis], keepdims=True)
    middle = (count - 1).maximum(0) / 2
    value, place = (
        Formula(e, part).of(tensor.GatherElementsOp, middle, axis=axis) for part in op.results
    )
    chosen = [count.compare("eq", 0).choose(value.number(math.nan), value).value, place.value]
    if not call.flag("keepdim"):
        chosen = [e.add(tensor.SqueezeOp(part, [axis])) for part in chosen]
    return chosen if is_along else chosen[0]


# Normalisations.


def _ones(e: Builder, x: SSAValue, shape: list[int], value: float = 1.0) -> SSAValue:
    return e.numbers(np.full(shape, value), tensor_type(x).element_type)


def _first_of(rule: Callable[[Builder, Call], SSAValue]) -> Rule:
    """A rule for an operator that gives its statistics too, which nothing may use."""
    return lambda e, call: [rule(e, call), *[None] * (len(call.values) - 1)]


def _batch_norm(e: Builder, call: Call) -> SSAValue:
    has_statistics = "running_mean" in call and "running_var" in call
    if call.flag("training") and has_statistics:
        raise ProblemError("it takes the statistics of its batch; call eval()")
    x, dtype = e.value(call["input"]), call.value.dtype
    channels = static([e.sizes(call["input"])[1]], "channels")
    scale, bias = (
        e.operand(call[name], dtype) if name in call else _ones(e, x, channels, default)
        for name, default in (("weight", 1.0), ("bias", 0.0))
    )
    if has_statistics:
        mean, variance = (e.operand(call[name], dtype) for name in ("running_mean", "running_var"))
    else:
        axes = [axis for axis in range(len(e.sizes(call["input"]))) if axis != 1]
        mean = e.add(tensor.ReduceMeanOp(x, axes))
        variance = e.add(tensor.ReduceVarianceOp(x, axes, correction=0))
    return e.add(tensor.BatchNormOp(x, scale, bias, mean, variance, call.number("eps")))


def _scale(e: Builder, call: Call, x: SSAValue) -> SSAValue:
    shape = call.integers("normalized_shape")
    return e.value(call["weight"]) if "weight" in call else _ones(e, x, shape)


def _layer_norm(e: Builder, call: Call) -> SSAValue:
    x = e.value(call["input"])
    scale, bias = _scale(e, call, x), e.optional(call.optional("bias"))
    return e.add(tensor.LayerNormOp(x, scale, bias, call.number("eps")))


def _rms_norm(e: Builder, call: Call) -> SSAValue:
    x = e.value(call["input"])
    epsilon = call.number("eps", torch.finfo(call.value.dtype).eps)
    return e.add(tensor.RmsNormOp(x, _scale(e, call, x), epsilon))


def _grouped(e: Builder, call: Call, groups: int) -> SSAValue:
    """Normalise groups of channels: a layer normalisation of [N, groups, rest]."""
    sizes, x = e.sizes(call["input"]), e.value(call["input"])
    (channels,) = static(sizes[1:2], "channels")
    if any(is_free(size) for size in sizes[2:]):
        flat = (sizes[0], groups, channels // groups, *sizes[2:])
        parts, axes = Formula(e, e.reshape(x, sizes, flat)), [*range(2, len(flat))]
        mean = parts.of(tensor.ReduceMeanOp, axes=axes, keepdims=True)
        variance = parts.of(tensor.ReduceVarianceOp, axes=axes, keepdims=True, correction=0)
        normal = ((parts - mean) / (variance + call.number("eps")).of(tensor.SqrtOp)).value
    else:
        inner = math.prod(static(sizes[1:])) // groups
        flat = (sizes[0], groups, inner)
        parts = e.reshape(x, sizes, flat)
        normal = e.add(tensor.LayerNormOp(parts, _ones(e, x, [inner]), None, call.number("eps")))
    result = e.reshape(normal, flat, sizes)
    column = [channels, *[1] * (len(sizes) - 2)]
    for name, kind in (("weight", tensor.MulOp), ("bias", tensor.AddOp)):
        if name in call:
            vector = e.add(tensor.ReshapeToOp(e.value(call[name]), column))
            result = e.add(kind(result, vector))
    return result


def _group_norm(e: Builder, call: Call) -> SSAValue:
    return _grouped(e, call, call.integer("num_groups" if "num_groups" in call else "group"))


def _instance_norm(e: Builder, call: Call) -> SSAValue:
    if call.flag("use_input_stats"):
        return _grouped(e, call, static([e.sizes(call["input"])[1]], "channels")[0])
    return _batch_norm(e, call)


def _kth_value(e: Builder, call: Call) -> list[SSAValue]:
    node, k = call["self"], call.integer("k")
    axis = call.axis(len(e.sizes(node)), default=-1)
    found = tensor.TopKOp(e.value(node), k, axis, largest=False)
    e.add(found)
    last = [cut(e, value, axis, k - 1, k) for value in found.results]
    if call.flag("keepdim"):
        return last
    return [e.add(tensor.SqueezeOp(value, [axis])) for value in last]


RULES: dict[str, Rule] = {
    "all": _truth(tensor.ReduceMinOp),
    "amax": reduction(tensor.ReduceMaxOp),
    "amin": reduction(tensor.ReduceMinOp),
    "any": _truth(tensor.ReduceMaxOp),
    "argmax": _arg(tensor.ArgmaxOp),
    "argmin": _arg(tensor.ArgminOp),
    "batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _first_of(_batch_norm),
    "_native_batch_norm_legit": _first_of(_batch_norm),
    "native_batch_norm": _first_of(_batch_norm),
    "argsort": lambda e, call: _sorted(e, call)[1],
    "cdist": _distances,
    "pdist": _pair_distances,
    "_fused_rms_norm": _first_of(_rms_norm),
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "kthvalue": _kth_value,
    "layer_norm": _layer_norm,
    "logsumexp": reduction(tensor.ReduceLogSumExpOp),
    "max": _extreme(tensor.ReduceMaxOp, tensor.ArgmaxOp, tensor.MaximumOp),
    "mean": reduction(tensor.ReduceMeanOp),
    "median": _median,
    "min": _extreme(tensor.ReduceMinOp, tensor.ArgminOp, tensor.MinimumOp),
    "nanmedian": _median_but_nan,
    "native_group_norm": _first_of(_group_norm),
    "native_layer_norm": _first_of(_layer_norm),
    **dict.fromkeys(("linalg_vector_norm", "norm"), _norm),
    "prod": reduction(tensor.ReduceProdOp),
    "rms_norm": _rms_norm,
    "sort": _sorted,
    "std": lambda e, call: e.add(tensor.SqrtOp(_var(e, call))),
    "sum": reduction(tensor.ReduceSumOp),
    "topk": _sorted,
    "var": _var,
    "var_mean": _var_mean,
}
"""By the name of the operator in the namespace `aten`."""
