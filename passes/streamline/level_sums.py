"""Sums of two values on grids: integers that tell all sums apart, whatever the steps are.

Not here: the ops that compute them (`level_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from ...dialects import tensor
from ...dialects.parameters import Array
from .level_functions import LevelGrid, NoFunctionError, of_type, with_common_step

MOST_PAIRS = 1 << 20
"""So many pairs of integers are looked at one by one."""

_FINEST = 14
"""Steps of two grids are whole multiples of one up to two to this power times finer."""

ROUNDED = 2.0**-23
"""How far sums lie below others that are smaller, for their size, by the rounding of floats."""

Sums = tuple[float, tuple[int, int], Callable[[Array], Array] | None]


def summed(op: tensor.AddOp | tensor.SubOp, a: LevelGrid, b: LevelGrid) -> Sums:
    """A sum or difference of two values as that of multiples of their integers.

    Two steps are any whole multiples of a third one that rank all pairs as their sums do.

    Returns:
        The step of the integers, by what to multiply those of a and b, and what they stand for,
        exactly, if each stands for one float.

    Raises:
        NoFunctionError: there are too many pairs, or no such step.
    """
    try:
        step, (first, second), _ = with_common_step([a, b], offsets=False)
    except NoFunctionError:
        for step, factors in _steps(a.scale, b.scale):
            exactly = _ranked(op, a, b, step, factors)
            if exactly is not None:
                return step, factors, exactly
        raise
    return step, (first, second), _ranked(op, a, b, step, (first, second))


def _steps(a: float, b: float) -> Iterator[tuple[float, tuple[int, int]]]:
    """Ever finer steps of which both are nearly whole multiples, and which ones."""
    before = None
    for power in range(_FINEST + 1):
        ratio = Fraction(a / b).limit_denominator(1 << power)
        if ratio and ratio != before:
            yield b / ratio.denominator, ratio.as_integer_ratio()
        before = ratio


def _ranked(
    op: tensor.AddOp | tensor.SubOp,
    a: LevelGrid,
    b: LevelGrid,
    step: float,
    factors: tuple[int, int],
) -> Callable[[Array], Array] | None:
    """Integer sums to the floats that they stand for; `None` for no function that rises."""
    parts = [np.arange(grid.bounds[0], grid.bounds[1] + 1) for grid in (a, b)]
    if parts[0].size * parts[1].size > MOST_PAIRS:
        return None
    combined = np.add if isinstance(op, tensor.AddOp) else np.subtract
    integers = combined.outer(*(n * part for n, part in zip(factors, parts, strict=True)))
    left, right = of_type(op.lhs, a.real(parts[0])), of_type(op.rhs, b.real(parts[1]))
    order = integers.reshape(-1).argsort(kind="stable")
    sums = integers.reshape(-1)[order]
    values = combined.outer(left, right).reshape(-1)[order].astype(np.float64)
    falls = -np.diff(values)
    noise = ROUNDED * np.abs(values).max()
    if (falls[np.diff(sums) == 0] != 0).any() or falls.max(initial=0.0) > noise:
        return None
    known, first = np.unique(sums, return_index=True)
    # Between them lie integers that no pair has.
    return lambda points: np.interp(points, known, values[first])


def ranks_as(values: Array, integers: Array) -> bool:
    """Whether integers rank as the values do, but for what floats of their size are rounded by."""
    order = integers.reshape(-1).argsort(kind="stable")
    known = integers.reshape(-1)[order]
    real = values.astype(np.float64).reshape(-1)[order]
    _, first = np.unique(known, return_index=True)
    least, most = np.minimum.reduceat(real, first), np.maximum.reduceat(real, first)
    near = ROUNDED * np.abs(real).max()
    above = np.maximum.accumulate(most)
    return bool(((most - least) <= near).all() and (above[:-1] - least[1:] <= near).all())
