"""ONNX forms of pooling and reductions."""

from __future__ import annotations

from typing import Any

from ...dialects import tensor
from ...dialects.inference import tensor_type
from .emitter import Emitter, rule
from .graph import Element

_REDUCE = {
    tensor.ReduceSumOp: "ReduceSum",
    tensor.ReduceMeanOp: "ReduceMean",
    tensor.ReduceMaxOp: "ReduceMax",
    tensor.ReduceMinOp: "ReduceMin",
}


@rule(*_REDUCE)
def reduce(e: Emitter, op: tensor.ReduceSumOp) -> None:
    """A reduction; without axes nothing happens, where ONNX would reduce all."""
    x, axes = e.value(op.operand), list(op.axes.get_values())
    if not axes:
        e.bind(op.result, e.apply("Identity", [x]))
        return
    e.bind(op.result, reduce_axes(e, _REDUCE[type(op)], x, axes, bool(op.keepdims.value.data)))


def reduce_axes(e: Emitter, op_type: str, name: str, axes: list[int], keepdims: bool) -> str:
    """One Reduce* operator; axes became an input with opset 13 for sums, 18 for the others."""
    if op_type == "ReduceSum" or e.opset >= 18:
        rest = [e.indices(axes, "axes")]
        return e.apply(op_type, [name], rest=rest, keepdims=int(keepdims))
    return e.apply(op_type, [name], axes=axes, keepdims=int(keepdims))


@rule(tensor.ArgmaxOp)
def argmax(e: Emitter, op: tensor.ArgmaxOp) -> None:
    """The first maximum."""
    out = e.apply(
        "ArgMax",
        [e.value(op.operand)],
        result=Element.INT64,
        axis=op.axis.value.data,
        keepdims=int(bool(op.keepdims.value.data)),
    )
    e.bind(op.result, out)


@rule(tensor.MaxPoolOp)
def max_pool(e: Emitter, op: tensor.MaxPoolOp) -> None:
    """MaxPool; int16 and int32 go through a float type that holds them."""
    e.bind(op.result, e.apply("MaxPool", [e.value(op.operand)], **_window(op)))


@rule(tensor.AvgPoolOp)
def avg_pool(e: Emitter, op: tensor.AvgPoolOp) -> None:
    """AveragePool."""
    counted = int(bool(op.count_include_pad.value.data))
    out = e.apply("AveragePool", [e.value(op.operand)], count_include_pad=counted, **_window(op))
    e.bind(op.result, out)


def _window(op: Any) -> dict[str, Any]:
    return {
        "kernel_shape": op.kernel.get_values(),
        "strides": op.strides.get_values(),
        "pads": op.padding.get_values(),
    }


@rule(tensor.GlobalAvgPoolOp)
def global_avg_pool(e: Emitter, op: tensor.GlobalAvgPoolOp) -> None:
    """GlobalAveragePool; a mean for float64."""
    x = e.value(op.operand)
    if e.element(x) is Element.DOUBLE:
        axes = list(range(2, tensor_type(op.operand).get_num_dims()))
        e.bind(op.result, reduce_axes(e, "ReduceMean", x, axes, True))
        return
    e.bind(op.result, e.apply("GlobalAveragePool", [x]))
