"""ONNX import of pooling, with 1 to 3 and more spatial axes."""

from __future__ import annotations

import math
from itertools import product as cross

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...ir.arrays import Array
from ..ir_builder import padded
from ..problems import ProblemError, refuse
from .calls import tensor_of
from .onnx_builder import LARGEST_KNOWN, Builder, Call, Results, Rule
from .rules_elementwise import Binary
from .rules_index import RULES as INDEX
from .rules_index import lowest_of
from .rules_shape import check_size
from .sizes import static
from .windows import Window, image_of

MOST_OFFSETS = 4096
"""Windows that are taken apart have at most this many elements."""


def _part(e: Builder, x: SSAValue, window: Window, axis: int, offset: int, count: int) -> SSAValue:
    """The elements at one place of the windows along one spatial axis."""
    start, stride = offset * window.dilation[axis], window.strides[axis]
    return e.cut(x, 2 + axis, start, start + (count - 1) * stride + 1, stride)


def combined(e: Builder, x: SSAValue, window: Window, kind: Binary) -> SSAValue:
    """All elements of each window of the padded x joined by an op, axis by axis."""
    counts = window.counts()
    refuse(sum(window.kernel) > MOST_OFFSETS, f"its window {window.kernel} is too large")
    for axis, (length, count) in enumerate(zip(window.kernel, counts, strict=True)):
        joined = _part(e, x, window, axis, 0, count)
        for offset in range(1, length):
            joined = e.add(kind(joined, _part(e, x, window, axis, offset, count)))
        x = joined
    return x


def _parts(e: Builder, x: SSAValue, window: Window) -> list[SSAValue]:
    """For each place in the window the elements of the padded x that are there."""
    refuse(math.prod(window.kernel) > MOST_OFFSETS, f"its window {window.kernel} is too large")
    counts, parts = window.counts(), list[SSAValue]()
    for offsets in cross(*(range(k) for k in window.kernel)):
        part = x
        for axis, offset in enumerate(offsets):
            part = _part(e, part, window, axis, offset, counts[axis])
        parts.append(part)
    return parts


def _padded_for(e: Builder, x: SSAValue, window: Window, fill: float) -> SSAValue:
    pads, spatial = window.pads(), len(window.kernel)
    return padded(e, x, [0, 0, *pads[:spatial]], [0, 0, *pads[spatial:]], fill)


def _is_flat(window: Window) -> bool:
    """Whether the pooling ops of the IR have such windows, pads aside."""
    return len(window.kernel) in (1, 2) and set(window.dilation) == {1}


def _is_plain(window: Window) -> bool:
    """Whether the pooling ops of the IR have such windows and pads."""
    pads = zip(window.pads(), [*window.kernel, *window.kernel], strict=True)
    return _is_flat(window) and all(0 <= 2 * n <= length for n, length in pads)


def _max_pool(e: Builder, call: Call) -> Results:
    x = call[0]
    window = Window(call, call.integers("kernel_shape", []), image_of(e, x))
    if call.outputs > 1:
        return _max_pool_places(e, call, x, window)
    if _is_plain(window):
        return e.add(tensor.MaxPoolOp(x, window.kernel, window.strides, window.pads()))
    filled = _padded_for(e, x, window, lowest_of(x))
    if _is_flat(window):
        return e.add(tensor.MaxPoolOp(filled, window.kernel, window.strides))
    return combined(e, filled, window, tensor.MaximumOp)


def _max_pool_places(e: Builder, call: Call, x: SSAValue, window: Window) -> Results:
    shape = e.shape(x)
    image = shape[2:]
    places = np.arange(math.prod(shape)).reshape(shape)
    if call.integer("storage_order", 0):
        inner = np.arange(math.prod(image)).reshape(image[::-1]).T
        outer = np.arange(math.prod(shape[:2])).reshape(*shape[:2], *[1] * len(image))
        places = outer * math.prod(image) + inner
    filled = _padded_for(e, x, window, lowest_of(x))
    indices = _padded_for(e, e.indices(places), window, 0)
    best, at = None, None
    for part, place in zip(_parts(e, filled, window), _parts(e, indices, window), strict=True):
        if best is None or at is None:
            best, at = part, place
            continue
        better = e.add(tensor.CompareOp(part, best, "gt"))
        best = e.add(tensor.WhereOp(better, part, best))
        at = e.add(tensor.WhereOp(better, place, at))
    return best, at


