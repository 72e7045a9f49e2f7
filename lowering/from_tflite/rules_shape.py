"""TFLite import of new shapes, parts, and orders: what moves values and computes none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ...dialects import tensor
from ..from_onnx.rules_shape import axis_in, check_size, counted, expanded, take
from ..from_onnx.sizes import Free, Size, product, show, static
from ..problems import ProblemError, refuse
from .rules_activation import activated, regridded
from .tflite_builder import Builder, Node, Results, Rule, like, standard

# Shapes.


def _reshape(e: Builder, node: Node) -> SSAValue:
    x = node[0]
    if node.optional(1) is not None:
        wanted = e.size_list(node[1], "shape")
    else:
        wanted = list[Size](node.integers("newShape"))
    sizes = e.sizes(x)
    frees = [size for size in sizes if isinstance(size, Free)]
    fixed = not any(isinstance(size, Free) for size in wanted) and -1 not in wanted
    if frees and fixed and wanted and wanted[0] == 1 and isinstance(sizes[0], Free):
        # A file for one sample, read for a free batch.
        rest = product(sizes[1:])
        if rest == product(wanted[1:]):
            wanted[0] = sizes[0]
    if -1 in wanted or any(isinstance(size, Free) for size in (*sizes, *wanted)):
        return _with_rest(e, x, wanted)
    refuse(product(wanted) != product(sizes), f"{show(sizes)} cannot take the shape {show(wanted)}")
    return e.reshape(x, wanted)


def _with_rest(e: Builder, x: SSAValue, wanted: list[Size]) -> SSAValue:
    """A reshape where sizes are free, or one is what is left over."""
    sizes = e.sizes(x)
    refuse(wanted.count(-1) > 1, f"its shape is {show(wanted)}")
    if -1 in wanted:
        place = wanted.index(-1)
        whole, rest = product(sizes), product([n for n in wanted if n != -1])
        if isinstance(whole, Free):
            wanted[place] = whole // rest
        elif isinstance(rest, Free) or rest == 0 or whole % rest:
            raise ProblemError(f"{show(sizes)} cannot take the shape {show(wanted)}")
        else:
            wanted[place] = whole // rest
    refuse(product(wanted) != product(sizes), f"{show(sizes)} cannot take the shape {show(wanted)}")
    return e.reshape(x, wanted)


def _squeeze(e: Builder, node: Node) -> SSAValue:
    sizes = e.sizes(node[0])
    listed = node.integers("squeezeDims") or [a for a, size in enumerate(sizes) if size == 1]
    axes = {axis_in(axis, len(sizes)) for axis in listed}
    if any(sizes[axis] != 1 for axis in axes):
        raise ProblemError(f"it takes axes {sorted(axes)} away from {show(sizes)}")
    return e.reshape(node[0], [size for axis, size in enumerate(sizes) if axis not in axes])


def _expand_dims(e: Builder, node: Node) -> SSAValue:
    (axis,) = e.int_list(node[1], "axis")
    return _with_axis(e, node[0], axis_in(axis, e.rank(node[0]) + 1))


def _with_axis(e: Builder, x: SSAValue, axis: int) -> SSAValue:
    sizes = e.sizes(x)
    return e.reshape(x, (*sizes[:axis], 1, *sizes[axis:]))


def _transpose(e: Builder, node: Node) -> SSAValue:
    perm = [axis_in(axis, e.rank(node[0])) for axis in e.int_list(node[1], "permutation")]
    refuse(sorted(perm) != list(range(e.rank(node[0]))), f"its permutation is {perm}")
    return e.permute(node[0], perm)


def _broadcast_args(e: Builder, node: Node) -> SSAValue:
    shapes = [e.int_list(node[index], "shape") for index in (0, 1)]
    try:
        return e.indices(np.broadcast_shapes(*(tuple(s) for s in shapes)))
    except ValueError:
        raise ProblemError(f"{shapes[0]} does not broadcast with {shapes[1]}") from None


def _fill(e: Builder, node: Node) -> SSAValue:
    shape = e.size_list(node[0], "shape")
    check_size(shape)
    return expanded(e, e.reshape(node[1], [1] * len(shape)), shape)


# Parts.


def _slice(e: Builder, node: Node) -> SSAValue:
    x = node[0]
    begins, counts = e.int_list(node[1], "begin"), e.size_list(node[2], "size")
    sizes = e.sizes(x)
    if len(begins) != len(sizes) or len(counts) != len(sizes):
        raise ProblemError(f"it has {len(begins)} bounds for {len(sizes)} axes")
    for axis, (begin, count) in enumerate(zip(begins, counts, strict=True)):
        if (begin == 0 and count in (-1, sizes[axis])) or count == sizes[axis]:
            continue
        if isinstance(count, Free) or begin < 0 or count < -1:
            raise ProblemError(f"it takes {count} elements from {begin}")
        end = tensor.shape.SLICE_END if count == -1 else begin + count
        x = e.cut(x, axis, begin, end)
    return x


def _strided_slice(e: Builder, node: Node) -> SSAValue:
    x = node[0]
    begins, ends = e.size_list(node[1], "begin"), e.size_list(node[2], "end")
    steps = e.int_list(node[3], "strides")
    refuse(not len(begins) == len(ends) == len(steps), "its bounds and strides differ in number")
    if node.flag("offset"):
        ends = [begin + end for begin, end in zip(begins, ends, strict=True)]
    masks = {
        name: node.integer(f"{name}Mask")
        for name in ("begin", "end", "ellipsis", "newAxis", "shrinkAxis")
    }

    def has(name: str, place: int) -> bool:
        return bool(masks[name] >> place & 1)

    named = sum(not has("newAxis", n) and not has("ellipsis", n) for n in range(len(begins)))
    axis, stays = 0, list[bool]()
    for place, step in enumerate(steps):
        if has("ellipsis", place):
            left = e.rank(x) - axis - named
            stays += [True] * left
            axis += left
            continue
        if has("newAxis", place):
            x = _with_axis(e, x, axis)
            stays.append(True)
            axis += 1
            continue
        refuse(axis >= e.rank(x), "it has more bounds than its input has axes")
        named -= 1
        if has("shrinkAxis", place):
            x = _one(e, x, axis, static([begins[place]], "bounds")[0])
        else:
            begin = None if has("begin", place) else begins[place]
            x = _steps(e, x, axis, begin, None if has("end", place) else ends[place], step)
        stays.append(not has("shrinkAxis", place))
        axis += 1
    stays += [True] * (e.rank(x) - axis)
    if all(stays):
        return x
    return e.reshape(x, [size for size, keep in zip(e.sizes(x), stays, strict=True) if keep])


def _one(e: Builder, x: SSAValue, axis: int, place: int) -> SSAValue:
    size = e.sizes(x)[axis]
    if not isinstance(size, Free) and not -size <= place < size:
        raise ProblemError(f"it takes element {place} of {size}")
    if x in e.symbolic:
        return e.sizes_value(e.symbolic[x][place : place + 1 or None])
    return e.cut(x, axis, place, place + 1 if place != -1 else tensor.shape.SLICE_END)


def _steps(
    e: Builder, x: SSAValue, axis: int, begin: Size | None, end: Size | None, step: int
) -> SSAValue:
    size = e.sizes(x)[axis]
    if x in e.symbolic:
        bounds = [None if n is None else static([n], "bounds")[0] for n in (begin, end)]
        return e.sizes_value(e.symbolic[x][slice(bounds[0], bounds[1], step or None)])
    end = None if end == size and step > 0 else end
    (low,) = static([0 if begin is None else begin], "bounds")
    high = None if end is None else static([end], "bounds")[0]
    refuse(step == 0, "it has a step of 0")
    if step > 0:
        last = tensor.shape.SLICE_END if high is None else high
        return x if (low, last, step) == (0, tensor.shape.SLICE_END, 1) else e.cut(
            x, axis, low, last, step)  # fmt: skip
    (count,) = static([size], "size along an axis that is turned round")
    start = None if begin is None else low
    return take(e, x, axis, counted(count)[slice(start, high, step)])


def _reverse(e: Builder, node: Node) -> SSAValue:
    x = node[0]
    for axis in e.int_list(node[1], "axes"):
        axis = axis_in(axis, e.rank(x))
        (count,) = static([e.sizes(x)[axis]], "size along an axis that is turned round")
        x = take(e, x, axis, counted(count)[::-1])
    return x


def _reverse_sequence(e: Builder, node: Node) -> SSAValue:
    return standard(
        e, "ReverseSequence", [node[0], node[1]],
        time_axis=node.integer("seqDim"), batch_axis=node.integer("batchDim"),
    )  # fmt: skip


def _gather(e: Builder, node: Node) -> SSAValue:
    refuse(node.flag("batchDims"), "it picks other places for each batch")
    x, places = node[0], node[1]
    axis = axis_in(node.integer("axis"), e.rank(x))
    known, size = e.arrays.get(places), e.sizes(x)[axis]
    fixed = known is not None and known.size > 0 and not isinstance(size, Free)
    if known is not None and fixed and not 0 <= known.min() <= known.max() < size:
        raise ProblemError(f"it picks elements {known.min()} to {known.max()} of {size}")
    return standard(e, "Gather", [x, places], axis=axis)


def _scatter_nd(e: Builder, node: Node) -> SSAValue:
    shape = e.int_list(node[2], "shape")
    check_size(shape)
    empty = e.stretch(e.reshape(e.number(0, node[1]), [1] * len(shape)), shape)
    return standard(e, "ScatterND", [empty, node[0], node[1]], reduction="add")


def _one_hot(e: Builder, node: Node) -> SSAValue:
    (depth,), axis = e.int_list(node[1], "depth"), node.integer("axis")
    return e.add(tensor.OneHotOp(node[0], node[2], node[3], depth, axis))


def _split(e: Builder, node: Node) -> Results:
    x, count = node[1], node.integer("numSplits")
    axis = axis_in(e.int_list(node[0], "axis")[0], e.rank(x))
    (size,) = static([e.sizes(x)[axis]], "size along the axis")
    if count != len(node.outputs) or count < 1 or size % count:
        raise ProblemError(f"it splits {size} elements into {count} parts")
    return parts_of(e, x, axis, [size // count] * count)


def _split_v(e: Builder, node: Node) -> Results:
    x, parts = node[0], e.int_list(node[1], "sizes")
    axis = axis_in(e.int_list(node[2], "axis")[0], e.rank(x))
    if -1 in parts:
        (size,) = static([e.sizes(x)[axis]], "size along the axis")
        parts[parts.index(-1)] = size - sum(n for n in parts if n != -1)
    if len(parts) != len(node.outputs):
        raise ProblemError(f"it gives {len(node.outputs)} parts of {len(parts)} sizes")
    return parts_of(e, x, axis, parts)


def parts_of(e: Builder, x: SSAValue, axis: int, parts: Sequence[int]) -> tuple[SSAValue, ...]:
    """x cut into parts along one axis."""
    if (before := e.permuted(x)) is not None:
        source, perm = before
        pieces = parts_of(e, source, perm[axis], parts)
        return tuple(e.permute(part, perm) for part in pieces)
    return tuple(e.add_all(tensor.SplitOp(x, axis, list(parts))))


# Several in one.


def joined(e: Builder, values: Sequence[SSAValue], axis: int) -> SSAValue:
    """Values one behind the other along an axis."""
    if len(values) == 1:
        return values[0]
    inner, perm = e.shared_order(values)
    if perm is not None:
        return e.permute(joined(e, [v for v in inner if v is not None], perm[axis]), perm)
    return e.add(tensor.ConcatenateOp(list(values), axis))


def _concatenation(e: Builder, node: Node) -> SSAValue:
    values = [node[index] for index in range(len(node.inputs))]
    if node.is_quantized:
        result = node.result_scales()
        values = [
            regridded(e, value, node.scales(index), result, node)
            for index, value in enumerate(values)
        ]
    axis = axis_in(node.integer("axis"), e.rank(values[0]))
    joint = joined(e, values, axis)
    return joint if node.is_quantized else activated(e, node, joint)


def _pack(e: Builder, node: Node) -> SSAValue:
    values = [node[index] for index in range(len(node.inputs))]
    axis = axis_in(node.integer("axis"), e.rank(values[0]) + 1)
    return joined(e, [_with_axis(e, value, axis) for value in values], axis)


def _unpack(e: Builder, node: Node) -> Results:
    x = node[0]
    axis, sizes = axis_in(node.integer("axis"), e.rank(x)), e.sizes(x)
    if sizes[axis] != len(node.outputs):
        raise ProblemError(f"it gives {len(node.outputs)} parts of {sizes[axis]}")
    left = (*sizes[:axis], *sizes[axis + 1 :])
    return tuple(e.reshape(_one(e, x, axis, place), left) for place in range(len(node.outputs)))


RULES: dict[str, Rule] = {
    "BROADCAST_ARGS": _broadcast_args,
    "BROADCAST_TO": like("Expand"),
    "CONCATENATION": _concatenation,
    "EMBEDDING_LOOKUP": lambda e, node: standard(e, "Gather", [node[1], node[0]]),
    "EXPAND_DIMS": _expand_dims,
    "FILL": _fill,
    "GATHER": _gather,
    "GATHER_ND": like("GatherND"),
    "ONE_HOT": _one_hot,
    "PACK": _pack,
    "RANGE": like("Range"),
    "RANK": lambda e, node: e.number(e.rank(node[0]), i32),
    "RESHAPE": _reshape,
    "REVERSE_SEQUENCE": _reverse_sequence,
    "REVERSE_V2": _reverse,
    "SCATTER_ND": _scatter_nd,
    "SHAPE": like("Shape"),
    "SLICE": _slice,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "SQUEEZE": _squeeze,
    "STRIDED_SLICE": _strided_slice,
    "TILE": like("Tile"),
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
"""By the name of the operator; all move integers on grids as they are."""
