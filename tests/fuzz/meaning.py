"""What the operations of `tensor` and `ternary` mean, in PyTorch, from their docstrings alone.

Floats are computed in float64, so that `oracle` can bound their errors; trits are int8. Nothing
here looks at the interpreter or at a target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.parameters import constant_value, parameter_value

from .cases import Undetermined

Array = NDArray[Any]
Rule = Callable[..., Any]


def held(array: Array) -> Tensor:
    """An array as the oracle holds it."""
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        return torch.tensor(array.astype(np.float64))
    return torch.tensor(array)


def compute(function: FuncOp, inputs: Sequence[Array]) -> list[Tensor]:
    """The results of a function of one block.

    Raises:
        Undetermined: an operation without a meaning here.
    """
    values: dict[SSAValue, Tensor] = {
        argument: held(array) for argument, array in zip(function.args, inputs, strict=True)
    }
    for op in function.body.block.ops:
        if isinstance(op, ReturnOp):
            return [values[v] for v in op.operands]
        results = apply(op, [values[v] for v in op.operands])
        values.update(zip(op.results, results, strict=True))
    raise Undetermined("a function without a return")


def apply(op: Operation, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The results of one operation."""
    if isinstance(op, tensor.ParameterOp | ternary.ParameterOp):
        return (held(parameter_value(op)),)
    constant = constant_value(op)
    if constant is not None:
        return (held(constant),)
    if type(op) not in MEANING:
        raise Undetermined(f"no meaning of {op.name}")
    results = MEANING[type(op)](op, *operands)
    return results if isinstance(results, tuple) else (results,)


def entry(module: ModuleOp) -> FuncOp:
    """The function `@forward`."""
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "forward")


def property_of(op: Operation, name: str) -> Any:
    """A property as a Python value; `None` where it is absent, its default where it has one."""
    attribute: Any = getattr(op, name)
    if attribute is None:
        return None
    if hasattr(attribute, "get_values"):
        return list(attribute.get_values())
    data = getattr(attribute, "data", None)
    if data is not None and not hasattr(data, "data"):
        return data
    return attribute.value.data


def unary(function: Callable[[Tensor], Tensor]) -> Rule:
    """A function of each element."""
    return lambda op, x: function(x)


def wrapped(op: Operation, wide: Tensor) -> Tensor:
    """Integers of 64 bits in the type of the result."""
    name = numpy_dtype(tensor_type(op.results[0]).element_type).name
    return wide.to(getattr(torch, name))


def on_whole(function: Callable[..., Tensor], op: Operation, *operands: Tensor | None) -> Tensor:
    """A product of floats, or of integers that float64 holds exactly."""
    first = operands[0]
    assert first is not None
    if first.is_floating_point():
        return function(*(None if o is None else o.to(torch.float64) for o in operands))
    exact = function(*(None if o is None else o.to(torch.float64) for o in operands))
    if exact.numel() and float(exact.abs().max()) >= 2**52:
        raise Undetermined("an integer sum beyond float64")
    return wrapped(op, exact.to(torch.int64))


def divided(op: Operation, x: Tensor, y: Tensor) -> Tensor:
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def compared(op: Any, x: Tensor, y: Tensor) -> Tensor:
    return getattr(torch, property_of(op, "predicate"))(x, y)


def converted(op: Any, x: Tensor) -> Tensor:
    dtype = numpy_dtype(tensor_type(op.result).element_type)
    if dtype.kind == "b":
        return x != 0
    if dtype.kind in "iu" and x.is_floating_point():
        info = np.iinfo(dtype)
        if x.numel() and float(x.abs().max()) >= 2**62:
            raise Undetermined("a float beyond 64 bits")
        return (
            x.trunc()
            .to(torch.int64)
            .clamp(int(info.min), int(min(info.max, 2**63 - 1)))
            .to(getattr(torch, dtype.name))
        )
    if dtype.kind in "iub":
        return x.to(getattr(torch, dtype.name))
    return x.to(torch.float64)


