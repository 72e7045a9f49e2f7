"""Rules of regions of images: aligned and pooled ones, deformed windows, boxes that overlap."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, f64, i64
from xdsl.ir import Attribute, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ..from_torch.sizes import ProblemError
from .emitter import LARGEST_KNOWN, Call, Emitter, Rule
from .rules_activation import Formula
from .rules_linear import linear
from .rules_sampling import Pixels
from .rules_shape import check_size, counted
from .windows import Window

Array = NDArray[Any]


def _computed_in(x: SSAValue) -> Attribute:
    """The type of places in an image."""
    return f64 if tensor_type(x).element_type == f64 else f32


def _column(e: Emitter, x: SSAValue, index: int) -> Formula:
    """x[:, index]."""
    return Formula(e, e.add(tensor.SqueezeOp(e.cut(x, 1, index, index + 1), [1])))


def _spread(e: Emitter, x: SSAValue, axis: int, rank: int) -> Formula:
    """A vector or matrix of regions along the first axis and, a matrix, along `axis`."""
    wanted = [1] * rank
    wanted[0] = e.shape(x)[0]
    if e.rank(x) == 2:
        wanted[axis] = e.shape(x)[1]
    return Formula(e, e.reshape(x, wanted))


# Regions that are aligned.


class _Grid:
    """Where regions are sampled along one axis: for each region cells, and points in each."""

    def __init__(
        self, e: Emitter, call: Call, bounds: tuple[Formula, Formula], cells: int, size: int
    ) -> None:
        self.e, self.size = e, size
        ratio = int(call.get("sampling_ratio", 0))
        half = call.opset >= 16 and str(call.get("coordinate_transformation_mode", "half_pixel"))
        scale = call.get("spatial_scale", 1.0)
        low, high = (bound * scale - (0.5 if half == "half_pixel" else 0) for bound in bounds)
        length = high - low if half == "half_pixel" else (high - low).maximum(1)
        step = length / cells
        regions = e.shape(length.value)[0]
        if regions * max(cells, ratio) > LARGEST_KNOWN:
            raise ProblemError(f"it samples {cells} cells of {regions} regions")
        if ratio > 0:
            counts = np.full(regions, ratio)
        else:
            # How many points there are depends on the regions.
            counts = np.ceil(e.array(step.value, "regions (sampling_ratio is 0)")).clip(0)
        points = int(counts.max(initial=1))
        if cells < 1 or points < 1 or regions * cells * points > LARGEST_KNOWN:
            raise ProblemError(f"it samples {cells} cells at {points} points each")
        check_size([regions, cells, points])
        like = length.value
        self.counts, self.points = counts.astype(np.int64), points
        place = np.arange(points) + 0.5
        inner = e.known(place / np.maximum(counts, 1)[:, None], tensor_type(like).element_type)
        cell = e.known(np.arange(cells).reshape(1, -1, 1), tensor_type(like).element_type)
        start, step = (_spread(e, v.value, 1, 3) for v in (low, step))
        self.at = start + Formula(e, cell) * step + _spread(e, inner, 2, 3) * step

    def corners(self) -> list[tuple[Formula, Formula]]:
        """The two pixels around each point [regions, cells, points], and their weights."""
        e, at, last = self.e, self.at, self.size - 1
        low = e.add(tensor.CompareOp(at.value, e.number(-1.0, at.value), "ge"))
        high = e.add(tensor.CompareOp(at.value, e.number(self.size, at.value), "le"))
        inside = Formula(e, e.convert(e.add(tensor.AndOp(low, high)), at.value))
        place = at.maximum(0).minimum(last)
        first = place.of(tensor.FloorOp)
        part = place - first
        return [(first, (1 - part) * inside), ((first + 1).minimum(last), part * inside)]


def _roi_align(e: Emitter, call: Call) -> SSAValue:
    """Pixels between pixels at points of each cell of regions, and their mean or maximum."""
    x, shape, mode = call[0], e.shape(call[0]), str(call.get("mode", "avg")).lower()
    if len(shape) != 4 or mode not in ("avg", "max") or e.shape(call[1])[-1] != 4:
        raise ProblemError(f"its mode is '{mode}', its image {shape}")
    regions = e.convert(call[1], _computed_in(x))
    cells = [int(call.get(name, 1)) for name in ("output_height", "output_width")]
    bounds = [(_column(e, regions, i), _column(e, regions, i + 2)) for i in (1, 0)]
    grids = [_Grid(e, call, b, c, s) for b, c, s in zip(bounds, cells, shape[2:], strict=True)]
    # Axes: region, cell and point down, cell and point across.
    count, rank = e.shape(regions)[0], 5
    check_size([count, *cells, grids[0].points, grids[1].points, shape[1]])
    if count * grids[0].points * grids[1].points > LARGEST_KNOWN:
        raise ProblemError(f"it samples {count} regions at too many points")
    image = Formula(e, e.reshape(e.convert(call[2], i64), [count, 1, 1, 1, 1]))
    pixels, parts = Pixels(e, x), list[Formula]()
    for y, weight_y in grids[0].corners():
        for x_place, weight_x in grids[1].corners():
            down, factor = (_laid(e, v, [1, 2], rank) for v in (y, weight_y))
            across, other = (_laid(e, v, [3, 4], rank) for v in (x_place, weight_x))
            found = pixels.at(image, [down + across * 0, across + down * 0], zeros=False)
            weight = e.add(tensor.UnsqueezeOp((factor * other).value, [rank]))
            parts.append(found * Formula(e, e.convert(weight, x)))
    total = parts[0]
    for part in parts[1:]:
        total = total + part if mode == "avg" else total.maximum(part)
    down, across = (
        (np.arange(g.points) < g.counts[:, None]).reshape(count, *place, 1)
        for g, place in zip(grids, ((1, -1, 1, 1), (1, 1, 1, -1)), strict=True)
    )
    sampled = np.maximum(grids[0].counts * grids[1].counts, 1)
    kept, axes = e.known(down & across), [2, 4]
    if mode == "avg":
        chosen = e.add(tensor.WhereOp(kept, total.value, e.number(0, x)))
        made = e.add(tensor.ReduceSumOp(chosen, axes))
        divisor = e.known(sampled.reshape(-1, 1, 1, 1), tensor_type(x).element_type)
        made = e.add(tensor.DivOp(made, divisor))
    else:
        chosen = e.add(tensor.WhereOp(kept, total.value, e.number(-np.inf, x)))
        made = _or_zero(e, e.add(tensor.ReduceMaxOp(chosen, axes)))
    return e.move_axis(made, 3, 1)


def _laid(e: Emitter, value: Formula, axes: list[int], rank: int) -> Formula:
    """A tensor [regions, cells, points] along axis 0 and two others of `rank`."""
    wanted = [1] * rank
    wanted[0], wanted[axes[0]], wanted[axes[1]] = e.shape(value.value)
    return Formula(e, e.reshape(value.value, wanted))


def _or_zero(e: Emitter, x: SSAValue) -> SSAValue:
    """x, and 0 where it is the maximum of nothing."""
    none = e.add(tensor.CompareOp(x, e.number(-np.inf, x), "eq"))
    return e.add(tensor.WhereOp(none, e.number(0, x), x))


def _max_roi_pool(e: Emitter, call: Call) -> SSAValue:
    """The maximum of each cell of regions whose bounds are rounded to pixels."""
    x, shape, cells = call[0], e.shape(call[0]), [int(n) for n in call.get("pooled_shape")]
    regions, scale = e.convert(call[1], _computed_in(x)), call.get("spatial_scale", 1.0)
    count = e.shape(regions)[0]
    if len(shape) != 4 or len(cells) != 2 or min(cells) < 1 or e.shape(regions)[1] != 5:
        raise ProblemError(f"it pools an image {shape} to {cells}")
    check_size([count, *cells, *shape[1:]])
    image = e.convert(_column(e, regions, 0).value, i64)
    made = e.add(tensor.GatherRowsOp(x, image))
    for axis, (first, cells_along) in enumerate(zip((2, 1), cells, strict=True)):
        low, high = (
            (_column(e, regions, i) * scale + 0.5).of(tensor.FloorOp) for i in (first, first + 2)
        )
        inside = _in_cells(e, low, high, cells_along, shape[2 + axis])
        wanted = [count, 1, cells_along, 1, 1]
        wanted[3 + axis] = shape[2 + axis]
        # Axes: region, channel, cell, then what is left of the image.
        apart = e.add(tensor.UnsqueezeOp(made, [2]))
        chosen = tensor.WhereOp(e.reshape(inside, wanted), apart, e.number(-np.inf, x))
        made = e.add(tensor.ReduceMaxOp(e.add(chosen), [3 + axis]))
        made = e.move_axis(made, 2, 2 + axis)
    return _or_zero(e, made)


def _in_cells(e: Emitter, low: Formula, high: Formula, cells: int, size: int) -> SSAValue:
    """Which places [regions, cells, size] lie in which cell between two bounds, both inside."""
    like = low.value
    span = _spread(e, ((high - low) + 1).maximum(1).value, 1, 3) / cells
    cell = Formula(e, e.known(counted(cells).reshape(1, -1, 1), tensor_type(like).element_type))
    place = e.known(counted(size).reshape(1, 1, -1), tensor_type(like).element_type)
    start = _spread(e, like, 1, 3)
    first = (cell * span).of(tensor.FloorOp) + start
    behind = start - ((cell + 1) * span * -1).of(tensor.FloorOp)
    after = e.add(tensor.CompareOp(place, first.value, "ge"))
    before = e.add(tensor.CompareOp(place, behind.value, "lt"))
    return e.add(tensor.AndOp(after, before))


# Windows that are deformed.


def _deform_conv(e: Emitter, call: Call) -> SSAValue:
    """A convolution whose window takes pixels at computed places beside its own."""
    x, weight, offset = call[0], call[1], call[2]
    n, channels, *image = e.shape(x)
    kernel, spatial = e.shape(weight)[2:], len(image)
    window = Window(e, call, kernel, [*image])
    groups, shifted = int(call.get("group", 1)), int(call.get("offset_group", 1))
    out, size = e.shape(offset)[2:], prod(kernel)
    check_size([n, channels, size, *out])
    if size * max(*out, *kernel, *image) > LARGEST_KNOWN:
        raise ProblemError(f"its window {kernel} moves over {image} to {out}")
    if min(groups, shifted) < 1 or channels % shifted or e.shape(weight)[0] % groups:
        raise ProblemError(f"its {channels} channels are no {groups} and {shifted} groups")
    element = _computed_in(x)
    shifts = e.reshape(e.convert(offset, element), [n * shifted, size, spatial, *out])
    corners: list[tuple[list[Formula], Formula | None]] = [([], None)]
    for axis in range(spatial):
        inner = np.arange(kernel[axis]) * window.dilation[axis]
        outer = np.arange(out[axis]) * window.strides[axis] - window.low[axis]
        base = inner.reshape([-1 if a == axis else 1 for a in range(spatial)])
        base = np.broadcast_to(base, kernel).reshape(size, *[1] * spatial)
        base = base + outer.reshape([-1 if a == axis else 1 for a in range(spatial)])
        shift = e.add(tensor.SqueezeOp(e.cut(shifts, 2, axis, axis + 1), [2]))
        place = Formula(e, shift) + Formula(e, e.known(base, element))
        low = place.of(tensor.FloorOp)
        part = place - low
        corners = [
            ([*places, at], factor if weight is None else weight * factor)
            for places, weight in corners
            for at, factor in ((low, 1 - part), (low + 1, part))
        ]
    images = e.reshape(x, [n * shifted, channels // shifted, *image])
    pixels = Pixels(e, images)
    which = counted(n * shifted).reshape(-1, *[1] * (1 + spatial))
    total: Formula | None = None
    for places, factor in corners:
        assert factor is not None
        spread = e.add(tensor.UnsqueezeOp(factor.value, [2 + spatial]))
        found = pixels.at(Formula(e, e.indices(which)), places, zeros=True)
        found = found * Formula(e, e.convert(spread, x))
        total = found if total is None else total + found
    assert total is not None
    if call.has(4):
        mask = e.reshape(call[4], [n * shifted, size, *out, 1])
        total = total * Formula(e, mask)
    return _summed(e, call, total.value, [n, channels, size, *out], groups)


def _summed(e: Emitter, call: Call, columns: SSAValue, shape: list[int], groups: int) -> SSAValue:
    """The products of columns [N·groups of shifts, window, …, channels] with the weight."""
    n, channels, size, *out = shape
    made, inner = e.shape(call[1])[0], e.shape(columns)[-1]
    # [N, …, channels·window], as a layer without a window takes it.
    apart = e.reshape(columns, [n, channels // inner, size, prod(out), inner])
    rows = e.reshape(e.permute(apart, [0, 3, 1, 4, 2]), [n, prod(out), channels * size])
    results: list[SSAValue] = []
    width, height = channels * size // groups, made // groups
    for group in range(groups):
        part = rows if groups == 1 else e.cut(rows, 2, group * width, (group + 1) * width)
        weight = e.cut(call[1], 0, group * height, (group + 1) * height) if groups > 1 else call[1]
        matrix = e.permute(e.reshape(weight, [height, width]), [1, 0])
        bias = call.optional(3)
        if bias is not None and groups > 1:
            bias = e.cut(bias, 0, group * height, (group + 1) * height)
        results.append(linear(e, part, matrix, bias))
    joined = results[0] if groups == 1 else e.add(tensor.ConcatenateOp(results, 2))
    return e.reshape(e.permute(joined, [0, 2, 1]), [n, made, *out])


# Boxes.


def _non_max_suppression(e: Emitter, call: Call) -> SSAValue:
    """Places of the boxes with the highest scores that overlap none before them."""
    why = "{} (the size of its result depends on them)"
    boxes = e.array(call[0], why.format("boxes")).astype(np.float64)
    scores = e.array(call[1], why.format("scores"))
    most = e.int_list(call[2], "count")[0] if call.has(2) else 0
    overlap, least = (
        float(e.array(call[index], "threshold").reshape(-1)[0]) if call.has(index) else default
        for index, default in ((3, 0.0), (4, -np.inf))
    )
    first, second = boxes[..., :2], boxes[..., 2:]
    if call.get("center_point_box", 0):
        first, second = first - second / 2, first + second / 2
    low, high = np.minimum(first, second), np.maximum(first, second)
    if scores.size * min(max(most, 0), scores.shape[-1]) > LARGEST_KNOWN:
        raise ProblemError(f"it compares {scores.size} boxes with up to {most} each")
    found: list[tuple[int, int, int]] = []
    for image, kind in np.ndindex(*scores.shape[:2]):
        picked: list[int] = []
        for box in np.argsort(-scores[image, kind], kind="stable"):
            if len(picked) >= most or not scores[image, kind, box] > least:
                break
            shared = _overlap(low[image, box], high[image, box], low[image][picked],
                              high[image][picked])  # fmt: skip
            if not (shared > overlap).any():
                picked.append(int(box))
        found += [(image, kind, box) for box in picked]
    return e.indices(np.array(found, np.int64).reshape(-1, 3))


def _overlap(low: Array, high: Array, lows: Array, highs: Array) -> Array:
    """What a box shares with each of others, as a part of what they cover together."""
    shared = np.minimum(high, highs) - np.maximum(low, lows)
    common = np.where((shared > 0).all(-1), shared.prod(-1), 0)
    both = (high - low).prod() + (highs - lows).prod(-1) - common
    return np.divide(common, both, out=np.zeros_like(common), where=both > 0)


RULES: dict[str, Rule] = {
    "DeformConv": _deform_conv,
    "MaxRoiPool": _max_roi_pool,
    "NonMaxSuppression": _non_max_suppression,
    "RoiAlign": _roi_align,
}
"""By the type of the operator."""
