"""Type rules of products, convolutions and normalisations."""

from __future__ import annotations

import re

from .dims import Dim
from .signatures import Functions, Result, RuleCall, accumulator
from .types import TensorType, promote

_EINSUM = re.compile(r"([a-zA-Z]*(?:,[a-zA-Z]*)*)->([a-zA-Z]*)")


def _product_element(call: RuleCall, left: str, right: str) -> str:
    """The result's element type; operands are cast to it, but for those that trits multiply.

    A dense product of the IR sums in the type of its operands.
    """
    a, b = call.types[left], call.types[right]
    if b.kind == "spike":
        call.dense(right)
    for name in (left, right):
        if call.types[name].element == "bool" and call.types[name].kind == "dense":
            call.fail(f"needs numbers but '{name}' is {call.types[name]}", name)
    if a.kind == "spike":
        return b.element if b.is_float else "float32"
    element = accumulator(a.element, b.element)
    if b.kind == "dense":
        call.casts.update({n: element for n, t in ((left, a), (right, b)) if t.element != element})
    return element


def matmul(call: RuleCall) -> Result:
    """NumPy's matmul; one side may be ternary, the left a spike train."""
    a, b = call.types["x"], call.types["y"]
    if not a.rank or not b.rank:
        call.fail(f"needs tensors of at least one axis, found {a} @ {b}")
    _sums_no_time(call)
    element = _product_element(call, "x", "y")
    left, right = a.shape, b.shape
    inner_right = right[0] if len(right) == 1 else right[-2]
    if not call.same(left[-1], inner_right):
        turned = len(right) == 2 and call.same(left[-1], right[-1])
        size = f"the right side needs {left[-1]} where it has {inner_right}"
        hint = "write transpose(…) around the right side" if turned else size
        call.fail(f"needs equal inner dimensions: {a} @ {b}", "y" if turned else None, hint)
    batch = call.broadcast(left[:-2], right[:-2])
    rows = left[-2:-1]
    columns = right[-1:] if len(right) > 1 else ()
    return TensorType("dense", element, (*batch, *rows, *columns))


def _sums_no_time(call: RuleCall) -> None:
    x = call.types["x"]
    if x.kind == "spike" and x.rank < 2:
        call.fail(f"needs an axis besides time to sum over, found {x}", "x")


def linear(call: RuleCall) -> Result:
    """`x @ weight + bias` over the last axis of `x`."""
    x = call.types["x"]
    weight = call.rank("weight", 2, like="[in, out]")
    if not x.rank:
        call.fail(f"needs at least one axis, found {x}", "x")
    _sums_no_time(call)
    element = _product_element(call, "x", "weight")
    if not call.same(x.shape[-1], weight.shape[0]):
        call.fail(f"needs equal inner dimensions: {x} @ {weight}")
    _bias(call, weight.shape[1], element)
    return TensorType("dense", element, (*x.shape[:-1], weight.shape[1]))


def _bias(call: RuleCall, size: Dim, element: str) -> None:
    if "bias" not in call.types:
        return
    bias = call.dense("bias")
    call.casts["bias"] = element
    if bias.rank != 1 or not call.same(bias.shape[0], size):
        call.fail(f"needs 'bias' of shape [{size}], found {bias}", "bias")


def ternary_matmul(call: RuleCall) -> Result:
    """`x @ weight` with a ternary weight and an optional scale per output channel."""
    weight = call.ternary("weight")
    x = call.types["x"]
    if weight.rank != 2 or not x.rank:
        call.fail(f"needs x @ weight of the form [.., in] @ [in, out], found {x} @ {weight}")
    _sums_no_time(call)
    element = _product_element(call, "x", "weight")
    if not call.same(x.shape[-1], weight.shape[0]):
        call.fail(f"needs equal inner dimensions: {x} @ {weight}")
    if "scale" in call.types:
        call.shaped("scale", (weight.shape[1],), "one per output channel")
        element = promote(element, "float32")
    return TensorType("dense", element, (*x.shape[:-1], weight.shape[1]))


def window(call: RuleCall, size: Dim, kernel: Dim, stride: Dim, padding: Dim, dilation: Dim) -> Dim:
    """The output size of a sliding window along one axis."""
    span = dilation * (kernel - 1) + 1
    padded = size + padding * 2
    known = (padded - span).constant()
    if known is not None and known < 0:
        call.fail(f"the window of {span} does not fit the padded size {padded}")
    return call.assumptions.floor_divide(padded - span, stride) + 1


def _convolve(call: RuleCall, axes: int, groups: Dim | None) -> Result:
    x = call.types["x"]
    layout = "[N, C, H, W]" if axes == 2 else "[N, C, L]"
    timed = x.kind == "spike"
    if timed:
        call.rank("x", axes + 3, like=f"SpikeTensor[T, {layout[1:]}")
    else:
        call.rank("x", axes + 2, like=layout)
    weight = call.rank("weight", axes + 2, like="[O, I, H, W]" if axes == 2 else "[O, I, L]")
    element = _product_element(call, "x", "weight")
    channels = x.shape[-axes - 1]
    groups = channels if groups is None else groups
    if not call.same(weight.shape[1] * groups, channels):
        expected = weight.shape[1] * groups
        call.fail(f"'x' has {channels} channels but 'weight' ({weight}) takes {expected}")
    outputs, count = weight.shape[0].constant(), groups.constant()
    if outputs is not None and count is not None and outputs % count:
        call.fail(f"{outputs} output channels do not split into {count} groups", "weight")
    _bias(call, weight.shape[0], element)
    stride, padding = call.pair("stride", axes), call.pair("padding", axes, least=0)
    dilation = call.pair("dilation", axes)
    spatial = tuple(
        window(call, size, kernel, s, p, d)
        for size, kernel, s, p, d in zip(
            x.shape[-axes:], weight.shape[-axes:], stride, padding, dilation, strict=True
        )
    )
    return TensorType("dense", element, (*x.shape[: -axes - 1], weight.shape[0], *spatial))