def clamped(op: Any, x: Tensor) -> Tensor:
    low, high = property_of(op, "min"), property_of(op, "max")
    if low is None and high is None:
        return x
    if not x.is_floating_point():
        info = torch.iinfo(x.dtype)
        low = None if low is None else int(max(low, info.min))
        high = None if high is None else int(min(high, info.max))
    return torch.clamp(x, low, high)


def convolved(op: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    axes = x.ndim - 2
    pads = property_of(op, "padding")
    around = [p for a in reversed(range(axes)) for p in (pads[a], pads[axes + a])]
    function = F.conv2d if axes == 2 else F.conv1d

    def run(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return function(
            F.pad(x, around),
            weight,
            bias,
            stride=property_of(op, "strides"),
            dilation=property_of(op, "dilation"),
            groups=property_of(op, "groups"),
        )

    return on_whole(run, op, x, weight, bias)


def attended(op: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scale = property_of(op, "scale")
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores + mask if mask.is_floating_point() else scores.where(mask, -np.inf)
    if property_of(op, "is_causal"):
        below = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.where(below, -np.inf)
    return torch.softmax(scores, -1) @ v


def along(vector: Tensor, axis: int, rank: int) -> Tensor:
    """A vector for the positions of one axis, or a scalar, so that it broadcasts."""
    if vector.ndim == 0:
        return vector
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape)


def batch_normalised(
    op: Any, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    given = (along(p, 1, x.ndim) for p in (scale, bias, mean, variance))
    scale, bias, mean, variance = given
    return (x - mean) * (variance + property_of(op, "epsilon")).rsqrt() * scale + bias


def layer_normalised(op: Any, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    axes = list(range(x.ndim - scale.ndim, x.ndim))
    centred = x - x.mean(axes, keepdim=True)
    variance = (centred * centred).mean(axes, keepdim=True)
    y = centred * (variance + property_of(op, "epsilon")).rsqrt() * scale
    return y if bias is None else y + bias


def rms_normalised(op: Any, x: Tensor, scale: Tensor) -> Tensor:
    axes = list(range(x.ndim - scale.ndim, x.ndim))
    return x * ((x * x).mean(axes, keepdim=True) + property_of(op, "epsilon")).rsqrt() * scale


def by_scale(x: Tensor, scale: Tensor) -> Tensor:
    """x / scale; by a power of two it is exact, and a product says so."""
    powers = torch.log2(scale)
    return x * (1 / scale) if bool((powers == powers.round()).all()) else x / scale


def quantised(op: Any, x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    axis = property_of(op, "axis")
    steps = torch.round(by_scale(x, along(scale, axis, x.ndim)))
    if steps.numel() and float(steps.abs().max()) >= 2**31:
        raise Undetermined("a quantised value beyond 32 bits")
    shifted = steps.to(torch.int64) + along(zero, axis, x.ndim).to(torch.int64)
    return wrapped(op, shifted.clamp(property_of(op, "low"), property_of(op, "high")))


def dequantised(op: Any, q: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    axis = property_of(op, "axis")
    wide = q.to(torch.int64) - along(zero, axis, q.ndim).to(torch.int64)
    return wide.to(torch.float64) * along(scale, axis, q.ndim)


def rescaled(
    x: Tensor, multiplier: Tensor, shift: Tensor, zero: Tensor, axis: int, low: int, high: int
) -> Tensor:
    """`tensor.requantize` in int64."""
    m, s = (along(p, axis, x.ndim).to(torch.int64) for p in (multiplier, shift))
    rounded = (x.to(torch.int64) * m + (torch.ones_like(s) << (s - 1))) >> s
    return (rounded + zero.to(torch.int64)).clamp(low, high)


def requantised(op: Any, x: Tensor, multiplier: Tensor, shift: Tensor, zero: Tensor) -> Tensor:
    low, high = property_of(op, "low"), property_of(op, "high")
    return wrapped(op, rescaled(x, multiplier, shift, zero, property_of(op, "axis"), low, high))


def counted(x: Tensor, thresholds: Tensor, axis: int) -> Tensor:
    """How many thresholds [C or 1, K] of its channel each element reaches."""
    moved = x.movedim(axis, -1)[..., None]
    return (thresholds <= moved).sum(-1).movedim(-1, axis)


def windows_of(op: Any, x: Tensor, around: float) -> Tensor:
    """The windows of a pool, of which the last axes are, with a number around the image."""
    kernel, strides, pads = (property_of(op, n) for n in ("kernel", "strides", "padding"))
    axes = len(kernel)
    rims = [p for a in reversed(range(axes)) for p in (pads[a], pads[axes + a])]
    windows = F.pad(x, rims, value=around) if any(rims) else x
    for a in range(axes):
        if windows.shape[2 + a] < kernel[a]:
            raise Undetermined("a window that is larger than an image of free size")
        windows = windows.unfold(2 + a, kernel[a], strides[a])
    return windows


def max_pooled(op: Any, x: Tensor) -> Tensor:
    if not x.is_floating_point():
        raise Undetermined("a pool of integers")
    return windows_of(op, x, -1e30).amax(list(range(-len(property_of(op, "kernel")), 0)))


def avg_pooled(op: Any, x: Tensor) -> Tensor:
    kernel = property_of(op, "kernel")

    def sums(values: Tensor) -> Tensor:
        return windows_of(op, values, 0.0).sum(list(range(-len(kernel), 0)))

    if property_of(op, "count_include_pad"):
        return sums(x) / float(np.prod(kernel))
    return sums(x) / sums(torch.ones_like(x))


def first_maximum(op: Any, x: Tensor) -> Tensor:
    axis = property_of(op, "axis")
    most = x == x.amax(axis, keepdim=True)
    return (most.cumsum(axis) == 0).sum(axis, keepdim=bool(property_of(op, "keepdims")))


def reduced(function: Callable[..., Tensor]) -> Rule:
    """A reduction over the axes of the op; over none it changes nothing."""

    def run(op: Any, x: Tensor) -> Tensor:
        axes = property_of(op, "axes")
        if not axes:
            return x.clone()
        y = function(x, axes, keepdim=bool(property_of(op, "keepdims")))
        return y if x.is_floating_point() else wrapped(op, y)

    return run


def varying(op: Any, x: Tensor) -> Tensor:
    axes, correction = property_of(op, "axes"), property_of(op, "correction")
    if not axes:  # PyTorch would take them all
        return torch.var(x[None], 0, correction=correction)
    return torch.var(x, axes, correction=correction, keepdim=bool(property_of(op, "keepdims")))


def extreme(name: str) -> Rule:
    return reduced(lambda x, axes, keepdim: getattr(torch, name)(x, axes, keepdim=keepdim))


def reshaped(op: Any, x: Tensor) -> Tensor:
    target = [x.shape[-2 - n] if n <= -2 else n for n in property_of(op, "shape")]
    return x.reshape(target)


def sliced(op: Any, x: Tensor) -> Tensor:
    starts, ends, steps = (property_of(op, n) for n in ("starts", "ends", "steps"))
    where = tuple(
        slice(*slice(a, b, c).indices(n))
        for n, a, b, c in zip(x.shape, starts, ends, steps, strict=True)
    )
    return x[tuple(slice(w.start, max(w.start, w.stop), w.step) for w in where)]


def padded(op: Any, x: Tensor) -> Tensor:
    low, high = property_of(op, "low"), property_of(op, "high")
    around = [p for pair in reversed(list(zip(low, high, strict=True))) for p in pair]
    value = property_of(op, "value")
    return F.pad(x, around, value=value if x.is_floating_point() else int(value))


def squeezed(op: Any, x: Tensor) -> Tensor:
    axes = {a % x.ndim for a in property_of(op, "axes")}
    return x.reshape([n for a, n in enumerate(x.shape) if a not in axes])


def unsqueezed(op: Any, x: Tensor) -> Tensor:
    rank = x.ndim + len(property_of(op, "axes"))
    axes = {a % rank for a in property_of(op, "axes")}
    rest = iter(x.shape)
    return x.reshape([1 if a in axes else next(rest) for a in range(rank)])


def ternarised(op: Any, x: Tensor) -> tuple[Tensor, ...]:
    if property_of(op, "mode") != "deterministic":
        raise Undetermined("random trits")
    rule, scaling = property_of(op, "rule"), property_of(op, "scaling")
    axis = property_of(op, "axis") % max(x.ndim, 1)
    others = [a for a in range(x.ndim) if a != axis] if scaling == "channel" else None
    if x.numel() == 0 or (others == [] and rule == "none"):
        raise Undetermined("no elements to take a mean of")

    def mean(values: Tensor) -> Tensor:
        if others is None:
            return values.mean()
        return values.mean(others, keepdim=True) if others else values

    size = x.abs()
    if rule == "absmean":
        means = mean(size)
        scaled = torch.where(means > 0, x / torch.where(means > 0, means, 1.0), 0.0 * x)
        trits = torch.round(scaled).clamp(-1, 1)
    else:
        limit = property_of(op, "threshold") if rule == "fixed" else 0.7 * mean(size)
        trits = torch.where(size <= limit, 0.0 * x, torch.sign(x))
    result = trits.to(torch.int8)
    if scaling == "none":
        return (result,)
    kept = (trits != 0).to(torch.float64)
    total, count = size * kept, kept
    if others is None:
        return result, total.sum() / count.sum().clamp(min=1)
    if others:
        total, count = total.sum(others), count.sum(others)
    return result, total / count.clamp(min=1)


def packed(op: Any, trits: Tensor) -> Tensor:
    codes = torch.where(trits < 0, 2, trits.to(torch.int64)).flatten()
    codes = F.pad(codes, (0, -len(codes) % 4)).reshape(-1, 4)
    return (codes * torch.tensor([1, 4, 16, 64])).sum(1).to(torch.uint8)


def unpacked(op: Any, packed_trits: Tensor) -> Tensor:
    shape = tensor_type(op.result).get_shape()
    codes = (packed_trits.to(torch.int64)[:, None] >> torch.tensor([0, 2, 4, 6])) & 3
    flat = codes.flatten()[: int(np.prod(shape))]
    return torch.where(flat == 2, -1, flat).to(torch.int8).reshape(list(shape))


def trits_as_floats(op: Any, trits: Tensor, scale: Tensor | None = None) -> Tensor:
    wide = trits.to(torch.float64)
    return wide if scale is None else wide * along(scale, property_of(op, "axis"), trits.ndim)


def ternary_product(op: Any, x: Tensor, weight: Tensor, scale: Tensor | None = None) -> Tensor:
    y = on_whole(torch.matmul, op, x, weight)
    return y if scale is None else y * scale


def fused(axis: int, product: Callable[..., Tensor]) -> Rule:
    """A product with trits and its optional steps, in the order that `FusedOp` gives."""

    def run(op: Any, *operands: Tensor) -> Tensor:
        given = dict(zip((id(v) for v in op.operands), operands, strict=True))

        def get(name: str) -> Any:
            value = getattr(op, name)
            return None if value is None else given[id(value)]

        x, weight = get("input"), get("weight")
        y = product(op, x, weight)
        if get("scale") is not None:
            y = y * along(get("scale"), axis, y.ndim)
        if get("bias") is not None:
            y = y + along(get("bias"), axis, y.ndim)
        if property_of(op, "activation") == "relu":
            y = torch.clamp(y, min=0)
        elif property_of(op, "activation") == "relu6":
            y = torch.clamp(y, 0, 6)
        if get("thresholds") is not None:
            return wrapped(op, counted(y, get("thresholds"), axis))
        if get("multiplier") is not None:
            low, high = property_of(op, "low"), property_of(op, "high")
            given_ = (get("multiplier"), get("shift"), get("zero_point"))
            return wrapped(op, rescaled(y, *given_, axis, low, high))
        return y

    return run


def accumulated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A product whose integer sums are those of the accumulator, before the optional steps."""

    def run(op: Any, x: Tensor, weight: Tensor) -> Tensor:
        wide = function(op, x.to(torch.float64), weight.to(torch.float64))
        if x.is_floating_point():
            return wide
        largest = max((float(v.abs().max()) for v in (wide, x) if v.numel()), default=0.0)
        if x.dtype == torch.int64:
            if largest >= 2**52:
                raise Undetermined("a sum beyond float64")
            return wide.to(torch.int64)
        if largest >= 2**31:
            raise Undetermined("a sum beyond 32 bits")
        return wide.to(torch.int32)

    return run


def added_up(op: Any, x: Tensor) -> Tensor:
    inputs = property_of(op, "inputs")
    nodes, outputs = property_of(op, "nodes"), property_of(op, "outputs")
    wide = x if x.is_floating_point() or x.dtype == torch.int64 else x.to(torch.int32)
    values = [wide[..., i] for i in range(inputs)]
    for i in range(0, len(nodes), 4):
        a, b, sign, shift = nodes[i : i + 4]
        values.append(values[a] + values[b] * (sign * 2**shift))
    columns = [values[outputs[i]] * outputs[i + 1] for i in range(0, len(outputs), 2)]
    return torch.stack(columns, -1)


def shifted(op: Any, x: Tensor, y: Tensor) -> Tensor:
    width = torch.iinfo(x.dtype).bits
    wide, far = x.to(torch.int64), (y < 0) | (y >= width)
    near = torch.where(far, 0, y).to(torch.int64)
    if isinstance(op, tensor.ShiftLeftOp):
        return torch.where(far, 0, wide << near).to(x.dtype)
    return torch.where(far, torch.where(wide < 0, -1, 0), wide >> near).to(x.dtype)


def remaining(op: Any, x: Tensor, y: Tensor) -> Tensor:
    zero = y == 0
    if x.is_floating_point() or not bool(zero.any()):
        return torch.fmod(x, y)
    return torch.where(zero, 0, torch.fmod(x, torch.where(zero, 1, y)))


def cumulated(function: Callable[..., Tensor]) -> Rule:
    def run(op: Any, x: Tensor) -> Tensor:
        y = function(x, property_of(op, "axis"))
        return y if x.is_floating_point() else wrapped(op, y)

    return run


def sorted_first(op: Any, x: Tensor) -> tuple[Tensor, ...]:
    axis, k = property_of(op, "axis"), property_of(op, "k")
    both = torch.sort(x, dim=axis, descending=bool(property_of(op, "largest")), stable=True)
    return tuple(part.narrow(axis, 0, k) for part in both)


def multiplied(x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    for axis in sorted((a % x.ndim for a in axes), reverse=True):
        x = torch.prod(x, axis, keepdim=keepdim)
    return x


def scattered(op: Any, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis, places = property_of(op, "axis"), indices.to(torch.int64)
    if property_of(op, "reduction") == "add":
        return x.scatter_add(axis, places, updates)
    return x.scatter(axis, places, updates)


def one_hot(op: Any, indices: Tensor, on: Tensor, off: Tensor) -> Tensor:
    depth, axis = property_of(op, "depth"), property_of(op, "axis")
    places = indices.to(torch.int64)
    inside = (places >= 0) & (places < depth)
    codes = F.one_hot(torch.where(inside, places, depth), depth + 1)[..., :depth]
    return torch.where(codes.movedim(-1, axis) == 1, on, off)


def with_alpha(function: Callable[[Tensor, Any], Tensor]) -> Rule:
    return lambda op, x: function(x, property_of(op, "alpha"))


FUNCTIONS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp2", "expm1"),
    *("log1p", "log2", "reciprocal", "sin", "sinh", "tan", "trunc"),
)
"""What PyTorch calls as the ops are called."""

MEANING: Mapping[type[Operation], Rule] = {
    **{getattr(tensor, f"{n.capitalize()}Op"): unary(getattr(torch, n)) for n in FUNCTIONS},
    tensor.CeluOp: with_alpha(F.celu),
    tensor.EluOp: with_alpha(F.elu),
    tensor.HardSigmoidOp: lambda op, x: torch.clamp(
        property_of(op, "alpha") * x + property_of(op, "beta"), 0, 1
    ),
    tensor.IsInfOp: unary(torch.isinf),
    tensor.IsNanOp: unary(torch.isnan),
    tensor.MishOp: unary(lambda x: x * torch.tanh(torch.logaddexp(x, torch.zeros_like(x)))),
    tensor.PreluOp: lambda op, x, slope: torch.where(x < 0, slope * x, x),
    tensor.SeluOp: unary(F.selu),
    tensor.SoftplusOp: unary(lambda x: torch.logaddexp(x, torch.zeros_like(x))),
    tensor.SoftsignOp: unary(F.softsign),
    tensor.ThresholdedReluOp: lambda op, x: torch.where(
        x > property_of(op, "alpha"), x, torch.zeros_like(x)
    ),
    tensor.AbsOp: unary(torch.abs),
    tensor.AddOp: lambda op, x, y: x + y,
    tensor.AndOp: lambda op, x, y: x & y,
    tensor.ArgminOp: lambda op, x: torch.argmin(
        x, property_of(op, "axis"), keepdim=bool(property_of(op, "keepdims"))
    ),
    tensor.Atan2Op: lambda op, x, y: torch.atan2(x, y),
    tensor.CumprodOp: cumulated(torch.cumprod),
    tensor.CumsumOp: cumulated(torch.cumsum),
    tensor.FmodOp: remaining,
    tensor.GatherElementsOp: lambda op, x, i: x.gather(property_of(op, "axis"), i.to(torch.int64)),
    tensor.HypotOp: lambda op, x, y: torch.hypot(x, y),
    tensor.OneHotOp: one_hot,
    tensor.ReduceLogSumExpOp: reduced(torch.logsumexp),
    tensor.ReduceProdOp: reduced(multiplied),
    tensor.ReduceVarianceOp: varying,
    tensor.ScatterElementsOp: scattered,
    tensor.ShiftLeftOp: shifted,
    tensor.ShiftRightOp: shifted,
    tensor.TopKOp: sorted_first,
    tensor.XorOp: lambda op, x, y: x ^ y,
    tensor.ArgmaxOp: first_maximum,
    tensor.AvgPoolOp: avg_pooled,
    tensor.BatchNormOp: batch_normalised,
    tensor.ClampOp: clamped,
    tensor.CompareOp: compared,
    tensor.ConcatenateOp: lambda op, *xs: torch.cat(xs, property_of(op, "axis")),
    tensor.ConvertOp: converted,
    tensor.ConvOp: convolved,
    tensor.DequantizeOp: dequantised,
    tensor.DivOp: divided,
    tensor.EinsumOp: lambda op, *xs: on_whole(
        lambda *ys: torch.einsum(property_of(op, "equation"), *ys), op, *xs
    ),
    tensor.ErfOp: unary(torch.erf),
    tensor.ExpandOp: lambda op, x: x.expand(property_of(op, "shape")).clone(),
    tensor.ExpOp: unary(torch.exp),
    tensor.UnflattenOp: lambda op, x, like: x.unflatten(0, like.shape[: property_of(op, "count")]),
    tensor.FlattenOp: lambda op, x: x.flatten(property_of(op, "start"), property_of(op, "end")),
    tensor.FloorOp: unary(torch.floor),
    tensor.GatherRowsOp: lambda op, table, rows: table[rows.to(torch.int64)],
    tensor.GeluOp: lambda op, x: F.gelu(
        x, approximate="none" if property_of(op, "approximate") == "exact" else "tanh"
    ),
    tensor.GlobalAvgPoolOp: lambda op, x: x.mean(list(range(2, x.ndim)), keepdim=True),
    tensor.HardSwishOp: unary(F.hardswish),
    tensor.HardTanhOp: unary(F.hardtanh),
    tensor.LayerNormOp: layer_normalised,
    tensor.LeakyReluOp: lambda op, x: torch.where(x >= 0, x, x * property_of(op, "alpha")),
    tensor.LinearOp: lambda op, x, w, b=None: on_whole(
        lambda x, w, b=None: x @ w if b is None else x @ w + b, op, x, w, b
    ),
    tensor.LogOp: unary(torch.log),
    tensor.LogSoftmaxOp: lambda op, x: torch.log_softmax(x, property_of(op, "axis")),
    tensor.MatmulOp: lambda op, x, y: on_whole(torch.matmul, op, x, y),
    tensor.MaximumOp: lambda op, x, y: torch.maximum(x, y),
    tensor.MaxPoolOp: max_pooled,
    tensor.MinimumOp: lambda op, x, y: torch.minimum(x, y),
    tensor.ModOp: lambda op, x, y: torch.remainder(x, y),
    tensor.MulOp: lambda op, x, y: x * y,
    tensor.MultiThresholdOp: lambda op, x, t: wrapped(op, counted(x, t, property_of(op, "axis"))),
    tensor.NegOp: unary(torch.neg),
    tensor.NotOp: unary(torch.bitwise_not),
    tensor.OrOp: lambda op, x, y: x | y,
    tensor.PadToOp: padded,
    tensor.PermuteOp: lambda op, x: x.permute(property_of(op, "perm")),
    tensor.PowOp: lambda op, x, y: torch.pow(x, y),
    tensor.QuantizeOp: quantised,
    tensor.ReduceMaxOp: extreme("amax"),
    tensor.ReduceMeanOp: reduced(torch.mean),
    tensor.ReduceMinOp: extreme("amin"),
    tensor.ReduceSumOp: reduced(torch.sum),
    tensor.Relu6Op: unary(lambda x: torch.clamp(x, 0, 6)),
    tensor.ReluOp: unary(lambda x: torch.clamp(x, min=0)),
    tensor.RequantizeOp: requantised,
    tensor.ReshapeToOp: reshaped,
    tensor.RmsNormOp: rms_normalised,
    tensor.RoundOp: unary(torch.round),
    tensor.RsqrtOp: unary(torch.rsqrt),
    tensor.ScaledDotProductAttentionOp: attended,
    tensor.SigmoidOp: unary(torch.sigmoid),
    tensor.SignOp: unary(torch.sign),
    tensor.SiluOp: unary(F.silu),
    tensor.SliceOp: sliced,
    tensor.SoftmaxOp: lambda op, x: torch.softmax(x, property_of(op, "axis")),
    tensor.SplitOp: lambda op, x: tuple(
        torch.split(x, property_of(op, "sizes"), property_of(op, "axis"))
    ),
    tensor.SqrtOp: unary(torch.sqrt),
    tensor.SqueezeOp: squeezed,
    tensor.SubOp: lambda op, x, y: x - y,
    tensor.TanhOp: unary(torch.tanh),
    tensor.UnsqueezeOp: unsqueezed,
    tensor.WhereOp: lambda op, c, x, y: torch.where(c, x, y),
    ternary.AdderGraphOp: added_up,
    ternary.ConvOp: fused(1, accumulated(lambda op, x, w: convolved(op, x, w))),
    ternary.DequantizeOp: trits_as_floats,
    ternary.LinearOp: fused(-1, accumulated(lambda op, x, w: x @ w)),
    ternary.MatmulOp: ternary_product,
    ternary.PackOp: packed,
    ternary.TernarizeOp: ternarised,
    ternary.UnpackOp: unpacked,
}
"""By operation; parameters and constants are read by the project itself."""
