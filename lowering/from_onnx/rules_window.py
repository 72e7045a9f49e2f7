"""ONNX import of convolutions, with 1 to 3 and more spatial axes, and of sums of windows.

Not here: `rules_pooling`.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ...dialects import tensor, ternary
from ...dialects.tensor.window import ConvWindow
from ..ir_builder import padded, with_zeros_between
from ..problems import refuse
from .onnx_builder import Builder, Call, Rule
from .rules_linear import centred, exact_integers, scale_of, trits_of
from .rules_quantization import requantized
from .rules_shape import check_size, take
from .sizes import static
from .windows import Window, image_of

LARGEST = 1024
"""Windows that are summed have at most as many elements along an axis: each is ops."""


def convolution(
    e: Builder, x: SSAValue, weight: SSAValue, bias: SSAValue | None, window: Window, groups: int
) -> SSAValue:
    """A convolution with any number of spatial axes; trits where the weight's values are."""
    spatial = e.rank(x) - 2
    if min(window.pads()) < 0:
        low, high = [0, 0, *window.low], [0, 0, *window.high]
        x = padded(e, x, [min(n, 0) for n in low], [min(n, 0) for n in high], 0)
        window.low, window.high = ([max(n, 0) for n in pads] for pads in (window.low, window.high))
    if spatial > 2:
        return _deeper(e, x, weight, bias, window, groups)
    options = ConvWindow(
        strides=window.strides, padding=window.pads(), dilation=window.dilation, groups=groups
    )
    known = None if e.is_known(x) else trits_of(e, weight, 0)
    if known is None:
        return e.add(tensor.ConvOp(x, weight, bias, **options))
    key = e.names.get(weight, "weight")
    trits = e.trits(known[0], key)
    whole = None
    if known[1] is None and bias is None:
        whole = exact_integers(e, x, known[0][0].size)
    if whole is not None:
        sums = e.add(ternary.ConvOp(whole, trits, **options))
        result = e.convert(sums, x)
        e.exact[result] = sums
        return result
    scale = None if known[1] is None else scale_of(e, known[1], x, key)
    added = None if bias is None else e.real(bias)
    return e.add(ternary.ConvOp(x, trits, scale=scale, bias=added, **options))


def _deeper(
    e: Builder, x: SSAValue, weight: SSAValue, bias: SSAValue | None, window: Window, groups: int
) -> SSAValue:
    """A sum over the first spatial axis of convolutions over the others."""
    spatial = e.rank(x) - 2
    pads = window.pads()
    low, high = [0, 0, pads[0], *[0] * (spatial - 1)], [0, 0, pads[spatial], *[0] * (spatial - 1)]
    x = e.move_axis(padded(e, x, low, high, 0), 2, 1)
    depth, kernel = static([e.sizes(x)[1], e.sizes(weight)[2]], "depth")
    stride, dilation = window.strides[0], window.dilation[0]
    count = (depth - dilation * (kernel - 1) - 1) // stride + 1
    refuse(count < 1, f"its window of {kernel} does not fit {depth} elements")
    inner = Window(Call("", "", 1, [], {}), window.kernel[1:], window.image[1:])
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
        part_sums = convolution(e, merged, slab, None, inner, groups)
        total = part_sums if total is None else e.add(tensor.AddOp(total, part_sums))
    assert total is not None
    apart = e.reshape(total, (sizes[0], count, *e.sizes(total)[1:]))
    result = e.move_axis(apart, 1, 2)
    if bias is None:
        return result
    return e.add(tensor.AddOp(result, e.along(bias, 1, e.rank(result))))


def _kernel(e: Builder, weight: SSAValue) -> list[int]:
    return static(e.sizes(weight)[2:], "kernel")


def _conv(e: Builder, call: Call) -> SSAValue:
    x, weight = call[0], call[1]
    window = Window(call, _kernel(e, weight), image_of(e, x))
    return convolution(e, x, weight, call.optional(2), window, call.integer("group", 1))


def _conv_integer(e: Builder, call: Call) -> SSAValue:
    x = centred(e, call[0], call.optional(2))
    weight = centred(e, call[1], call.optional(3), 0)
    window = Window(call, _kernel(e, weight), image_of(e, x))
    return convolution(e, x, weight, None, window, call.integer("group", 1))


