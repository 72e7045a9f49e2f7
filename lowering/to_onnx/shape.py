"""ONNX forms of shape changes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ...dialects.tensor.shape import SLICE_END
from .byte_levels import byte_table
from .byte_weights import SHIFT
from .graph import Element
from .onnx_writer import Rule, Writer, result_of


def reshape_to(e: Writer, op: tensor.ReshapeToOp) -> None:
    """Reshape; -2 - i takes the size of the operand's axis i."""
    known = tensor_type(op.result).get_shape()
    _reshape(e, op.operand, op.result, _wishes(op.shape.get_values(), known))


def flatten(e: Writer, op: tensor.FlattenOp) -> None:
    """The merged axes become -1, the others keep their size."""
    rank = tensor_type(op.operand).get_num_dims()
    start, end = op.start.value.data % rank, op.end.value.data % rank
    copies = [-2 - axis for axis in range(rank)]
    wishes = [*copies[:start], -1, *copies[end + 1 :]]
    _reshape(e, op.operand, op.result, _wishes(wishes, tensor_type(op.result).get_shape()))


def _wishes(wishes: Sequence[int], known: Sequence[int]) -> list[int]:
    """Known sizes in place of what `tensor.reshape_to` says."""
    return [wish if size == DYNAMIC else size for size, wish in zip(known, wishes, strict=True)]


def _reshape(e: Writer, operand: SSAValue, result: SSAValue, wishes: list[int]) -> None:
    """One Reshape: with -1 for the only unknown size, 0 for sizes kept in place, or computed."""
    x = e.value(operand)
    if wishes.count(-1) == 0 and sum(w < 0 for w in wishes) == 1 and 0 not in wishes:
        wishes = [max(w, -1) for w in wishes]
    copies = [axis for axis, w in enumerate(wishes) if w <= -2]
    in_place = all(-2 - wishes[axis] == axis for axis in copies)
    if not copies or (in_place and 0 not in wishes):
        e.bind(result, e.moved(x, lambda name: e.reshape_with_copies(name, wishes)))
        return
    shape = tensor_type(operand).get_shape()
    pieces = [e.dimension(x, -2 - w, shape[-2 - w]) if w <= -2 else e.indices([w]) for w in wishes]
    sizes = e.node("Concat", pieces, Element.INT64, axis=0)
    zeros = 0 in wishes
    e.bind(result, e.moved(x, lambda name: e.reshape_to(name, sizes, literal_zero=zeros)))


def split(e: Writer, op: tensor.SplitOp) -> None:
    """Split by sizes, the form that every opset from 13 on has."""
    x, sizes = e.value(op.operand), op.sizes.get_values()
    hint = e.hint
    names = [piece.name_hint or f"{hint}.{index}" for index, piece in enumerate(op.pieces)]
    outputs = e.graph.add_node(
        "Split",
        [x, e.indices(sizes)],
        [e.element(x)] * len(sizes),
        names,
        {"axis": op.axis.value.data},
    )
    for piece, name in zip(op.pieces, outputs, strict=True):
        e.bind(piece, name)


def slice_(e: Writer, op: tensor.SliceOp) -> None:
    """Slice on those axes that are cut; a Gather, which takes less time, of one row of few."""
    bounds = zip(op.starts.get_values(), op.ends.get_values(), op.steps.get_values(), strict=True)
    cut = [
        (axis, start, end, step)
        for axis, (start, end, step) in enumerate(bounds)
        if (start, end, step) != (0, SLICE_END, 1)
    ]
    x = e.value(op.operand)
    if not cut:
        e.bind(op.result, e.apply("Identity", [x]))
        return
    sizes = tensor_type(op.operand).get_shape()
    axis, start, _, _ = cut[0]
    pieces = prod(size for size in sizes[:axis] if size != DYNAMIC)
    few = pieces <= FEW and e.precision != "int8"  # which moves by Slice
    is_row = len(cut) == 1 and tensor_type(op.result).get_shape()[axis] == 1
    if is_row and sizes[axis] != DYNAMIC and few:
        row = e.indices([max(start + sizes[axis], 0) if start < 0 else start])
        e.bind(op.result, e.apply("Gather", [x], rest=[row], axis=axis))
        return
    axes, starts, ends, steps = (list(column) for column in zip(*cut, strict=True))
    e.bind(op.result, e.slice_axes(x, starts, ends, axes, steps))


FEW = 16
"""So many pieces Gather copies in less time than Slice; an unknown size counts as one."""


