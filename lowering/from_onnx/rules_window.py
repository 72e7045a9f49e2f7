"""Rules of convolutions and pooling, with 1 to 3 and more spatial axes."""

from __future__ import annotations

import math
from itertools import product as cross
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ..from_torch.sizes import ProblemError
from .emitter import Call, Emitter, Rule
from .rules_index import lowest_of
from .rules_linear import centred, exact_integers, trits_of
from .rules_quantization import quantized
from .rules_shape import check_size, padded, take
from .sizes import Size, static

MOST_OFFSETS = 4096
"""Windows that are taken apart have at most this many elements."""


class Window:
    """The window of a node: kernel, strides, dilation, low and high pads."""

    def __init__(self, e: Emitter, call: Call, kernel: list[int], image: list[Size]) -> None:
        spatial = len(kernel)
        self.kernel, self.image = kernel, image
        self.strides = list(call.get("strides", [1] * spatial))
        self.dilation = list(call.get("dilations", [1] * spatial))
        pads = list(call.get("pads", [0] * (2 * spatial)))
        lengths = (len(self.strides), len(self.dilation), len(pads), len(image))
        if lengths != (spatial, spatial, 2 * spatial, spatial):
            raise ProblemError(f"its window {kernel} and its strides, dilations or pads differ")
        if min((*self.strides, *self.dilation, *kernel), default=1) < 1:
            raise ProblemError("its window, strides and dilations must be at least 1")
        check_size([abs(n) + 1 for n in pads])
        self.low, self.high = pads[:spatial], pads[spatial:]
        self.extra = [0] * spatial
        auto = str(call.get("auto_pad", "NOTSET"))
        if auto.startswith("SAME"):
            self._same(auto == "SAME_UPPER")
        elif auto == "VALID":
            self.low, self.high = [0] * spatial, [0] * spatial
        if call.get("ceil_mode", 0) and not auto.startswith("SAME"):
            self._round_up()

    @property
    def spans(self) -> list[int]:
        """How many elements of the image a window spans."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]

    def _same(self, upper: bool) -> None:
        sizes = static(self.image, "image")
        for axis, (size, span) in enumerate(zip(sizes, self.spans, strict=True)):
            stride = self.strides[axis]
            pads = max((-(-size // stride) - 1) * stride + span - size, 0)
            small = pads // 2
            self.low[axis] = small if upper else pads - small
            self.high[axis] = pads - self.low[axis]

    def _round_up(self) -> None:
        sizes = static(self.image, "image")
        for axis, (size, span) in enumerate(zip(sizes, self.spans, strict=True)):
            stride = self.strides[axis]
            room = size + self.low[axis] + self.high[axis] - span
            count = math.ceil(room / stride) + 1
            # The last window must start inside the image or the low pads.
            if (count - 1) * stride >= size + self.low[axis]:
                count -= 1
            self.extra[axis] = max((count - 1) * stride - room, 0)

    def pads(self) -> list[int]:
        """Low pads, then high pads, rounding up included."""
        return [*self.low, *(a + b for a, b in zip(self.high, self.extra, strict=True))]


# Convolutions.


def convolution(
    e: Emitter, x: SSAValue, weight: SSAValue, bias: SSAValue | None, window: Window, groups: int
) -> SSAValue:
    """A convolution with any number of spatial axes; trits where the weight's values are."""
    spatial = e.rank(x) - 2
    if min(window.pads()) < 0:
        low, high = [0, 0, *window.low], [0, 0, *window.high]
        x = padded(e, x, [min(n, 0) for n in low], [min(n, 0) for n in high], 0)
        window.low, window.high = ([max(n, 0) for n in pads] for pads in (window.low, window.high))
    if spatial > 2:
        return _deeper(e, x, weight, bias, window, groups)
    options: dict[str, Any] = {
        "strides": window.strides,
        "padding": window.pads(),
        "dilation": window.dilation,
        "groups": groups,
    }
    found = None if e.is_known(x) else trits_of(e, weight, 0)
    if found is None:
        return e.add(tensor.ConvOp(x, weight, bias, **options))
    key = e.names.get(weight, "weight")
    trits, scale = e.trits(found[0], key), None
    whole = None
    if found[1] is None and bias is None:
        whole = exact_integers(e, x, found[0][0].size)
    if whole is not None:
        sums = e.add(ternary.ConvOp(whole, trits, **options))
        made = e.convert(sums, x)
        e.exact[made] = sums
        return made
    if found[1] is not None:
        value = e.known(found[1], tensor_type(x).element_type)
        e.names[value] = f"{key}_scale"
        scale = e.real(value)
    given = None if bias is None else e.real(bias)
    return e.add(ternary.ConvOp(x, trits, scale=scale, bias=given, **options))


