"""TFLite forms of activation functions."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from .elementwise import clip
from .graph import Tensor
from .layout import Layout, with_last
from .tflite_writer import Rule, Writer

_DIRECT = {
    tensor.SigmoidOp: "LOGISTIC",
    tensor.TanhOp: "TANH",
    tensor.HardSwishOp: "HARD_SWISH",
}


def relu(e: Writer, op: tensor.ReluOp) -> None:
    """max(x, 0)."""
    x, layout = e.stored(op.operand)
    e.bind(op.result, rectify(e, x), layout)


def rectify(e: Writer, x: Tensor) -> Tensor:
    """max(x, 0) in any element type; RELU is for floats alone."""
    if x.element.is_float:
        return e.apply("RELU", [x])
    return clip(e, x, 0, None)


def relu6(e: Writer, op: tensor.Relu6Op) -> None:
    """min(max(x, 0), 6)."""
    x, layout = e.stored(op.operand)
    out = e.apply("RELU6", [x]) if x.element.is_float else clip(e, x, 0, 6)
    e.bind(op.result, out, layout)


def hard_tanh(e: Writer, op: tensor.HardTanhOp) -> None:
    """min(max(x, -1), 1)."""
    x, layout = e.stored(op.operand)
    e.bind(op.result, e.apply("RELU_N1_TO_1", [x]), layout)


def direct(e: Writer, op: tensor.TanhOp) -> None:
    """One operator of the same meaning."""
    x, layout = e.stored(op.operand)
    e.bind(op.result, e.apply(_DIRECT[type(op)], [x]), layout)


def leaky_relu(e: Writer, op: tensor.LeakyReluOp) -> None:
    """x where x ≥ 0, else alpha·x."""
    x, layout = e.stored(op.operand)
    e.bind(op.result, e.apply("LEAKY_RELU", [x], alpha=op.alpha.value.data), layout)


def elu(e: Writer, op: tensor.EluOp) -> None:
    """ELU, which has no alpha."""
    x, layout = e.stored(op.operand)
    out, alpha = e.apply("ELU", [x]), op.alpha.value.data
    if alpha != 1:
        below = e.binary("MUL", out, e.scalar(alpha, x.element))
        out = e.choose(e.compare("GREATER", x, e.scalar(0, x.element)), x, below)
    e.bind(op.result, out, layout)


def gelu(e: Writer, op: tensor.GeluOp) -> None:
    """GELU, exact or by tanh."""
    x, layout = e.stored(op.operand)
    e.bind(op.result, e.apply("GELU", [x], approximate=op.approximate.data == "tanh"), layout)


def along_axis(e: Writer, op: tensor.SoftmaxOp | tensor.LogSoftmaxOp) -> None:
    """SOFTMAX and LOG_SOFTMAX work on the last axis: another one is brought there."""
    x, layout = last(e, op.operand, op.axis.value.data)
    if isinstance(op, tensor.SoftmaxOp):
        e.bind(op.result, e.apply("SOFTMAX", [x], beta=1.0), layout)
    else:
        e.bind(op.result, e.apply("LOG_SOFTMAX", [x]), layout)


def last(e: Writer, value: SSAValue, axis: int) -> tuple[Tensor, Layout]:
    """A value with `axis` stored last: as it is, where that holds already."""
    x, have = e.stored(value)
    if have.image is None and have.order[-1] == axis % x.rank:
        return x, have
    want = with_last(x.rank, axis)
    return e.laid(value, want), want


RULES: dict[type[Operation], Rule] = {
    **dict.fromkeys(_DIRECT, direct),
    tensor.ReluOp: relu,
    tensor.Relu6Op: relu6,
    tensor.HardTanhOp: hard_tanh,
    tensor.LeakyReluOp: leaky_relu,
    tensor.EluOp: elu,
    tensor.GeluOp: gelu,
    tensor.SoftmaxOp: along_axis,
    tensor.LogSoftmaxOp: along_axis,
}
