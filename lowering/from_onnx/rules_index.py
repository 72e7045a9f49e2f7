"""ONNX import of gathers, scatters, one-hot, running sums, sorting: what places elements.

A scatter becomes gathers, so its places must be known; sorting counts for each element how many
stand before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ...ir.arrays import Array
from ..ir_builder import padded
from ..problems import ProblemError
from .onnx_builder import LARGEST_KNOWN, Builder, Call, Results, Rule
from .rules_elementwise import Binary
from .rules_shape import axis_in, axis_of, counted, take
from .sizes import Free, Size, static


def _wrapped(e: Builder, places: SSAValue, *sizes: Size) -> SSAValue:
    """Indices with negative ones counted from the end, of one axis or of one for each column."""
    if places in e.symbolic:
        return places
    known = e.array(places).astype(np.int64) if e.is_known(places) else None
    if known is not None and not (known < 0).any():
        return e.indices(known)
    counts = static(sizes, "size along the axis of negative indices")
    ends = np.array(counts if len(counts) > 1 else counts[0])
    if known is not None:
        return e.indices(np.where(known < 0, known + ends, known))
    places = e.convert(places, i64)
    negative = e.add(tensor.CompareOp(places, e.number(0, i64), "lt"))
    moved = e.add(tensor.AddOp(places, e.indices(ends)))
    return e.add(tensor.WhereOp(negative, moved, places))


def _gather(e: Builder, call: Call) -> SSAValue:
    x, places = call[0], call[1]
    axis = axis_of(call, e.rank(x))
    size = e.sizes(x)[axis]
    if isinstance(size, Free) and e.is_known(places) and e.array(places).size == 1:
        return _one_place(e, x, places, axis)
    places = _wrapped(e, places, size)
    rank = e.rank(places)
    rows = e.add(tensor.GatherRowsOp(e.move_axis(x, axis, 0), places))
    # The axes of the places stand in front; they belong where `axis` was.
    order = [*range(rank, rank + axis), *range(rank), *range(rank + axis, e.rank(rows))]
    return e.permute(rows, order)


def _one_place(e: Builder, x: SSAValue, places: SSAValue, axis: int) -> SSAValue:
    place = int(e.array(places).reshape(-1)[0])
    part = e.cut(x, axis, place, place + 1 if place != -1 else tensor.shape.SLICE_END)
    sizes = list(e.sizes(part))
    sizes[axis] = 1
    part = e.refine(part, sizes)
    return e.reshape(part, [*sizes[:axis], *e.sizes(places), *sizes[axis + 1 :]])


def _grid(shape: Sequence[int]) -> list[Array]:
    """For each element of a tensor its place along each axis, axes first."""
    if prod(shape) > LARGEST_KNOWN:
        raise ProblemError(f"it picks {prod(shape)} elements")
    return [*np.meshgrid(*map(np.arange, shape), indexing="ij", sparse=True)]


def _flat_places(e: Builder, places: SSAValue, shape: Sequence[int], axis: int) -> SSAValue:
    """Flat indices into a tensor of `shape` of places along `axis`."""
    strides = [prod(shape[a + 1 :]) for a in range(len(shape))]
    grid = _grid(e.shape(places))
    rest = sum((grid[a] * strides[a] for a in range(len(shape)) if a != axis), np.int64(0))
    scaled = e.add(tensor.MulOp(places, e.number(strides[axis], i64)))
    return e.add(tensor.AddOp(scaled, e.indices(np.broadcast_to(rest, e.shape(places)))))


def _gather_elements(e: Builder, call: Call) -> SSAValue:
    x, axis = call[0], axis_of(call, e.rank(call[0]))
    for other in range(e.rank(x)):
        count = e.sizes(call[1])[other]
        if other != axis and count != e.sizes(x)[other]:
            x = e.cut(x, other, 0, static([count], "sizes of indices")[0])
    places = _wrapped(e, call[1], e.sizes(x)[axis])
    return e.add(tensor.GatherElementsOp(x, places, axis))


def _row_places(e: Builder, places: SSAValue, shape: Sequence[int], batch: int) -> SSAValue:
    """Indices of rows of a tensor of `shape` whose first axes the last axis of `places` names."""
    depth = e.shape(places)[-1]
    picked = shape[batch : batch + depth]
    strides = [prod(picked[a + 1 :]) for a in range(depth)]
    weighed = e.add(tensor.MulOp(_wrapped(e, places, *picked), e.indices(strides)))
    rows = e.add(tensor.ReduceSumOp(weighed, [e.rank(weighed) - 1]))
    if batch:
        lead = shape[:batch]
        offsets = np.arange(prod(lead)).reshape(*lead, *[1] * (e.rank(rows) - batch))
        rows = e.add(tensor.AddOp(rows, e.indices(offsets * prod(picked))))
    return rows


def _gather_nd(e: Builder, call: Call) -> SSAValue:
    x, shape, batch = call[0], e.shape(call[0]), call.integer("batch_dims", 0)
    depth = e.shape(call[1])[-1]
    rows = _row_places(e, call[1], shape, batch)
    rest = shape[batch + depth :]
    return e.add(tensor.GatherRowsOp(e.reshape(x, [prod(shape[: batch + depth]), *rest]), rows))


# Scatters.

_COMBINE: dict[str, Binary] = {
    "add": tensor.AddOp, "mul": tensor.MulOp, "max": tensor.MaximumOp, "min": tensor.MinimumOp,
}  # fmt: skip


_COMPUTED = ("none", "add")
"""The reductions for which indices may be computed."""


def _placed(e: Builder, x: SSAValue, updates: SSAValue, targets: Array, reduction: str) -> SSAValue:
    """Rows of x with rows of `updates` put at `targets`, in their order."""
    flat, count = targets.reshape(-1), e.shape(x)[0]
    if flat.size and (flat.min() < 0 or flat.max() >= count):
        raise ProblemError("its indices are outside the tensor")
    if reduction == "none":
        source = np.arange(count)
        source[flat] = count + np.arange(flat.size)
        both = e.add(tensor.ConcatenateOp([x, updates], 0))
        return e.add(tensor.GatherRowsOp(both, e.indices(source)))
    kind = _COMBINE.get(reduction)
    if kind is None:
        raise ProblemError(f"its reduction '{reduction}' is unknown")
    left = np.arange(flat.size)
    while left.size:
        _, first = np.unique(flat[left], return_index=True)
        now = left[first]
        source, hit = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        source[flat[now]], hit[flat[now]] = now, True
        rows = e.add(tensor.GatherRowsOp(updates, e.indices(source)))
        condition = e.known(hit.reshape(count, *[1] * (e.rank(x) - 1)))
        x = e.add(tensor.WhereOp(condition, e.add(kind(x, rows)), x))
        left = np.setdiff1d(left, now)
    return x


def _scatter_elements(e: Builder, call: Call) -> SSAValue:
    x, updates, sizes = call[0], call[2], e.sizes(call[0])
    axis, reduction = axis_of(call, len(sizes)), call.text("reduction", "none")
    is_computed = not e.is_known(call[1]) and reduction in _COMPUTED
    if is_computed and all(a == axis or n == e.sizes(call[1])[a] for a, n in enumerate(sizes)):
        return _scattered(e, x, _wrapped(e, call[1], sizes[axis]), updates, axis, reduction)
    shape = static(sizes)
    if is_computed:
        places = _wrapped(e, call[1], shape[axis])
        spread = e.shape(places)
        flat = e.reshape(_flat_places(e, places, shape, axis), [prod(spread)])
        rows, updates = e.reshape(x, [prod(shape)]), e.reshape(updates, [prod(spread)])
        return e.reshape(_scattered(e, rows, flat, updates, 0, reduction), shape)
    places = e.array(call[1], "indices").astype(np.int64)
    places = np.where(places < 0, places + shape[axis], places)
    targets = e.array(_flat_places(e, e.indices(places), shape, axis))
    flat = e.reshape(x, [prod(shape)])
    rows = e.reshape(updates, [targets.size])
    return e.reshape(_placed(e, flat, rows, targets, reduction), shape)


def _scattered(
    e: Builder, x: SSAValue, places: SSAValue, updates: SSAValue, axis: int, reduction: str
) -> SSAValue:
    """x with updates at places that only the run tells."""
    return e.add(tensor.ScatterElementsOp(x, places, updates, axis, reduction))


def _scatter_nd(e: Builder, call: Call) -> SSAValue:
    x, shape, reduction = call[0], e.shape(call[0]), call.text("reduction", "none")
    if reduction not in _COMPUTED:
        e.array(call[1], "indices")
    places = _row_places(e, call[1], shape, 0)
    depth, count = e.shape(call[1])[-1], prod(e.shape(places))
    rows = e.reshape(x, [prod(shape[:depth]), *shape[depth:]])
    updates = e.reshape(call[2], [count, *shape[depth:]])
    if e.is_known(places):
        return e.reshape(_placed(e, rows, updates, e.array(places), reduction), shape)
    width = prod(shape[depth:])
    each = e.stretch(e.reshape(places, [count, 1]), (count, width))
    rows, updates = (
        e.reshape(rows, [prod(shape[:depth]), width]),
        e.reshape(updates, [count, width]),
    )
    return e.reshape(_scattered(e, rows, each, updates, 0, reduction), shape)


def _one_hot(e: Builder, call: Call) -> SSAValue:
    depth, axis = int(e.array(call[1], "depth").reshape(-1)[0]), call.integer("axis", -1)
    off, on = (e.reshape(e.cut(call[2], 0, i, i + 1), []) for i in (0, 1))
    return e.add(tensor.OneHotOp(_wrapped(e, call[0], depth), on, off, depth, axis))


def running(kind: Callable[[SSAValue, int], Operation], start: float) -> Rule:
    """A rule for sums or products of all elements up to each one."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x, rank = call[0], e.rank(call[0])
        axis = axis_in(e.int_list(call[1], "axis")[0], rank)
        if call.integer("reverse", 0):
            (size,) = static([e.sizes(x)[axis]], "size along the axis")
            x = take(e, x, axis, counted(size)[::-1])
        if call.integer("exclusive", 0):
            x = _shifted(e, x, axis, 1, start)
        x = e.add(kind(x, axis))
        if call.integer("reverse", 0):
            (size,) = static([e.sizes(x)[axis]], "size along the axis")
            x = take(e, x, axis, counted(size)[::-1])
        return x

    return rule


