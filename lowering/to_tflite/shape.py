"""TFLite forms of shape changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.elements import nearest
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC, Shape
from ...dialects.tensor.shape import SLICE_END
from .graph import Element, Tensor
from .kernels import compute_type
from .layout import flattened, moves, plain, regrouped
from .merged_axes import MOST_AXES, merged_sizes, on_merged_axes
from .tflite_writer import Inexpressible, Rule, Writer


def reshape_to(e: Writer, op: tensor.ReshapeToOp) -> None:
    """RESHAPE; -2 - i takes the size of the operand's axis i."""
    _reshape(e, op.operand, op.result, op.shape.get_values())


def flatten(e: Writer, op: tensor.FlattenOp) -> None:
    """The merged axes become one, the others keep their size."""
    rank = tensor_type(op.operand).get_num_dims()
    start, end = op.start.value.data % rank, op.end.value.data % rank
    copies = [-2 - axis for axis in range(rank)]
    _reshape(e, op.operand, op.result, [*copies[:start], -1, *copies[end + 1 :]])


def _reshape(e: Writer, operand: SSAValue, result: SSAValue, wishes: Sequence[int]) -> None:
    """One RESHAPE, in stored order where no element has to move, or an image is flattened."""
    x, have = e.stored(operand)
    shape, wanted = tensor_type(operand).get_shape(), tensor_type(result).get_shape()
    image = flattened(have, shape, wanted) if have.image is None else None
    if image is not None:
        e.bind(result, e.reshape(x, wanted), image)
        return
    layout = regrouped(have, shape, wanted)
    if layout is not None:
        e.bind(result, e.reshape(x, layout.stored(wanted)), layout)
        return
    x = e.value(operand)
    if wanted.count(DYNAMIC) <= 1:
        e.bind(result, e.reshape(x, wanted))
        return
    entries: list[Tensor | int] = [
        size if size != DYNAMIC else e.dimension(x, -2 - wish) if wish <= -2 else -1
        for size, wish in zip(wanted, wishes, strict=True)
    ]
    e.bind(result, e.node("RESHAPE", [x, e.sizes(entries)], x.element, wanted))


def unflatten(e: Writer, op: tensor.UnflattenOp) -> None:
    """RESHAPE to sizes of another tensor, in front of those behind the first axis."""
    x, like, wanted = e.value(op.operand), e.value(op.like), tensor_type(op.result).get_shape()
    count = op.count.value.data
    entries: list[Tensor | int] = [
        size
        if size != DYNAMIC
        else e.dimension(like, axis)
        if axis < count
        else e.dimension(x, axis - count + 1)
        for axis, size in enumerate(wanted)
    ]
    e.bind(op.result, e.node("RESHAPE", [x, e.sizes(entries)], x.element, wanted))


def permute(e: Writer, op: tensor.PermuteOp) -> None:
    """Nothing is moved: the axes get other names. Whoever needs another order transposes.

    But for what is cut into the operands of products, which all want the IR's order: queries, keys
    and values are transposed together.
    """
    x, have = e.with_axes(op.operand)
    layout = have.permuted(op.perm.get_values())
    if _is_cut_for_products(op.result):
        x, layout = e.transpose(x, moves(layout, plain(x.rank))), plain(x.rank)
    e.bind(op.result, x, layout)


def _is_cut_for_products(value: SSAValue) -> bool:
    """Whether all that is read of a value are pieces of it, each by products of two values."""
    users = [use.operation for use in value.uses]
    pieces = [result for user in users for result in user.results]
    return (
        len(pieces) > 1
        and all(isinstance(user, tensor.SplitOp | tensor.SliceOp) for user in users)
        and all(map(_goes_into_products, pieces))
    )


def _goes_into_products(value: SSAValue) -> bool:
    users = [use.operation for use in value.uses]
    return bool(users) and all(
        isinstance(user, _PRODUCTS)
        or (isinstance(user, _ON_THE_WAY) and _goes_into_products(user.results[0]))
        for user in users
    )


_PRODUCTS = (tensor.MatmulOp, tensor.ScaledDotProductAttentionOp)
_ON_THE_WAY = (tensor.DivOp, tensor.MulOp, tensor.PermuteOp, tensor.SqueezeOp)


