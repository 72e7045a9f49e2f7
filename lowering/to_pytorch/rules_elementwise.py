"""PyTorch forms of element-wise functions, reductions, pooling and normalisation."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import Float64Type, FloatAttr, IntegerAttr, f32, f64, i1
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.parameters import may_trap
from ...dialects.shapes import axis_index, is_float
from ...dialects.tensor.reduction import ReduceOp
from ...dialects.ternary.types import is_trit
from ..torch_functions import FUNCTIONS
from .expressions import Expr, binary, call, sequence, unary
from .forward import Forward, Rule, bits_of, dtype_of
from .literals import number
from .rules_spiking import are_spikes, are_whole_sums

BINARY_OPERATORS: dict[type[Operation], str] = {
    tensor.AddOp: "+",
    tensor.SubOp: "-",
    tensor.MulOp: "*",
    tensor.DivOp: "/",
    tensor.AndOp: "&",
    tensor.OrOp: "|",
    tensor.XorOp: "^",
    tensor.ShiftLeftOp: "<<",
    tensor.ShiftRightOp: ">>",
}

PREDICATES = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def pair(op: tensor.elementwise.BinaryOp, e: Forward) -> tuple[Expr, Expr]:
    """Both operands; at most one is a Python number."""
    lhs, rhs = e.operand(op.lhs), e.operand(op.rhs)
    return (lhs, e.value(op.rhs)) if lhs.scalar and rhs.scalar else (lhs, rhs)


def operator(op: tensor.elementwise.BinaryOp, e: Forward) -> Expr:
    """`+ - * & |`; `/` on floats."""
    if isinstance(op, tensor.DivOp) and not is_float(tensor_type(op.lhs)):
        if may_trap(op.rhs):
            return e.library("divide_integers", e.value(op.lhs), e.value(op.rhs))
        return call("torch.div", e.value(op.lhs), e.operand(op.rhs), rounding_mode='"trunc"')
    return binary(BINARY_OPERATORS[type(op)], *pair(op, e))


def compare(op: tensor.CompareOp, e: Forward) -> Expr:
    """`==` and so on."""
    return binary(PREDICATES[op.predicate.data], *pair(op, e))


def remainder(op: tensor.ModOp, e: Forward) -> Expr:
    """The remainder with the sign of the divisor."""
    if not is_float(tensor_type(op.lhs)) and may_trap(op.rhs):
        return e.library("remainder_of_integers", e.value(op.lhs), e.value(op.rhs))
    return call("torch.remainder", *pair(op, e))


def power(op: tensor.PowOp, e: Forward) -> Expr:
    """x to the y."""
    return call("torch.pow", *pair(op, e))


def extremum(op: tensor.MaximumOp | tensor.MinimumOp, e: Forward) -> Expr:
    """`torch.maximum`, or a clamp by a number."""
    lhs, rhs = pair(op, e)
    name, bound = ("maximum", "min") if isinstance(op, tensor.MaximumOp) else ("minimum", "max")
    if lhs.scalar or rhs.scalar:
        x, number = (rhs, lhs) if lhs.scalar else (lhs, rhs)
        return call("torch.clamp", x, **{bound: number})
    return call(f"torch.{name}", lhs, rhs)


def where(op: tensor.WhereOp, e: Forward) -> Expr:
    """Choose by a condition."""
    lhs, rhs = e.operand(op.lhs), e.operand(op.rhs)
    if lhs.scalar and rhs.scalar:
        rhs = e.value(op.rhs)
    return call("torch.where", e.value(op.condition), lhs, rhs)


def convert(op: tensor.ConvertOp, e: Forward) -> Expr:
    """Change the element type; floats saturate in integers."""
    source, target = tensor_type(op.operand), tensor_type(op.result)
    dtype = dtype_of(op.result)
    if is_trit(source):
        return e.trits(op.operand, dtype)
    truncates = is_float(source) and not is_float(target) and target.element_type != i1
    if truncates and not are_whole_sums(op.operand):
        return e.library("convert_to_integer", e.value(op.operand), dtype)
    return e.value(op.operand).method("to", dtype)


def prefixed(operator: str) -> Rule:
    """`-x` or `~x`."""
    return lambda op, e: unary(operator, e.value(op.operands[0]))


def function(op: tensor.UnaryOp | tensor.PredicateOp, e: Forward) -> Expr:
    """A function of one tensor, and of `alpha` where the op has that."""
    x, name = e.value(op.operand), FUNCTIONS[type(op)]
    return call(name, x, alpha_of(op)) if isinstance(op, tensor.AlphaOp) else call(name, x)


def alpha_of(op: tensor.AlphaOp) -> str:
    """`alpha` in what PyTorch computes in: f32 for half precision."""
    element = tensor_type(op.operand).element_type
    return number(op.alpha.value.data, element if element == f64 else f32)


def softplus(op: tensor.SoftplusOp, e: Forward) -> Expr:
    """ln(1 + e^x), which is x from 40 on in f64 too."""
    return call("F.softplus", e.value(op.operand), threshold="40")


def sign(op: tensor.SignOp, e: Forward) -> Expr:
    """-1, 0 or 1."""
    if is_float(tensor_type(op.operand)):
        return e.library("sign_or_nan", e.value(op.operand))
    return call("torch.sign", e.value(op.operand))


def clamp(op: tensor.ClampOp, e: Forward) -> Expr:
    """Limit to bounds."""
    x, type = e.value(op.operand), tensor_type(op.operand)

    def limit(bound: FloatAttr[Float64Type] | None) -> str | None:
        if bound is None:
            return None
        if is_float(type):
            return number(bound.value.data, type.element_type)
        info = np.iinfo(numpy_dtype(type.element_type))
        return str(int(min(max(bound.value.data, info.min), info.max)))

    if op.min is None and op.max is None:
        return x
    return call("torch.clamp", x, min=limit(op.min), max=limit(op.max))


def relu6(op: tensor.Relu6Op, e: Forward) -> Expr:
    """min(max(x, 0), 6)."""
    return call("torch.clamp", e.value(op.operand), 0, 6)


def gelu(op: tensor.GeluOp, e: Forward) -> Expr:
    """Gaussian error linear unit."""
    approximate = '"tanh"' if op.approximate.data == "tanh" else None
    return call("F.gelu", e.value(op.operand), approximate=approximate)


REDUCTIONS: dict[type[Operation], str] = {
    tensor.ReduceSumOp: "torch.sum",
    tensor.ReduceMeanOp: "torch.mean",
    tensor.ReduceMaxOp: "torch.amax",
    tensor.ReduceMinOp: "torch.amin",
    tensor.ReduceLogSumExpOp: "torch.logsumexp",
    tensor.ReduceVarianceOp: "torch.var",
}


def reduce(op: ReduceOp, e: Forward) -> Expr:
    """Sum, mean, variance, maximum, minimum over axes; without axes PyTorch would take them all."""
    axes, keepdims = op.axes.get_values(), op.keepdims.value.data
    x = e.value(op.operand)
    varies = isinstance(op, tensor.ReduceVarianceOp)
    if not axes and not varies:
        return x
    if not axes:
        x, axes, keepdims = x.method("unsqueeze", 0), (0,), False
    function = REDUCTIONS[type(op)]
    if tensor_type(op.operand).element_type == i1:  # of no element too
        function = {"torch.amax": "torch.any", "torch.amin": "torch.all"}.get(function, function)
    return call(
        function,
        x,
        dim=axes[0] if len(axes) == 1 else sequence(axes),
        correction=number(op.correction.value.data) if varies else None,
        keepdim="True" if keepdims else None,
        dtype=_whole(op) if isinstance(op, tensor.ReduceSumOp) else None,
    )


def _whole(op: ReduceOp | tensor.CumulativeOp) -> str | None:
    """The type of sums of integers, which PyTorch would widen, and of spikes of any type."""
    as_it_is = is_float(tensor_type(op.operand)) and not are_spikes(op.operand)
    return None if as_it_is else dtype_of(op.result)


def called(function: str) -> Rule:
    """A function of PyTorch of all operands, with the axis where the op has one."""

    def rule(op: Operation, e: Forward) -> Expr:
        axis, keepdims = (op.properties.get(name) for name in ("axis", "keepdims"))
        return call(
            function,
            *map(e.value, op.operands),
            dim=axis.value.data if isinstance(axis, IntegerAttr) else None,
            keepdim="True" if isinstance(keepdims, IntegerAttr) and keepdims.value.data else None,
            dtype=_whole(op) if isinstance(op, tensor.CumulativeOp) else None,
        )

    return rule


def gather_elements(op: tensor.GatherElementsOp, e: Forward) -> Expr:
    """`torch.gather`, whose indices are int64."""
    indices = e.value(op.indices).method("to", "torch.int64")
    return call("torch.gather", e.value(op.operand), op.axis.value.data, indices)


def scatter_elements(op: tensor.ScatterElementsOp, e: Forward) -> Expr:
    """`torch.scatter`, which puts the last of several updates, or `torch.scatter_add`."""
    function = "torch.scatter_add" if op.reduction.data == "add" else "torch.scatter"
    places = e.value(op.indices).method("to", "torch.int64")
    return call(function, e.value(op.operand), op.axis.value.data, places, e.value(op.updates))


def top_k(op: tensor.TopKOp, e: Forward) -> list[Expr]:
    """The first of all elements, sorted: `torch.topk` does not say which of equal ones it takes."""
    downwards = str(bool(op.largest.value.data))
    axis, k = op.axis.value.data, op.k.value.data
    options = {"dim": axis, "descending": downwards, "stable": "True"}
    ordered = e.bind(op, "ordered", call("torch.sort", e.value(op.operand), **options))
    return [
        Expr(f"{ordered}.{name}").method("narrow", axis, 0, k) for name in ("values", "indices")
    ]


def product(op: tensor.ReduceProdOp, e: Forward) -> Expr:
    """`torch.prod`, which takes one axis."""
    x, keep = e.value(op.operand), "True" if op.keepdims.value.data else None
    rank = tensor_type(op.operand).get_num_dims()
    for axis in sorted({axis % rank for axis in op.axes.get_values()}, reverse=True):
        x = call("torch.prod", x, dim=axis, keepdim=keep, dtype=_whole(op))
    return x


def pads(padding: tuple[int, ...]) -> str:
    """`F.pad`'s order (last axis first, low and high) of low pads, then high pads."""
    spatial = len(padding) // 2
    return sequence(
        [p for a in reversed(range(spatial)) for p in (padding[a], padding[spatial + a])]
    )


