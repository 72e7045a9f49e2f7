"""A float function with few levels as one `tensor.quantize`, found and proved on all of f32.

What none gives has thresholds, `edges_of`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir.arrays import Array

Floats = NDArray[np.float32]

TINY = np.finfo(np.float32).tiny
"""Scales below it, subnormal, are 0 to some engines."""

Counts = Callable[[Floats], NDArray[np.int64]]
"""Points [n] to the number of the level that each is on, from 0."""


class Quantizer(NamedTuple):
    """clamp(round(x / scale) + zero_point, 0, number), of the sign of x where `of_sign`."""

    scale: float
    zero_point: int
    of_sign: bool = False


def quantizer(counts: Counts, number: int, step: float | None) -> Quantizer | None:
    """What gives counts(x).

    Args:
        counts: a function that never decreases, with the levels 0 … `number`.
        number: the last level.
        step: how far the inputs of neighbouring levels lie apart, if that is known.

    Returns:
        `None` if there is none: levels of another spacing, or other rounding of halves. What is
        returned gives the same level as `counts` on both sides of each of its steps, and so for
        every finite f32; within 2^-126 of a step at 0 it may be the level beside it.
    """
    edges = edges_of(counts, number)
    if not np.isfinite(edges).all():
        return None
    fitting = [each for each in _candidates(edges, step) if _agrees(edges, each, number)]
    return fitting[0] if fitting else None


def edges_of(counts: Counts, number: int) -> Floats:
    """The least f32 on each level from 1 to `number`, or above: by halving, all at once."""
    most = int(np.float32(np.inf).view(np.int32))
    low = np.full(number, 1 - most, np.int64)
    high = np.full(number, most, np.int64)
    levels = np.arange(1, number + 1)
    while (low < high).any():
        middle = (low + high) // 2
        reached = counts(_floats(middle)) >= levels
        high = np.where(reached, middle, high)
        low = np.where(reached, low, np.minimum(middle + 1, high))
    return _floats(low)


def _floats(places: NDArray[np.int64]) -> Floats:
    """The floats at places among all of them; 0 is at 0."""
    bits = np.where(places >= 0, places, -places | 0x80000000)
    return bits.astype(np.uint32).view(np.float32)


def _candidates(edges: Floats, step: float | None) -> list[Quantizer]:
    """Those that may fit, likely ones first."""
    quantizers: list[Quantizer] = []
    first = float(edges[0])
    if len(edges) > 1:
        last = float(edges[-1])
        spacing = (last - first) / (len(edges) - 1)
        if not spacing > 0:
            return []
        half = float(np.rint(first / spacing - 0.5)) + 0.5
        others = [(last, half + len(edges) - 1), (first, half)]
        scales = [step] if step else []
        scales += [edge / place for edge, place in others]
        scales += [_rounded(spacing, bits) for bits in (8, 16, 20)]
        for scale in scales:
            near = np.float32(scale)
            for exact in (near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)):
                quantizers.append(Quantizer(float(exact), 1 - int(np.ceil(half))))
        return quantizers
    if abs(first) < TINY:
        # No normal scale tells the smallest numbers from 0.
        return [Quantizer(1.0, int(first <= 0), of_sign=True)]
    for half in (1.5, -0.5, 3.5, 5.5, -2.5, 0.5, 2.5, -1.5):
        scale = np.float32(first / half)
        for exact in (scale, np.nextafter(scale, np.inf), np.nextafter(scale, -np.inf)):
            quantizers.append(Quantizer(float(exact), 1 - int(np.ceil(half))))
    return quantizers


def _rounded(x: float, bits: int) -> float:
    """x with a mantissa of so many bits: edges beside halves lie a little off."""
    mantissa, exponent = np.frexp(x)
    return float(np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits))


def _agrees(edges: Floats, by: Quantizer, number: int) -> bool:
    if not by.scale >= TINY:
        return False
    slack = TINY if by.of_sign else np.float32(0)
    below = np.nextafter(edges, np.float32(-np.inf)) - slack
    edges = edges + slack
    wanted = np.arange(1, number + 1)
    return bool(
        (_quantized(edges, by, number) >= wanted).all()
        and (_quantized(below, by, number) < wanted).all()
    )


def _quantized(x: Floats, by: Quantizer, number: int) -> Array:
    with np.errstate(all="ignore"):
        real = np.sign(x) if by.of_sign else x
        steps: Any = np.rint(real / np.float32(by.scale)) + np.float32(by.zero_point)
    return np.clip(steps.astype(np.float64), 0, number)
