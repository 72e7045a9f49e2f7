"""Levels and scales for the weights of a layer, from what its inputs are on samples.

A layer computes y = x·Wᵀ. Its rounded weights S·T (whole numbers T, a scale for each row) are
chosen so that the squared error of the sums, not of the weights, is small:

    minimise Σ (y - S·T·x̂ - b)² = (w - s·t)·H·(w - s·t) + const for each row, H = Σ x̂·x̂ᵀ,

where x̂ are the inputs that the layer will really see. Steps, for each row:

1. The real weights that are best for x̂ (for x̂ = x the given ones; Li et al. 2025, GPTAQ).
2. Rounding column by column, the error of each spread over the columns that are still free by the
   Cholesky factor of the damped inverse of H (Frantar et al. 2022, GPTQ, algorithm 1), the columns
   with the largest inputs first ("activation order"). This is done with several scales; the best
   one is kept for each row.
3. Coordinate descent: each level in turn takes its best value, then the scale, until nothing
   changes.

Every step keeps or lowers the error, and plain rounding is among the candidates: the result is
never worse than it. With levels -1, 0 and 1 they are trits. Not here: where inputs come from
(`compensated_layers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.arrays import Array
from ..requantize.integer_weights import least_error

Floats = NDArray[np.float64]

BLOCK = 128
"""Columns whose effect on later ones is gathered into one product."""

ROW_BYTES = 1 << 28
"""Rows are rounded for about this many bytes at a time."""

FACTORS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5)
"""The scales that trits are tried with, as shares of the scale that is best for the weights."""

FINE_FACTORS = (0.8, 0.9, 1.0, 1.1)
"""Those that more levels are tried with."""


@dataclass(frozen=True)
class Compensation:
    """How hard to look.

    Attributes:
        damping: what is added to the diagonal of H, as a share of its mean; above 0.
        sweeps: rounds of coordinate descent, at most.
        most: the largest level, 1 to 127: levels are -most … most.
    """

    damping: float = 0.01
    sweeps: int = 20
    most: int = 1

    @property
    def factors(self) -> tuple[float, ...]:
        """The scales that are tried."""
        return FACTORS if self.most == 1 else FINE_FACTORS


class Moments:
    """Sums over samples of the inputs of a layer and of the results that are wanted.

    Attributes:
        count: rows seen.
        squares: [groups, ins, ins]: Σ x·xᵀ.
        products: [groups, outs, ins]: Σ y·xᵀ.
        inputs: [groups, ins]: Σ x.
        targets: [groups, outs]: Σ y.
    """

    def __init__(self, groups: int, ins: int, outs: int) -> None:
        self.count = 0
        self.squares = np.zeros((groups, ins, ins))
        self.products = np.zeros((groups, outs, ins))
        self.inputs = np.zeros((groups, ins))
        self.targets = np.zeros((groups, outs))

    def add(self, inputs: Array, targets: Array) -> None:
        """Take in rows of inputs [groups, rows, ins] and of results [groups, rows, outs]."""
        x, y = inputs.astype(np.float64), targets.astype(np.float64)
        self.count += x.shape[1]
        self.squares += x.transpose(0, 2, 1) @ x
        self.products += y.transpose(0, 2, 1) @ x
        self.inputs += x.sum(axis=1)
        self.targets += y.sum(axis=1)

    def means(self) -> tuple[Floats, Floats]:
        """Of inputs [groups, ins] and results [groups, outs]."""
        return self.inputs / max(self.count, 1), self.targets / max(self.count, 1)

    def of_group(self, group: int, *, centred: bool) -> tuple[Floats, Floats]:
        """H [ins, ins] and Σ y·xᵀ [outs, ins], over the rows; `centred` about the means."""
        count = max(self.count, 1)
        squares, products = self.squares[group] / count, self.products[group] / count
        if centred:
            x, y = (means[group] for means in self.means())
            squares, products = squares - np.outer(x, x), products - np.outer(y, x)
        return squares, products


def rounded(
    weights: Array, hessian: Floats, products: Floats | None, options: Compensation
) -> tuple[NDArray[np.int8], Floats]:
    """Levels [outs, ins] and scales [outs], at least 0, for the weights of one group.

    Args:
        weights: [outs, ins], the given ones.
        hessian: [ins, ins], mean of x̂·x̂ᵀ.
        products: [outs, ins], mean of y·x̂ᵀ; `None` where x̂ are the inputs that y comes from.
        options: how hard to look.
    """
    exact = weights.astype(np.float64)
    hessian, added = damped(hessian, options.damping)
    if products is None:
        products, best = exact @ hessian, exact
    else:
        products = products + added * exact
        best = solved(hessian, products.T).T
    order = np.argsort(-np.diagonal(hessian), kind="stable")
    linalg: Any = np.linalg
    upper: Floats = linalg.cholesky(linalg.inv(hessian[np.ix_(order, order)])).T
    count = max(1, ROW_BYTES // (8 * len(options.factors) * max(1, hessian.shape[0])))
    parts: list[tuple[NDArray[np.int8], Floats]] = []
    for start in range(0, len(exact), count):
        rows = slice(start, start + count)
        candidates = [_nearest(best[rows], options.most), *_plain(exact[rows], options.most)]
        candidates += _sequential(best[rows], upper, order, options)
        levels, scales = _choose(candidates, hessian, products[rows])
        parts.append(_descended(levels, scales, hessian, products[rows], options))
    return np.concatenate([t for t, _ in parts]), np.concatenate([s for _, s in parts])


def damped(hessian: Floats, damping: float) -> tuple[Floats, float]:
    """H with a share of the mean of its diagonal added to it, and how much that is.

    Of inputs that hardly change nothing but rounding is left about their means, and H may have
    negative eigenvalues; then more is added, until half of it would do.
    """
    added = damping * float(np.mean(np.diagonal(hessian)))
    if not added > 0:
        added = float(np.abs(hessian).max(initial=0.0)) or 1.0
    one = np.eye(len(hessian))
    while not _is_positive(hessian + added / 2 * one):
        added *= 10
    return hessian + added * one, added


def _is_positive(matrix: Floats) -> bool:
    """Whether all eigenvalues of a symmetric matrix are above 0."""
    linalg: Any = np.linalg
    try:
        linalg.cholesky(matrix)
    except linalg.LinAlgError:
        return False
    return True


def solved(hessian: Floats, products: Floats) -> Floats:
    """H⁻¹·products."""
    linalg: Any = np.linalg
    return linalg.solve(hessian, products)


def squared_error(levels: Array, scales: Array, hessian: Floats, products: Floats) -> Floats:
    """The error of each row [outs], but for what is the same for all levels."""
    approximate = levels * scales[:, None]
    return np.sum(approximate @ hessian * approximate - 2 * approximate * products, axis=1)


def fitted(levels: Array, hessian: Floats, products: Floats) -> Floats:
    """The scale of each row [outs] with the least error; negative where the levels point away."""
    energy = np.sum(levels @ hessian * levels, axis=1)
    wanted = np.sum(levels * products, axis=1)
    return np.divide(wanted, energy, out=np.zeros(len(levels)), where=energy > 0)


def _nearest(weights: Floats, most: int) -> Floats:
    """The levels nearest to the weights for the best scale of each row, [outs, ins]."""
    scales = _scales(weights, most)[:, None]
    return np.clip(np.rint(weights / np.where(scales > 0, scales, 1.0)), -most, most)


def _scales(weights: Floats, most: int) -> Floats:
    """The scale of each row that leaves the least squared error of the weights.

    For trits the k largest magnitudes become ±1; their mean is the scale. All k are tried.
    """
    if most > 1:
        return least_error(weights, most)
    sizes = -np.sort(-np.abs(weights), axis=1)
    counts = np.arange(1, sizes.shape[1] + 1, dtype=np.float64)
    sums = np.cumsum(sizes, axis=1)
    best = np.argmax(sums**2 / counts, axis=1)
    return np.take_along_axis(sums, best[:, None], axis=1)[:, 0] / counts[best]


def _plain(weights: Floats, most: int) -> list[Floats]:
    """What each row gets by itself; for trits by the rules `twn` and `absmean`."""
    if most > 1:
        return [_nearest(weights, most)]
    sizes = np.abs(weights)
    mean = sizes.mean(axis=1, keepdims=True)
    return [np.sign(weights) * (sizes > share * mean) for share in (0.7, 0.5)]


def _sequential(
    weights: Floats, upper: Floats, order: Array, options: Compensation
) -> list[Floats]:
    """The levels [outs, ins] of GPTQ for each of the factors.

    Args:
        weights: [outs, ins].
        upper: U [ins, ins] with H⁻¹ = Uᵀ·U, its rows and columns in `order`.
        order: of the columns.
    """
    outs, ins = weights.shape
    most, factors = options.most, options.factors
    scales = _scales(weights, most)
    steps = np.concatenate([scales * factor for factor in factors])
    divisors = np.where(steps > 0, steps, 1.0)
    # Columns of the weights are rows here: each is changed as a whole.
    free = np.ascontiguousarray(np.tile(weights[:, order].T, len(factors)))
    levels = np.zeros_like(free)
    for start in range(0, ins, BLOCK):
        stop = min(start + BLOCK, ins)
        errors = np.empty((stop - start, free.shape[1]))
        for column in range(start, stop):
            levels[column] = np.clip(np.rint(free[column] / divisors), -most, most)
            error = (free[column] - levels[column] * steps) / upper[column, column]
            free[column:stop] -= upper[column, column:stop, None] * error
            errors[column - start] = error
        free[stop:] -= upper[start:stop, stop:].T @ errors
    signs = np.empty_like(levels)
    signs[order] = levels
    return [signs[:, n * outs : (n + 1) * outs].T for n in range(len(factors))]


def _choose(candidates: list[Floats], hessian: Floats, products: Floats) -> tuple[Floats, Floats]:
    """For each row the levels with the least error, with their best scale; the first if equal."""
    chosen, scales, least = candidates[0], np.empty(0), np.empty(0)
    for number, levels in enumerate(candidates):
        fit = fitted(levels, hessian, products)
        error = squared_error(levels, fit, hessian, products)
        if not number:
            scales, least = fit, error
            continue
        better = error < least
        chosen = np.where(better[:, None], levels, chosen)
        scales, least = np.where(better, fit, scales), np.where(better, error, least)
    return chosen, scales


def _descended(
    levels: Floats, scales: Floats, hessian: Floats, products: Floats, options: Compensation
) -> tuple[NDArray[np.int8], Floats]:
    """Levels and scales after coordinate descent; scales are not negative."""
    levels = np.ascontiguousarray(levels.T)  # [ins, outs]
    curvature = np.diagonal(hessian)
    for _ in range(options.sweeps):
        levels, scales = levels * np.where(scales < 0, -1, 1), np.abs(scales)
        slope = np.ascontiguousarray((products - (levels.T * scales[:, None]) @ hessian).T)
        steps = np.where(scales > 0, scales, 1.0)
        changed = _sweep(levels, steps, hessian, slope, curvature, options.most)
        scales = fitted(levels.T, hessian, products)
        if not changed:
            break
    levels, scales = levels.T * np.where(scales < 0, -1, 1)[:, None], np.abs(scales)
    return levels.astype(np.int8), scales


def _sweep(
    levels: Floats, scales: Floats, hessian: Floats, slope: Floats, curvature: Floats, most: int
) -> bool:
    """Give each level in turn its best value, in place; whether any changed."""
    changed = False
    for column in range(len(levels)):
        if curvature[column] <= 0:
            continue
        best = levels[column] + slope[column] / (curvature[column] * scales)
        step = np.clip(np.rint(best), -most, most) - levels[column]
        rows = np.flatnonzero(step)
        if rows.size:
            slope[:, rows] -= hessian[:, column, None] * (step[rows] * scales[rows])
            levels[column] += step
            changed = True
    return changed
