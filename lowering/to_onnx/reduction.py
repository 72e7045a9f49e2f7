"""ONNX forms of pooling and reductions."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import Operation

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from .elementwise import binary
from .graph import AttributeValue, Element
from .integer import DOUBLE_EXACT, FLOAT_EXACT
from .kernels import compute_type
from .linear import pool_attributes
from .onnx_writer import Inexpressible, Rule, Writer, result_of

_REDUCE = {
    tensor.ReduceSumOp: "ReduceSum",
    tensor.ReduceMeanOp: "ReduceMean",
    tensor.ReduceMaxOp: "ReduceMax",
    tensor.ReduceMinOp: "ReduceMin",
    tensor.ReduceProdOp: "ReduceProd",
}


def reduce(e: Writer, op: tensor.ReduceSumOp) -> None:
    """A reduction; without axes nothing happens, where ONNX would reduce all."""
    x, axes = e.value(op.operand), list(op.axes.get_values())
    if not axes:
        e.bind(op.result, e.apply("Identity", [x]))
        return
    axes = [axis % tensor_type(op.operand).get_num_dims() for axis in axes]
    keepdims = bool(op.keepdims.value.data)
    op_type = _REDUCE[type(op)]
    if op_type == "ReduceSum" and not e.element(x).is_float:
        shape = tensor_type(op.operand).get_shape()
        terms = prod(DYNAMIC_TERMS if shape[a] == DYNAMIC else shape[a] for a in axes)
        if terms * e.magnitudes.greatest(op.operand) <= FLOAT_EXACT:
            floats = reduce_axes(e, "ReduceSum", e.cast(x, Element.FLOAT), axes, keepdims)
            e.bind(op.result, e.whole(floats, e.element(x)))
            return
        e.bind(op.result, sum_integers(e, x, axes, keepdims, terms))
        return
    if op_type == "ReduceMean" and 0 in (tensor_type(op.operand).get_shape()[a] for a in axes):
        nothing = reduce_axes(e, "ReduceSum", x, axes, keepdims)
        e.bind(op.result, e.apply("Div", [nothing, nothing]))
        return
    if op_type == "ReduceProd" and not e.element(x).is_float:
        e.bind(op.result, _product_of_integers(e, op, x, axes))
        return
    if e.element(x) is Element.INT64:
        e.bind(op.result, _extreme_int64(e, op_type, x, axes, keepdims))
        return
    e.bind(op.result, reduce_axes(e, op_type, x, axes, keepdims))


def sub(e: Writer, op: tensor.SubOp) -> None:
    """Sub; bytes beside their largest or smallest from UINT8, without the 128 that cancel."""
    for extreme, value in ((op.lhs.owner, op.rhs), (op.rhs.owner, op.lhs)):
        if not isinstance(extreme, tensor.ReduceMaxOp | tensor.ReduceMinOp):
            continue
        wide = value.owner if extreme.operand == value else None
        levels = e.unsigned.get(e.value(wide.operand)) if isinstance(wide, tensor.ConvertOp) else ""
        if levels and (element := e.element(e.value(value))) is Element.INT32:
            x, rank = e.cast(levels, element), tensor_type(value).get_num_dims()
            axes = [axis % rank for axis in extreme.axes.get_values()]
            end = reduce_axes(e, _REDUCE[type(extreme)], x, axes, bool(extreme.keepdims.value.data))
            e.bind(op.result, e.apply("Sub", [x, end] if value is op.lhs else [end, x]))
            return
    binary(e, op)


def _extreme_int64(e: Writer, op_type: str, x: str, axes: list[int], keepdims: bool) -> str:
    """The elements at ArgMax: ONNX Runtime's ReduceMax and ReduceMin are wrong on INT64.

    The least x is -1 - y for the greatest y = -1 - x, which does not overflow.
    """
    wide, mirror = Element.INT64, e.scalar(-1, Element.INT64)
    if op_type == "ReduceMin":
        x = e.apply("Sub", [mirror, x])
    for axis in axes:
        place = e.node("ArgMax", [x], wide, axis=axis, keepdims=1)
        x = e.node("GatherElements", [x, place], wide, axis=axis)
    if op_type == "ReduceMin":
        x = e.apply("Sub", [mirror, x])
    return x if keepdims else e.node("Squeeze", [x, e.indices(axes, "axes")], wide)


DYNAMIC_TERMS = 1 << 24
"""How many elements a dynamic axis may have for integer sums to be exact."""


def sum_integers(e: Writer, name: str, axes: list[int], keepdims: bool, terms: int) -> str:
    """A sum that wraps around, of `terms` integers.

    ONNX Runtime sums integers in float64 and saturates. Pieces of so few bits that their sums stay
    below 2^53 are exact; they are put together in INT64.
    """
    element = e.element(name)
    bits = (DOUBLE_EXACT // max(terms, 1)).bit_length() - 1
    if bits < 8:
        raise Inexpressible(f"sums of {terms} integers are not exact in ONNX Runtime")
    rest, shift, total = e.cast(name, Element.INT64), 0, None
    width = 1 if element is Element.BOOL else element.dtype.itemsize * 8
    while True:
        last = width - shift <= bits
        base = e.scalar(1 << min(bits, 62), Element.INT64)
        piece = rest if last else e.apply("Mod", [rest, base])
        part = reduce_axes(e, "ReduceSum", piece, axes, keepdims)
        if shift:
            part = e.apply("Mul", [part, e.scalar(1 << shift, Element.INT64)])
        total = part if total is None else e.apply("Add", [total, part])
        if last:
            return e.cast(total, element)
        rest = e.apply("Div", [e.apply("Sub", [rest, piece]), base])
        shift += bits


def _product_of_integers(e: Writer, op: tensor.ReduceSumOp, x: str, axes: list[int]) -> str:
    """A product that wraps around: of halves, until one element is left.

    ONNX Runtime multiplies integers in float64 and saturates.
    """
    sizes, keepdims = tensor_type(op.operand).get_shape(), bool(op.keepdims.value.data)
    if 0 in (counts := [sizes[axis] for axis in axes]):
        return reduce_axes(e, "ReduceProd", x, axes, keepdims)
    if DYNAMIC in counts:
        raise Inexpressible(
            "products of an unknown number of integers are not exact in ONNX Runtime; fix the size"
        )
    element, wide = e.element(x), Element.INT64
    x = e.cast(x, wide)
    for axis, count in zip(axes, counts, strict=True):
        while count > 1:
            half = count // 2
            parts = [(0, half), (half, 2 * half), (2 * half, count)]
            first, second, rest = (e.slice_axes(x, [a], [b], [axis], [1]) for a, b in parts)
            x = e.apply("Mul", [first, second])
            if count % 2:
                x = e.node("Concat", [x, rest], wide, axis=axis)
            count -= half
    return e.cast(x if keepdims else e.squeeze(x, axes), element)


def reduce_axes(e: Writer, op_type: str, name: str, axes: list[int], keepdims: bool) -> str:
    """One Reduce* operator; axes became an input with opset 13 for sums, 18 for the others.

    `axes` are counted from the front: on empty tensors ONNX Runtime takes -1 for no axis.
    """
    if op_type == "ReduceSum" or e.opset >= 18:
        rest = [e.indices(axes, "axes")]
        return e.apply(op_type, [name], rest=rest, keepdims=int(keepdims))
    return e.apply(op_type, [name], axes=axes, keepdims=int(keepdims))


def argmax(e: Writer, op: tensor.ArgOp) -> None:
    """The first maximum, or minimum."""
    out = e.apply(
        "ArgMax" if isinstance(op, tensor.ArgmaxOp) else "ArgMin",
        [e.value(op.operand)],
        result=Element.INT64,
        axis=op.axis.value.data % tensor_type(op.operand).get_num_dims(),
        keepdims=int(bool(op.keepdims.value.data)),
    )
    e.bind(op.result, out)


def top_k(e: Writer, op: tensor.TopKOp) -> None:
    """TopK, sorted; of equal elements ONNX Runtime takes the first, as the standard says."""
    x, k = e.value(op.operand), e.indices([op.k.value.data], "k")
    element = e.element(x)
    wide = compute_type("TopK", element)
    if wide is None:
        raise Inexpressible(f"ONNX Runtime sorts no {element.name}; convert to float32")
    attributes = {"axis": op.position, "largest": int(bool(op.largest.value.data))}
    names = [f"{e.hint}.values", f"{e.hint}.indices"]
    elements = [wide, Element.INT64]
    values, places = e.graph.add_node("TopK", [e.cast(x, wide), k], elements, names, attributes)
    e.bind(op.indices, places)
    e.bind(op.values, e.cast(values, element))


def _pool(e: Writer, op: tensor.MaxPoolOp | tensor.AvgPoolOp) -> str:
    """MaxPool, of truth values and integers through a float type that holds them; AveragePool."""
    op_type = "MaxPool" if isinstance(op, tensor.MaxPoolOp) else "AveragePool"
    x, attributes = e.value(op.operand), pool_attributes(op)
    if op_type == "MaxPool" and e.is_truth(x):
        pooled = e.node(op_type, [e.cast(x, Element.FLOAT)], Element.FLOAT, **attributes)
        return e.same(e.same(pooled, Element.BOOL), e.element(x))
    return e.apply(op_type, [x], rest=(), result=None, **attributes)


def _cumsum(e: Writer, op: tensor.CumsumOp) -> str:
    """CumSum; the axis is an operand."""
    axis = e.constant(np.array(op.position), "axis")
    return e.apply("CumSum", [e.value(op.operand)], rest=[axis])


def _gather_elements(e: Writer, op: tensor.GatherElementsOp) -> str:
    places, axis = e.cast(e.value(op.indices), Element.INT64), op.axis.value.data
    return e.apply("GatherElements", [e.value(op.operand)], rest=[places], axis=axis)


def _scatter_elements(e: Writer, op: tensor.ScatterElementsOp) -> str:
    """ScatterElements, of which ONNX Runtime puts the last of several updates of a place."""
    x, updates = e.value(op.operand), e.value(op.updates)
    element = compute_type("ScatterElements", e.element(x)) or e.element(x)
    places = e.cast(e.value(op.indices), Element.INT64)
    inputs = [e.cast(x, element), places, e.cast(updates, element)]
    attributes: dict[str, AttributeValue] = {"axis": op.axis.value.data}
    if op.reduction.data != "none":
        attributes["reduction"] = op.reduction.data
    return e.same(e.node("ScatterElements", inputs, element, **attributes), e.element(x))


def global_avg_pool(e: Writer, op: tensor.GlobalAvgPoolOp) -> None:
    """GlobalAveragePool; a mean for float64."""
    x = e.value(op.operand)
    if e.element(x) is Element.DOUBLE:
        axes = list(range(2, tensor_type(op.operand).get_num_dims()))
        e.bind(op.result, reduce_axes(e, "ReduceMean", x, axes, True))
        return
    e.bind(op.result, e.apply("GlobalAveragePool", [x]))


RULES: dict[type[Operation], Rule] = {
    **dict.fromkeys(_REDUCE, reduce),
    tensor.SubOp: sub,
    tensor.ArgmaxOp: argmax,
    tensor.ArgminOp: argmax,
    tensor.CumsumOp: result_of(_cumsum),
    tensor.GatherElementsOp: result_of(_gather_elements),
    tensor.ScatterElementsOp: result_of(_scatter_elements),
    tensor.TopKOp: top_k,
    tensor.MaxPoolOp: result_of(_pool),
    tensor.AvgPoolOp: result_of(_pool),
    tensor.GlobalAvgPoolOp: global_avg_pool,
}
