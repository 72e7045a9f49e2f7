"""Rescalings of sums as steps of bytes: their integers, and the operators that have these steps.

What `byte_products` and `byte_means` share. Not here: which floats have the steps (`rescaling`).
"""

from __future__ import annotations

import numpy as np

from ..to_tflite.integer_patterns import Rescaled
from .byte_weights import SHIFT
from .graph import Array, Attributes, Element
from .integer import FLOAT_EXACT
from .onnx_writer import Writer
from .rescaling import Line, Rounded, Steps, lines_of, rounded_of, signed_of

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


def parts_of(scaled: Rescaled) -> tuple[Array, Array]:
    """By about what a rescaling multiplies before it rounds, and what it divides the rest by."""
    exponents = np.minimum(scaled.exponents, 0) if scaled.twice else 0 * scaled.exponents
    factors = np.ldexp(factor_of(scaled), -exponents).reshape(-1)
    return factors, np.ldexp(np.ones(factors.size), -exponents.reshape(-1))


def floats_of(
    steps: Steps, parts: tuple[Array, Array], span: Array, added: Array, *, by_channel: bool = True
) -> Line | Rounded | None:
    """Floats that have the steps of sums.

    Args:
        parts: as of `parts_of`, [channels].
        span: [channels], how large any part of a sum is, and `added`, what is added to it.
        by_channel: whether the last rounding may have a scale a channel.
    """
    factors, scales = parts
    reach, found = span + np.abs(added), None
    if by_channel:
        # A multiple of 2^-n is exact below 2^(24 - n); other zero points move sums by 256 levels.
        moved = np.minimum(reach, 2 * SHIFT * scales / factors) + 1
        fractions = np.exp2(np.ceil(np.log2(reach + moved))) / FLOAT_EXACT
        fit = (fractions <= 1).all()
        found = lines_of(steps, factors / scales, moved, fractions) if fit else None
    if found is not None or (reach > FLOAT_EXACT).any():
        return found
    found = signed_of(steps, factors / scales) if by_channel else None
    return found or rounded_of(steps, factors, scales)


def stepped(e: Writer, sums: str, found: Line | Rounded, behind: int) -> str:
    """Exact FLOAT numbers as UINT8: QuantizeLinear with a scale a channel.

    What stands before it is none of the factors and terms that ONNX Runtime would make a part of
    the product. The sign of a whole number is quicker as its bounds.

    Args:
        sums: channels on axis 1, and `behind` axes behind; without the centres of a line.
        found: of the channels, or of all.
    """
    places = [1] * behind
    if isinstance(found, Rounded):
        factor = e.constant(found.factor.reshape(-1, *places), "factor")
        scaled = e.apply("Mul", [e.cast(sums, Element.DOUBLE), factor])
        sums = e.cast(e.apply("Round", [scaled]), Element.FLOAT)
    elif found.offset is not None:
        bounds = [e.scalar(bound, Element.FLOAT) for bound in (-1, 1)]
        sign = e.node("Clip", [sums, *bounds], Element.FLOAT)
        less = e.constant(-found.offset.reshape(-1, *places), "offset")
        sums = e.apply("Sub", [sums, e.apply("Mul", [sign, less])])
    scale = found.scale
    zero = np.broadcast_to(np.asarray(found.zero + SHIFT, np.uint8), scale.shape)
    attributes: Attributes = {"axis": 1}
    if (scale == scale[:1]).all() and (zero == zero[:1]).all() and scale.size:
        scale, zero, attributes = scale[0], zero[0], {}
    points = e.constant(np.array(zero), "zero_point")
    inputs = [sums, e.constant(np.array(scale), "scale"), points]
    return e.call("", "QuantizeLinear", inputs, Element.UINT8, attributes)


def within(e: Writer, name: str, bounds: tuple[int, int]) -> str:
    """UINT8 levels within bounds."""
    if bounds == BYTES:
        return name
    low, high = (e.constant(np.array(b + SHIFT, np.uint8), "bound") for b in bounds)
    return e.node("Clip", [name, low, high], Element.UINT8)
