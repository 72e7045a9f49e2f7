"""Integer rescalings in float32 that give the same byte for every sum there may be.

A rescaling is a step function of its sum, which grows; so are the forms of floats here. Two such
functions are equal if their steps are: 255 sums decide for each channel, and the sum before each.
Nothing is assumed of the search: numbers are taken if they have every step.

- `scales_of`: what ONNX Runtime's integer kernels do (MLAS, `MlasRequantizeOutput`),
  round(float32(sum + bias)·scale) + zero point, halves to even, then the bounds of bytes.
- `lines_of`: round((sum - centre)/scale) + zero point, where the centre is a multiple of 2^-n, so
  small that a product of floats with it in the bias is exact, and the zero point is the channel's
  own: there are 256 of them, and behind some the centre is near such a multiple. LiteRT rounds
  twice (`lowering.from_tflite.fixed_point`), which moves all steps by a fraction of a sum.
- `signed_of`: round((sum ± offset)/scale) + zero point with the sum's sign, for sums of both signs,
  since LiteRT's second rounding takes halves away from zero.
- `rounded_of`: round(round(sum·factor)/scale) + zero point, the first product in float64, which has
  more bits.
- `factors_of`: round(float32(a·α) + float32(b·β)) + zero point, for two bytes less their zeros; all
  pairs of bytes are compared, and also what the kernel makes of it that these operators become.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .graph import Array

SHIFTS = (0, 1, -1, 2, -2)
"""What may be added to a bias; two roundings differ from one by less than two sums."""

NEIGHBOURS = (0, 1, -1, 2, -2, 4, -4)
"""Floats beside the middle of the interval that are tried, in units in the last place."""


@dataclass(frozen=True)
class Steps:
    """Where a rescaling steps.

    Attributes:
        sums: [channels, steps], the least sum that gives a level or more.
        levels: [steps], these levels, zero point included.
        zero: the zero point.
        occurs: [channels, steps], whether the sum occurs.
        before: [channels, steps], whether the sum before occurs.
    """

    sums: Array
    levels: Array
    zero: int
    occurs: Array
    before: Array

    def of(self, channels: Array) -> Steps:
        """Those of some channels."""
        rows = (self.sums[channels], self.occurs[channels], self.before[channels])
        return Steps(rows[0], self.levels, self.zero, *rows[1:])

    def made_by(self, rescale: Callable[[Array], Array], zero: int | Array) -> Array:
        """[channels], whether a rescaling that does not fall, less its zero, has all steps."""
        edge = self.levels - np.reshape(zero, (-1, 1))
        has: Array = (rescale(self.sums) >= edge) | ~self.occurs
        lacks: Array = (rescale(self.sums - 1) < edge) | ~self.before
        return np.logical_and.reduce(has & lacks, axis=1)


def steps_of(
    rescale: Callable[[Array], Array], low: Array, high: Array, bounds: tuple[int, int], zero: int
) -> Steps:
    """The steps of a rescaling that does not fall.

    Args:
        rescale: of sums [channels, n], with the bounds of the result.
        low, high: [channels], the sums there may be.
        bounds: of the result.
        zero: the zero point of the result.
    """
    levels = np.arange(bounds[0] + 1, bounds[1] + 1)
    shape = (low.size, levels.size)
    left = np.broadcast_to(low[:, None], shape).astype(np.int64)  # may have the level
    right = np.broadcast_to(high[:, None] + 1, shape).astype(np.int64)  # has, or is beyond
    while (left < right).any():
        middle = (left + right) >> 1
        has = rescale(middle) >= levels
        right = np.where(has & (left < right), middle, right)
        left = np.where(~has & (left < right), middle + 1, left)
    return Steps(right, levels, zero, right <= high[:, None], right > low[:, None])


def scales_of(steps: Steps) -> tuple[Array, Array] | None:
    """A float32 scale and a change of the bias, [channels] each, with all steps."""
    channels = len(steps.sums)
    scales, shifts = np.zeros(channels, np.float32), np.zeros(channels, np.int64)
    found = np.zeros(channels, bool)
    for shift in SHIFTS:
        middle = _middle(steps, shift)
        for ulps in NEIGHBOURS:
            scale = (middle.view(np.int32) + np.int32(ulps)).view(np.float32)
            fits = np.isfinite(scale) & (scale > 0) & ~found & _has(steps, scale, shift)
            scales, shifts = np.where(fits, scale, scales), np.where(fits, shift, shifts)
            found |= fits
        if found.all():
            return scales.astype(np.float32), shifts
    return None


@dataclass(frozen=True)
class Line:
    """round((sum - centre + sign(sum)·offset)/scale) + zero; [channels] each.

    Attributes:
        centre: float64, a multiple of the fraction that was asked for.
        scale: float32.
        zero: a level, by which centres differ.
        offset: float32, and then centres are 0.
    """

    centre: Array
    scale: Array
    zero: Array
    offset: Array | None = None


def lines_of(steps: Steps, factors: Array, most: Array, fractions: Array) -> Line | None:
    """What has all steps, for a rescaling by about `factors`, [channels].

    Args:
        most: [channels], how large centres may be.
        fractions: powers of two, [channels], whose multiples they are.
    """
    channels, zeros = len(factors), np.arange(-SPAN, SPAN)
    with np.errstate(divide="ignore"):
        nearest = (1 / factors).astype(np.float32)
    scales = [(nearest.view(np.int32) + np.int32(n)).view(np.float32) for n in WIDTH]
    tries: list[Array] = []
    for scale in scales:
        # sum - centre ≥ (level - zero - 1/2)·scale, and not for the sum before.
        bound = steps.sums - (steps.levels - 0.5) * scale[:, None].astype(np.float64)
        high = np.where(steps.occurs, bound, np.inf).min(axis=1, initial=np.inf)
        low = np.where(steps.before, bound - 1, -np.inf).max(axis=1, initial=-np.inf)
        high = np.where(np.isfinite(high), high, np.where(np.isfinite(low), low + 1, 0.5))
        low = np.where(np.isfinite(low), low, high - 1)
        middle = ((low + high) / 2)[:, None] + zeros * scale[:, None].astype(np.float64)
        below = np.floor(middle / fractions[:, None])
        for centre in (below * fractions[:, None], (below + 1) * fractions[:, None]):
            margin = (high - low)[:, None] / 2 - np.abs(centre - middle)
            tries.append(
                np.stack([np.where(np.abs(centre) > most[:, None], -np.inf, margin), centre])
            )
    margins, centres = np.stack(tries, axis=2).reshape(2, channels, -1)
    best = np.sort(np.argpartition(-margins, MOST, axis=1)[:, :MOST], axis=1)
    inside = np.argsort(-np.take_along_axis(margins, best, axis=1), axis=1, kind="stable")
    order = np.take_along_axis(best, inside, axis=1)
    found = Line(np.zeros(channels), np.ones(channels, np.float32), np.zeros(channels, np.int64))
    left = np.arange(channels)
    for place in order.T:
        at, zero = np.divmod(place[left], len(zeros))
        centre, scale = centres[left, place[left]], np.stack(scales)[at // 2, left]
        fits = steps.of(left).made_by(_line(centre, scale), zeros[zero])
        if not np.isfinite(margins[left, place[left]]).all():
            return None
        found.centre[left[fits]], found.scale[left[fits]] = centre[fits], scale[fits]
        found.zero[left[fits]] = zeros[zero][fits]
        left = left[~fits]
        if not left.size:
            return found
    return None


def _line(centre: Array, scale: Array) -> Callable[[Array], Array]:
    return lambda sums: np.rint((sums - centre[:, None]).astype(np.float32) / scale[:, None])


SPAN = 128
"""Zero points are from -128 to 127."""

WIDTH = sorted(range(-6, 7), key=abs)
"""Floats beside a scale that are tried, in units in the last place."""

ROUNDING = 2.0**-16
"""By about how much float32 moves a level, twice over."""

MOST = 1000
"""How many of a channel's centres and scales are compared with its steps."""


