"""Shape ops: views where MLIR has one (`collapse_shape`, `expand_shape`, `extract_slice`)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import tensor as upstream
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from ....dialects import tensor
from ....dialects.inference import tensor_type
from ....dialects.shapes import DYNAMIC
from ....dialects.tensor.shape import SLICE_END
from .linalg_builder import (
    PARALLEL,
    LinalgBuilder,
    Rule,
    Size,
    broadcast_exprs,
    dims,
    element,
    rank,
    static_shape,
)
from .reshaping import reshape
from .scalars import Number, Scalars

JOINED_AXIS = "joined_axis"
"""Of an insertion: the only axis on which it may fill less than all."""


def reshape_to(builder: LinalgBuilder, op: tensor.ReshapeToOp, x: SSAValue) -> SSAValue:
    """`tensor.reshape_to`."""
    source = builder.sizes(x)
    target = op.shape.get_values()
    known = tensor_type(op.result).get_shape()
    sizes: list[Size] = []
    for axis, size in enumerate(target):
        wanted: Size = source[-2 - size] if size <= -2 else size
        sizes.append(known[axis] if known[axis] != DYNAMIC else wanted)
    if -1 in sizes:
        free = list(source)
        divisor = 1
        for axis, size in enumerate(sizes):
            if isinstance(size, SSAValue) and size in free:
                free.remove(size)
            elif target[axis] != -1:
                assert isinstance(size, int)
                divisor *= size
        sizes[sizes.index(-1)] = _quotient(builder, free, divisor)
    return reshape(builder, x, sizes)


def _quotient(builder: LinalgBuilder, sizes: Sequence[Size], divisor: int) -> Size:
    """The product of `sizes` over `divisor`; sizes known early are divided early."""
    number = 1
    for size in sizes:
        number *= size if isinstance(size, int) else 1
    free = [size for size in sizes if isinstance(size, SSAValue)]
    if divisor and number % divisor == 0:
        return builder.times(builder.product(free), number // divisor)
    return builder.over(builder.times(builder.product(free), number), divisor or 1)


def flatten(builder: LinalgBuilder, op: tensor.FlattenOp, x: SSAValue) -> SSAValue:
    """`tensor.flatten`."""
    sizes = builder.sizes(x)
    start, end = (i.value.data % len(sizes) for i in (op.start, op.end))
    merged = builder.product(sizes[start : end + 1])
    return reshape(builder, x, [*sizes[:start], merged, *sizes[end + 1 :]])


def squeeze(builder: LinalgBuilder, op: tensor.SqueezeOp, x: SSAValue) -> SSAValue:
    """`tensor.squeeze`."""
    sizes = builder.sizes(x)
    dropped = {axis % len(sizes) for axis in op.axes.get_values()}
    # A dropped axis whose size is not known early is 1 all the same.
    ones = [1 if axis in dropped else size for axis, size in enumerate(sizes)]
    known: TensorType[Attribute] = TensorType(element(x), static_shape(ones))
    x = builder.with_sizes(builder.cast_to(x, known), ones)
    return reshape(builder, x, [size for axis, size in enumerate(sizes) if axis not in dropped])


def unsqueeze(builder: LinalgBuilder, op: tensor.UnsqueezeOp, x: SSAValue) -> SSAValue:
    """`tensor.unsqueeze`."""
    axes = op.axes.get_values()
    count = rank(x) + len(axes)
    inserted = {axis % count for axis in axes}
    rest = iter(builder.sizes(x))
    return reshape(builder, x, [1 if axis in inserted else next(rest) for axis in range(count)])


def permuted(builder: LinalgBuilder, x: SSAValue, perm: Sequence[int]) -> SSAValue:
    """`x` with axis i of the result being axis perm[i] of `x`."""
    sizes = builder.sizes(x)
    loops = dims(len(perm))
    places = [loops[perm.index(axis)] for axis in range(len(perm))]
    return _copied(builder, x, places, [sizes[axis] for axis in perm])


def _copied(
    builder: LinalgBuilder, x: SSAValue, places: Sequence[AffineExpr], sizes: Sequence[Size]
) -> SSAValue:
    """A tensor of `sizes` with the elements of x at `places`."""
    (result,) = builder.generic(
        [(x, places)],
        [(builder.empty(sizes, element(x)), dims(len(sizes)))],
        [PARALLEL] * len(sizes),
        lambda s, a, _: [a],
    )
    return result


def permute(builder: LinalgBuilder, op: tensor.PermuteOp, x: SSAValue) -> SSAValue:
    """`tensor.permute`."""
    return permuted(builder, x, op.perm.get_values())


def expand(builder: LinalgBuilder, op: tensor.ExpandOp, x: SSAValue) -> SSAValue:
    """`tensor.expand`."""
    target = op.shape.get_values()
    source = builder.sizes(x)
    lead = len(target) - len(source)
    sizes = [source[axis - lead] if n == -1 else n for axis, n in enumerate(target)]
    places = broadcast_exprs(tensor_type(x).get_shape(), dims(len(sizes)), sizes)
    return _copied(builder, x, places, sizes)


def concatenate(builder: LinalgBuilder, op: tensor.ConcatenateOp, *inputs: SSAValue) -> SSAValue:
    """`tensor.concatenate`: each input is inserted into its place."""
    count = rank(inputs[0])
    axis = op.axis.value.data % count
    sizes = list(builder.sizes(inputs[0]))
    for a in range(count):
        known = [size for v in inputs if isinstance(size := builder.size(v, a), int)]
        sizes[a] = known[0] if known else sizes[a]
    offsets: list[Size] = [0]
    for value in inputs:
        offsets.append(builder.plus(offsets[-1], builder.size(value, axis)))
    sizes[axis] = offsets[-1]
    result = builder.empty(sizes, element(inputs[0]))
    for value, offset in zip(inputs, offsets, strict=False):
        result = _insert(builder, value, result, axis, offset)
    return builder.with_sizes(result, sizes)


def _insert(
    builder: LinalgBuilder, value: SSAValue, into: SSAValue, axis: int, offset: Size
) -> SSAValue:
    sizes = builder.sizes(value)
    offsets: list[Size] = [offset if a == axis else 0 for a in range(len(sizes))]
    op = upstream.InsertSliceOp.get(
        value,
        into,
        static_shape(sizes),
        static_offsets=static_shape(offsets),
        static_strides=[1] * len(sizes),
        offsets=[size for size in offsets if isinstance(size, SSAValue)],
        sizes=[size for size in sizes if isinstance(size, SSAValue)],
    )
    op.attributes[JOINED_AXIS] = IntegerAttr(axis, i64)
    return builder.insert(op)


def extract(
    builder: LinalgBuilder,
    x: SSAValue,
    offsets: Sequence[Size],
    sizes: Sequence[Size],
    steps: Sequence[int],
) -> SSAValue:
    """The elements offset + step·i of each axis, i below its size."""
    result: TensorType[Attribute] = TensorType(element(x), static_shape(sizes))
    op = upstream.ExtractSliceOp(x, offsets, sizes, steps, result)
    return builder.with_sizes(builder.insert(op), sizes)


def split(builder: LinalgBuilder, op: tensor.SplitOp, x: SSAValue) -> tuple[SSAValue, ...]:
    """`tensor.split`."""
    sizes = builder.sizes(x)
    axis = op.axis.value.data % len(sizes)
    pieces: list[SSAValue] = []
    start = 0
    for size in op.sizes.get_values():
        offsets: list[Size] = [start if a == axis else 0 for a in range(len(sizes))]
        piece: list[Size] = [size if a == axis else n for a, n in enumerate(sizes)]
        pieces.append(extract(builder, x, offsets, piece, [1] * len(sizes)))
        start += size
    return tuple(pieces)


def slice_(builder: LinalgBuilder, op: tensor.SliceOp, x: SSAValue) -> SSAValue:
    """`tensor.slice`; bounds of axes whose size is known at run time alone are clamped there.

    Unless the type of the result says how many elements there are within.
    """
    offsets: list[Size] = []
    lengths: list[Size] = []
    steps = op.steps.get_values()
    bounds = zip(op.starts.get_values(), op.ends.get_values(), steps, strict=True)
    found = tensor_type(op.result).get_shape()
    for size, (start, end, step), known in zip(builder.sizes(x), bounds, found, strict=True):
        if known != DYNAMIC and not isinstance(size, int):
            length = known
            offset = start if start >= 0 else builder.add(size, start)
        elif isinstance(size, int):
            chosen = range(*slice(start, end, step).indices(size))
            offset: Size = chosen.start if len(chosen) else 0
            length: Size = len(chosen)
        elif (start, end, step) == (0, SLICE_END, 1):
            offset, length = 0, size
        else:
            offset = _clamped(builder, start, size)
            span = builder.sub(_clamped(builder, end, size), offset)
            count = builder.floor_div(builder.add(span, step - 1), step)
            length = builder.maximum(count, 0)
        offsets.append(offset)
        lengths.append(length)
    return extract(builder, x, offsets, lengths, steps)


def _clamped(builder: LinalgBuilder, bound: int, size: SSAValue) -> SSAValue:
    """A bound of a slice counted from the front, between 0 and `size`."""
    value = builder.constant(bound, IndexType())
    if bound < 0:
        value = builder.maximum(builder.add(value, size), 0)
    return builder.minimum(value, size)


def pad(builder: LinalgBuilder, op: tensor.PadToOp, x: SSAValue) -> SSAValue:
    """`tensor.pad_to`."""
    value = op.value.value.data
    number: Number = value if isinstance(element(x), AnyFloat) else int(value)
    return builder.pad(x, op.low.get_values(), op.high.get_values(), number)


def unflatten(
    builder: LinalgBuilder, op: tensor.UnflattenOp, x: SSAValue, like: SSAValue
) -> SSAValue:
    """`tensor.unflatten`."""
    count = op.count.value.data
    return reshape(builder, x, [*builder.sizes(like)[:count], *builder.sizes(x)[1:]])


def gather_rows(
    builder: LinalgBuilder, op: tensor.GatherRowsOp, table: SSAValue, indices: SSAValue
) -> SSAValue:
    """`tensor.gather_rows`: reads the table at computed positions."""
    index_sizes, row_sizes = builder.sizes(indices), builder.sizes(table)[1:]
    sizes = [*index_sizes, *row_sizes]
    loops = dims(len(sizes))
    picked = len(index_sizes)
    unsigned = indices in builder.unsigned

    def body(s: Scalars, index: SSAValue, _: SSAValue) -> list[SSAValue]:
        wide = s.convert(index, i64, unsigned=unsigned)
        row = s.convert(wide, IndexType())
        place = [row, *(s.index(axis) for axis in range(picked, len(sizes)))]
        return [s.insert(upstream.ExtractOp(table, place, element(table)))]

    (result,) = builder.generic(
        [(indices, loops[:picked])],
        [(builder.empty(sizes, element(table)), loops)],
        [PARALLEL] * len(sizes),
        body,
    )
    return result


RULES: dict[type[Operation], Rule] = {
    tensor.ReshapeToOp: reshape_to,
    tensor.FlattenOp: flatten,
    tensor.UnflattenOp: unflatten,
    tensor.SqueezeOp: squeeze,
    tensor.UnsqueezeOp: unsqueeze,
    tensor.PermuteOp: permute,
    tensor.ExpandOp: expand,
    tensor.ConcatenateOp: concatenate,
    tensor.SplitOp: split,
    tensor.SliceOp: slice_,
    tensor.PadToOp: pad,
    tensor.GatherRowsOp: gather_rows,
}
"""These keep the element type, whatever it is."""
