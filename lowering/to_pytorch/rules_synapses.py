"""PyTorch forms of synapses and pools of `spike`: of all steps at once."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value
from ...dialects.shapes import is_float
from ...dialects.spike.types import is_train
from ...dialects.ternary.types import is_trit
from .expressions import Expr, binary, call, sequence
from .forward import INLINE, Forward, dtype_of
from .rules_elementwise import average, maximum, window_of
from .rules_linear import float_conv
from .rules_quantization import along

_HALVES = ("torch.float16", "torch.bfloat16")


def linear(op: spike.LinearOp, e: Forward) -> Expr:
    """Spikes times a matrix, then scale and bias."""
    if _is_exact(op):
        return _finish(op, _exact_matmul(op, e), "torch.int32", e)
    kind = _sum_dtype(op)
    sums = call("torch.matmul", _signal(op, kind, e), _weight(op, kind, e))
    return _finish(op, sums, kind, e)


def _exact_matmul(op: spike.LinearOp, e: Forward) -> Expr:
    """Sums of integers: as floats for a scale to multiply, where floats hold them, else i32."""
    trits = e.packed(op.weight)
    if is_train(op.input):
        if trits is not None and len(trits.shape) == 2:
            place = (e.value(op.input), trits.source, sequence(trits.shape))
            return e.library("multiply_ternary_spikes", *place, _exact_dtype(op))
        kind = _holding(op, tensor_type(op.weight).get_shape()[0])
        sums = call("torch.matmul", e.train(op.input, kind), _weight(op, kind, e))
        return _as_exact(op, sums, kind)
    return e.library("matmul_integers", e.value(op.input), _exact_weight(op, e))


def conv(op: spike.ConvOp, e: Forward) -> Expr:
    """A convolution of the images of all steps, then scale and bias."""
    exact = _is_exact(op)
    terms = prod(tensor_type(op.weight).get_shape()[1:])
    kind = _holding(op, terms) if exact else _sum_dtype(op)
    weight = _weight(op, kind, e)
    x = _signal(op, kind, e)
    x = x if len(x.text) <= INLINE // 2 else e.bind(op, "images", x)
    sums = float_conv(op, x.method("flatten", 0, 1), weight, None)
    sums = sums.method("unflatten", 0, f"{e.local(op.input)}.shape[:2]")
    if not exact:
        return _finish(op, sums, kind, e)
    if not is_train(op.input):
        sums = sums.method("to", "torch.int64")  # which wraps around to int32
        return _finish(op, sums.method("to", "torch.int32"), "torch.int32", e)
    sums = e.library("round_sums", sums) if kind == "torch.float32" else sums
    return _finish(op, _as_exact(op, sums, kind), "torch.int32", e)


def _holding(op: spike.LinearOp | spike.ConvOp, terms: int) -> str:
    """The float type that holds every sum of `terms` products."""
    bound = terms * (1 if is_trit(tensor_type(op.weight)) else 128)
    return "torch.float32" if is_train(op.input) and bound <= 1 << 24 else "torch.float64"


def _as_exact(op: spike.LinearOp | spike.ConvOp, sums: Expr, kind: str) -> Expr:
    dtype = _exact_dtype(op)
    return sums if dtype == kind else sums.method("to", dtype)


def _is_exact(op: spike.LinearOp | spike.ConvOp) -> bool:
    return op.sum_element(tensor_type(op.weight)) == i32


def _sum_dtype(op: spike.LinearOp | spike.ConvOp) -> str:
    """The type of float sums: halves in float32."""
    kind = dtype_of(op.result)
    return "torch.float32" if kind in _HALVES else kind


def _exact_dtype(op: spike.LinearOp | spike.ConvOp) -> str:
    """The type that exact sums of spikes come in: that of a scale, so that gradients flow."""
    if op.scale is None or not is_train(op.input):
        return "torch.int32"
    kind = dtype_of(op.scale)
    return "torch.float32" if kind in _HALVES else kind


def _signal(op: spike.LinearOp | spike.ConvOp, kind: str, e: Forward) -> Expr:
    if is_train(op.input):
        if e.train_dtype(op.input) == kind:
            return e.value(op.input)
        # The weights' own type, which is another one after double().
        own = dtype_of(op.weight) == kind and not is_trit(tensor_type(op.weight))
        target = f"{e.local(op.weight)}.dtype" if own else kind
        return e.value(op.input).method("to", target)
    x = e.value(op.input)
    return x if dtype_of(op.input) == kind else x.method("to", kind)


def _weight(op: spike.LinearOp | spike.ConvOp, kind: str, e: Forward) -> Expr:
    if is_trit(tensor_type(op.weight)):
        return e.trits(op.weight, kind)
    weight = e.value(op.weight)
    return weight if dtype_of(op.weight) == kind else weight.method("to", kind)


def _exact_weight(op: spike.LinearOp | spike.ConvOp, e: Forward) -> Expr:
    if is_trit(tensor_type(op.weight)):
        return e.trits(op.weight, "torch.float64")
    return e.value(op.weight).method("double")


def _finish(op: spike.LinearOp | spike.ConvOp, sums: Expr, kind: str, e: Forward) -> Expr:
    """Scale and bias, and the result's type; `kind` is that of the sums."""
    rank, result = tensor_type(op.result).get_num_dims(), dtype_of(op.result)
    wide = "torch.float32" if result in _HALVES else result

    def channel(value: SSAValue) -> Expr:
        vector = along(e.operand(value), value, rank, op.CHANNEL_AXIS)
        return vector if vector.scalar or dtype_of(value) == wide else vector.method("to", wide)

    if op.scale is not None:
        if kind == "torch.int32" and not is_train(op.input):
            sums = sums.method("to", wide)
        if not _is_one(op.scale):
            sums = binary("*", _short(op, sums, e), channel(op.scale))
    if op.bias is not None:
        sums = binary("+", _short(op, sums, e), channel(op.bias))
    return sums if wide == result else sums.method("to", result)


