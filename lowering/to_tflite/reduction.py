"""TFLite forms of pooling and reductions."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import Shape
from .activation import last
from .graph import Element, Tensor
from .kernels import compute_type
from .layout import channels_last
from .products import FLOAT_EXACT
from .shape import pad
from .tflite_writer import Inexpressible, Rule, Writer
from .window import Window, lift, unlift, window_of

_Pool = tensor.MaxPoolOp | tensor.AvgPoolOp

_REDUCE = {
    tensor.ReduceSumOp: "SUM",
    tensor.ReduceMeanOp: "MEAN",
    tensor.ReduceMaxOp: "REDUCE_MAX",
    tensor.ReduceMinOp: "REDUCE_MIN",
    tensor.ReduceProdOp: "REDUCE_PROD",
}


def reduce(e: Writer, op: tensor.ReduceSumOp) -> None:
    """A reduction, along the axes wherever they stand; without axes nothing happens."""
    x, layout = e.with_axes(op.operand)
    axes = {axis % x.rank for axis in op.axes.get_values()}
    keepdims = bool(op.keepdims.value.data)
    out = e.reduce(_REDUCE[type(op)], x, [layout.axis(a) for a in axes], keepdims=keepdims)
    e.bind(op.result, out, layout if keepdims else layout.without(axes))


def argmax(e: Writer, op: tensor.ArgOp) -> None:
    """The first maximum, or minimum."""
    kind = "ARG_MAX" if isinstance(op, tensor.ArgmaxOp) else "ARG_MIN"
    x, layout = e.with_axes(op.operand)
    axis = op.axis.value.data % x.rank
    place = layout.axis(axis)
    shape = tuple(size for a, size in enumerate(x.shape) if a != place)
    rest = [e.constant(np.array(place, np.int32), "axis")]
    wide = Element.INT64
    out = e.apply(kind, [x], shape=shape, rest=rest, result=wide, outputType=int(wide))
    if not op.keepdims.value.data:
        e.bind(op.result, out, layout.without({axis}))
        return
    e.bind(op.result, e.expand_axes(out, [place]), layout)


def cumsum(e: Writer, op: tensor.CumsumOp) -> None:
    """CUMSUM, along the axis wherever it stands."""
    x, layout = e.with_axes(op.operand)
    axis = e.constant(np.array(layout.axis(op.position), np.int32), "axis")
    e.bind(op.result, e.apply("CUMSUM", [x], rest=[axis], exclusive=False, reverse=False), layout)


def top_k(e: Writer, op: tensor.TopKOp) -> None:
    """TOPK_V2, along the last axis; the smallest are the largest of -x, or of ¬x for integers."""
    operand, layout = last(e, op.operand, op.position)
    element = operand.element
    wide = compute_type("TOPK_V2", element)
    if wide is None:
        raise Inexpressible(f"LiteRT sorts no {element.name}; convert to float32")

    def turned(x: Tensor) -> Tensor:
        if op.largest.value.data:
            return x
        return e.binary("SUB", e.scalar(0 if wide.is_float else -1, wide), x)

    x, k = turned(e.cast(operand, wide)), op.k.value.data
    shape = (*x.shape[:-1], k)
    values, places = (
        Tensor(f"{e.hint}.{name}", type, shape)
        for name, type in (("values", wide), ("indices", Element.INT32))
    )
    e.graph.add("TOPK_V2", [x, e.constant(np.array(k, np.int32), "k")], [values, places], {})
    e.bind(op.values, e.cast(turned(values), element), layout)
    e.bind(op.indices, e.cast(places, Element.INT64), layout)


def max_pool(e: Writer, op: tensor.MaxPoolOp) -> None:
    """MAX_POOL_2D, on floats and what float32 holds; pads are the least value there can be."""
    x = _image(e, op)
    window = window_of(op, op.kernel.get_values())
    wide = x.element in (Element.INT32, Element.INT64)
    if wide and e.magnitudes.greatest(op.operand) > FLOAT_EXACT:
        raise Inexpressible(f"LiteRT pools no {x.element.name} beyond 2^24; convert to float32")
    element, x = x.element, e.float32(x)
    x, same = window.padded(e, x, 0.0 if e.is_positive(x) else -np.inf)
    _pooled(e, op, e.cast(_pool(e, "MAX_POOL_2D", x, window, same, op), element))


def avg_pool(e: Writer, op: tensor.AvgPoolOp) -> None:
    """AVERAGE_POOL_2D. It leaves out pads of its own; those that count are put there before."""
    x = _image(e, op)
    element, x = x.element, e.float32(x)
    window = window_of(op, op.kernel.get_values())
    counted = bool(op.count_include_pad.value.data)
    if not window.has_pads or (window.is_same(x) and not counted):
        out = _pool(e, "AVERAGE_POOL_2D", x, window, window.has_pads, op)
    else:
        padded = pad(e, x, *window.stored_pads())
        out = _pool(e, "AVERAGE_POOL_2D", padded, window, False, op)
        if not counted:
            out = e.binary("MUL", out, e.constant(window.shares(x, out), "shares"))
    _pooled(e, op, e.cast(out, element))


def _image(e: Writer, op: _Pool) -> Tensor:
    """The operand as N, H, W, C."""
    rank = tensor_type(op.operand).get_num_dims()
    return lift(e, e.laid(op.operand, channels_last(rank)))


def _pooled(e: Writer, op: _Pool, out: Tensor) -> None:
    rank = tensor_type(op.operand).get_num_dims()
    e.bind(op.result, unlift(e, out, rank), channels_last(rank))


def _pool(
    e: Writer,
    kind: str,
    x: Tensor,
    window: Window,
    same: bool,
    op: _Pool,
) -> Tensor:
    shape: Shape = channels_last(tensor_type(op.result).get_num_dims()).stored(
        tensor_type(op.result).get_shape()
    )
    shape = (shape[0], 1, *shape[1:]) if len(shape) == 3 else shape
    return e.node(kind, [x], Element.FLOAT32, shape, **window.pool_options(same))


RULES: dict[type[Operation], Rule] = {
    **dict.fromkeys(_REDUCE, reduce),
    tensor.ArgmaxOp: argmax,
    tensor.ArgminOp: argmax,
    tensor.CumsumOp: cumsum,
    tensor.TopKOp: top_k,
    tensor.MaxPoolOp: max_pool,
    tensor.AvgPoolOp: avg_pool,
}