def _qlinear_conv(e: Builder, call: Call) -> SSAValue:
    x, weight = centred(e, call[0], call[2]), centred(e, call[3], call[5], 0)
    window = Window(call, _kernel(e, weight), image_of(e, x))
    sums = convolution(e, x, weight, None, window, call.integer("group", 1))
    rank = e.rank(sums)
    if call.has(8):
        sums = e.add(tensor.AddOp(sums, e.along(e.convert(call[8], i32), 1, rank)))
    scales = [
        e.reshape(v, ()) if e.sizes(v) == (1,) else e.along(v, 1, rank) for v in (call[1], call[4])
    ]
    return requantized(e, sums, scales, call[6], call[7])


def _conv_transpose(e: Builder, call: Call) -> SSAValue:
    """Zeros between the elements, then a convolution of stride 1.

    Dumoulin & Visin 2016, "A guide to convolution arithmetic", section 4.
    """
    x, weight, groups = call[0], call[1], call.integer("group", 1)
    kernel, image = _kernel(e, weight), image_of(e, x)
    spatial = len(kernel)
    plain = {n: v for n, v in call.attributes.items() if n in ("strides", "dilations", "pads")}
    window = Window(Call("", "", 1, [], plain), kernel, image)
    extra = call.integers("output_padding", [0] * spatial)
    auto, shape = call.text("auto_pad", "NOTSET"), call.integers("output_shape", None)
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
    check_size([*(size for size in image if isinstance(size, int)), *window.strides])
    spaced = with_zeros_between(e, x, window.strides)
    inputs, outputs = static(e.sizes(weight)[:2], "channels")
    refuse(groups < 1 or inputs % groups, f"{inputs} channels do not fall into {groups} groups")
    turned = weight
    for axis in range(2, 2 + spatial):
        turned = take(e, turned, axis, np.arange(kernel[axis - 2])[::-1])
    apart = e.reshape(turned, (groups, inputs // groups, outputs, *kernel))
    joined = e.reshape(e.move_axis(apart, 2, 1), (groups * outputs, inputs // groups, *kernel))
    low = [s - 1 - p for s, p in zip(window.spans, window.low, strict=True)]
    high = [s - 1 - p + a for s, p, a in zip(window.spans, window.high, extra, strict=True)]
    inner = Window(Call("", "", 1, [], {}), kernel, list(e.sizes(spaced)[2:]))
    inner.dilation, inner.low, inner.high = window.dilation, low, high
    return convolution(e, spaced, joined, call.optional(2), inner, groups)


def _from_columns(e: Builder, call: Call) -> SSAValue:
    """An image [N, C, …] as the sum of windows [N, C·elements of a window, windows].

    Every axis is summed by itself: windows along it lie apart by the stride, each of its places
    moved by the dilation.
    """
    image, block = ([int(n) for n in e.array(call[i], "image and window")] for i in (1, 2))
    check_size([*image, *block])
    refuse(max(block, default=0) > LARGEST, f"its windows have more than {LARGEST} rows")
    window = Window(call, block, [*image])
    counts = [
        (size + low + high - span) // stride + 1
        for size, low, high, span, stride in zip(
            image, window.low, window.high, window.spans, window.strides, strict=True
        )
    ]
    x, (batch, rows, columns) = call[0], e.sizes(call[0])
    (channels, rest) = divmod(static([rows], "columns")[0], math.prod(block))
    refuse(rest or columns != math.prod(counts), f"its windows {counts} are not its {columns}")
    for axis in reversed(range(len(image))):
        before = channels * math.prod(block[:axis])
        outer, inner = math.prod(counts[:axis]), math.prod(image[axis + 1 :])
        taps = e.reshape(x, (batch, before, block[axis], outer * counts[axis] * inner))
        stride, total = window.strides[axis], None
        for place in range(block[axis]):
            part = e.reshape(
                e.cut(taps, 2, place, place + 1), (batch, before * outer, counts[axis], inner)
            )
            part = with_zeros_between(e, part, [stride, 1])
            low = place * window.dilation[axis] - window.low[axis]
            high = image[axis] - low - (counts[axis] - 1) * stride - 1
            moved = padded(e, part, [0, 0, low, 0], [0, 0, high, 0], 0)
            total = moved if total is None else e.add(tensor.AddOp(total, moved))
        assert total is not None
        x = e.refine(total, (batch, before * outer, image[axis], inner))
    return e.reshape(x, (batch, channels, *image))


RULES: dict[str, Rule] = {
    "Col2Im": _from_columns,
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
    "QLinearConv": _qlinear_conv,
}
"""By the type of the operator."""
