"""Weights as Loihi holds them: 8 bits, with a sign or of one sign, and an exponent for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.arrays import Array

MOST_EXPONENT = 7
"""Of weights; Lava moves a sum by it."""

LOWEST, HIGHEST = -256, 254
"""Mantissas of both signs, which are even; those of one sign go to 255."""


@dataclass(frozen=True, eq=False)
class Weights:
    """Whole numbers as mantissa·2^exponent.

    Attributes:
        mantissa: i32, as Lava's Dense takes it.
        exponent: -1 to 7; with -1 all mantissas are even.
    """

    mantissa: Array
    exponent: int

    @property
    def values(self) -> Array:
        """What they stand for, i64."""
        return (self.mantissa.astype(np.int64) << (self.exponent + 1)) >> 1


def as_held(values: Array) -> Weights | None:
    """Whole numbers in the chip's form; `None` where it has none for them.

    Weights of both signs have even mantissas, since the lowest bit is the sign: Lava rounds others
    down to even.

    Args:
        values: i64, any shape.
    """
    mixed = bool((values < 0).any() and (values > 0).any())
    low, high, first = (LOWEST, HIGHEST, -1) if mixed else (-255, 255, 0)
    for exponent in range(first, MOST_EXPONENT + 1):
        mantissa = (values << 1) >> (exponent + 1)
        if low <= mantissa.min(initial=0) and mantissa.max(initial=0) <= high:
            even = not mixed or not (mantissa % 2).any()
            held = Weights(mantissa.astype(np.int32), exponent)
            return held if even and (held.values == values).all() else None
    return None
