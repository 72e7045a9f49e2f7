"""Rules of what ATen picks and writes by index: gathers, rows of tables, diagonals.

Not here: what scatters elements and rows (`rules_scatter`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch.fx import Node
from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ...dialects.tensor.shape import SLICE_END
from ...ir.arrays import Array
from ..problems import ProblemError, refuse
from .calls import Call, fake_tensor, is_tensor, schema_of
from .rules_shape import cut, expanded, fixed
from .sizes import Size, Sizes, is_free, product, static
from .torch_builder import Builder, Rule, array_of, element_type


def _index(e: Builder, call: Call) -> SSAValue:
    indices = cast("Sequence[Node | None]", call.arguments["indices"])
    picked = [(axis, node) for axis, node in enumerate(indices) if node is not None]
    x, sizes = e.value(call["self"]), e.sizes(call["self"])
    mask = e.known(picked[0][1]) if len(picked) == 1 else None
    if mask is not None and mask.tensor.ndim and element_type(mask.tensor.dtype) == i1:
        return _kept(e, x, sizes, picked[0][0], array_of(mask.tensor))
    axes = [axis for axis, _ in picked]
    grid = [_whole_axis(e, node, sizes[axis], call) for axis, node in picked]
    if None not in grid and len({*grid}) == len(grid):
        return _gridded(e, call, x, dict(zip(axes, cast("list[int]", grid), strict=True)))
    if len(picked) == 1:
        ((axis, node),) = picked
        return e.gather(x, axis, places_of(e, node, sizes[axis]))
    counts = [sizes[axis] for axis in axes]
    # Of axes that are not beside each other, NumPy puts the picked ones in front.
    first = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    rest = [axis for axis in range(len(sizes)) if axis not in axes]
    order = [*rest[:first], *axes, *rest[first:]]
    moved = tuple(sizes[axis] for axis in order)
    flat = (*moved[:first], product(counts), *moved[first + len(axes) :])
    rows = e.reshape(e.permute(x, order), moved, flat)
    return e.gather(rows, first, _flat_places(e, picked, counts))


def _kept(e: Builder, x: SSAValue, sizes: Sizes, axis: int, mask: Array) -> SSAValue:
    """What a known mask keeps, along one axis in the place of those of the mask."""
    flat = (*sizes[:axis], mask.size, *sizes[axis + mask.ndim :])
    return e.gather(e.reshape(x, sizes, flat), axis, e.numbers(np.flatnonzero(mask), i64))


def _masked_select(e: Builder, call: Call) -> SSAValue:
    """The elements that a known mask keeps."""
    mask = e.known(call["mask"])
    if mask is None:
        raise ProblemError("the size of its result depends on values; use torch.where")
    sizes = e.sizes(call["self"])
    whole = np.broadcast_shapes(static(sizes), mask.tensor.shape)
    x = expanded(e, e.value(call["self"]), sizes, whole)
    return _kept(e, x, whole, 0, np.broadcast_to(array_of(mask.tensor), whole))


def _gridded(e: Builder, call: Call, x: SSAValue, grid: dict[int, int]) -> SSAValue:
    """Whole axes laid along axes of the indices; `grid` has the latter, counted from the last."""
    sizes, axes = e.sizes(call["self"]), sorted(grid)
    first = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    rest = [axis for axis in range(len(sizes)) if axis not in grid]
    laid = sorted(axes, key=lambda axis: grid[axis], reverse=True)
    order = [*rest[:first], *laid, *rest[first:]]
    return e.reshape(e.permute(x, order), tuple(sizes[axis] for axis in order), call.sizes)


_VIEWS = frozenset({
    "aten::unsqueeze", "aten::view", "aten::reshape", "aten::_unsafe_view", "aten::clone",
    "aten::alias", "aten::to", "aten::_to_copy", "aten::slice", "aten::lift_fresh_copy",
})  # fmt: skip
"""Operators that keep the order of elements; a slice does where it keeps the size."""


def _whole_axis(e: Builder, node: Node, size: Size, call: Call) -> int | None:
    """The axis, counted from the last, along which indices are 0, 1, … up to `size`."""
    sizes = e.sizes(node)
    along = [axis for axis, own in enumerate(sizes) if own != 1]
    if len(along) != 1 or sizes[along[0]] != size:
        return None
    known = e.known(node)
    if not _counts(node):
        return None
    if known is not None:
        counted = np.arange(fixed(size))
        is_whole = np.array_equal(array_of(known.tensor).reshape(-1), counted)
        return len(sizes) - along[0] if is_whole else None
    while node.op == "call_function" and schema_of(node) is not None and _counts(node):
        here = Call.of(node)
        if here.name == "aten::arange":
            is_plain = here.arguments.get("start", 0) == 0 and here.arguments.get("step", 1) == 1
            return len(sizes) - along[0] if is_plain else None
        is_view = here.name in _VIEWS or (
            here.name == "aten::add" and here.arguments.get("other") == 0
        )
        if not is_view or product(e.sizes(here["self"])) != size:
            return None
        node = here["self"]
    return None


def _counts(node: Node) -> bool:
    """Whether every place of an axis has a number of its own: truth values and bytes have few."""
    return element_type(fake_tensor(node).dtype) in (i32, i64)


def places_of(e: Builder, node: Node, size: Size) -> SSAValue:
    """Indices along an axis, negative ones counted from its end."""
    if (element := element_type(fake_tensor(node).dtype)) == i1:
        raise ProblemError("the size of what a mask picks depends on values; use torch.where")
    known = e.known(node)
    if known is None:
        return e.add(tensor.ModOp(e.value(node), e.number(size, element)))
    values = array_of(known.tensor)
    return e.numbers(values % fixed(size), i64) if (values < 0).any() else e.value(node)


def _index_put(e: Builder, call: Call) -> SSAValue:
    indices = cast("Sequence[Node | None]", call.arguments["indices"])
    sizes, values = e.sizes(call["self"]), e.operand(call["values"], call.value.dtype)
    picked = [(axis, node) for axis, node in enumerate(indices) if node is not None]
    if len(picked) == 1 and element_type(fake_tensor(picked[0][1]).dtype) == i1:
        return _mask_put(e, call, picked[0], values)
    axes = [axis for axis, _ in picked]
    counts = [sizes[axis] for axis in axes]
    first = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    rest = [axis for axis in range(len(sizes)) if axis not in axes]
    places = _flat_places(e, picked, counts)
    named = _broadcast([e.sizes(node) for _, node in picked])
    kept = tuple(sizes[axis] for axis in rest)
    # What is written has the axes of the indices where NumPy puts them; they go in front.
    whole = (*kept[:first], *named, *kept[first:])
    spread = expanded(e, values, e.sizes(call["values"]), whole)
    inner = range(first, first + len(named))
    spread = e.permute(spread, [*inner, *(a for a in range(len(whole)) if a not in inner)])
    rows = (product(named), *kept)
    updates = e.reshape(spread, (*named, *kept), rows)
    column = e.add(tensor.ReshapeToOp(places, [-1, *[1] * len(kept)]))
    target = expanded(e, column, (rows[0], *[1] * len(kept)), rows)
    order = [*axes, *rest]
    moved = tuple(sizes[axis] for axis in order)
    flat = (product(counts), *kept)
    x = e.reshape(e.permute(e.value(call["self"]), order), moved, flat)
    reduction = "add" if call.flag("accumulate") else "none"
    written = e.add(tensor.ScatterElementsOp(x, target, updates, 0, reduction))
    back = [order.index(axis) for axis in range(len(order))]
    return e.permute(e.reshape(written, flat, moved), back)


def _broadcast(shapes: Sequence[Sizes]) -> Sizes:
    """The sizes of operands together."""
    rank = max(map(len, shapes))
    padded = [(*[1] * (rank - len(sizes)), *sizes) for sizes in shapes]
    return tuple(next((s for s in along if s != 1), 1) for along in zip(*padded, strict=True))


def _mask_put(e: Builder, call: Call, picked: tuple[int, Node], values: SSAValue) -> SSAValue:
    """`x[mask] = value` for one value, or as many as there are elements behind the mask."""
    axis, mask = picked
    sizes, given = e.sizes(mask), e.sizes(call["values"])
    behind = len(e.sizes(call["self"])) - axis - len(sizes)
    # The elements that the mask takes are one axis of what is written, in front of those behind.
    lead = len(given) - behind
    if any(size != 1 for size in given[: max(lead, 0)]) or call.flag("accumulate"):
        raise ProblemError("how many elements a mask takes depends on values; use torch.where")
    condition = e.value(mask)
    if behind:
        condition = e.add(tensor.UnsqueezeOp(condition, [len(sizes) + i for i in range(behind)]))
    value = e.add(tensor.SqueezeOp(values, list(range(lead)))) if lead > 0 else values
    return e.add(tensor.WhereOp(condition, value, e.value(call["self"])))


def _masked_scatter(e: Builder, call: Call) -> SSAValue:
    """Elements of `source`, in order, where a mask holds: each counts those before it."""
    x, source = e.value(call["self"]), e.value(call["source"])
    count = product(e.sizes(call["source"]))
    if count == 0:  # the mask takes none
        return x
    mask = expanded(e, e.value(call["mask"]), e.sizes(call["mask"]), call.sizes)
    # Along the last axis those up to a place, along each other one those in the rows before it.
    held, places = Formula(e, mask).convert(i64), Formula(e, e.number(-1, i64))
    for behind, axis in enumerate(reversed(range(call.rank))):
        running = held.of(tensor.CumsumOp, axis=axis)
        if behind:
            running = (running - held).of(
                tensor.UnsqueezeOp, axes=[axis + 1 + i for i in range(behind)]
            )
        places = places + running
        held = held.of(tensor.ReduceSumOp, axes=[axis])
    places = places.maximum(0).minimum(Formula(e, e.number(count, i64)) - 1)
    rows = e.add(tensor.ReshapeToOp(source, [-1]))
    taken = e.gather(rows, 0, places.value)
    return e.add(tensor.WhereOp(mask, taken, x))


def _max_unpool(e: Builder, call: Call) -> SSAValue:
    """Each element at the place in its image that its index names, zeros elsewhere."""
    x, sizes = e.value(call["self"]), e.sizes(call["self"])
    lead = len(sizes) - len(call.integers("output_size"))
    flat = (*sizes[:lead], product(sizes[lead:]))
    image = (*sizes[:lead], product(call.sizes[lead:]))
    empty = expanded(e, e.number(0, tensor_type(x).element_type), (), image)
    indices = e.reshape(e.value(call["indices"]), sizes, flat)
    put = tensor.ScatterElementsOp(empty, indices, e.reshape(x, sizes, flat), lead, "none")
    return e.reshape(e.add(put), image, call.sizes)


def _as_strided(e: Builder, call: Call) -> SSAValue:
    """Elements by their places in memory, where sizes say these, or a tensor with others there."""
    x, source = e.value(call["self"]), fake_tensor(call["self"])
    if not source.is_contiguous():
        raise ProblemError("its source lies in memory in another order; call contiguous() before")
    count = math.prod(static(e.sizes(call["self"])))
    sizes, steps = call.integers("size"), call.integers("stride")
    places = np.full(sizes, call.integer("storage_offset", 0))
    for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        places += (np.arange(size) * step).reshape(-1, *[1] * (len(sizes) - axis - 1))
    refuse(places.size and places.max() >= count, "it reads beyond the tensor")
    flat = e.add(tensor.ReshapeToOp(x, [-1]))
    if "src" not in call:
        return e.gather(flat, 0, e.numbers(places, i64))
    source = e.add(tensor.ReshapeToOp(e.operand(call["src"], call.value.dtype), [-1]))
    return e.reshape(_put(e, flat, 0, count, source, places.ravel()), (count,), call.sizes)


def _put(
    e: Builder, x: SSAValue, axis: int, size: int, source: SSAValue, places: Array
) -> SSAValue:
    """x, of that size along an axis, with `source` at places along it."""
    origin = np.arange(size)
    origin[places] = size + np.arange(len(places))
    both = e.add(tensor.ConcatenateOp([x, source], axis))
    return e.gather(both, axis, e.numbers(origin, i64))


def _flat_places(
    e: Builder, picked: Sequence[tuple[int, Node]], counts: Sequence[Size]
) -> SSAValue:
    """Places in the picked axes, made one axis."""
    places: Formula | None = None
    for (_, node), count in zip(picked, counts, strict=True):
        here = Formula(e, places_of(e, node, count)).convert(i64)
        if places is not None:
            here = places * Formula(e, e.number(count, i64)) + here
        places = here
    assert places is not None
    return places.value


def _unfold(e: Builder, call: Call) -> SSAValue:
    """Windows along an axis, whose elements become the last axis."""
    axis, length, step = (call.integer(name) for name in ("dimension", "size", "step"))
    rank = call.rank - 1
    starts = np.arange(static([call.sizes[axis % rank]], "windows")[0]) * step
    places = e.numbers(starts[:, None] + np.arange(length), i64)
    windows = e.gather(e.value(call["self"]), axis % rank, places)
    order = [a for a in range(rank + 1) if a != axis % rank + 1]
    return e.permute(windows, [*order, axis % rank + 1])


def _diagonal(e: Builder, call: Call) -> SSAValue:
    """The diagonals of matrices along a last axis, or the matrices with others in their places."""
    sizes = e.sizes(call["self"])
    first, second = (call.axis(len(sizes), name) for name in ("dim1", "dim2"))
    rows, columns = static([sizes[first], sizes[second]], "matrices")
    rest = [axis for axis in range(len(sizes)) if axis not in (first, second)]
    moved = tuple(sizes[axis] for axis in (*rest, first, second))
    flat = (*moved[:-2], rows * columns)
    x = e.reshape(e.permute(e.value(call["self"]), [*rest, first, second]), moved, flat)
    offset = call.integer("offset", 0)
    start = offset if offset >= 0 else -offset * columns
    count = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    places = start + np.arange(max(count, 0)) * (columns + 1)
    if "src" not in call:
        return e.gather(x, len(rest), e.numbers(places, i64))
    source = e.operand(call["src"], call.value.dtype)
    changed = _put(e, x, len(rest), rows * columns, source, places)
    order = [*rest, first, second]
    return e.permute(e.reshape(changed, flat, moved), [order.index(a) for a in range(len(sizes))])


def _slice_scatter(e: Builder, call: Call) -> SSAValue:
    """`self` with `src` in the place of a slice, or of one place along an axis."""
    sizes, x = call.sizes, e.value(call["self"])
    axis = call.axis(call.rank, default=0)
    source = e.operand(call["src"], call.value.dtype)
    if "index" in call:
        source = e.add(tensor.UnsqueezeOp(source, [axis]))
        if is_free(sizes[axis]):
            return _with_part(e, x, axis, call.integer("index"), source, call.integer("index") + 1)
        start = call.integer("index") % fixed(sizes[axis])
        places = range(start, start + 1)
    elif (start := call.size("start", 0)) == 0 and e.sizes(call["src"]) == sizes:
        return source
    elif is_free(sizes[axis]) and not is_free(start) and call.integer("step", 1) == 1:
        end, count = call.size("end", SLICE_END), e.sizes(call["src"])[axis]
        if end == sizes[axis] or end == SLICE_END:
            return _with_part(e, x, axis, start, source, 0)
        stop = end if is_free(count) else start + fixed(count)
        return _with_part(e, x, axis, start, source, static([stop], "bounds")[0])
    else:
        start, end, size = static([start, call.size("end", SLICE_END), sizes[axis]], "bounds")
        places = range(size)[start : end : call.integer("step", 1)]
        if not places:
            return x
    if places.step == 1:
        parts = [cut(e, x, axis, 0, places.start)] if places.start else []
        parts.append(source)
        parts += [cut(e, x, axis, places.stop, SLICE_END)] if places.stop != sizes[axis] else []
        return e.add(tensor.ConcatenateOp(parts, axis)) if len(parts) > 1 else source
    return _put(e, x, axis, fixed(sizes[axis]), source, np.array(places))


def _with_part(
    e: Builder, x: SSAValue, axis: int, start: int, part: SSAValue, stop: int
) -> SSAValue:
    """`x` with `part` between two places of a free axis; a `stop` of 0 is the end."""
    parts = [cut(e, x, axis, 0, start)] if start else []
    parts.append(part)
    parts += [cut(e, x, axis, stop, SLICE_END)] if stop else []
    return e.add(tensor.ConcatenateOp(parts, axis)) if len(parts) > 1 else part


def _one_hot(e: Builder, call: Call) -> SSAValue:
    on, off = e.number(1, i64), e.number(0, i64)
    return e.add(tensor.OneHotOp(e.value(call["self"]), on, off, call.integer("num_classes")))


def beside(e: Builder, node: Node, index: Node, along: int) -> SSAValue:
    """A tensor cut to the sizes of indices along all axes but one."""
    x, sizes, wanted = e.value(node), e.sizes(node), e.sizes(index)
    for axis, (size, other) in enumerate(zip(sizes, wanted, strict=True)):
        if axis != along and size != other:
            x = cut(e, x, axis, 0, static([other], "sizes of indices")[0])
    return x


def _gather(e: Builder, call: Call) -> SSAValue:
    indices, axis = e.value(call["index"]), call.integer("dim")
    if not call.rank:  # a number of one number, or of a vector
        flat, place = (e.add(tensor.ReshapeToOp(v, [-1])) for v in (e.value(call["self"]), indices))
        return e.add(tensor.SqueezeOp(e.gather(flat, 0, place), [0]))
    x = beside(e, call["self"], call["index"], axis % call.rank)
    return e.add(tensor.GatherElementsOp(x, indices, axis))


def _between(e: Builder, call: Call) -> SSAValue:
    """`bucketize` and `searchsorted`: how many bounds lie below a number, or not above it."""
    refuse("sorter" in call, "its bounds are not in order; sort them")
    of = call["boundaries" if "boundaries" in call else "sorted_sequence"]
    numbers, rank = call.operand("self"), call.rank
    dtype = fake_tensor(of).dtype
    if is_tensor(numbers):
        dtype = torch.promote_types(dtype, fake_tensor(numbers).dtype)
    bounds = e.operand(of, dtype)
    if len(e.sizes(of)) > 1:  # rows of bounds, each for a row of numbers
        bounds = e.add(tensor.UnsqueezeOp(bounds, [rank - 1]))
    x = e.add(tensor.UnsqueezeOp(e.operand(numbers, dtype), [rank]))
    is_right = call.flag("right") or call.word("side") == "right"
    # Above every bound is also what is no number.
    below = e.add(tensor.NotOp(e.add(tensor.CompareOp(bounds, x, "gt" if is_right else "ge"))))
    element = element_type(call.value.dtype)
    return e.add(tensor.ReduceSumOp(e.convert(below, element), [rank]))


RULES: dict[str, Rule] = {
    "as_strided": _as_strided,
    "as_strided_scatter": _as_strided,
    "bucketize": _between,
    "diagonal": _diagonal,
    "diagonal_scatter": _diagonal,
    "embedding": lambda e, call: e.add(
        tensor.GatherRowsOp(e.value(call["weight"]), e.value(call["indices"]))
    ),
    "gather": _gather,
    "index": _index,
    "index_put": _index_put,
    "index_select": lambda e, call: e.gather(
        e.value(call["self"]), call.axis(call.rank), e.value(call["index"])
    ),
    "masked_scatter": _masked_scatter,
    "masked_select": _masked_select,
    "max_unpool2d": _max_unpool,
    "max_unpool3d": _max_unpool,
    "one_hot": _one_hot,
    "searchsorted": _between,
    "select_scatter": _slice_scatter,
    "slice_scatter": _slice_scatter,
    "unfold": _unfold,
}
"""By the name of the operator in the namespace `aten`."""