def _shifted(e: Builder, x: SSAValue, axis: int, distance: int, fill: float) -> SSAValue:
    low, high = [0] * e.rank(x), [0] * e.rank(x)
    low[axis], high[axis] = distance, -distance
    return padded(e, x, low, high, fill)


def _top_k(e: Builder, call: Call) -> Results:
    x, axis = call[0], axis_of(call, e.rank(call[0]), -1)
    k = e.int_list(call[1], "k")[0] if call.has(1) else call.integer("k", 0)
    largest = call.flag("largest", True)
    if k == 1:
        value, place = (
            (tensor.ReduceMaxOp, tensor.ArgmaxOp)
            if largest
            else (tensor.ReduceMinOp, tensor.ArgminOp)
        )
        return e.add(value(x, [axis], keepdims=True)), e.add(place(x, axis, keepdims=True))
    return tuple(e.add_all(tensor.TopKOp(x, k, axis, largest=largest)))


def _place(kind: type[tensor.ArgOp]) -> Rule:
    """A rule for the place of an extreme along an axis, the last one on request."""
    return lambda e, call: _place_along(e, call, kind)


def _place_along(e: Builder, call: Call, kind: type[tensor.ArgOp]) -> SSAValue:
    x = call[0]
    axis, keep = axis_of(call, e.rank(x)), call.flag("keepdims", True)
    if not call.integer("select_last_index", 0):
        return e.add(kind(x, axis, keepdims=keep))
    (size,) = static([e.sizes(x)[axis]], "size along the axis")
    turned = take(e, x, axis, counted(size)[::-1])
    place = e.add(kind(turned, axis, keepdims=keep))
    return e.add(tensor.SubOp(e.number(size - 1, i64), place))


