"""Rescalings of sums as steps of bytes: their integers, and the operators that have these steps.

What `byte_products` and `byte_means` share. Not here: which floats have the steps (`rescaling`).
"""

from __future__ import annotations

import numpy as np

from ..to_tflite.integer_patterns import Rescaled
from .byte_levels import levels
from .byte_weights import SHIFT
from .graph import Array, Element
from .onnx_writer import Writer
from .rescaling import Offsets

BYTES = (-128, 127)
"""The bounds of the levels."""


def rescaled_sums(scaled: Rescaled, sums: Array) -> Array:
    """The arithmetic of a rescaling, sums [channels, n]."""
    m = scaled.multipliers.reshape(-1, 1).astype(np.int64)
    exponent = scaled.exponents.reshape(-1, 1).astype(np.int64)
    if scaled.twice:
        left, right = np.maximum(exponent, 0), np.maximum(-exponent, 0)
        part = (sums * m + (np.int64(1) << (30 - left))) >> (31 - left)
        part = np.clip(part, -(1 << 31), (1 << 31) - 1)
        moved = part - ((part < 0) & (right > 0))
        half = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 0)
        steps = (moved + half) >> right
    else:
        shift = 31 - exponent
        steps = (sums * m + (np.int64(1) << (shift - 1))) >> shift
    return np.clip(steps + scaled.zero, *scaled.bounds)


def factor_of(scaled: Rescaled) -> Array:
    """What a rescaling multiplies by, about."""
    return np.ldexp(scaled.multipliers.astype(np.float64), scaled.exponents - 31)


def with_offsets(e: Writer, sums: str, found: Offsets, behind: int) -> str:
    """Whole FLOAT numbers, less their centre, as UINT8: QuantizeLinear with a scale a channel.

    The offset is subtracted: ONNX Runtime would make a sum a part of the product before it.

    Args:
        sums: channels on axis 1, and `behind` axes behind.
        found: of the channels, or of all.
    """
    channels, zero = len(found.scale), np.array(found.zero + SHIFT, np.uint8)
    exact = Element.DOUBLE if found.scale.dtype == np.float64 else Element.FLOAT
    places = [1] * behind
    less = e.constant(-found.offset.reshape(-1, *places), "offset")
    sums = e.cast(sums, exact)
    if found.of_sign:
        less = e.apply("Mul", [e.apply("Sign", [sums]), less])
    steps_away = e.apply("Sub", [sums, less])
    if exact is Element.DOUBLE:
        factor = e.constant(1 / found.scale.reshape(-1, *places), "factor")
        rounded = e.apply("Round", [e.apply("Mul", [steps_away, factor])])
        return levels(e, e.cast(rounded, Element.FLOAT), zero)
    if channels == 1:
        inputs = [steps_away, e.constant(found.scale.reshape(()), "scale"),
                  e.constant(zero, "zero_point")]  # fmt: skip
        return e.call("", "QuantizeLinear", inputs, Element.UINT8, {})
    zeros = e.constant(np.full(channels, zero), "zero_points")
    inputs = [steps_away, e.constant(found.scale, "scale"), zeros]
    return e.call("", "QuantizeLinear", inputs, Element.UINT8, {"axis": 1})


def within(e: Writer, name: str, bounds: tuple[int, int]) -> str:
    """UINT8 levels within bounds."""
    if bounds == BYTES:
        return name
    low, high = (e.constant(np.array(b + SHIFT, np.uint8), "bound") for b in bounds)
    return e.node("Clip", [name, low, high], Element.UINT8)