def signed_of(steps: Steps, factors: Array) -> Line | None:
    """What has all steps, for a rescaling by about `factors`, [channels]."""
    edge = (steps.levels - steps.zero)[None, :]
    side: Array = np.where(edge > 0, 1.0, -1.0)
    ones = np.ones(len(factors), np.float32)
    offsets = 0 * ones
    found = Line(0.0 * ones, ones, np.full(len(factors), steps.zero), offsets)
    left, nearest = np.arange(len(factors)), (1 / factors).astype(np.float32)
    for ulps in sorted(range(-REACH, REACH + 1), key=abs):
        scale, here = (
            (nearest[left].view(np.int32) + np.int32(ulps)).view(np.float32),
            steps.of(left),
        )
        bound: Array = side * ((edge - 0.5) * scale[:, None].astype(np.float64) - here.sums)
        above, below = here.occurs & (side > 0), here.before & (side < 0)
        low = np.where(above, bound, np.where(below, bound - 1, -2.0)).max(axis=1, initial=-2)
        above, below = here.before & (side > 0), here.occurs & (side < 0)
        high = np.where(above, bound + 1, np.where(below, bound, 2.0)).min(axis=1, initial=2)
        for part in PARTS:
            offset = (low + (high - low) * part).astype(np.float32)
            fits = steps.of(left).made_by(_signed(offset, scale), steps.zero)
            offsets[left[fits]], found.scale[left[fits]] = offset[fits], scale[fits]
            left, low, high, scale = left[~fits], low[~fits], high[~fits], scale[~fits]
            if not left.size:
                return found
    return None