def _reverse_sequence(e: Builder, call: Call) -> SSAValue:
    x = call[0]
    time, batch = call.integer("time_axis", 0), call.integer("batch_axis", 1)
    lengths = e.array(call[1], "lengths")
    shape = e.shape(x)
    places = np.tile(np.arange(shape[time])[:, None], (1, shape[batch]))
    for column, length in enumerate(lengths):
        places[:length, column] = places[:length, column][::-1]
    if time > batch:
        places = places.T
    wanted = [n if axis in (time, batch) else 1 for axis, n in enumerate(shape)]
    spread = np.broadcast_to(places.reshape(wanted), shape)
    inner = Call("GatherElements", "", 13, [x, e.indices(spread)], {"axis": time})
    return _gather_elements(e, inner)


def _tensor_scatter(e: Builder, call: Call) -> SSAValue:
    past, update = call[0], call[1]
    shape, new = e.shape(past), e.shape(update)
    axis = axis_of(call, len(shape), -2)
    starts = e.array(call[2], "write_indices") if call.has(2) else np.zeros(shape[0], np.int64)
    places = np.indices(new, np.int64)[axis]
    places = places + starts.reshape(-1, *[1] * (len(shape) - 1))
    if call.text("mode", "linear") == "circular":
        places %= shape[axis]
    inner = Call("ScatterElements", "", 18, [past, e.indices(places), update], {"axis": axis})
    return _scatter_elements(e, inner)


def lowest_of(value: SSAValue) -> float | int | bool:
    """The least element that the type of `value` has."""
    dtype = numpy_dtype(tensor_type(value).element_type)
    if dtype == np.bool_:
        return False
    return -np.inf if is_float(tensor_type(value)) else int(np.iinfo(dtype).min)


RULES: dict[str, Rule] = {
    "ArgMax": _place(tensor.ArgmaxOp),
    "ArgMin": _place(tensor.ArgminOp),
    "CumProd": running(tensor.CumprodOp, 1),
    "CumSum": running(tensor.CumsumOp, 0),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "TopK": _top_k,
}
"""By the type of the operator."""
