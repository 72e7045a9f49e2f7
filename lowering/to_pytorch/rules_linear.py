"""PyTorch forms of matmuls, convolutions and attention, of floats, integers and trits."""

from __future__ import annotations

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ...dialects.ternary.linear import FusedOp, accumulator
from .expressions import Expr, binary, call, sequence
from .forward import INLINE, Forward, bits_of, dtype_of
from .literals import number
from .rules_elementwise import compact, padded
from .rules_quantization import along, count_thresholds, rescale
from .rules_spiking import are_spikes, are_whole_sums


def matmul(op: tensor.MatmulOp, e: Forward) -> Expr:
    """NumPy's matmul; integers wrap around."""
    return call("torch.matmul", e.value(op.lhs), e.value(op.rhs))


def linear(op: tensor.LinearOp, e: Forward) -> Expr:
    """x · W + b."""
    result = call("torch.matmul", e.value(op.input), e.value(op.weight))
    return result if op.bias is None else binary("+", result, e.value(op.bias))


def conv(op: tensor.ConvOp, e: Forward) -> Expr:
    """A convolution; integers wrap around."""
    if is_float(tensor_type(op.input)):
        bias = None if op.bias is None else e.value(op.bias)
        result = float_conv(op, e.value(op.input), e.value(op.weight), bias)
        return e.library("round_sums", result) if are_whole_sums(op.result) else result
    x, weight = e.value(op.input), e.value(op.weight)
    window = _window(op)
    if bits_of(op.input) <= 16:
        result = e.library("convolve_integers", x, weight, *window, dtype_of(op.result))
    else:
        result = e.library("convolve_wrapping", x, weight, *window)
    return result if op.bias is None else binary("+", result, _along_channels(op.bias, op, e))


def _along_channels(vector: SSAValue, op: tensor.ConvOp, e: Forward) -> Expr:
    return along(e.value(vector), vector, tensor_type(op.input).get_num_dims(), 1)


def _window(op: tensor.ConvOp | ternary.ConvOp) -> tuple[str, str, str, str]:
    steps = [sequence(p.get_values()) for p in (op.strides, op.padding, op.dilation)]
    return steps[0], steps[1], steps[2], str(op.groups.value.data)


def float_conv(
    op: tensor.ConvOp | ternary.ConvOp, x: Expr, weight: Expr, bias: Expr | None
) -> Expr:
    """A convolution of floats with the window of `op`."""
    strides, padding = op.strides.get_values(), tuple(op.padding.get_values())
    dilation, groups = op.dilation.get_values(), op.groups.value.data
    x, low = padded(x, padding)
    biases = () if bias is None else (bias,)
    return call(
        f"F.conv{len(strides)}d",
        x,
        weight,
        *biases,
        stride=compact(tuple(strides)) if any(s != 1 for s in strides) else None,
        padding=low,
        dilation=compact(tuple(dilation)) if any(d != 1 for d in dilation) else None,
        groups=groups if groups != 1 else None,
    )


def einsum(op: tensor.EinsumOp, e: Forward) -> Expr:
    """Einstein summation."""
    return call("torch.einsum", f'"{op.equation.data}"', *map(e.value, op.inputs))


def attention(op: tensor.ScaledDotProductAttentionOp, e: Forward) -> Expr:
    """Scaled dot-product attention."""
    operands = [e.value(op.query), e.value(op.key), e.value(op.value)]
    scale = None if op.scale is None else number(op.scale.value.data)
    causal = bool(op.is_causal.value.data)
    if causal and op.mask is not None:
        size = tensor_type(op.query).get_shape()[-1]
        factor = scale if scale is not None else f"{e.size(op.query, -1)}**-0.5"
        return e.library("attend", *operands, e.value(op.mask), factor if size else 1.0)
    return call(
        "F.scaled_dot_product_attention",
        *operands,
        attn_mask=None if op.mask is None else e.value(op.mask),
        is_causal="True" if causal else None,
        scale=scale,
    )


def ternary_matmul(op: ternary.MatmulOp, e: Forward) -> Expr:
    """x · W with trits W."""
    if _by_kernels(op.input, op.weight, e) and _is_vector(op.scale, op.weight, 1):
        return _fused(op.input, op.weight, (op.scale, None), e)
    result = _matmul(op.input, op.weight, e)
    return result if op.scale is None else binary("*", result, e.operand(op.scale))


def _by_kernels(input: SSAValue, weight: SSAValue, e: Forward) -> bool:
    """Whether the matmul is one of floats with a matrix in packed bytes."""
    floats = is_float(tensor_type(input)) and not are_spikes(input)
    return floats and e.packed_matrix(weight) is not None


def _is_vector(value: SSAValue | None, weight: SSAValue, axis: int) -> bool:
    """Whether a scale or bias is missing, or has an element for each output on an axis."""
    if value is None:
        return True
    return tensor_type(value).get_shape() == (tensor_type(weight).get_shape()[axis],)


def _fused(
    input: SSAValue,
    weight: SSAValue,
    vectors: tuple[SSAValue | None, SSAValue | None],
    e: Forward,
) -> Expr:
    trits = e.packed(weight)
    assert trits is not None
    scale, bias = (None if value is None else e.value(value) for value in vectors)
    place = (trits.source, sequence(trits.shape))
    return e.library("multiply_ternary", e.value(input), *place, scale=scale, bias=bias)