def _groups(call: RuleCall) -> Dim:
    groups = call.attributes["groups"]
    if isinstance(groups, int) and groups < 1:
        call.fail(f"'groups' must be at least 1, found {groups}", "groups")
    return Dim.lift(groups)


def conv1d(call: RuleCall) -> Result:
    """[N, C, L] with weight [O, C / groups, K]."""
    return _convolve(call, 1, _groups(call))


def conv2d(call: RuleCall) -> Result:
    """[N, C, H, W] with weight [O, C / groups, KH, KW]."""
    return _convolve(call, 2, _groups(call))


def depthwise_conv2d(call: RuleCall) -> Result:
    """[N, C, H, W] with weight [C * m, 1, KH, KW]: one group a channel."""
    return _convolve(call, 2, None)


def einsum(call: RuleCall) -> Result:
    """Einstein summation without repeated letters in one operand and without `...`."""
    equation = str(call.number("equation")).replace(" ", "")
    tensors = call.lists["tensors"]
    match = _EINSUM.fullmatch(equation)
    if match is None:
        call.fail(f"cannot read the equation '{equation}'", "equation", 'write "ij,jk->ik"')
    terms, output = match[1].split(","), match[2]
    if len(terms) != len(tensors):
        call.fail(f"the equation has {len(terms)} terms for {len(tensors)} tensors", "equation")
    sizes: dict[str, Dim] = {}
    for number, (term, operand) in enumerate(zip(terms, tensors, strict=True)):
        if operand.kind == "spike":
            call.fail(f"needs dense tensors, found {operand}", None, "use decode(…) first")
        if operand.element == "bool":
            call.fail(f"needs numbers, found {operand}")
        if len(set(term)) != len(term):
            call.fail(f"the term '{term}' repeats a letter", "equation")
        if len(term) != operand.rank:
            call.fail(f"the term '{term}' does not fit {operand}", "equation")
        for letter, size in zip(term, operand.shape, strict=True):
            if not call.same(sizes.setdefault(letter, size), size):
                call.fail(f"'{letter}' is {sizes[letter]} and, in tensor {number + 1}, {size}")
    if len(set(output)) != len(output) or set(output) - sizes.keys():
        call.fail(f"the result '{output}' must name letters of the terms, each once", "equation")
    element = "int8"
    for operand in tensors:
        element = promote(element, operand.element)
    element = accumulator(element, element)
    call.attributes["equation"] = equation
    call.casts["tensors"] = element
    return TensorType("dense", element, tuple(sizes[letter] for letter in output))


def batch_norm(call: RuleCall) -> Result:
    """(x - mean) / sqrt(var + eps) * weight + bias along the channel axis; spikes are 0 and 1."""
    x = call.types["x"]
    x = x.with_element("float32") if x.kind == "spike" else call.floating("x")
    channels = x.shape[call.axis("axis", x.rank)]
    for name in ("running_mean", "running_var", "weight", "bias"):
        call.shaped(name, (channels,), "one per channel")
    _positive_eps(call)
    return x


def _positive_eps(call: RuleCall) -> None:
    eps = call.attributes["eps"]
    if isinstance(eps, float) and eps < 0:
        call.fail(f"'eps' must not be negative, found {eps}", "eps")


def layer_norm(call: RuleCall) -> Result:
    """Normalisation over the axes from `axis` to the last."""
    x = call.floating("x")
    shape = x.shape[call.axis("axis", x.rank) :]
    for name in ("weight", "bias"):
        call.shaped(name, shape)
    _positive_eps(call)
    return x


LINEAR: Functions = {
    "ternary": {
        (
            "ternary_matmul(x, weight, scale = none): x @ weight with a ternary weight; trits "
            "and integers give int32, int64 gives int64."
        ): ternary_matmul,
    },
    "linear": {
        "matmul(x, y): The function form of x @ y.": matmul,
        "linear(x, weight, bias = none): x @ weight + bias, weight [in, out].": linear,
        (
            "conv1d(x, weight, bias = none, stride: ints = 1, padding: ints = 0, "
            "dilation: ints = 1, groups: int = 1): Convolution of [N, C, L]."
        ): conv1d,
        (
            "conv2d(x, weight, bias = none, stride: ints = 1, padding: ints = 0, "
            "dilation: ints = 1, groups: int = 1): Convolution of [N, C, H, W]."
        ): conv2d,
        (
            "depthwise_conv2d(x, weight, bias = none, stride: ints = 1, padding: ints = 0, "
            "dilation: ints = 1): conv2d with one group a channel."
        ): depthwise_conv2d,
        "einsum(equation: string, *tensors): Einstein summation.": einsum,
    },
    "normalisation": {
        (
            "batch_norm(x, running_mean, running_var, weight = none, bias = none, "
            "eps: float = 1e-5, axis: int = 1): Normalisation by stored statistics along the "
            "channel axis."
        ): batch_norm,
        (
            "layer_norm(x, weight = none, bias = none, eps: float = 1e-5, axis: int = -1): "
            "Normalisation to mean 0, variance 1 over the axes from `axis` on."
        ): layer_norm,
        (
            "rms_norm(x, weight = none, eps: float = 1e-6, axis: int = -1): "
            "x / sqrt(mean(x²) + eps) over the axes from `axis` on."
        ): layer_norm,
    },
}