def _avg_pool(e: Builder, call: Call) -> SSAValue:
    x, counted = call[0], call.flag("count_include_pad", False)
    window = Window(call, call.integers("kernel_shape", []), image_of(e, x))
    return average(e, x, window, counted=counted)


def average(
    e: Builder, x: SSAValue, window: Window, *, counted: bool, divisor: int | None = None
) -> SSAValue:
    """Means of windows, in which pads count where they are `counted`; or their sums / `divisor`."""
    kernel, strides = window.kernel, window.strides
    if divisor is None and _is_plain(window) and not any(window.extra):
        pads = window.pads()
        return e.add(tensor.AvgPoolOp(x, kernel, strides, pads, count_include_pad=counted))
    filled, element = _padded_for(e, x, window, 0), tensor_type(x).element_type
    counts = elements(window, counted) if divisor is None else np.array(divisor)
    if not _is_flat(window):
        total = combined(e, filled, window, tensor.AddOp)
        return e.add(tensor.DivOp(total, e.known(counts, element)))
    means = e.add(tensor.AvgPoolOp(filled, kernel, strides))
    with np.errstate(divide="ignore"):  # windows of pads alone have no mean
        factors = math.prod(kernel) / counts
    return e.add(tensor.MulOp(means, e.known(factors, element)))


def elements(window: Window, counted: bool) -> Array:
    """How many elements of each window are in the image, or in its pads where they are `counted`.

    What rounding up adds behind the pads never counts.
    """
    counts: Array = np.ones(())
    pads = zip(window.low, window.high, window.extra, strict=True)
    for axis, (size, (low, high, extra)) in enumerate(
        zip(static(window.image, "image"), pads, strict=True)
    ):
        length, kernel, stride = (
            low + size + high + extra,
            window.kernel[axis],
            window.strides[axis],
        )
        number = max((length - window.spans[axis]) // stride + 1, 1)
        if max(length, number * kernel, number * counts.size) > LARGEST_KNOWN:
            raise ProblemError(f"its window {window.kernel} has too many places")
        places = np.arange(length) - low
        there = places < size + high if counted else (places >= 0) & (places < size)
        starts = np.arange(0, length - window.spans[axis] + 1, stride)
        inside = window.dilation[axis] * np.arange(kernel)
        counts = np.multiply.outer(counts, there[starts[:, None] + inside].sum(axis=1))
    return counts


def _lp_pool(e: Builder, call: Call) -> SSAValue:
    x, p = call[0], call.integer("p", 2)
    window = Window(call, call.integers("kernel_shape", []), image_of(e, x))
    powers = e.add(tensor.PowOp(e.add(tensor.AbsOp(x)), e.number(p, x)))
    total = combined(e, _padded_for(e, powers, window, 0), window, tensor.AddOp)
    return e.add(tensor.PowOp(total, e.number(1 / p, x)))


def _max_unpool(e: Builder, call: Call) -> SSAValue:

    x, shape = call[0], e.shape(call[0])
    window = Window(call, call.integers("kernel_shape", []), list(shape[2:]))
    plain = [*shape[:2]]
    for axis, size in enumerate(shape[2:]):
        grown = (size - 1) * window.strides[axis] + window.kernel[axis]
        plain.append(grown - window.low[axis] - window.high[axis])
    wanted = e.int_list(call[2], "output shape") if call.has(2) else plain
    check_size(wanted)
    places = e.array(call[1], "indices")
    if places.size and (places.min() < 0 or places.max() >= math.prod(plain)):
        raise ProblemError("its indices are outside the tensor")
    moved = np.ravel_multi_index(np.unravel_index(places.reshape(-1), plain), wanted)
    empty = e.stretch(e.reshape(e.number(0, x), [1]), [math.prod(wanted)])
    inputs = [empty, e.indices(moved), e.reshape(x, [math.prod(shape)])]
    result = INDEX["ScatterElements"](e, Call("ScatterElements", "", 18, inputs, {"axis": 0}))
    return e.reshape(tensor_of(result), wanted)


RULES: dict[str, Rule] = {
    "AveragePool": _avg_pool,
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
}
"""By the type of the operator."""