def _deeper(
    e: Emitter, x: SSAValue, weight: SSAValue, bias: SSAValue | None, window: Window, groups: int
) -> SSAValue:
    """A sum over the first spatial axis of convolutions over the others."""
    spatial = e.rank(x) - 2
    pads = window.pads()
    low, high = [0, 0, pads[0], *[0] * (spatial - 1)], [0, 0, pads[spatial], *[0] * (spatial - 1)]
    x = e.move_axis(padded(e, x, low, high, 0), 2, 1)
    depth, kernel = static([e.sizes(x)[1], e.sizes(weight)[2]], "depth")
    stride, dilation = window.strides[0], window.dilation[0]
    count = (depth - dilation * (kernel - 1) - 1) // stride + 1
    if count < 1:
        raise ProblemError(f"its window of {kernel} does not fit {depth} elements")
    inner = Window(e, Call("", "", 1, [], {}), window.kernel[1:], window.image[1:])
    inner.strides, inner.dilation = window.strides[1:], window.dilation[1:]
    inner.low, inner.high = pads[1:spatial], pads[spatial + 1 :]
    total: SSAValue | None = None
    sizes = e.sizes(x)
    for place in range(kernel):
        start = place * dilation
        part = e.cut(x, 1, start, start + (count - 1) * stride + 1, stride)
        merged = e.reshape(part, (sizes[0] * count, *sizes[2:]))
        slab = e.reshape(e.cut(weight, 2, place, place + 1),
                         (*e.sizes(weight)[:2], *e.sizes(weight)[3:]))  # fmt: skip
        made = convolution(e, merged, slab, None, inner, groups)
        total = made if total is None else e.add(tensor.AddOp(total, made))
    assert total is not None
    apart = e.reshape(total, (sizes[0], count, *e.sizes(total)[1:]))
    result = e.move_axis(apart, 1, 2)
    if bias is None:
        return result
    return e.add(tensor.AddOp(result, e.along(bias, 1, e.rank(result))))


def _kernel(e: Emitter, weight: SSAValue) -> list[int]:
    return static(e.sizes(weight)[2:], "kernel")


def _image(e: Emitter, x: SSAValue) -> list[Size]:
    if e.rank(x) < 3:
        raise ProblemError(f"its image has rank {e.rank(x)}")
    return list(e.sizes(x)[2:])


def _conv(e: Emitter, call: Call) -> SSAValue:
    x, weight = call[0], call[1]
    window = Window(e, call, _kernel(e, weight), _image(e, x))
    return convolution(e, x, weight, call.optional(2), window, int(call.get("group", 1)))


def _conv_integer(e: Emitter, call: Call) -> SSAValue:
    x = centred(e, call[0], call.optional(2))
    weight = centred(e, call[1], call.optional(3), 0)
    window = Window(e, call, _kernel(e, weight), _image(e, x))
    return convolution(e, x, weight, None, window, int(call.get("group", 1)))


def _qlinear_conv(e: Emitter, call: Call) -> SSAValue:
    x, weight = centred(e, call[0], call[2]), centred(e, call[3], call[5], 0)
    window = Window(e, call, _kernel(e, weight), _image(e, x))
    sums = convolution(e, x, weight, None, window, int(call.get("group", 1)))
    rank = e.rank(sums)
    if call.has(8):
        sums = e.add(tensor.AddOp(sums, e.along(e.convert(call[8], i32), 1, rank)))
    scales = [
        e.reshape(v, ()) if e.sizes(v) == (1,) else e.along(v, 1, rank) for v in (call[1], call[4])
    ]
    real = e.add(tensor.MulOp(e.convert(sums, f32), e.add(tensor.MulOp(*scales))))
    return quantized(e, real, call[6], call[7])


