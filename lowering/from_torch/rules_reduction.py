"""Rules of reductions and normalisations of ATen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ...dialects.tensor.reduction import ReduceOp
from .rules_elementwise import Rule
from .sizes import ProblemError, Sizes, is_free, size_of, static
from .torch_builder import Builder, Call


def _axes(e: Builder, call: Call) -> list[int]:
    """The axes of a reduction, all of them where none are given."""
    rank = len(e.sizes(call["self"]))
    given: Any = call.get("dim")
    if given is None or given == []:
        return list(range(rank))
    found: list[int] = list(given) if isinstance(given, list | tuple) else [given]  # pyright: ignore[reportUnknownArgumentType]
    return sorted(axis % max(rank, 1) for axis in found) if rank else []


def reduction(kind: type[ReduceOp]) -> Rule:
    """A rule for a reduction over axes."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x = e.operand(call["self"], call.value.dtype)
        axes = _axes(e, call)
        return e.add(kind(x, axes, keepdims=bool(call.get("keepdim", False)))) if axes else x

    return rule


def _extreme(kind: type[ReduceOp], arg: type[tensor.ArgOp]) -> Rule:
    """max and min: of everything, of two tensors, or along an axis with indices."""

    def rule(e: Builder, call: Call) -> Any:
        if "other" in call.arguments:
            pairs = e.operands([call["self"], call["other"]], call.value.dtype, call.sizes)
            return e.add(
                (tensor.MinimumOp if kind is tensor.ReduceMinOp else tensor.MaximumOp)(*pairs)
            )
        x = e.value(call["self"])
        if "dim" not in call.arguments:
            return e.add(kind(x, list(range(len(e.sizes(call["self"]))))))
        axis, keepdims = _axes(e, call)[0], bool(call["keepdim"])
        values = e.add(kind(x, [axis], keepdims=keepdims))
        return [values, e.add(arg(x, axis, keepdims=keepdims))]

    return rule


def _arg(kind: type[tensor.ArgOp]) -> Rule:
    def rule(e: Builder, call: Call) -> SSAValue:
        x = e.value(call["self"])
        if call["dim"] is None:
            x = e.add(tensor.ReshapeToOp(x, [-1]))
        axis = 0 if call["dim"] is None else int(call["dim"])
        return e.add(kind(x, axis, keepdims=bool(call["keepdim"])))

    return rule


def _truth(kind: type[ReduceOp]) -> Rule:
    """any and all."""

    def rule(e: Builder, call: Call) -> SSAValue:
        import torch

        x = e.operand(call["self"], torch.bool)
        number = e.convert(x, e.element(torch.int32))
        axes = _axes(e, call)
        found = e.add(kind(number, axes, keepdims=bool(call.get("keepdim", False))))
        return e.convert(found, e.element(torch.bool))

    return rule


def _variance(e: Builder, call: Call) -> tuple[SSAValue, SSAValue]:
    """The variance and the mean."""
    x, axes = e.value(call["self"]), _axes(e, call)
    sizes = e.sizes(call["self"])
    given: Any = call.get("correction", 1)
    correction = float(bool(call["unbiased"])) if "unbiased" in call.arguments else float(given)
    keepdims = bool(call.get("keepdim", False))
    mean = e.add(tensor.ReduceMeanOp(x, axes, keepdims=True))
    rest = e.add(tensor.SubOp(x, mean))
    squares = e.add(tensor.MulOp(rest, rest))
    spread = e.add(tensor.ReduceMeanOp(squares, axes, keepdims=keepdims))
    if correction and any(is_free(sizes[axis]) for axis in axes):
        ones = e.add(tensor.CompareOp(squares, squares, "eq"))
        one = e.number(1, tensor_type(x).element_type)
        counted = e.add(tensor.WhereOp(ones, one, one))
        count = Formula(e, e.add(tensor.ReduceSumOp(counted, axes, keepdims=keepdims)))
        spread = (Formula(e, spread) * (count / (count - correction))).value
    elif correction:
        count = math.prod(static([sizes[axis] for axis in axes], "reduced sizes"))
        if count <= correction:
            raise ProblemError(f"the variance of {count} numbers has no value")
        factor = count / (count - correction)
        spread = e.add(tensor.MulOp(spread, e.number(factor, tensor_type(x).element_type)))
    if not keepdims:
        mean = e.add(tensor.SqueezeOp(mean, axes))
    return spread, mean