def _signed(offset: Array, scale: Array) -> Callable[[Array], Array]:
    def rescale(sums: Array) -> Array:
        wide = sums.astype(np.float32)
        return np.rint((wide + np.sign(wide) * offset[:, None]) / scale[:, None])

    return rescale


PARTS = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9, 0.0, 1.0)
"""Where in its interval an offset is tried."""


@dataclass(frozen=True)
class Rounded:
    """round(round(sum·factor)/scale) + zero; [channels] but for `zero`.

    Attributes:
        factor: float64.
        scale: float32.
        zero: the level of 0.
    """

    factor: Array
    scale: Array
    zero: int


def rounded_of(steps: Steps, factors: Array, scales: Array) -> Rounded | None:
    """What has all steps, for sums times `factors` over `scales`, [channels]."""

    def rescale(sums: Array) -> Array:
        return np.rint(np.rint(sums * factors[:, None]).astype(np.float32) / found.scale[:, None])

    # A scale a little smaller takes halves away from zero.
    for less in (2.0**-20, 0.0, 2.0**-22, 2.0**-18):
        found = Rounded(factors, (scales * (1 - less)).astype(np.float32), steps.zero)
        if steps.made_by(rescale, steps.zero).all():
            return found
    return None


def _middle(steps: Steps, shift: int) -> Array:
    """The middle of the scales that have all steps, were they real numbers, as float32."""
    edge = (steps.levels - steps.zero - 0.5)[None, :]
    low, high = np.zeros(len(steps.sums)), np.full(len(steps.sums), np.inf)
    for sums, above, reached in (
        (steps.sums + shift, True, steps.occurs), (steps.sums - 1 + shift, False, steps.before)
    ):  # fmt: skip
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = edge / sums
        # sum·scale ≥ edge bounds the scale from below where the sum is positive.
        least = reached & ((sums > 0) == above) & (sums != 0)
        most = reached & ((sums > 0) != above) & (sums != 0)
        low = np.maximum(low, np.where(least, bound, 0).max(axis=1, initial=0))
        high = np.minimum(high, np.where(most, bound, np.inf).min(axis=1, initial=np.inf))
    low = np.where(low > 0, low, np.where(np.isfinite(high), high / 2, 1.0))
    high = np.where(np.isfinite(high), high, low * 2)
    return np.maximum((low + high) / 2, 1e-30).astype(np.float32)


def _has(steps: Steps, scale: Array, shift: int) -> Array:
    """[channels], whether float32 arithmetic has all steps."""
    return steps.made_by(
        lambda sums: np.rint((sums + shift).astype(np.float32) * scale[:, None]), steps.zero
    )


@dataclass(frozen=True)
class Factors:
    """Of two bytes less their zeros.

    Attributes:
        factors: float32, two.
        zeros: of the bytes, and of their sum.
        joined: whether the kernel that ONNX Runtime joins the operators to gives the same, in each
            of its forms.
    """

    factors: Array
    zeros: tuple[int, int, int]
    joined: bool