def concatenate(e: Writer, op: tensor.ConcatenateOp) -> None:
    """CONCATENATION in the order of the first operand that is not in the plain one."""
    values = list(op.inputs)
    layouts = [e.stored(v)[1] for v in values if e.array(v) is None]
    rank = tensor_type(op.result).get_num_dims()
    special = [o for o in layouts if o.image is None and not o.is_plain]
    layout = next(iter(special), plain(rank))
    inputs = [e.laid(v, layout) for v in values]
    shape = layout.stored(tensor_type(op.result).get_shape())
    axis = layout.axis(op.axis.value.data)

    def joined(flat: list[Tensor], runs: list[list[int]]) -> Tensor:
        sizes, place = merged_sizes(shape, runs), runs.index([axis])
        return e.apply("CONCATENATION", flat, shape=sizes, axis=place)

    if rank > MOST_AXES:
        e.bind(op.result, on_merged_axes(e, inputs, shape, [axis], joined), layout)
    else:
        e.bind(op.result, e.apply("CONCATENATION", inputs, shape=shape, axis=axis), layout)


def split(e: Writer, op: tensor.SplitOp) -> None:
    """One SLICE a piece."""
    x, layout = e.with_axes(op.operand)
    axis, start = layout.axis(op.axis.value.data), 0
    for piece, size in zip(op.pieces, op.sizes.get_values(), strict=True):
        begin = [start if a == axis else 0 for a in range(x.rank)]
        count = [size if a == axis else DYNAMIC for a in range(x.rank)]
        e.bind(piece, cut(e, x, begin, count), layout)
        start += size


def cut(e: Writer, x: Tensor, begin: Sequence[int], count: Sequence[int]) -> Tensor:
    """SLICE: `count` elements from `begin` on along each axis, all of them for `DYNAMIC`.

    Without any element it is STRIDED_SLICE: what SLICE makes of a free batch then cannot be read.
    """
    shape = tuple(
        (total if total == DYNAMIC else total - first) if size == DYNAMIC else size
        for total, first, size in zip(x.shape, begin, count, strict=True)
    )
    if 0 in count:
        ends = [SLICE_END if n == DYNAMIC else a + n for a, n in zip(begin, count, strict=True)]
        return strided(e, x, begin, ends, [1] * x.rank, shape)
    rest = [e.indices(begin, "begin"), e.indices([max(n, -1) for n in count], "size")]
    return e.apply("SLICE", [x], shape=shape, rest=rest)


def slice_(e: Writer, op: tensor.SliceOp) -> None:
    """STRIDED_SLICE, which has Python's rules."""
    x, layout = e.with_axes(op.operand)
    starts, ends, steps = (layout.stored(p.get_values()) for p in (op.starts, op.ends, op.steps))
    shape = layout.stored(tensor_type(op.result).get_shape())
    e.bind(op.result, strided(e, x, starts, ends, steps, shape), layout)


def strided(
    e: Writer, x: Tensor, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int],
    shape: Shape,
) -> Tensor:  # fmt: skip
    """STRIDED_SLICE; an end of `SLICE_END` goes to the end. Bounds are cut to 32 bits.

    What is empty goes from 1 to 1: XNNPACK takes 0 to 0 for all of the axis.
    """
    least, most = -(1 << 31), (1 << 31) - 1
    if max(steps, default=1) > most:
        raise Inexpressible(f"LiteRT slices in steps of up to {most}")
    starts = [int(not size) or start for start, size in zip(starts, shape, strict=True)]
    ends = [int(not size) or end for end, size in zip(ends, shape, strict=True)]
    mask = sum(1 << axis for axis, end in enumerate(ends) if end == SLICE_END)
    cut_ends = [min(max(end, least), most) for end in ends]
    cut_starts = [min(max(start, least), most) for start in starts]
    rest = [e.indices(v, "bounds") for v in (cut_starts, cut_ends, steps)]
    return e.apply("STRIDED_SLICE", [x], shape=shape, rest=rest, endMask=mask)


def pad_to(e: Writer, op: tensor.PadToOp) -> None:
    """PAD, or PADV2 with a value."""
    x, layout = e.with_axes(op.operand)
    low, high = (layout.stored(p.get_values()) for p in (op.low, op.high))
    e.bind(op.result, pad(e, x, low, high, op.value.value.data), layout)


