"""Functions of 16-bit integers as LiteRT computes them: straight lines between tabulated values.

Tables of all 65,536 results, bit for bit those of `LUTLookup` and of the 16-bit `Logistic` and
`Tanh` of LiteRT's reference kernels. The first reads 513 values, made by `LUTPopulate`; the others
read 256 of the sigmoid, which serve the tangent too. Not here: the functions of the LSTM
(`gemmlowp`), nor tables of 8-bit integers, which hold every value (`rules_activation.tabulated`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from ...ir.arrays import Array

LOW, HIGH = -(1 << 15), (1 << 15) - 1

_PIECES = 512
"""How many straight lines there are, of 128 integers each."""

_SIGMOID_STEPS = 3 * 4096
"""Steps of the sigmoid's argument in 1; 512 of them lead from one value to the next."""

Function = Callable[[float], float]


def interpolated(
    function: Function, scale: np.floating, zero: int, result_scale: np.floating
) -> Array:
    """The results, int16, for all integers from -32768 on.

    Args:
        function: of real numbers.
        scale, zero: of the argument's grid.
        result_scale: of the result, whose zero point is 0. Values are computed in the precision of
            both scales.
    """
    values = _values(function, scale, zero, result_scale)
    steps = np.arange(LOW, HIGH + 1)
    places, rest = (steps >> 7) + _PIECES // 2, steps & 127
    slopes = values[places + 1] - values[places]
    return (values[places] + ((slopes * rest + 64) >> 7)).astype(np.int16)


def _values(function: Function, scale: np.floating, zero: int, result_scale: np.floating) -> Array:
    """Those between the lines: each shares the error in the middle of the line behind it."""
    real = np.result_type(scale, result_scale).type
    low, high = (scale * real(bound - zero) for bound in (LOW, HIGH))
    least, most = (result_scale * real(bound) for bound in (LOW, HIGH))
    step = (high - low) / real(_PIECES)
    factor = real(HIGH - LOW + 1) / (most - least)
    starts = low + np.arange(_PIECES + 1).astype(real) * step

    def scaled(x: Array) -> Array:
        return np.asarray([function(float(value)) for value in x], real) * factor

    values, middle = scaled(starts), scaled(starts[:-1] + step / real(2))
    line = _rounded((values[1:] + _rounded(values[:-1])) / real(2))
    share = _rounded((line - _rounded(middle)) / real(2))
    last = _rounded(scaled(np.asarray([high])))
    found = np.concatenate([_rounded(values[:-1]) - share, last])
    return np.clip(found, LOW, HIGH).astype(np.int64)


def _rounded(x: Array) -> Array:
    """Halves away from zero."""
    return np.trunc(x + np.copysign(x.dtype.type(0.5), x))


def exponential(x: float) -> float:
    """Of a float32: its exponential, or infinity."""
    return math.exp(x) if x < 88.8 else math.inf


def gelu(x: float) -> float:
    """x·Φ(x)."""
    return 0.5 * x * math.erfc(-x * math.sqrt(0.5))


def gelu_by_tanh(x: float) -> float:
    """The approximation of `gelu` by a tangent."""
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def logarithm(scale: np.floating) -> Function:
    """The logarithm; of 0 and less the least number of the result's grid."""
    least = float(np.float32(LOW) * np.float32(scale))
    return lambda x: math.log(x) if x > 0 else least


def inverse_root(scale: np.floating) -> Function:
    """1/√x; of 0 and less the greatest number of the result's grid."""
    most = float(np.float32(HIGH) * np.float32(scale))
    return lambda x: 1 / math.sqrt(x) if x > 0 else most


def sigmoid(scale: np.floating) -> Array:
    """1/(1 + exp(-x)) with 15 bits behind the point, int16, for all x of a grid with this scale."""
    x = _sigmoid_places(scale, powers=(0,))
    size = np.abs(x)
    values, place = _sigmoid_values(), np.minimum(size >> 9, 254)
    slopes = values[place + 1] - values[place]
    found = (values[place] << 9) + (size & 511) * slopes
    found = np.where(size >> 9 >= 255, 0x7FFF << 10, found)
    found = np.where(x >= 0, found + (1 << 9), (1 << 25) - found + (1 << 9) - 1)
    return (found >> 10).astype(np.int16)


def tanh(scale: np.floating) -> Array:
    """tanh(x), as in `sigmoid`: twice the sigmoid of 2x, less 1."""
    x = _sigmoid_places(scale, powers=(0, 1))
    size = np.abs(x)
    values, place = _sigmoid_values(), np.minimum(size >> 8, 254)
    slopes = values[place + 1] - values[place]
    found = (values[place] << 8) + (size & 255) * slopes
    found = np.where(size >> 8 >= 255, 0xFFFF << 8, found) - (1 << 23)
    found = np.where(x >= 0, found + (1 << 7), -found + (1 << 7) - 1)
    return (found >> 8).astype(np.int16)


def _sigmoid_places(scale: np.floating, powers: tuple[int, ...]) -> Array:
    """All numbers of a grid, in steps of the sigmoid's argument.

    Args:
        scale: of the grid.
        powers: multiples of 2^-12 by these powers of two are scaled exactly, other scales by a
            factor of 14 or 15 bits that is cut off.
    """
    x = np.arange(LOW, HIGH + 1)
    mantissa, exponent = math.frexp(float(scale))
    if mantissa == 0.5 and exponent + 11 in powers:
        return x * (3 << (exponent + 11))
    factor, shift = float(scale) * _SIGMOID_STEPS, 0
    while factor <= HIGH / 2 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    return (x * int(factor) + (1 << shift >> 1)) >> shift


@cache
def _sigmoid_values() -> Array:
    """2^16 times the sigmoid of i/24, and half of what a straight line misses in its middle."""

    def exact(x: Array) -> Array:
        return (1 << 16) / (1 + np.exp(-x / 24))

    x = np.arange(256)
    missed = exact(x + 0.5) - (exact(x) + exact(x + 1)) / 2
    values = np.floor(exact(x) + missed / 2 + 0.5).astype(np.int64)
    values[-1] = 0xFFFF
    return values