def factors_of(table: Array, zero: int, zeros: tuple[int, int], about: Array) -> Factors | None:
    """Two float32 factors with which the sum of two bytes gives a table.

    Args:
        table: [256, 256], the levels for the bytes from -128 on.
        zero: the zero point of the levels.
        zeros: those of the bytes.
        about: two numbers near the factors.
    """
    found: Factors | None = None
    for factors in _far_from_steps(table, zero, zeros, about.astype(np.float32)):
        tried = Factors(factors, (*zeros, zero), True)
        if not _has_table(table, tried):
            continue
        if _joined(table, tried):
            return tried
        found = found or Factors(factors, tried.zeros, False)
    moved = _with_other_zeros(table, zero, zeros, about) if (about > 0).all() else iter(())
    return next((f for f in moved if _has_table(table, f) and _joined(table, f)), found)


def _has_table(table: Array, found: Factors) -> bool:
    """Whether single operators give a table."""
    *zeros, zero = found.zeros
    a, b = ((np.arange(-128, 128) - z).astype(np.float32) for z in zeros)
    sums = np.rint(a[:, None] * found.factors[0] + b[None, :] * found.factors[1]) + zero
    return np.array_equal(np.clip(sums, table.min(), table.max()), table)


def factor_of_product(table: Array, zeros: tuple[int, int, int], about: float) -> np.float32 | None:
    """A float32 factor with which the product of two bytes gives a table.

    Both single operators and each form of `MlasQLinearMul` give it, in UINT8: one product, a sum
    with the zero point that may be fused with it, and halves to even or away from zero.

    Args:
        table: [256, 256], the levels for the bytes from -128 on.
        zeros: those of the bytes, and of the levels.
        about: a number near the factor.
    """
    low, high = table.min(), table.max()
    a, b = (np.arange(-128.0, 128.0, dtype=np.float32) - np.float32(z) for z in zeros[:2])
    whole, point = (a[:, None] * b).astype(np.float64), np.float32(zeros[2] + 128)
    for ulps in NEIGHBOURS:
        factor = (np.float32(about).view(np.int32) + np.int32(ulps)).view(np.float32)
        single = np.rint((a[:, None] * factor) * b) + zeros[2]
        exact = whole * np.float64(factor)
        sums = [exact.astype(np.float32) + point, (exact + point).astype(np.float32)]
        forms = [
            single,
            *(np.rint(s) - 128 for s in sums),
            *(np.floor(s + 0.5) - 128 for s in sums),
        ]
        if all(np.array_equal(np.clip(form, low, high), table) for form in forms):
            return factor
    return None


REACH = 32
"""How many floats on each side of a factor are tried."""

TRIED = 64
"""How many pairs of factors are compared with a whole table."""


def _far_from_steps(
    table: Array, zero: int, zeros: tuple[int, int], about: Array
) -> Iterator[Array]:
    """Pairs of factors near `about`, those first whose sums stay farthest from the steps."""
    a, b = (np.arange(-128.0, 128.0) - z for z in zeros)
    moves = np.arange(-REACH, REACH + 1, dtype=np.int32)
    around = [(f.view(np.int32) + moves).view(np.float32) for f in about]
    tried = [np.where(f == f, f, 0).astype(np.float64) for f in around]  # below 0 are no numbers
    reach = [np.abs(part).max() * np.ptp(f) for part, f in zip((a, b), tried, strict=True)]
    sums = a[:, None] * np.float64(about[0]) + b[None, :] * np.float64(about[1]) + zero - table
    margin = np.full((len(moves), len(moves)), np.inf)
    for side, has_step in ((1, table > table.min()), (-1, table < table.max())):
        near = has_step & (0.5 + side * sums <= sum(reach))
        for i, j in zip(*np.nonzero(near), strict=True):
            at = a[i] * tried[0][:, None] + b[j] * tried[1][None, :] + zero - table[i, j]
            np.minimum(margin, 0.5 + side * at, out=margin)
    distance = np.abs(moves)[:, None] + np.abs(moves)
    order = np.lexsort((distance.ravel(), -margin.ravel()))[:TRIED]
    for place in zip(*np.unravel_index(order, margin.shape), strict=True):
        yield np.array([f[k] for f, k in zip(tried, place, strict=True)], np.float32)


NEAR = 3
"""How many factors on each side, of the bits that ARM's kernel has, are tried with other zeros."""

BEST = 8
"""With so many of other zeros the floats beside these factors are compared with a whole table."""


