"""ONNX import of shapes: views, joins, cuts, padding, and tensors of sizes.

Not here: picking elements by index (`rules_index`), new sizes of images (`rules_resize`), tensors
that are made up and blocks of images (`rules_filling`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.shape import SLICE_END
from ...ir.arrays import Array
from ..ir_builder import padded
from ..problems import ProblemError, refuse
from .calls import tensor_of
from .onnx_builder import LARGEST_KNOWN, Builder, Call, Results, Rule
from .reading import LARGEST
from .sizes import Free, Size, product, show, static
from .symbolic import total


def axes_of(e: Builder, call: Call, index: int, rank: int) -> list[int] | None:
    """Axes from an input or, in older versions, the attribute, counted from the front."""
    axes = e.int_list(call[index], "axes") if call.has(index) else call.integers("axes", None)
    return None if axes is None else _from_front(axes, rank)


def _from_front(axes: list[int], rank: int) -> list[int]:
    if any(not -rank <= axis < rank for axis in axes):
        raise ProblemError(f"its axes {axes} are outside a tensor of rank {rank}")
    return [axis % max(rank, 1) for axis in axes]


def axis_of(call: Call, rank: int, default: int = 0) -> int:
    """The attribute `axis`, counted from the front; a scalar has the axis 0."""
    axis = call.integer("axis", default)
    return axis_in(axis, rank) if rank or axis else 0


def axis_in(axis: int, rank: int) -> int:
    """An axis counted from the front.

    Raises:
        ProblemError: it is outside.
    """
    refuse(not -rank <= axis < rank, f"its axis {axis} is outside a tensor of rank {rank}")
    return axis % rank


def check_size(sizes: Sequence[Size]) -> None:
    """Refuse results that no memory holds."""
    fixed = product([size for size in sizes if not isinstance(size, Free)])
    if isinstance(fixed, int) and (fixed > LARGEST or min(static(_fixed(sizes)), default=0) < 0):
        raise ProblemError(f"its result has the sizes {show(sizes)}")


def _fixed(sizes: Sequence[Size]) -> list[Size]:
    return [size for size in sizes if not isinstance(size, Free)]


def _reshape(e: Builder, call: Call) -> SSAValue:
    x = call[0]
    wanted: list[Size] = [*call.integers("shape", [])]
    if call.has(1):
        wanted = e.size_list(call[1], "shape")
    sizes = e.sizes(x)
    if not call.integer("allowzero", 0):
        if any(n == 0 and axis >= len(sizes) for axis, n in enumerate(wanted)):
            raise ProblemError(f"its shape {show(wanted)} keeps axes that {show(sizes)} has not")
        wanted = [sizes[axis] if n == 0 else n for axis, n in enumerate(wanted)]
    if wanted.count(-1) > 1 or any(isinstance(n, int) and n < -1 for n in wanted):
        raise ProblemError(f"its shape is {show(wanted)}")
    if -1 in wanted:
        place = wanted.index(-1)
        rest, whole = product([*wanted[:place], *wanted[place + 1 :]]), product(sizes)
        if isinstance(rest, int) and isinstance(whole, int):
            refuse(rest == 0 or whole % rest, f"{show(sizes)} cannot take the shape {show(wanted)}")
            wanted[place] = whole // rest
        else:
            wanted[place] = _quotient(e, whole, rest)
    return e.reshape(x, wanted)


def _quotient(e: Builder, whole: Size, rest: Size) -> Size:
    try:
        return (Free((((), whole),)) if isinstance(whole, int) else whole) // rest
    except ProblemError:
        return e.unknown_size()


def _flatten(e: Builder, call: Call) -> SSAValue:
    sizes = e.sizes(call[0])
    axis = call.integer("axis", 1)
    axis = axis + len(sizes) if axis < 0 else axis
    return e.reshape(call[0], (product(sizes[:axis]), product(sizes[axis:])))


def _transpose(e: Builder, call: Call) -> SSAValue:
    rank = e.rank(call[0])
    return e.permute(call[0], call.integers("perm", list(range(rank))[::-1]))


def _squeeze(e: Builder, call: Call) -> SSAValue:
    sizes = e.sizes(call[0])
    axes = axes_of(e, call, 1, len(sizes))
    if axes is None:
        axes = [axis for axis, size in enumerate(sizes) if size == 1]
        e.notes += [
            f"it keeps axis {axis}, whose size {size} is free, though the standard drops it where "
            "that is 1; give the node 'axes', or the input a fixed shape"
            for axis, size in enumerate(sizes)
            if isinstance(size, Free)
        ]
    return e.add(tensor.SqueezeOp(call[0], axes)) if axes else call[0]


def _unsqueeze(e: Builder, call: Call) -> SSAValue:
    axes = e.int_list(call[1], "axes") if call.has(1) else call.integers("axes", [])
    axes = _from_front(axes, e.rank(call[0]) + len(axes))
    return e.add(tensor.UnsqueezeOp(call[0], axes)) if axes else call[0]


def _concat(e: Builder, call: Call) -> SSAValue:
    values = [tensor_of(value) for value in call.inputs if value is not None]
    if len(values) == 1:
        return values[0]
    return e.add(tensor.ConcatenateOp(values, axis_of(call, e.rank(values[0]), 1)))


def _split(e: Builder, call: Call) -> Results:
    x = call[0]
    axis = axis_of(call, e.rank(x))
    size, count = e.sizes(x)[axis], call.integer("num_outputs", call.outputs)
    if call.has(1):
        parts = e.int_list(call[1], "split")
    elif "split" in call.attributes:
        parts = call.integers("split", [])
    else:
        (size,) = static([size], "size along the axis")
        each = -(-size // count)
        parts = [max(min(each, size - each * index), 0) for index in range(count)]
    return tuple(e.add_all(tensor.SplitOp(x, axis, parts)))


def _slice(e: Builder, call: Call) -> SSAValue:
    x = call[0]
    if call.opset < 10:
        starts, ends = call.integers("starts", []), call.integers("ends", [])
        axes, steps = call.integers("axes", list(range(len(starts)))), [1] * len(starts)
    else:
        starts, ends = (e.size_list(call[i], name) for i, name in ((1, "starts"), (2, "ends")))
        axes = e.int_list(call[3], "axes") if call.has(3) else list(range(len(starts)))
        steps = e.int_list(call[4], "steps") if call.has(4) else [1] * len(starts)
    rank = e.rank(x)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        x = _cut(e, x, axis_in(axis, rank), start, end, step)
    return x


def _cut(e: Builder, x: SSAValue, axis: int, start: Size, end: Size, step: int) -> SSAValue:
    size = e.sizes(x)[axis]
    if end == size:
        end = SLICE_END
    start, end = static([start, end], "bounds")
    refuse(step == 0, "it has a step of 0")
    if step > 0:
        start, end = max(start, -SLICE_END), min(max(end, -SLICE_END), SLICE_END)
        if (start, step) == (0, 1) and end >= SLICE_END // 4:
            return x
        return e.cut(x, axis, start, end, step)
    (count,) = static([size], "size along an axis that is turned round")
    return take(e, x, axis, counted(count)[slice(start, None if end < -count else end, step)])


def counted(size: int) -> Array:
    """0, 1, … below `size`, as indices along an axis.

    Raises:
        ProblemError: too many.
    """
    refuse(size > LARGEST_KNOWN, f"it takes {size} elements one by one along an axis")
    return np.arange(size)


def take(e: Builder, x: SSAValue, axis: int, places: Array) -> SSAValue:
    """x[…, places, …] along one axis for known places."""
    front = e.move_axis(x, axis, 0)
    rows = e.add(tensor.GatherRowsOp(front, e.indices(places)))
    return e.move_axis(rows, 0, axis)


def _shape(e: Builder, call: Call) -> SSAValue:
    sizes = e.sizes(call[0])[call.integer("start", 0) : call.integer("end", None)]
    table = np.empty(len(sizes), object)
    table[:] = sizes
    return e.sizes_value(table)


def expanded(e: Builder, x: SSAValue, shape: list[Size]) -> SSAValue:
    """x broadcast together with a tensor of `shape`."""
    sizes = e.sizes(x)
    rank = max(len(sizes), len(shape))
    sizes = (*[1] * (rank - len(sizes)), *sizes)
    shape = [*[1] * (rank - len(shape)), *shape]
    wanted = [old if new == 1 else new for old, new in zip(sizes, shape, strict=True)]
    check_size(wanted)
    for old, new in zip(sizes, wanted, strict=True):
        refuse(old not in (1, new), f"{show(sizes)} does not broadcast with {show(shape)}")
    return e.stretch(e.reshape(x, sizes), wanted)


def _tile(e: Builder, call: Call) -> SSAValue:
    repeats = e.int_list(call[1], "repeats")
    if call.opset < 6:
        axis = e.int_list(call[2], "axis")[0]
        repeats = [repeats[0] if a == axis else 1 for a in range(e.rank(call[0]))]
    return tiled(e, call[0], repeats)


def tiled(e: Builder, x: SSAValue, repeats: Sequence[int]) -> SSAValue:
    """x repeated along each axis."""
    if len(repeats) != e.rank(x):
        raise ProblemError(f"it repeats {len(repeats)} axes of a tensor of rank {e.rank(x)}")
    for axis, count in enumerate(repeats):
        sizes = list(e.sizes(x))
        check_size([*sizes, max(count, 0)])
        if count == 0:
            x = e.cut(x, axis, 0, 0)
        elif count != 1:
            apart = e.add(tensor.UnsqueezeOp(x, [axis]))
            more = e.stretch(apart, (*sizes[:axis], count, *sizes[axis:]))
            sizes[axis] = sizes[axis] * count
            x = e.reshape(more, sizes)
    return x


def _pad(e: Builder, call: Call) -> SSAValue:
    x, mode = call[0], call.text("mode", "constant")
    rank = e.rank(x)
    if call.opset < 11:
        pads = call.integers("pads", call.integers("paddings", []))
        fill = call.number("value", 0.0)
    else:
        pads = e.int_list(call[1], "pads")
        fill = e.array(call[2], "fill").reshape(-1)[0] if call.has(2) else 0
    axes = axes_of(e, call, 3, rank) if call.has(3) else list(range(rank))
    assert axes is not None
    refuse(len(pads) != 2 * len(axes), f"it has {len(pads)} pads for {len(axes)} axes")
    check_size([*_fixed(e.sizes(x)), *[abs(n) + 1 for n in pads]])
    low, high = [0] * rank, [0] * rank
    for index, axis in enumerate(axes):
        low[axis], high[axis] = pads[index], pads[len(axes) + index]
    if mode != "constant":
        return _mirrored(e, x, low, high, mode)
    return padded(e, x, low, high, fill)


def _mirrored(
    e: Builder, x: SSAValue, low: Sequence[int], high: Sequence[int], mode: str
) -> SSAValue:
    if mode not in ("reflect", "edge", "wrap"):
        raise ProblemError(f"its mode '{mode}' is unknown")
    for axis, (before, behind) in enumerate(zip(low, high, strict=True)):
        if before == behind == 0:
            continue
        (size,) = static([e.sizes(x)[axis]], "size along a padded axis")
        if max(before, behind, 0) + size > LARGEST_KNOWN or size == 0:
            raise ProblemError(f"it pads {size} elements by {before} and {behind}")
        places = counted(size)[max(-before, 0) : size - max(-behind, 0)]
        places = np.pad(places, (max(before, 0), max(behind, 0)), mode)
        x = take(e, x, axis, places)
    return x


RULES: dict[str, Rule] = {
    "Concat": _concat,
    "Expand": lambda e, call: expanded(e, call[0], e.size_list(call[1], "shape")),
    "Flatten": _flatten,
    "Pad": _pad,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": lambda e, call: e.sizes_value(total(e.sizes(call[0]))),
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""By the type of the operator."""