def _is_one(value: SSAValue) -> bool:
    known = constant_value(value.owner) if isinstance(value.owner, tensor.ConstantOp) else None
    return known is not None and bool((known == 1).all())


def _short(op: spike.LinearOp | spike.ConvOp, expression: Expr, e: Forward) -> Expr:
    """The expression itself, or a name for a long one."""
    return expression if len(expression.text) <= INLINE else e.bind(op, "sums", expression)


def max_pool(op: spike.MaxPoolOp, e: Forward) -> Expr:
    """Where a window has a spike; pads have none."""
    pooled = maximum(_images(op, e), *window_of(op), None)
    e.set_train(op.result, "torch.float32")
    return _apart(op, pooled, e)


def avg_pool(op: spike.AvgPoolOp, e: Forward) -> Expr:
    """The mean of each window."""
    return _apart(op, average(op, e.bind(op, "images", _images(op, e)), e), e)


def _images(op: spike.MaxPoolOp | spike.AvgPoolOp, e: Forward) -> Expr:
    if is_train(op.operand):
        x = e.train(op.operand, "torch.float32")
    else:
        x = e.value(op.operand)
        assert is_float(tensor_type(op.operand))
    return x.method("flatten", 0, 1)


def _apart(op: spike.MaxPoolOp | spike.AvgPoolOp, images: Expr, e: Forward) -> Expr:
    """[T·N, …] as [T, N, …]."""
    named = images if len(images.text) <= INLINE else e.bind(op, "pooled", images)
    return named.method("unflatten", 0, f"{e.local(op.operand)}.shape[:2]")


RULES = {
    spike.LinearOp: linear,
    spike.ConvOp: conv,
    spike.MaxPoolOp: max_pool,
    spike.AvgPoolOp: avg_pool,
}
"""The rule of each op."""