def _with_other_zeros(
    table: Array, zero: int, zeros: tuple[int, int], about: Array
) -> Iterator[Factors]:
    """Factors near `about` with zeros that move all sums by a fraction, away from the steps.

    They are those of few bits that ARM's kernel has, and floats beside, which it rounds to them.
    """
    a, b = (np.arange(-128.0, 128.0) - z for z in zeros)
    points, shift = np.arange(-128, 128), _shift(about)
    whole = np.rint(np.ldexp(about, shift))
    tries = list[tuple[float, Array, tuple[int, int, int]]]()
    for move in np.ndindex(2 * NEAR + 1, 2 * NEAR + 1):
        factors = np.ldexp(whole + move - NEAR, -shift)
        sums = a[:, None] * factors[0] + b[None, :] * factors[1] + zero - table
        low = -0.5 - sums[table > table.min()].min(initial=np.inf)
        high = 0.5 - sums[table < table.max()].max(initial=-np.inf)
        if not np.isfinite(high - low) or high <= low:
            continue
        moved = (zeros[0] - points)[:, None] * factors[0] + (zeros[1] - points) * factors[1]
        rest = (low + high) / 2 - moved
        third = np.rint(rest)
        margin = (high - low) / 2 - np.abs(rest - third)
        margin[(zero + third < -128) | (zero + third > 127)] = -1
        for place in np.argsort(-margin, axis=None, kind="stable")[:BEST]:
            i, j = divmod(int(place), len(points))
            if margin[i, j] > 0:
                moved_zeros = (int(points[i]), int(points[j]), zero + int(third[i, j]))
                tries.append((float(margin[i, j]), factors.astype(np.float32), moved_zeros))
    for _, factors, moved_zeros in sorted(tries, key=lambda one: -one[0])[:BEST]:
        for ulps in sorted(np.ndindex(3, 3), key=lambda move: abs(move[0] - 1) + abs(move[1] - 1)):
            beside = factors.view(np.int32) + np.array(ulps, np.int32) - 1
            yield Factors(beside.view(np.float32), moved_zeros, True)


LEAST = 2.0**-10
"""The least factor of such a sum; ARM's kernel takes others than from 2^-14 to 2^8 otherwise."""


def _shift(factors: Array) -> int:
    """Bits behind the point of ARM's multipliers."""
    return 21 - (int(np.frexp(factors.max())[1]) - 1)


def _joined(table: Array, found: Factors) -> bool:
    """Whether all forms of `MlasQLinearAdd` give the table, in UINT8.

    On x86 floats, whose products may be fused with the sums or not; on ARM multipliers of 22 bits
    and halves away from zero.
    """
    factors, (*zeros, zero) = found.factors, found.zeros
    if not ((factors >= LEAST) & (factors < 2.0**8)).all():
        return False
    bytes_, low, high = np.arange(256), table.min(), table.max()
    points = [z + 128 for z in zeros]
    parts = [
        np.float32(part)
        for part in (
            np.float32(factors[0] * np.float32(points[0])) + np.float64(factors[1]) * points[1],
            np.float64(factors[0]) * points[0] + np.float32(factors[1] * np.float32(points[1])),
            np.float32(factors[0] * np.float32(points[0]))
            + np.float32(factors[1] * np.float32(points[1])),
        )
    ]
    exact = [np.float64(f) * bytes_ for f in factors]
    sides = [exact[0][:, None], exact[1][None, :]]
    for fixed in {np.float32(np.float32(zero + 128) - part) for part in parts}:
        for kind in (np.float32, np.float64):  # a product of its own is rounded, a fused one not
            for first, second in (sides, sides[::-1]):
                inner = (np.float64(fixed) + first.astype(kind)).astype(np.float32)
                sums = (np.float64(inner) + second.astype(kind)).astype(np.float32)
                if not np.array_equal(np.clip(np.rint(sums) - 128, low, high), table):
                    return False
    shift = _shift(factors)
    whole = np.rint(np.ldexp(factors.astype(np.float64), shift)).astype(np.int64)
    total = (bytes_ - points[0])[:, None] * whole[0] + (bytes_ - points[1])[None, :] * whole[1]
    steps = (total - (total < 0) + (1 << (shift - 1))) >> shift
    return np.array_equal(np.clip(steps + zero, low, high), table)
