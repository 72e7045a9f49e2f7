"""How far roundings carry in a program that rounds or compares floats: there a last bit decides.

Results are computed again with a little noise behind every op that rounds, as other orders of sums
and other approximations of functions would make it (as in stochastic arithmetic: Vignes 1993,
Mathematics and Computers in Simulation 35). Where a step then falls elsewhere, it may in an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from ml_dtypes import finfo

from ..dialects.interpret import run_module
from ..dialects.traits import AddsUp, Rounds, has
from ..ir.arrays import Array

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation


RUNS = 6
"""Runs with noise."""

SUM_NOISE, OP_NOISE = 1e-6, 2.5e-7
"""Noise of f32: behind sums of the largest result, behind other ops of each result by itself."""

GRIDS = (256, 16, 1)
"""Multiples of 1/256, 1/16 and 1 that fit in the mantissa are exact, in any order of a sum."""


@dataclass(frozen=True)
class Carried:
    """What roundings change of one result.

    Attributes:
        largest: difference of an element.
        share: of elements beyond a bound, the most of a run.
    """

    largest: float
    share: float


def carried(
    module: ModuleOp,
    inputs: Sequence[Array],
    exact: Sequence[Array],
    bounds: Sequence[float],
    seed: int = 0,
) -> list[Carried]:
    """What roundings change of each result of a program.

    Args:
        module: the program.
        inputs: of `@forward`.
        exact: its results without noise.
        bounds: for each result the difference from which on an element counts.
        seed: of the noise.
    """
    worst = [Carried(0.0, 0.0) for _ in exact]
    for run in range(RUNS):
        noisy = run_module(module, inputs, observer=_Noise(np.random.default_rng([seed, run])))
        for index, (want, got) in enumerate(zip(exact, noisy, strict=True)):
            if not want.size:
                continue
            gap = np.abs(want.astype(np.float64) - got.astype(np.float64))
            gap = gap[np.isfinite(gap)]
            one = Carried(
                float(gap.max(initial=0.0)), float((gap > bounds[index]).sum() / want.size)
            )
            old = worst[index]
            worst[index] = Carried(max(old.largest, one.largest), max(old.share, one.share))
    return worst


class _Noise:
    """Changes what ops give by about what roundings change."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random

    def __call__(
        self, op: Operation, operands: Sequence[Any], results: Sequence[Any]
    ) -> tuple[Any, ...] | None:
        if not has(op, Rounds):
            return None
        return tuple(self._noisy(op, np.asarray(result)) for result in results)

    def _noisy(self, op: Operation, x: Array) -> Array:
        if x.dtype.kind in "iub" or not x.size:
            return x
        wide = x.astype(np.float64)
        scale = np.abs(wide)
        eps = float(cast(Any, finfo)(x.dtype).eps)
        exact = np.zeros(x.shape, np.bool_)
        with np.errstate(invalid="ignore"):
            for grid in GRIDS:
                exact |= (scale * grid < 2 / eps) & (wide * grid % 1 == 0)
        unit = eps / float(np.finfo(np.float32).eps)
        amount = OP_NOISE * unit
        if has(op, AddsUp):
            largest = scale.max(initial=0.0, where=np.isfinite(scale))
            scale = np.where(scale > 0, largest, 0.0)  # a sum that is 0 is one of zeros
            exact = np.full(x.shape, exact.all())
            amount = SUM_NOISE * unit
        with np.errstate(all="ignore"):
            noisy = wide + amount * scale * self.random.uniform(-1, 1, x.shape)
        return np.where(exact, x, noisy.astype(x.dtype))
