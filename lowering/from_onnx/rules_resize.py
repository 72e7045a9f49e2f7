"""ONNX import of new sizes of images: along each axis the product with a known matrix.

The matrices follow the definition of `Resize` in the standard (version 19).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ...dialects.tensor.formula import Formula
from ...dialects.tensor.shape import SLICE_END
from ..problems import ProblemError, refuse
from .onnx_builder import LARGEST_KNOWN, Builder, Call, Rule
from .rules_shape import axes_of, check_size, take
from .sizes import Free, Size, static

Array = NDArray[np.floating]

MOST_TIMES = 64
"""Free sizes are multiplied and divided by no more; divisors are powers of two, which are exact."""


def _source(call: Call, out: int, size: int, scale: float, roi: Sequence[float]) -> Array:
    """Where in the operand each element of the result lies along one axis.

    Of single elements in f32, as ONNX Runtime finds them: its rounding decides which one it is.
    """
    mode = call.text("coordinate_transformation_mode", "half_pixel")
    is_nearest = call.text("mode", "nearest") == "nearest"
    real = np.float32 if is_nearest else np.float64
    x, length, scale = np.arange(out, dtype=real), size * scale, cast("float", real(scale))
    if mode == "asymmetric":
        return x / scale
    if mode == "half_pixel":
        return (x + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (x + 0.5) / scale - 0.5 if out > 1 else np.zeros(out)
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "align_corners":
        return x * (size - 1) / (length - 1) if length != 1 else np.zeros(out)
    if mode == "half_pixel_symmetric":
        one = x.dtype.type(1)
        offset = one * size / 2 * (1 - one * out / (scale * size))
        return offset + (x + 0.5) / scale - 0.5
    if mode == "tf_crop_and_resize":
        start, end = roi
        if out == 1:
            return np.full(1, 0.5 * (start + end) * (size - 1))
        return start * (size - 1) + x * (end - start) * (size - 1) / (out - 1)
    raise ProblemError(f"its coordinate_transformation_mode '{mode}' is unknown")


_NEAR = 1e-6
"""What lies so close to a half counts as the half, as in ONNX Runtime."""


def _nearest(x: Array, mode: str) -> NDArray[np.int64]:
    rounding: dict[str, Callable[[Array], Array]] = {
        "round_prefer_floor": lambda v: np.ceil(v.astype(np.float64) - (0.5 + _NEAR)),
        "round_prefer_ceil": lambda v: np.floor(v.astype(np.float64) + (0.5 + _NEAR)),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    refuse(mode not in rounding, f"its nearest_mode '{mode}' is unknown")
    return rounding[mode](x).astype(np.int64)


def _linear(distance: Array) -> Array:
    return np.maximum(1 - np.abs(distance), 0)


def _cubic(a: float) -> Callable[[Array], Array]:
    def weight(distance: Array) -> Array:
        d = np.abs(distance)
        inner = (a + 2) * d**3 - (a + 3) * d**2 + 1
        outer = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        return np.where(d <= 1, inner, np.where(d < 2, outer, 0))

    return weight


def _matrix(x: Array, size: int, scale: float, call: Call, mode: str) -> Array:
    """[size, out]: what each element of the operand gives to each of the result."""
    cubic = mode == "cubic"
    weight = _cubic(call.number("cubic_coeff_a", -0.75)) if cubic else _linear
    shrink = min(scale, 1.0) if call.flag("antialias", False) else 1.0
    reach = math.ceil((2 if cubic else 1) / shrink) + 1
    exclude = call.flag("exclude_outside", False)
    matrix = np.zeros((size, len(x)))
    base = np.floor(x).astype(np.int64)
    columns = np.arange(len(x))
    weights = [weight((base + offset - x) * shrink) for offset in range(-reach, reach + 1)]
    for offset, values in zip(range(-reach, reach + 1), weights, strict=True):
        places = base + offset
        if exclude:
            values = np.where((places >= 0) & (places < size), values, 0)
        np.add.at(matrix, (np.clip(places, 0, size - 1), columns), values)
    return matrix / matrix.sum(axis=0, keepdims=True)


def _resize(e: Builder, call: Call) -> SSAValue:
    x, rank = call[0], e.rank(call[0])
    if call.opset < 11:
        roi, scales, sizes = None, call.optional(1), None
        if scales is None and "scales" in call.attributes:
            scales = e.known(np.array(call.attributes["scales"], np.float32))
        old = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        call = replace(call, attributes={**old, **call.attributes})
    else:
        roi, scales, sizes = (call.optional(index) for index in (1, 2, 3))
    axes = axes_of(e, call, 99, rank) or list(range(rank))
    shape = list(e.sizes(x))
    factors: list[float] = [1.0] * rank
    outs = list(shape)
    if sizes is not None and e.sizes(sizes) != (0,):
        _by_sizes(e, call, sizes, axes, shape, factors, outs)
    else:
        if scales is None:
            raise ProblemError("it has neither scales nor sizes")
        for axis, factor in zip(axes, e.array(scales, "scales").reshape(-1), strict=True):
            factors[axis] = float(factor)
            if factor != 1:
                outs[axis] = _times(e, shape[axis], factor)
    regions = _regions(e, roi, axes, call)
    for axis in range(rank):
        if outs[axis] != shape[axis] or axis in regions:
            x = _along(e, x, axis, outs[axis], factors[axis], call, regions.get(axis))
    return x


def _times(e: Builder, size: Size, factor: np.floating) -> Size:
    """What a factor makes of a size, in its precision."""
    if not 0 < factor < 1 << 31:
        raise ProblemError(f"its scale {factor} is no positive number below 2^31")
    if isinstance(size, Free):
        return size * int(factor) if factor.is_integer() else e.unknown_size()
    return math.floor(factor.dtype.type(size) * factor)


def _by_sizes(
    e: Builder, call: Call, sizes: SSAValue, axes: list[int], shape: list[Size],
    factors: list[float], outs: list[Size],
) -> None:  # fmt: skip
    wanted = e.size_list(sizes, "sizes")
    policy = call.text("keep_aspect_ratio_policy", "stretch")

    def ratio(axis: int, new: Size) -> float:
        if new == shape[axis] or isinstance(new, Free) or isinstance(shape[axis], Free):
            return 1.0
        return new / static([shape[axis]], "image")[0]

    ratios = [ratio(axis, new) for axis, new in zip(axes, wanted, strict=True)]
    if policy in ("not_larger", "not_smaller"):
        one = min(ratios) if policy == "not_larger" else max(ratios)
        wanted = [math.floor(static([shape[axis]], "image")[0] * one + 0.5) for axis in axes]
        ratios = [one] * len(axes)
    for axis, new, factor in zip(axes, wanted, ratios, strict=True):
        outs[axis], factors[axis] = new, factor


def _regions(
    e: Builder, roi: SSAValue | None, axes: list[int], call: Call
) -> dict[int, tuple[float, float]]:
    if call.text("coordinate_transformation_mode", "") != "tf_crop_and_resize":
        return {}
    if roi is None:
        raise ProblemError("it cuts a region, and has no input 'roi'")
    values = [float(v) for v in e.array(roi, "roi").reshape(-1)]
    ends = list(zip(values[: len(axes)], values[len(axes) :], strict=True))
    return {axis: pair for axis, pair in zip(axes, ends, strict=True) if pair != (0.0, 1.0)}


def _along(
    e: Builder, x: SSAValue, axis: int, new: Size, scale: float, call: Call,
    region: tuple[float, float] | None,
) -> SSAValue:  # fmt: skip
    if isinstance(new, Free) or isinstance(e.sizes(x)[axis], Free):
        return _along_free(e, x, axis, new, scale, call)
    out, size = static([new, e.sizes(x)[axis]], "image")
    check_size([out, size])
    if out * size > LARGEST_KNOWN or size == 0 or not 0 < scale < math.inf:
        raise ProblemError(f"it makes {out} elements of {size}")
    places = _source(call, out, size, scale, region or (0.0, 1.0))
    mode = call.text("mode", "nearest")
    outside = (places < 0) | (places > size - 1)
    if mode == "nearest":
        rounding = call.text("nearest_mode", "round_prefer_floor")
        result = picked(e, x, axis, size, np.clip(_nearest(places, rounding), 0, size - 1))
    elif mode in ("linear", "cubic", "bilinear"):
        refuse(not is_float(tensor_type(x)), "it interpolates integers; convert them to floats")
        matrix = _matrix(places, size, scale, call, mode)
        last = e.move_axis(x, axis, e.rank(x) - 1)
        weight = e.known(matrix, tensor_type(x).element_type)
        result = e.move_axis(e.add(tensor.MatmulOp(last, weight)), e.rank(x) - 1, axis)
    else:
        raise ProblemError(f"its mode '{mode}' is unknown")
    if region is None or not outside.any():
        return result
    inside = e.known((~outside).reshape([-1 if a == axis else 1 for a in range(e.rank(x))]))
    fill = e.number(call.number("extrapolation_value", 0.0), x)
    return e.add(tensor.WhereOp(inside, result, fill))


def _along_free(
    e: Builder, x: SSAValue, axis: int, new: Size, scale: float, call: Call
) -> SSAValue:
    """The same for sizes that are known when the program runs: rows picked and weighed."""
    way = call.text("coordinate_transformation_mode", "half_pixel")
    mode, rank = call.text("mode", "nearest"), e.rank(x)
    is_nearest = mode == "nearest"
    ways = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
    if (
        mode not in ("nearest", "linear", "bilinear")
        or way not in ways
        or call.flag("antialias", False)
    ):
        raise ProblemError(f"its mode '{mode}' by '{way}' wants fixed sizes of its image")
    old = e.sizes(x)[axis]
    line = Formula(e, x)
    for other in (other for other in range(rank) if other != axis):
        line = line.cut(other, 0, 1)
    ones = e.refine(line.of(tensor.ReshapeToOp, shape=[-1]).filled(1).convert(i64).value, [old])
    size = Formula(e, ones).of(tensor.ReduceSumOp, axes=[0])
    factor = Fraction(_factor(old, new) or scale)
    if factor == 1:
        at = Formula(e, e.arange(new))
        old_part = size
        new_part = out = at.filled(1).of(tensor.ReduceSumOp, axes=[0])
    else:
        # The place of each element, so many times, of which every so manieth is left.
        down, up = factor.denominator, factor.numerator
        if max(down, up) > MOST_TIMES or down & (down - 1):
            raise ProblemError(f"it scales a free size by {scale}; give the inputs fixed shapes")
        many = Formula(e, ones).of(tensor.UnsqueezeOp, axes=[1]) * size.array(np.ones(up))
        every = many.of(tensor.ReshapeToOp, shape=[-1]).cut(0, down - 1, SLICE_END, down)
        at = every.of(tensor.CumsumOp, axis=0) - 1
        out = every.of(tensor.ReduceSumOp, axes=[0])
        old_part, new_part = size.number(down), size.number(up)
    if way == "align_corners":
        above, below = at * (size - 1), (out - 1).maximum(1)
    elif way == "asymmetric":
        above, below = at * old_part, new_part
    else:
        above, below = (at * 2 + 1) * old_part - new_part, new_part * 2
        if way == "pytorch_half_pixel":
            above = above * (out - 1).minimum(1)  # a single one is the first
    if is_nearest:
        rounding = call.text("nearest_mode", "round_prefer_floor")
        # ⌊v⌋, ⌈v - 1/2⌉ and ⌊v + 1/2⌋ of v = above/below, which may be negative.
        above, below = {
            "floor": (above, below), "round_prefer_ceil": (above * 2 + below, below * 2),
            "round_prefer_floor": (above * 2 + below - 1, below * 2),
        }.get(rounding, (None, None))  # fmt: skip
        if above is None or below is None:
            raise ProblemError(f"its nearest_mode '{rounding}' wants fixed sizes of its image")
        place = (above.maximum(0) / below).minimum(size - 1)
        return _rows(e, x, axis, place).value
    refuse(not is_float(tensor_type(x)), "it interpolates integers; convert them to floats")
    above = above.maximum(0)
    start = (above / below).minimum(size - 1)
    part = (above - start * below).convert(tensor_type(x).element_type)
    weight = part / below.convert(part.element)
    weight = weight.of(tensor.ReshapeToOp, shape=[-1 if a == axis else 1 for a in range(rank)])
    first, last = (_rows(e, x, axis, place) for place in (start, (start + 1).minimum(size - 1)))
    mixed = first * (1 - weight) + last * weight
    sizes = [*e.sizes(x)]
    sizes[axis] = new
    return e.refine(mixed.value, sizes)


def _rows(e: Builder, x: SSAValue, axis: int, places: Formula) -> Formula:
    rows = tensor.GatherRowsOp(e.move_axis(x, axis, 0), places.value)
    return Formula(e, e.move_axis(e.add(rows), 0, axis))


def _factor(old: Size, new: Size) -> int:
    """How many times a size another is; 0 where that is no whole number."""
    if not isinstance(new, Free) or not isinstance(old, Free):
        return 0
    factor = new.terms[0][1] // old.terms[0][1]
    return factor if old * factor == new else 0


def picked(e: Builder, x: SSAValue, axis: int, size: int, places: NDArray[np.int64]) -> SSAValue:
    """The elements at places along an axis; equally often repeated ones need no gather."""
    times = len(places) // size
    if not np.array_equal(places, np.repeat(np.arange(size), times)):
        return take(e, x, axis, places)
    sizes = e.sizes(x)
    apart = e.add(tensor.UnsqueezeOp(x, [axis + 1]))
    wide = e.stretch(apart, (*sizes[: axis + 1], times, *sizes[axis + 1 :]))
    return e.reshape(wide, (*sizes[:axis], len(places), *sizes[axis + 1 :]))


RULES: dict[str, Rule] = {
    "Resize": _resize,
    "Upsample": lambda e, call: _resize(e, replace(call, opset=10)),
}
"""By the type of the operator."""