def compact(values: tuple[int, ...]) -> str:
    """One number where all are equal, else a tuple."""
    return str(values[0]) if len(set(values)) == 1 else sequence(values)


def symmetric(padding: tuple[int, ...]) -> bool:
    """Whether each axis has the same pad on both sides."""
    spatial = len(padding) // 2
    return padding[:spatial] == padding[spatial:]


def padded(x: Expr, padding: tuple[int, ...], fill: str | None = None) -> tuple[Expr, str | None]:
    """x with pads where the two sides differ, and the pads that are left to PyTorch's operator."""
    if symmetric(padding):
        return x, compact(padding[: len(padding) // 2]) if any(padding) else None
    return call("F.pad", x, pads(padding), value=fill), None


def max_pool(op: tensor.MaxPoolOp, e: Forward) -> Expr:
    """The maximum of each window."""
    floats, x = is_float(tensor_type(op.operand)), e.value(op.operand)
    if floats or bits_of(op.operand) >= 32:
        return _max_pooled(x, op)
    # torch counts places in the type of the elements: int8 images have at most 127 of them.
    wide = e.bind(op, "wide", x.method("to", "torch.int32"))
    return e.bind(op, "pooled", _max_pooled(wide, op)).method("to", dtype_of(op.result))


def _max_pooled(x: Expr, op: tensor.MaxPoolOp) -> Expr:
    kernel, strides, padding = op.window
    if is_float(tensor_type(op.operand)):
        return maximum(x, kernel, strides, padding, "-torch.inf")
    least = f"torch.iinfo({dtype_of(op.operand)}).min"
    if len(kernel) == 2:
        return maximum(x, kernel, strides, padding, least)
    # torch has no pooling of integers along one axis.
    (k,), (s,), (low, high) = kernel, strides, padding
    image = x.method("unsqueeze", 2)
    return maximum(image, (1, k), (1, s), (0, low, 0, high), least).method("squeeze", 2)


def maximum(
    x: Expr,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[int, ...],
    least: str | None,
) -> Expr:
    """The maximum of each window of floats; pads that PyTorch's pooling lacks hold `least`."""
    x, low = padded(x, padding, least)
    stride = None if strides == kernel else compact(strides)
    return call(f"F.max_pool{len(kernel)}d", x, compact(kernel), stride=stride, padding=low)


def avg_pool(op: tensor.AvgPoolOp, e: Forward) -> Expr:
    """The mean of each window."""
    kernel, strides, padding = op.window
    x = e.value(op.operand) if symmetric(padding) else e.local(op.operand)
    name = f"F.avg_pool{len(kernel)}d"
    stride = None if strides == kernel else compact(strides)
    size, low = compact(kernel), padding[: len(kernel)]
    counted = bool(op.count_include_pad.value.data)
    if symmetric(padding):
        return call(
            name,
            x,
            size,
            stride=stride,
            padding=compact(low) if any(low) else None,
            count_include_pad=None if counted or not any(low) else "False",
        )
    pooled = call(name, call("F.pad", x, pads(padding)), size, stride=stride)
    if counted:
        return pooled
    ones = call("F.pad", call("torch.ones_like", x), pads(padding))
    sums = e.bind(op, "pooled", pooled)
    return binary("/", sums, e.bind(op, "share", call(name, ones, size, stride=stride)))


def global_avg_pool(op: tensor.GlobalAvgPoolOp, e: Forward) -> Expr:
    """The mean over all spatial axes."""
    axes = tuple(range(2, tensor_type(op.operand).get_num_dims()))
    return call("torch.mean", e.value(op.operand), dim=sequence(axes), keepdim=True)


def batch_norm(op: tensor.BatchNormOp, e: Forward) -> Expr:
    """Normalise by running statistics, which learn while training if they are buffers."""
    entries = [e.parameter_entry(value) for value in (op.mean, op.variance)]
    learns = all(entry is not None and entry.buffer for entry in entries)
    return call(
        "F.batch_norm",
        e.value(op.input),
        e.value(op.mean),
        e.value(op.variance),
        e.value(op.scale),
        e.value(op.bias),
        training="self.training" if learns else None,
        eps=number(op.epsilon.value.data),
    )


def layer_norm(op: tensor.LayerNormOp, e: Forward) -> Expr:
    """Normalise over the last axes."""
    scale, bias = tensor_type(op.scale), None if op.bias is None else tensor_type(op.bias)
    covered, fits = _covered(op.input, scale.get_num_dims(), scale.get_shape(), e)
    x, eps = e.value(op.input), number(op.epsilon.value.data)
    bias_fits = bias is None or bias.get_shape() == scale.get_shape()
    if fits and bias_fits:
        shift = None if op.bias is None else e.value(op.bias)
        return call("F.layer_norm", x, covered, e.value(op.scale), shift or "None", eps)
    normal = binary("*", call("F.layer_norm", x, covered, eps=eps), e.value(op.scale))
    return normal if op.bias is None else binary("+", normal, e.value(op.bias))


def rms_norm(op: tensor.RmsNormOp, e: Forward) -> Expr:
    """Divide by the root mean square over the last axes."""
    scale = tensor_type(op.scale)
    covered, fits = _covered(op.input, scale.get_num_dims(), scale.get_shape(), e)
    x, eps = e.value(op.input), number(op.epsilon.value.data)
    if fits:
        return call("F.rms_norm", x, covered, e.value(op.scale), eps)
    return binary("*", call("F.rms_norm", x, covered, eps=eps), e.value(op.scale))


def _covered(input: SSAValue, rank: int, shape: tuple[int, ...], e: Forward) -> tuple[str, bool]:
    dims = tensor_type(input).get_shape()
    start = len(dims) - rank
    sizes = [e.size(input, axis_index(start + a, len(dims))) for a in range(rank)]
    return sequence(sizes), dims[start:] == shape


RULES = {
    **dict.fromkeys(BINARY_OPERATORS, operator),
    **dict.fromkeys(FUNCTIONS, function),
    tensor.CompareOp: compare,
    tensor.ModOp: remainder,
    tensor.SignOp: sign,
    tensor.PowOp: power,
    tensor.MaximumOp: extremum,
    tensor.MinimumOp: extremum,
    tensor.WhereOp: where,
    tensor.ConvertOp: convert,
    tensor.NegOp: prefixed("-"),
    tensor.NotOp: prefixed("~"),
    tensor.ClampOp: clamp,
    tensor.Relu6Op: relu6,
    tensor.SoftplusOp: softplus,
    tensor.GeluOp: gelu,
    tensor.SoftmaxOp: called("torch.softmax"),
    tensor.LogSoftmaxOp: called("torch.log_softmax"),
    **dict.fromkeys(REDUCTIONS, reduce),
    tensor.ReduceProdOp: product,
    tensor.ArgmaxOp: called("torch.argmax"),
    tensor.ArgminOp: called("torch.argmin"),
    tensor.Atan2Op: called("torch.atan2"),
    tensor.HypotOp: called("torch.hypot"),
    tensor.CumsumOp: called("torch.cumsum"),
    tensor.CumprodOp: called("torch.cumprod"),
    tensor.GatherElementsOp: gather_elements,
    tensor.ScatterElementsOp: scatter_elements,
    tensor.TopKOp: top_k,
    tensor.MaxPoolOp: max_pool,
    tensor.AvgPoolOp: avg_pool,
    tensor.GlobalAvgPoolOp: global_avg_pool,
    tensor.BatchNormOp: batch_norm,
    tensor.LayerNormOp: layer_norm,
    tensor.RmsNormOp: rms_norm,
}
"""The rule of each op."""
