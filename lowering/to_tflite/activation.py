"""TFLite forms of activation functions."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from .elementwise import clip, elementwise
from .graph import Tensor
from .layout import Layout, with_last
from .merged_axes import MOST_AXES, on_merged_axes
from .tflite_writer import Rule, Writer


def rectify(e: Writer, x: Tensor) -> Tensor:
    """max(x, 0) in any element type; RELU is for floats alone."""
    return e.apply("RELU", [x]) if x.element.is_float else clip(e, x, 0, None)


def rectify_to_6(e: Writer, x: Tensor) -> Tensor:
    """min(max(x, 0), 6) in any element type."""
    return e.apply("RELU6", [x]) if x.element.is_float else clip(e, x, 0, 6)


def _elu(e: Writer, x: Tensor, op: tensor.EluOp) -> Tensor:
    """ELU, which has no alpha."""
    out, alpha = e.apply("ELU", [x]), op.alpha.value.data
    if alpha == 1:
        return out
    below = e.binary("MUL", out, e.scalar(alpha, x.element))
    return e.choose(e.compare("GREATER", x, e.scalar(0, x.element)), x, below)


def along_axis(e: Writer, op: tensor.SoftmaxOp | tensor.LogSoftmaxOp) -> None:
    """SOFTMAX and LOG_SOFTMAX work on the last axis: another one is brought there."""
    x, layout = last(e, op.operand, op.axis.value.data)

    def of_rows(rows: list[Tensor], _: object = None) -> Tensor:
        if isinstance(op, tensor.SoftmaxOp):
            return e.apply("SOFTMAX", rows, beta=1.0)
        return e.apply("LOG_SOFTMAX", rows)

    if x.rank > MOST_AXES:
        out = on_merged_axes(e, [x], x.shape, [x.rank - 1], of_rows)
    else:
        out = of_rows([x])
    e.bind(op.result, out, layout)


def last(e: Writer, value: SSAValue, axis: int) -> tuple[Tensor, Layout]:
    """A value with `axis` stored last: as it is, where that holds already."""
    x, have = e.stored(value)
    if have.image is None and have.order[-1] == axis % x.rank:
        return x, have
    want = with_last(x.rank, axis)
    return e.laid(value, want), want


RULES: dict[type[Operation], Rule] = {
    tensor.SigmoidOp: elementwise(lambda e, x, op: e.apply("LOGISTIC", [x])),
    tensor.TanhOp: elementwise(lambda e, x, op: e.apply("TANH", [x])),
    tensor.HardSwishOp: elementwise(lambda e, x, op: e.apply("HARD_SWISH", [x])),
    tensor.ReluOp: elementwise(lambda e, x, op: rectify(e, x)),
    tensor.Relu6Op: elementwise(lambda e, x, op: rectify_to_6(e, x)),
    tensor.HardTanhOp: elementwise(lambda e, x, op: e.apply("RELU_N1_TO_1", [x])),
    tensor.LeakyReluOp: elementwise(
        lambda e, x, op: e.apply("LEAKY_RELU", [x], alpha=op.alpha.value.data)
    ),
    tensor.EluOp: elementwise(_elu),
    tensor.GeluOp: elementwise(
        lambda e, x, op: e.apply("GELU", [x], approximate=op.approximate.data == "tanh")
    ),
    tensor.SoftmaxOp: along_axis,
    tensor.LogSoftmaxOp: along_axis,
}
