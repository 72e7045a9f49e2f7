"""ONNX import of regions of images that boxes name: `RoiAlign`.

The definition is that of the standard, version 16 (He et al. 2017, "Mask R-CNN", section 3).
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ..problems import ProblemError, refuse
from .onnx_builder import Builder, Call, Rule
from .rules_shape import check_size
from .sizes import static

Tap = tuple[Formula, Formula]
"""Rows or columns that samples read, and their weights, both [boxes, samples]."""


def _taps(start: Formula, step: Formula, size: int, count: int, samples: int) -> list[Tap]:
    """What samples along an axis read: the two elements beside each, none beyond one outside."""
    places = np.arange(count)[:, None] + (np.arange(samples) + 0.5) / samples
    at = start + step * start.array(places.reshape(1, -1))
    beyond = (at < -1).of(tensor.OrOp, at > size)
    at = at.maximum(0).minimum(size - 1)
    low = at.of(tensor.FloorOp)
    part = at - low
    taps = ((low, 1 - part), ((low + 1).minimum(size - 1), part))
    return [(place.convert(i64), beyond.choose(weight * 0, weight)) for place, weight in taps]


def _roi_align(e: Builder, call: Call) -> SSAValue:
    """Means of samples in each bin of each box, or the greatest of what their corners weigh."""
    x, boxes, image = call[0], Formula(e, call[1]), Formula(e, call[2]).convert(i64)
    samples = call.integer("sampling_ratio", 0)
    if samples < 1:
        raise ProblemError("how many samples it takes depends on values; give a 'sampling_ratio'")
    out = [call.integer(name, 1) for name in ("output_height", "output_width")]
    mode, scale = call.text("mode", "avg"), call.number("spatial_scale", 1.0)
    refuse(mode not in ("avg", "max"), f"its mode '{mode}' is unknown")
    default = "half_pixel" if call.opset >= 16 else "output_half_pixel"
    is_half = call.text("coordinate_transformation_mode", default) == "half_pixel"
    channels, *sides = static(e.sizes(x)[1:], "image")
    check_size([*out, samples, *sides])
    axes = list[list[Tap]]()
    for axis, (size, count) in enumerate(zip(sides, out, strict=True)):
        column = 1 - axis  # boxes are x1, y1, x2, y2
        first, last = (
            boxes.cut(1, place, place + 1) * scale - (0.5 if is_half else 0)
            for place in (column, column + 2)
        )
        length = last - first if is_half else (last - first).maximum(1)
        axes.append(_taps(first, length / count, size, count, samples))
    rows = e.reshape(e.permute(x, [0, 2, 3, 1]), (e.sizes(x)[0] * math.prod(sides), channels))
    start = (image * math.prod(sides)).of(tensor.UnsqueezeOp, axes=[1, 2])
    parts = list[Formula]()
    for down, height in axes[0]:
        for along, width in axes[1]:
            line = (down * sides[1]).of(tensor.UnsqueezeOp, axes=[2])
            place = start + line + along.of(tensor.UnsqueezeOp, axes=[1])
            weight = height.of(tensor.UnsqueezeOp, axes=[2, 3]) * width.of(
                tensor.UnsqueezeOp, axes=[1, 3]
            )
            parts.append(Formula(e, e.add(tensor.GatherRowsOp(rows, place.value))) * weight)
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.maximum(part) if mode == "max" else joined + part
    shape = [-2, out[0], samples, out[1], samples, channels]
    kind = tensor.ReduceMaxOp if mode == "max" else tensor.ReduceMeanOp
    bins = joined.of(tensor.ReshapeToOp, shape=shape).of(kind, axes=[2, 4])
    result = e.permute(bins.value, [0, 3, 1, 2])
    return e.refine(result, (e.sizes(call[1])[0], channels, *out))


RULES: dict[str, Rule] = {"RoiAlign": _roi_align}
"""By the type of the operator."""
