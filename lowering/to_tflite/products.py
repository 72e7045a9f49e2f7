"""Fully connected layers and convolutions on stored tensors, as dense and ternary ops need them.

Weights come as a float32 tensor: stored, dequantised from stored integers, or computed. Exact
integer products go through the float32 kernels too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import SSAValue

from .graph import Array, Element, Quantization, Tensor
from .layout import Layout, plain
from .shape import cut, pad, strided
from .tflite_writer import Inexpressible, Writer
from .window import Window

FLOAT_EXACT = 1 << 24
"""Up to here float32 holds every integer."""


def fully_connected(e: Writer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x · Wᵀ + b for W [out, in]; a vector x takes a detour by a matrix of one row."""
    width = weight.shape[0]
    if x.rank == 1:
        row = fully_connected(e, e.reshape(x, (1, *x.shape)), weight, bias)
        return e.reshape(row, (width,))
    inside = bias if bias is not None and bias.data is not None else None
    shape = (*x.shape[:-1], width)
    out = e.apply(
        "FULLY_CONNECTED", [x], shape=shape, rest=[weight, inside], keepNumDims=x.rank > 2
    )
    return out if bias is inside else e.binary("ADD", out, bias) if bias is not None else out


def convolution(
    e: Writer, x: Tensor, weight: Tensor, bias: Tensor | None, window: Window, groups: int
) -> Tensor:
    """A convolution of N, H, W, C with W [O, H, W, C/groups], or [1, H, W, O] where depthwise."""
    depthwise = is_depthwise(x, groups)
    channels = weight.shape[3 if depthwise else 0]
    height, width = window.outputs(x)
    padded, same = window.padded(e, x)
    shape = (x.shape[0], height, width, channels)
    inside = bias if bias is not None and bias.data is not None else None
    stored = inside or e.constant(np.zeros(channels, np.float32), f"{e.hint}.zero_bias")
    options = window.conv_options(same)
    kind = "CONV_2D"
    if depthwise:
        kind, options = "DEPTHWISE_CONV_2D", {**options, "depthMultiplier": channels // groups}
    out = e.node(kind, [padded, weight, stored], Element.FLOAT32, shape, **options)
    return out if bias is inside or bias is None else e.binary("ADD", out, bias)


def last_in_place(e: Writer, value: SSAValue, count: int) -> tuple[Tensor, Layout]:
    """A value as stored where its last `count` axes stand last, else in the IR's order."""
    x, layout = e.stored(value)
    first = x.rank - count
    if layout.image is None and layout.order[first:] == tuple(range(first, x.rank)):
        return x, layout
    return e.value(value), plain(x.rank)


def is_depthwise(x: Tensor, groups: int) -> bool:
    """Whether each channel of N, H, W, C is convolved by itself."""
    return groups > 1 and x.shape[3] == groups


def weight_order(x: Tensor, groups: int, rank: int) -> tuple[int, ...]:
    """The permutation of weights [O, C/groups, …] to what `convolution` takes, before lifting."""
    spatial = range(2, rank)
    return (1, *spatial, 0) if is_depthwise(x, groups) else (0, *spatial, 1)


def lifted(values: Array) -> Array:
    """Weights [O, L, C] of one spatial axis with a second of size 1: [O, 1, L, C]."""
    return values[:, None] if values.ndim == 3 else values


def columns(e: Writer, x: Tensor, window: Window) -> Tensor:
    """Each window of N, H, W, C as a row: N, H, W, (kernel places, C).

    A convolution is a fully connected layer on these rows.
    """
    height, width = window.outputs(x)
    padded = pad(e, x, *window.stored_pads())
    channels = x.shape[3]
    shape = (x.shape[0], height, width, channels)
    pieces: list[Tensor] = []
    for row, column in window.places():
        if window.strides == (1, 1):
            begin, count = [0, row, column, 0], [x.shape[0], height, width, channels]
            pieces.append(cut(e, padded, begin, count))
            continue
        down, right = window.strides
        ends = [_END, row + (height - 1) * down + 1, column + (width - 1) * right + 1, _END]
        starts, steps = [0, row, column, 0], [1, down, right, 1]
        pieces.append(strided(e, padded, starts, ends, steps, shape))
    rows = (*shape[:3], channels * len(pieces))
    return e.apply("CONCATENATION", pieces, shape=rows, axis=3) if len(pieces) > 1 else pieces[0]


_END = (1 << 63) - 1


def sums_of(element: Element) -> Element:
    """What dense products of integers are summed in, before they wrap around in their own type."""
    return Element.INT64 if element.dtype.itemsize == 8 else Element.INT32


def exact_product(
    e: Writer,
    x: Tensor,
    bound: int,
    reach: int,
    sums: Element,
    product: Callable[[Tensor], Tensor],
) -> Tensor:
    """A product of integers by a float32 kernel, as INT32 or INT64, wrapping around.

    Sums up to 2^24 are exact in any order of summation. Greater operands are cut into pieces of
    fewer bits; the sums of the pieces are put together in integers.

    Args:
        x: the operand.
        bound: of its absolute values.
        reach: the greatest sum of absolute weights behind one output.
        sums: the type of the result.
        product: the product of a float32 tensor with the weights.

    Raises:
        Inexpressible: the weights alone reach beyond 2^24.
    """
    with e.exactly():
        if bound * reach <= FLOAT_EXACT:
            return e.cast(product(e.float32(x)), sums)
        bits = (FLOAT_EXACT // max(reach, 1)).bit_length() - 1
        if bits < 1:
            raise Inexpressible(
                f"sums up to {bound * reach} are not exact in LiteRT; quantise to fewer bits"
            )
        bound = min(bound, 1 << sums.dtype.itemsize * 8 - 1)
        return _in_pieces(e, e.cast(x, sums), bound, bits, product)


def _in_pieces(
    e: Writer, x: Tensor, bound: int, bits: int, product: Callable[[Tensor], Tensor]
) -> Tensor:
    """The pieces are multiples of 2^shift, which float32 holds and divides exactly."""
    sums, below, shift, total = x.element, None, 0, None
    while True:
        last = bound <= 1 << shift + bits
        up_to = x if last else e.binary("FLOOR_MOD", x, e.scalar(1 << shift + bits, sums))
        piece = e.float32(up_to if below is None else e.binary("SUB", up_to, below))
        if shift:
            piece = e.binary("MUL", piece, e.scalar(2.0**-shift, Element.FLOAT32))
        part = e.cast(product(piece), sums)
        if shift:
            part = e.binary("MUL", part, e.scalar(1 << shift, sums))
        total = part if total is None else e.binary("ADD", total, part)
        if last:
            return total
        below = up_to
        shift += bits


def dequantized(
    e: Writer, values: Array, element: Element, scale: Array, axis: int, hint: str
) -> Tensor:
    """Stored integers as float32, times one scale, or one for each position on `axis`.

    LiteRT does this once, when it first runs the model.
    """
    how = Quantization(np.asarray(scale, np.float32).reshape(-1), 0, axis)
    return e.dequantized(values.astype(np.int8), element, how, hint)


def stored_bias(e: Writer, bias: SSAValue | None) -> Tensor | None:
    """The bias in float32."""
    return None if bias is None else e.float32(e.value(bias))