def pad_to(e: Writer, op: tensor.PadToOp) -> None:
    """Pad with a constant.

    ONNX Runtime 1.31 takes a Pad with zeros in front of a pool for the padding of the pool, which
    is no zero and must be smaller than the window. Not if the axes are named, nor with an op
    between the two.
    """
    x, value = e.value(op.operand), op.value.value.data
    e.bind(op.result, _padded(e, op, x, value))
    if x in e.unsigned:
        e.unsigned[e.value(op.result)] = _padded(e, op, e.unsigned[x], value + SHIFT)


def _padded(e: Writer, op: tensor.PadToOp, x: str, value: float) -> str:
    element = e.element(x)
    wide = {
        Element.UINT16: Element.INT32,
        Element.INT16: Element.INT32,
        Element.BFLOAT16: Element.FLOAT,
    }.get(element, element)
    low, high = op.low.get_values(), op.high.get_values()
    pads = e.indices([*low, *high], "pads")
    inputs = [e.cast(x, wide), pads, e.scalar(value, wide)]
    if e.opset >= 18:
        inputs.append(e.indices(list(range(len(low))), "axes"))
    padded = e.node("Pad", inputs, wide)
    pooled = any(isinstance(use.operation, _POOLS) for use in op.result.uses)
    if e.opset < 18 and pooled:
        padded = e.node("Max", [padded, padded], wide)
    return e.cast(padded, element)


_POOLS = (tensor.MaxPoolOp, tensor.AvgPoolOp)


def _squeezed(e: Writer, op: tensor.SqueezeOp) -> str:
    """Squeeze; without axes nothing happens, where ONNX would drop all."""
    axes, x = op.axes.get_values(), e.value(op.operand)
    return e.squeeze(x, axes) if axes else e.apply("Identity", [x])


def _unsqueezed(e: Writer, op: tensor.UnsqueezeOp) -> str:
    """Unsqueeze."""
    axes, x = op.axes.get_values(), e.value(op.operand)
    return e.unsqueeze(x, axes) if axes else e.apply("Identity", [x])


def unflatten(e: Writer, op: tensor.UnflattenOp) -> None:
    """Reshape to sizes of another tensor, in front of those behind the first axis."""
    x, like, count = e.value(op.operand), e.origin(e.value(op.like)), op.count.value.data
    shape, front = tensor_type(op.operand).get_shape(), tensor_type(op.like).get_shape()
    pieces = [e.dimension(like, axis, front[axis]) for axis in range(count)]
    pieces += [e.dimension(x, axis, size) for axis, size in enumerate(shape) if axis]
    sizes = e.node("Concat", pieces, Element.INT64, axis=0)
    e.bind(op.result, e.moved(x, lambda name: e.reshape_to(name, sizes, literal_zero=True)))


def _expanded(e: Writer, op: tensor.ExpandOp) -> str:
    """Expand; a size of 1 keeps the operand's."""
    sizes = e.indices([1 if size == -1 else size for size in op.shape.get_values()])
    return e.apply("Expand", [e.value(op.operand)], rest=[sizes])


def gather_rows(e: Writer, op: tensor.GatherRowsOp) -> None:
    """Gather on axis 0."""
    if byte_table(e, op):
        return
    table, indices = e.value(op.table), e.value(op.indices)
    if e.element(indices) is not Element.INT32:
        indices = e.cast(indices, Element.INT64)
    e.bind(op.result, e.apply("Gather", [table], rest=[indices], axis=0))


def arange(e: Writer, count: str) -> str:
    """0, 1, … for a count given as an INT64 vector of one element."""
    limit = e.node("Squeeze", [count, e.indices([0], "axes")], Element.INT64)
    zero, one = (e.constant(np.array(v, np.int64), f"int64_{v}") for v in (0, 1))
    return e.node("Range", [zero, limit, one], Element.INT64)


RULES: dict[type[Operation], Rule] = {
    tensor.ReshapeToOp: reshape_to,
    tensor.FlattenOp: flatten,
    tensor.UnflattenOp: unflatten,
    tensor.PermuteOp: result_of(
        lambda e, op: e.apply("Transpose", [e.value(op.operand)], perm=op.perm.get_values())
    ),
    tensor.ConcatenateOp: result_of(
        lambda e, op: e.apply("Concat", [e.value(v) for v in op.inputs], axis=op.axis.value.data)
    ),
    tensor.SplitOp: split,
    tensor.SliceOp: slice_,
    tensor.PadToOp: pad_to,
    tensor.SqueezeOp: result_of(_squeezed),
    tensor.UnsqueezeOp: result_of(_unsqueezed),
    tensor.ExpandOp: result_of(_expanded),
    tensor.GatherRowsOp: gather_rows,
}