def _var(e: Builder, call: Call) -> SSAValue:
    return _variance(e, call)[0]


def _std(e: Builder, call: Call) -> SSAValue:
    return e.add(tensor.SqrtOp(_variance(e, call)[0]))


def _var_mean(e: Builder, call: Call) -> list[Any]:
    return list(_variance(e, call))


def _norm(e: Builder, call: Call) -> SSAValue:
    order: Any = call.get("ord", call.get("p", 2))
    x = e.operand(call["self"], call.value.dtype)
    axes, keepdims = _axes(e, call), bool(call.get("keepdim", False))
    if order == 2:
        squares = e.add(tensor.MulOp(x, x))
        return e.add(tensor.SqrtOp(e.add(tensor.ReduceSumOp(squares, axes, keepdims=keepdims))))
    sizes = e.add(tensor.AbsOp(x))
    kind = {1: tensor.ReduceSumOp, math.inf: tensor.ReduceMaxOp, -math.inf: tensor.ReduceMinOp}
    if order not in kind:
        raise ProblemError(f"norms of order {order} are not supported; use 1, 2 or inf")
    return e.add(kind[order](sizes, axes, keepdims=keepdims))


def _cumulative(kind: type[tensor.CumulativeOp]) -> Rule:
    """A running sum or product along an axis; a number alone is its own."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x = e.operand(call["self"], call.value.dtype)
        return e.add(kind(x, int(call["dim"]))) if call.rank else x

    return rule


def _sorted(e: Builder, call: Call) -> list[SSAValue]:
    """`sort` and `topk`: of equal elements the first comes first."""
    x, sizes = e.value(call["self"]), e.sizes(call["self"])
    axis = int(call.get("dim", -1))
    if not sizes:
        return [x, e.number(0, i64)]
    size = size_of(call["k"]) if "k" in call.arguments else sizes[axis]
    (k,) = static([size], "number of elements")
    largest = bool(call.get("largest", "k" in call.arguments) or call.get("descending", False))
    op = tensor.TopKOp(x, k, axis, largest=largest)
    e.add(op)
    return list(op.results)


def _arg_sort(e: Builder, call: Call) -> SSAValue:
    return _sorted(e, call)[1]


# Normalisations.


def _ones(e: Builder, x: SSAValue, shape: list[int], value: float = 1.0) -> SSAValue:
    return e.array(np.full(shape, value), tensor_type(x).element_type)


def _batch_norm(e: Builder, call: Call) -> SSAValue:
    if call.get("training", False):
        raise ProblemError("it takes the statistics of its batch; call eval()")
    x = e.value(call["input"])
    channels = static([e.sizes(call["input"])[1]], "channels")
    mean, variance = call.get("running_mean"), call.get("running_var")
    if mean is None or variance is None:
        raise ProblemError("it has no running statistics")
    dtype = call.value.dtype
    given = [
        _ones(e, x, channels, default) if call.get(name) is None else e.operand(call[name], dtype)
        for name, default in (("weight", 1.0), ("bias", 0.0))
    ]
    scale, bias = given
    mean, variance = e.operand(mean, dtype), e.operand(variance, dtype)
    return e.add(tensor.BatchNormOp(x, scale, bias, mean, variance, float(call["eps"])))


def _batch_norm_first(e: Builder, call: Call) -> list[Any]:
    return [_batch_norm(e, call), None, None, None, None]


def _layer_norm(e: Builder, call: Call) -> SSAValue:
    x = e.value(call["input"])
    shape = static(call["normalized_shape"], "sizes")
    weight, bias = call.get("weight"), call.get("bias")
    scale = _ones(e, x, shape) if weight is None else e.value(weight)
    return e.add(
        tensor.LayerNormOp(x, scale, None if bias is None else e.value(bias), float(call["eps"]))
    )


def _layer_norm_first(e: Builder, call: Call) -> list[Any]:
    return [_layer_norm(e, call), None, None]


def _rms_norm(e: Builder, call: Call) -> SSAValue:
    x, weight = e.value(call["input"]), call.get("weight")
    shape = static(call["normalized_shape"], "sizes")
    scale = _ones(e, x, shape) if weight is None else e.value(weight)
    epsilon: Any = call.get("eps")
    if epsilon is None:
        import torch

        epsilon = torch.finfo(call.value.dtype).eps
    return e.add(tensor.RmsNormOp(x, scale, float(epsilon)))


def _rms_norm_first(e: Builder, call: Call) -> list[Any]:
    return [_rms_norm(e, call), None]


def _grouped(e: Builder, call: Call, groups: int) -> SSAValue:
    """Normalise groups of channels: a layer normalisation of [N, groups, rest]."""
    sizes, x = e.sizes(call["input"]), e.value(call["input"])
    inner = math.prod(static(sizes[1:], "image")) // groups
    flat: Sizes = (sizes[0], groups, inner)
    parts = e.reshape(x, sizes, flat)
    made = e.add(tensor.LayerNormOp(parts, _ones(e, x, [inner]), None, float(call["eps"])))
    result = e.reshape(made, flat, sizes)
    column = [static([sizes[1]])[0], *[1] * (len(sizes) - 2)]
    for name, kind in (("weight", tensor.MulOp), ("bias", tensor.AddOp)):
        if call.get(name) is not None:
            vector = e.add(tensor.ReshapeToOp(e.value(call[name]), column))
            result = e.add(kind(result, vector))
    return result


def _group_norm(e: Builder, call: Call) -> SSAValue:
    return _grouped(e, call, int(call["num_groups"]))


def _native_group_norm(e: Builder, call: Call) -> list[Any]:
    given = {**call.arguments, "num_groups": call["group"]}
    return [_group_norm(e, Call(call.node, call.name, given)), None, None]


def _instance_norm(e: Builder, call: Call) -> SSAValue:
    if call["use_input_stats"]:
        return _grouped(e, call, static([e.sizes(call["input"])[1]], "channels")[0])
    return _batch_norm(e, call)


RULES: dict[str, Rule] = {
    "all": _truth(tensor.ReduceMinOp),
    "amax": reduction(tensor.ReduceMaxOp),
    "amin": reduction(tensor.ReduceMinOp),
    "any": _truth(tensor.ReduceMaxOp),
    "argmax": _arg(tensor.ArgmaxOp),
    "argmin": _arg(tensor.ArgminOp),
    "batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm_first,
    "_native_batch_norm_legit": _batch_norm_first,
    "native_batch_norm": _batch_norm_first,
    "argsort": _arg_sort,
    "cumprod": _cumulative(tensor.CumprodOp),
    "cumsum": _cumulative(tensor.CumsumOp),
    "_fused_rms_norm": _rms_norm_first,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "linalg_vector_norm": _norm,
    "logsumexp": reduction(tensor.ReduceLogSumExpOp),
    "max": _extreme(tensor.ReduceMaxOp, tensor.ArgmaxOp),
    "mean": reduction(tensor.ReduceMeanOp),
    "min": _extreme(tensor.ReduceMinOp, tensor.ArgminOp),
    "native_group_norm": _native_group_norm,
    "native_layer_norm": _layer_norm_first,
    "norm": _norm,
    "prod": reduction(tensor.ReduceProdOp),
    "rms_norm": _rms_norm,
    "sort": _sorted,
    "std": _std,
    "sum": reduction(tensor.ReduceSumOp),
    "topk": _sorted,
    "var": _var,
    "var_mean": _var_mean,
}
"""By the name of the operator in the namespace `aten`."""
