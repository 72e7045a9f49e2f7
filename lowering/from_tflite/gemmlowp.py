"""Functions that LiteRT computes with its fixed-point library, as tables.

Sigmoid and hyperbolic tangent are tables of all 65,536 values, bit for bit those of
`gemmlowp::logistic` and `gemmlowp::tanh` (fixedpoint/fixedpoint.h) on `FixedPoint<int16_t, n>`: an
exponential of bits of the argument times a polynomial of four terms, then three steps of Newton's
division. Values are held in int64, and wrap or saturate where those of 16 bits do; so do the
exponentials of softmax where those of 32 bits do.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...ir.arrays import Array
from ..problems import refuse
from ..to_tflite.multipliers import multiplier_of

_BITS = 16
"""Of an integer, where nothing else is said."""

_LOW, _HIGH = -(1 << (_BITS - 1)), (1 << (_BITS - 1)) - 1

_ROOT_BITS = 20
"""Behind the point of a root's inverse."""

_FACTORS = {-2: 1672461947, -1: 1302514674, 0: 790015084, 1: 290630308, 2: 39332535, 3: 720401,
            4: 242}  # fmt: skip
"""exp(-2^n) in 31 bits."""


def sigmoid_table(integer_bits: int) -> Array:
    """1/(1 + exp(-x)) in 15 bits behind the point, int16.

    Args:
        integer_bits: of x, whose other bits but the sign stand behind the point.
    """
    return _table(integer_bits, is_tanh=False)


def tanh_table(integer_bits: int) -> Array:
    """tanh(x) in 15 bits behind the point, int16, for x as in `sigmoid_table`."""
    return _table(integer_bits, is_tanh=True)


def hard_swish_table(x: Array, scale: np.floating, result_scale: np.floating) -> Array:
    """x·min(max(x + 3, 0), 6)/6 in steps of the result, as `HardSwish` of LiteRT has it, int64.

    Args:
        x: integers of 8 bits without their zero point.
        scale: of their grid.
        result_scale: of the result's, whose zero point is not added yet.

    Raises:
        ProblemError: the result's grid is 2^8 times finer, which the kernel does not take.
    """
    fine = scale * np.float32(1 / 128)
    wide = x.astype(np.int64) << 7
    factor, exponent = _short(fine / result_scale)
    refuse(exponent > 0, "the scale of its result is too small for LiteRT")
    given = _product(wide, factor)
    factor, power = _short(fine / np.float32(3 / 32768))
    share = _times_power(wide, power - 1) if power > 0 else wide
    share = _product(share, factor)
    share = _times_power(share, 1 if power > 0 else power)
    share = (share + (1 << 15)) >> 1
    both = np.trunc(share * given / (1 << 15)).astype(np.int64)
    return _times_power(np.clip(both, _LOW, _HIGH), exponent)


def inverse_root_table(x: Array, scale: np.floating, result_scale: np.floating) -> Array:
    """1/√x in steps of the result, as `RsqrtEvalQuantizedInt8` of LiteRT has it, int64.

    Args:
        x: integers of 8 bits without their zero point; those below 1 give the largest i32.
        scale: of their grid.
        result_scale: of the result's, whose zero point is not added yet.
    """
    roots = np.rint((1 << _ROOT_BITS) / np.sqrt(np.maximum(x, 1))).astype(np.int64)
    factor = 1 / np.float64(np.sqrt(np.float32(scale)) * np.float32(result_scale))
    multiplier, exponent = (int(n) for n in multiplier_of(np.asarray(factor)))
    exponent -= _ROOT_BITS
    steps = (roots << max(exponent, 0)) * multiplier + (1 << 30) >> 31
    right = max(-exponent, 0)
    return np.where(x < 1, (1 << 31) - 1, steps + (1 << right >> 1) >> right)