def _matmul(input: SSAValue, weight: SSAValue, e: Forward) -> Expr:
    if _by_kernels(input, weight, e):
        return _fused(input, weight, (None, None), e)
    trits = e.packed_matrix(weight)
    if trits is not None and are_spikes(input):
        place = (e.value(input), trits.source, sequence(trits.shape))
        return e.library("multiply_ternary_spikes", *place, dtype_of(input))
    if is_float(tensor_type(input)):
        x = e.local(input)
        return call("torch.matmul", x, e.trits(weight, dtype_of(input), like=x))
    x, wide = _integers(input, e)
    if trits is not None:
        place = (trits.source, sequence(trits.shape))
        return e.library("multiply_ternary_integers", x, *place)
    return e.library("matmul_integers", x, e.trits(weight, wide))


def _integers(input: SSAValue, e: Forward) -> tuple[Expr, str]:
    """Integers for a matmul with trits, and the type to multiply in; int64 where i64 sums them."""
    x = e.value(input)
    if accumulator(tensor_type(input)) != i64:
        return x, "torch.float64"
    return x if dtype_of(input) == "torch.int64" else x.method("to", "torch.int64"), "torch.int64"


def ternary_linear(op: ternary.LinearOp, e: Forward) -> Expr:
    """x · W and the optional steps."""
    e.local(op.input)
    vectors = (op.scale, op.bias)
    if _by_kernels(op.input, op.weight, e) and all(_is_vector(v, op.weight, 1) for v in vectors):
        result = _fused(op.input, op.weight, vectors, e)
        return _finish(op, result, e, bias_done=True, scale_done=True)
    return _finish(op, _matmul(op.input, op.weight, e), e, bias_done=False)


def ternary_conv(op: ternary.ConvOp, e: Forward) -> Expr:
    """A convolution with trits and the optional steps."""
    e.local(op.input)
    spikes = are_spikes(op.input)
    if e.packed(op.weight) is not None and not spikes:
        return _packed_conv(op, e)
    if is_float(tensor_type(op.input)):
        weight = e.trits(op.weight, dtype_of(op.input), like=e.value(op.input))
        inside = op.bias is not None and op.scale is None and not spikes
        bias = e.value(op.bias) if op.bias is not None and inside else None
        sums = float_conv(op, e.value(op.input), weight, bias)
        sums = e.library("round_sums", sums) if spikes else sums
        return _finish(op, sums, e, bias_done=inside)
    x, wide = _integers(op.input, e)
    weight, window = e.trits(op.weight, wide), _window(op)
    if wide == "torch.int64":
        result = e.library("convolve_wrapping", x, weight, *window)
    else:
        result = e.library("convolve_integers", x, weight, *window, "torch.int32")
    return _finish(op, result, e, bias_done=False)


def _packed_conv(op: ternary.ConvOp, e: Forward) -> Expr:
    """A convolution with weights in packed bytes, by kernels where there are some."""
    trits = e.packed(op.weight)
    assert trits is not None
    place = (trits.source, sequence(trits.shape), *_window(op))
    if not is_float(tensor_type(op.input)):
        result = e.library("convolve_ternary_integers", _integers(op.input, e)[0], *place)
        return _finish(op, result, e, bias_done=False)
    fused = all(_is_vector(value, op.weight, 0) for value in (op.scale, op.bias))
    scale, bias = (
        e.value(value) if fused and value is not None else None for value in (op.scale, op.bias)
    )
    result = e.library("convolve_ternary", e.value(op.input), *place, scale=scale, bias=bias)
    return _finish(op, result, e, bias_done=fused, scale_done=fused)


def _finish(
    op: FusedOp, result: Expr, e: Forward, *, bias_done: bool, scale_done: bool = False
) -> Expr:
    """The optional steps of a fused op, in their order."""
    rank, axis = tensor_type(op.result).get_num_dims(), op.CHANNEL_AXIS
    if op.scale is not None and not scale_done:
        scale = along(e.operand(op.scale), op.scale, rank, axis)
        result = binary("*", _short(op, result, e), scale)
    if op.bias is not None and not bias_done:
        bias = along(e.operand(op.bias), op.bias, rank, axis)
        result = binary("+", _short(op, result, e), bias)
    if op.activation.data != "none":
        name = {"relu": "torch.relu", "relu6": "F.relu6"}[op.activation.data]
        result = call(name, _short(op, result, e))
    if op.thresholds is not None:
        result = _short(op, result, e)
        return count_thresholds(result, op.thresholds, axis, dtype_of(op.result), e)
    if op.multiplier is None:
        return result
    assert op.shift is not None and op.zero_point is not None
    assert op.low is not None and op.high is not None
    return rescale(
        _short(op, result, e),
        (op.multiplier, op.shift, op.zero_point),
        (op.low.value.data, op.high.value.data),
        rank,
        axis,
        dtype_of(op.result),
        e,
    )


def _short(op: FusedOp, expression: Expr, e: Forward) -> Expr:
    """The expression itself, or a name for a long one."""
    return expression if len(expression.text) <= INLINE else e.bind(op, "product", expression)


RULES = {
    tensor.MatmulOp: matmul,
    tensor.LinearOp: linear,
    tensor.ConvOp: conv,
    tensor.EinsumOp: einsum,
    tensor.ScaledDotProductAttentionOp: attention,
    ternary.MatmulOp: ternary_matmul,
    ternary.LinearOp: ternary_linear,
    ternary.ConvOp: ternary_conv,
}
"""The rule of each op."""