def pad(
    e: Writer, x: Tensor, low: Sequence[int], high: Sequence[int], value: float = 0.0
) -> Tensor:
    """Elements of `value` around `x`, in stored order."""
    if not any((*low, *high)):
        return x
    shape = tuple(
        size if size == DYNAMIC else size + a + b
        for size, a, b in zip(x.shape, low, high, strict=True)
    )
    if x.rank >= MOST_AXES:
        sides = [axis for axis in range(x.rank) if low[axis] or high[axis]]

        def padded(flat: list[Tensor], runs: list[list[int]]) -> Tensor:
            before, after = ([side[run[0]] for run in runs] for side in (low, high))
            return pad(e, flat[0], before, after, value)

        if any(axis not in sides and axis + 1 not in sides for axis in range(x.rank - 1)):
            return on_merged_axes(e, [x], shape, sides, padded)
    pads = e.indices(np.array([low, high]).T, "pads")
    # On a grid PAD fills with the zero point.
    if value == (0 if x.quantization is None else x.quantization.zero_point):
        return e.apply("PAD", [x], shape=shape, rest=[pads])
    element = compute_type("PADV2", x.element) or x.element  # `apply` refuses the latter
    filling = nearest(value, element.dtype)
    fill = e.constant(filling, "fill")
    if x.quantization is not None:
        fill = Tensor("fill", element, (), filling, x.quantization)
    return e.apply("PADV2", [x], shape=shape, rest=[pads, fill])


def squeeze(e: Writer, op: tensor.SqueezeOp) -> None:
    """SQUEEZE of the axes that say so."""
    x, layout = e.with_axes(op.operand)
    axes = {axis % x.rank for axis in op.axes.get_values()}
    e.bind(op.result, without(e, x, {layout.axis(a) for a in axes}), layout.without(axes))


def without(e: Writer, x: Tensor, axes: set[int]) -> Tensor:
    """`x` without stored axes of size 1."""
    if not axes:
        return x
    shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    if x.data is not None or shape.count(DYNAMIC) <= 1:
        return e.reshape(x, shape)
    return e.node("SQUEEZE", [x], x.element, shape, squeezeDims=sorted(axes))


def unsqueeze(e: Writer, op: tensor.UnsqueezeOp) -> None:
    """Axes of size 1 put in."""
    x, layout = e.with_axes(op.operand)
    rank = tensor_type(op.result).get_num_dims()
    axes = {axis % rank for axis in op.axes.get_values()}
    e.bind(op.result, e.expand_axes(x, sorted(axes)), layout.with_axes(axes))


def expand(e: Writer, op: tensor.ExpandOp) -> None:
    """BROADCAST_TO; sizes that are known at run time alone come from the operand."""
    x, wanted = e.value(op.operand), tensor_type(op.result).get_shape()
    lead = len(wanted) - x.rank
    entries: list[Tensor | int] = [
        e.dimension(x, axis - lead) if size == DYNAMIC else size for axis, size in enumerate(wanted)
    ]
    if not wanted:
        e.bind(op.result, x)
        return
    known = [entry for entry in entries if isinstance(entry, int)]
    sizes = e.indices(known) if len(known) == len(entries) else e.sizes(entries)
    e.bind(op.result, e.apply("BROADCAST_TO", [x], shape=wanted, rest=[sizes]))


def gather_rows(e: Writer, op: tensor.GatherRowsOp) -> None:
    """GATHER on axis 0; places in a vector stay in the order in which they are stored."""
    table, (indices, layout) = e.value(op.table), e.stored(op.indices)
    if table.rank > 1 or layout.image is not None:
        indices, layout = e.value(op.indices), plain(tensor_type(op.result).get_num_dims())
    if indices.element not in (Element.INT32, Element.INT64):
        indices = e.cast(indices, Element.INT32)
    shape = layout.stored(tensor_type(op.result).get_shape())
    rows = e.apply("GATHER", [table], shape=shape, rest=[indices], axis=0, batchDims=0)
    e.bind(op.result, rows, layout)


RULES: dict[type[Operation], Rule] = {
    tensor.ReshapeToOp: reshape_to,
    tensor.FlattenOp: flatten,
    tensor.UnflattenOp: unflatten,
    tensor.PermuteOp: permute,
    tensor.ConcatenateOp: concatenate,
    tensor.SplitOp: split,
    tensor.SliceOp: slice_,
    tensor.PadToOp: pad_to,
    tensor.SqueezeOp: squeeze,
    tensor.UnsqueezeOp: unsqueeze,
    tensor.ExpandOp: expand,
    tensor.GatherRowsOp: gather_rows,
}