def _short(factor: np.floating) -> tuple[int, int]:
    """A multiplier of 15 bits and an exponent."""
    multiplier, exponent = multiplier_of(np.asarray(factor, np.float64))
    return min(_constant(int(multiplier)), _HIGH), int(exponent)


@cache
def _table(integer_bits: int, *, is_tanh: bool) -> Array:
    x = np.arange(_LOW, _HIGH + 1, dtype=np.int64)
    size = _wrapped(np.where(x > 0, x, -x))
    powers = exp_of_negatives(_wrapped(-size), integer_bits + is_tanh)
    estimate = _inverse_of_mean_with_one(powers)
    if is_tanh:
        part = _times_power(_wrapped(estimate - (1 << 13)), 2)
        result = np.where(x == 0, 0, np.where(x < 0, -part, part))
    else:
        part = _times_power(estimate, 1)
        result = np.where(x == 0, 1 << 14, np.where(x > 0, part, _HIGH - part))
    return _wrapped(result).astype(np.int16)


def exp_of_negatives(a: Array, integer_bits: int, bits: int = _BITS) -> Array:
    """exp(a) in bits - 1 bits behind the point, for a ≤ 0 in fewer by `integer_bits`, int64."""
    fraction = bits - 1 - integer_bits
    quarter = (1 << fraction) >> 2
    below = (a & (quarter - 1)) - quarter
    result = _exp_near_zero(_times_power(below, integer_bits, bits), bits)
    rest = below - a
    for exponent, factor in _FACTORS.items():
        if integer_bits > exponent:
            bit = 1 << (fraction + exponent)
            result = np.where(rest & bit, _product(result, _constant(factor, bits), bits), result)
    return np.where(a == 0, (1 << (bits - 1)) - 1, result)


def _exp_near_zero(a: Array, bits: int) -> Array:
    """For -1/4 ≤ a < 0, around -1/8."""
    x = _wrapped(a + (1 << (bits - 4)), bits)
    x2 = _product(x, x, bits)
    x3, x4 = _product(x2, x, bits), _product(x2, x2, bits)
    inner = _wrapped(_times_power(x4, -2, bits) + x3, bits)
    inner = _product(inner, _constant(715827883, bits), bits)
    terms = _times_power(_wrapped(inner + x2, bits), -1, bits)
    start = np.asarray(_constant(1895147668, bits))
    limit = 1 << (bits - 1)
    return np.clip(start + _product(start, _wrapped(x + terms, bits), bits), -limit, limit - 1)


def _inverse_of_mean_with_one(a: Array) -> Array:
    """2/(1 + a), 2 bits before the point."""
    sums = a + _HIGH
    half = np.where(sums >= 0, (sums + 1) // 2, -((1 - sums) // 2))
    x = _wrapped(_constant(1515870810) + _product(half, _constant(-1010580540)))
    for _ in range(3):
        error = _wrapped((1 << 13) - _product(half, x))
        x = _wrapped(x + _times_power(_product(x, error), 2))
    return x


def _product(a: Array, b: Array | int, bits: int = _BITS) -> Array:
    """a·b/2^(bits - 1), halves up, saturated."""
    one = 1 << (bits - 1)
    return np.minimum(a * b + (one >> 1) >> (bits - 1), one - 1)


def _times_power(a: Array, exponent: int, bits: int = _BITS) -> Array:
    """a·2^exponent, halves away from zero, saturated."""
    if exponent >= 0:
        limit = 1 << (bits - 1)
        return np.clip(a << exponent, -limit, limit - 1)
    mask = (1 << -exponent) - 1
    return (a >> -exponent) + ((a & mask) > (mask >> 1) + (a < 0))


def _constant(value: int, bits: int = _BITS) -> int:
    """A constant of 32 bits as one of 16."""
    return value if bits > _BITS else (value + (1 << 15)) >> 16


def _wrapped(a: Array, bits: int = _BITS) -> Array:
    half = 1 << (bits - 1)
    return ((a + half) & (2 * half - 1)) - half
