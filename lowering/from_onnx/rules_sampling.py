"""ONNX import of images read at computed places, and of such places: `GridSample`, `AffineGrid`.

The definitions are those of the standard, version 22; images that are read have two axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ..problems import ProblemError, refuse
from .onnx_builder import Builder, Call, Rule
from .rules_shape import check_size
from .sizes import static

Tap = tuple[Formula, Formula]
"""A row or column of the image, and its weight."""


def _reflected(x: Formula, low: float, high: float) -> Formula:
    """x, turned back at both ends as often as needed."""
    span = high - low
    if span <= 0:
        return x * 0
    turn = abs(x - low) % (2 * span)
    return (turn > span).choose(2 * span - turn, turn) + low


def _cubic(distance: Formula) -> Formula:
    """Keys' kernel with a = -0.75 (R. Keys, 1981), of a distance up to 2."""
    a, d = -0.75, abs(distance)
    near = d.polynomial((1.0, 0.0, -(a + 3), a + 2))
    far = d.polynomial((-4 * a, 8 * a, -5 * a, a))
    return (d > 1).choose(far, near)


def taps(
    x: Formula, size: int, mode: str, pad: Callable[[Formula], Formula], *, is_zero: bool
) -> list[Tap]:
    """What one axis is read at, for places x in elements."""
    if mode == "nearest":
        weighed: list[Tap] = [(round(x), x * 0 + 1)]
    else:
        base = x.of(tensor.FloorOp)
        part = x - base
        if mode == "cubic":
            weighed = [(base + k, _cubic(part - k)) for k in (-1, 0, 1, 2)]
        else:
            weighed = [(base, 1 - part), (base + 1, part)]
    found: list[Tap] = []
    for place, weight in weighed:
        # Cubic windows reach outside; padding holds for each of their elements.
        there = pad(place) if mode == "cubic" else place
        if is_zero:
            inside = abs(there * 2 - (size - 1)).compare("le", size - 1)
            weight = inside.choose(weight, 0)
        found.append((there.maximum(0).minimum(size - 1), weight))
    return found


def _grid_sample(e: Builder, call: Call) -> SSAValue:
    x, grid = call[0], Formula(e, call[1])
    if e.rank(x) not in (4, 5):
        raise ProblemError(f"its image has rank {e.rank(x)}; only images of 2 and 3 axes are read")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(name := call.text("mode", "linear"), name)
    padding, corners = call.text("padding_mode", "zeros"), call.flag("align_corners", False)
    refuse(mode not in ("linear", "nearest", "cubic"), f"its mode '{mode}' is unknown")
    if padding not in ("zeros", "border", "reflection"):
        raise ProblemError(f"its padding_mode '{padding}' is unknown")
    batch, channels, *sides = e.sizes(x)
    image, out = static(sides, "image"), static(e.sizes(grid.value)[1:-1], "grid")
    refuse(mode == "cubic" and len(image) > 2, "its mode 'cubic' is for images of 2 axes alone")
    axes: list[list[Tap]] = []
    for index, size in enumerate(image[::-1]):
        column = grid.cut(len(image) + 1, index, index + 1).value
        column = e.reshape(column, (batch, 1, math.prod(out)))
        place = Formula(e, column) + 1
        place = place * ((size - 1) / 2) if corners else (place * size - 1) / 2
        low, top = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)

        def pad(v: Formula, low: float = low, top: float = top, size: int = size) -> Formula:
            if padding == "reflection":
                v = _reflected(v, low, top)
            return v if padding == "zeros" else v.maximum(0).minimum(size - 1)

        place = place if mode == "cubic" else pad(place)
        axes.insert(0, taps(place, size, mode, pad, is_zero=padding == "zeros"))
    flat = Formula(e, e.reshape(x, (batch, channels, math.prod(image))))
    total: Formula | None = None
    for (place, weight), *others in itertools.product(*axes):
        for (along, factor), size in zip(others, image[1:], strict=True):
            place, weight = place * size + along, weight * factor
        spread = e.stretch(place.convert(i64).value, (batch, channels, math.prod(out)))
        part = flat.of(tensor.GatherElementsOp, Formula(e, spread), axis=2)
        weight = weight.convert(flat.element)
        total = part * weight if total is None else total + part * weight
    assert total is not None
    return e.reshape(total.value, (batch, channels, *out))


def _affine_grid(e: Builder, call: Call) -> SSAValue:
    """Of each pixel the place that a matrix sends it to, from -1 to 1."""
    batch, *sides = e.sizes(call[0])
    image = e.int_list(call[1], "size")[2:]
    if sides != [len(image), len(image) + 1] or min(image, default=0) < 1:
        raise ProblemError(f"its matrices of {sides} do not fit an image of {image}")
    corners = call.flag("align_corners", False)
    refuse(corners and 1 in image, f"an image of {image} has an axis with one corner")
    check_size(image)
    places = [
        np.linspace(-1, 1, size) if corners else (2 * np.arange(size) + 1) / size - 1
        for size in image
    ]
    columns = np.meshgrid(*places, indexing="ij")[::-1]
    rows = np.stack([*columns, np.ones(image)], axis=-1).reshape(-1, len(image) + 1)
    known = e.known(rows, tensor_type(call[0]).element_type)
    grid = e.add(tensor.MatmulOp(known, e.permute(call[0], [0, 2, 1])))
    return e.reshape(grid, (batch, *image, len(image)))


RULES: dict[str, Rule] = {"AffineGrid": _affine_grid, "GridSample": _grid_sample}
"""By the type of the operator."""