def _conv_transpose(e: Emitter, call: Call) -> SSAValue:
    """Zeros between the elements, then a convolution of stride 1.

    Dumoulin & Visin 2016, "A guide to convolution arithmetic", section 4.
    """
    x, weight, groups = call[0], call[1], int(call.get("group", 1))
    kernel, image = _kernel(e, weight), _image(e, x)
    spatial = len(kernel)
    plain = {n: v for n, v in call.attributes.items() if n in ("strides", "dilations", "pads")}
    window = Window(e, Call("", "", 1, [], plain), kernel, image)
    extra = list(call.get("output_padding", [0] * spatial))
    auto, shape = str(call.get("auto_pad", "NOTSET")), call.get("output_shape")
    if shape is not None or auto.startswith("SAME"):
        sizes = static(image, "image")
        for axis in range(spatial):
            full = window.strides[axis] * (sizes[axis] - 1) + extra[axis] + window.spans[axis]
            wanted = sizes[axis] * window.strides[axis] if shape is None else shape[-spatial:][axis]
            pads = max(full - wanted, 0)
            window.low[axis] = pads // 2 if auto == "SAME_UPPER" else pads - pads // 2
            window.high[axis] = pads - window.low[axis]
            if full < wanted:
                extra[axis] += wanted - full
    spaced = _spaced(e, x, window.strides)
    inputs, outputs = static(e.sizes(weight)[:2], "channels")
    if groups < 1 or inputs % groups:
        raise ProblemError(f"{inputs} channels do not fall into {groups} groups")
    turned = weight
    for axis in range(2, 2 + spatial):
        turned = take(e, turned, axis, np.arange(kernel[axis - 2])[::-1])
    apart = e.reshape(turned, (groups, inputs // groups, outputs, *kernel))
    joined = e.reshape(e.move_axis(apart, 2, 1), (groups * outputs, inputs // groups, *kernel))
    low = [s - 1 - p for s, p in zip(window.spans, window.low, strict=True)]
    high = [s - 1 - p + a for s, p, a in zip(window.spans, window.high, extra, strict=True)]
    inner = Window(e, Call("", "", 1, [], {}), kernel, list(e.sizes(spaced)[2:]))
    inner.dilation, inner.low, inner.high = window.dilation, low, high
    return convolution(e, spaced, joined, call.optional(2), inner, groups)


def _spaced(e: Emitter, x: SSAValue, strides: list[int]) -> SSAValue:
    """x with strides - 1 zeros between its elements along each spatial axis."""
    for index, stride in enumerate(strides):
        if stride == 1:
            continue
        axis, sizes = 2 + index, list(e.sizes(x))
        (size,) = static([sizes[axis]], "image")
        check_size([size, stride])
        wide = e.add(tensor.UnsqueezeOp(x, [axis + 1]))
        high = [0] * (len(sizes) + 1)
        high[axis + 1] = stride - 1
        wide = e.add(tensor.PadToOp(wide, [0] * len(high), high))
        sizes[axis] = size * stride
        x = e.cut(e.reshape(wide, sizes), axis, 0, (size - 1) * stride + 1)
    return x


# Pooling.


def _counts(e: Emitter, x: SSAValue, window: Window) -> list[int]:
    """How many windows there are along each axis of the padded x."""
    sizes = static(e.sizes(x)[2:], "image")
    counts = [
        (size - span) // stride + 1
        for size, span, stride in zip(sizes, window.spans, window.strides, strict=True)
    ]
    if min(counts, default=1) < 1:
        raise ProblemError(f"its window {window.kernel} does not fit {sizes}")
    return counts


def _part(e: Emitter, x: SSAValue, window: Window, axis: int, offset: int, count: int) -> SSAValue:
    """The elements at one place of the windows along one spatial axis."""
    start, stride = offset * window.dilation[axis], window.strides[axis]
    return e.cut(x, 2 + axis, start, start + (count - 1) * stride + 1, stride)


def _combined(e: Emitter, x: SSAValue, window: Window, kind: Any) -> SSAValue:
    """All elements of each window of the padded x joined by an op, axis by axis."""
    counts = _counts(e, x, window)
    if sum(window.kernel) > MOST_OFFSETS:
        raise ProblemError(f"its window {window.kernel} is too large")
    for axis, (length, count) in enumerate(zip(window.kernel, counts, strict=True)):
        made = _part(e, x, window, axis, 0, count)
        for offset in range(1, length):
            made = e.add(kind(made, _part(e, x, window, axis, offset, count)))
        x = made
    return x


def _parts(e: Emitter, x: SSAValue, window: Window) -> list[SSAValue]:
    """For each place in the window the elements of the padded x that are there."""
    if math.prod(window.kernel) > MOST_OFFSETS:
        raise ProblemError(f"its window {window.kernel} is too large")
    counts, parts = _counts(e, x, window), list[SSAValue]()
    for offsets in cross(*(range(k) for k in window.kernel)):
        part = x
        for axis, offset in enumerate(offsets):
            part = _part(e, part, window, axis, offset, counts[axis])
        parts.append(part)
    return parts


def _padded_for(e: Emitter, x: SSAValue, window: Window, fill: float) -> SSAValue:
    pads, spatial = window.pads(), len(window.kernel)
    return padded(e, x, [0, 0, *pads[:spatial]], [0, 0, *pads[spatial:]], fill)


def _is_plain(window: Window) -> bool:
    """Whether the pooling ops of the IR have such windows."""
    spatial, pads = len(window.kernel), window.pads()
    return (
        spatial in (1, 2)
        and window.dilation == [1] * spatial
        and all(0 <= 2 * n <= window.kernel[i % spatial] for i, n in enumerate(pads))
    )


def _max_pool(e: Emitter, call: Call) -> Any:
    x = call[0]
    window = Window(e, call, list(call.get("kernel_shape", [])), _image(e, x))
    if call.outputs > 1:
        return _max_pool_places(e, call, x, window)
    if _is_plain(window):
        return e.add(tensor.MaxPoolOp(x, window.kernel, window.strides, window.pads()))
    return _combined(e, _padded_for(e, x, window, lowest_of(x)), window, tensor.MaximumOp)


def _max_pool_places(e: Emitter, call: Call, x: SSAValue, window: Window) -> Any:
    shape = e.shape(x)
    image = shape[2:]
    places = np.arange(math.prod(shape)).reshape(shape)
    if call.get("storage_order", 0):
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


def _avg_pool(e: Emitter, call: Call) -> SSAValue:
    x, counted = call[0], bool(call.get("count_include_pad", 0))
    window = Window(e, call, list(call.get("kernel_shape", [])), _image(e, x))
    if _is_plain(window) and not any(window.extra):
        return e.add(
            tensor.AvgPoolOp(
                x, window.kernel, window.strides, window.pads(), count_include_pad=counted
            )
        )
    total = _combined(e, _padded_for(e, x, window, 0), window, tensor.AddOp)
    ones = e.known(np.ones((1, 1, *static(window.image, "image")), np.float32))
    if counted:
        spatial = len(window.kernel)
        ones = padded(e, ones, [0, 0, *window.low], [0, 0, *window.high], 1)
        counts = padded(e, ones, [0] * (2 + spatial), [0, 0, *window.extra], 0)
    else:
        counts = _padded_for(e, ones, window, 0)
    return e.add(tensor.DivOp(total, e.convert(_combined(e, counts, window, tensor.AddOp), x)))


def _lp_pool(e: Emitter, call: Call) -> SSAValue:
    x, p = call[0], call.get("p", 2)
    window = Window(e, call, list(call.get("kernel_shape", [])), _image(e, x))
    powers = e.add(tensor.PowOp(e.add(tensor.AbsOp(x)), e.number(p, x)))
    total = _combined(e, _padded_for(e, powers, window, 0), window, tensor.AddOp)
    return e.add(tensor.PowOp(total, e.number(1 / p, x)))


def _max_unpool(e: Emitter, call: Call) -> SSAValue:
    from .rules_index import RULES as INDEX

    x, shape = call[0], e.shape(call[0])
    window = Window(e, call, list(call.get("kernel_shape", [])), list(shape[2:]))
    if call.has(2):
        wanted = e.int_list(call[2], "output shape")
    else:
        wanted = [*shape[:2]]
        for axis, size in enumerate(shape[2:]):
            grown = (size - 1) * window.strides[axis] + window.kernel[axis]
            wanted.append(grown - window.low[axis] - window.high[axis])
    plain = [*shape[:2]]
    for axis, size in enumerate(shape[2:]):
        grown = (size - 1) * window.strides[axis] + window.kernel[axis]
        plain.append(grown - window.low[axis] - window.high[axis])
    check_size(wanted)
    places = e.array(call[1], "indices")
    if places.size and (places.min() < 0 or places.max() >= math.prod(plain)):
        raise ProblemError("its indices are outside the tensor")
    moved = np.ravel_multi_index(np.unravel_index(places.reshape(-1), plain), wanted)
    empty = e.stretch(e.reshape(e.number(0, x), [1]), [math.prod(wanted)])
    inputs = [empty, e.indices(moved), e.reshape(x, [math.prod(shape)])]
    made = INDEX["ScatterElements"](e, Call("ScatterElements", "", 18, inputs, {"axis": 0}))
    return e.reshape(made, wanted)


RULES: dict[str, Rule] = {
    "AveragePool": _avg_pool,
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
    "QLinearConv": _qlinear_conv,
}
"""By the type of the operator."""
