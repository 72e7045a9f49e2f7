"""The cheapest integer rescaling that gives the same steps.

`tensor.requantize` multiplies by 31 bits. Over the few integers that an accumulator can hold, a
multiplier of a few bits, or a handful of thresholds, gives the same result for every one of them.
Nothing here builds a circuit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_STEPS = 1024
"""Results with more different values keep the multiplier that the program has."""


@dataclass(frozen=True)
class Rescaling:
    """⌊(u·multiplier + addend) / 2^shift⌋."""

    multiplier: int
    addend: int
    shift: int

    def __call__(self, u: int) -> int:
        """The result for one number."""
        return (u * self.multiplier + self.addend) >> self.shift

    @property
    def adders(self) -> int:
        """The additions it takes."""
        return max(len(signed_digits(self.multiplier)) - 1, 0) + bool(self.addend)


def signed_digits(number: int) -> list[tuple[int, int]]:
    """The canonical signed digits of a number: (place, ±1), lowest first, no two neighbours.

    Reitwiesner 1960: no other way to write it as a sum of ±2^place has fewer terms.
    """
    digits: list[tuple[int, int]] = []
    place = 0
    while number:
        if number & 1:
            digit = 2 - (number & 3)
            digits.append((place, digit))
            number -= digit
        number >>= 1
        place += 1
    return digits


def steps(rescaling: Rescaling, first: int, last: int) -> list[int]:
    """For y = first+1 … last the least u with rescaling(u) ≥ y; the multiplier is positive."""
    return [
        -((rescaling.addend - (y << rescaling.shift)) // rescaling.multiplier)
        for y in range(first + 1, last + 1)
    ]


def cheapest(rescaling: Rescaling, first: int, last: int) -> Rescaling:
    """One that takes few adders and has the same `steps`, so that clamped to [first, last] it gives
    the same results; the multiplier is positive."""
    if not 0 < last - first <= MOST_STEPS:
        return rescaling
    places = steps(rescaling, first, last)
    best = rescaling
    tried = 0
    for shift in range(rescaling.shift):
        ideal = rescaling.multiplier >> (rescaling.shift - shift)
        candidates = list(_with_shift(places, first, shift, range(max(ideal - 2, 1), ideal + 4)))
        best = min([best, *candidates], key=lambda r: (r.adders, r.multiplier))
        tried += bool(candidates)
        if tried == 4:
            break
    return best


def _with_shift(
    places: Sequence[int], first: int, shift: int, multipliers: range
) -> Iterator[Rescaling]:
    """For each multiplier the addend nearest to 0 that gives those steps, if there is one."""
    for multiplier in multipliers:
        least = max(
            ((first + 1 + k) << shift) - place * multiplier for k, place in enumerate(places)
        )
        most = min(
            ((first + 1 + k) << shift) - (place - 1) * multiplier - 1
            for k, place in enumerate(places)
        )
        if least <= most:
            yield Rescaling(multiplier, min(max(least, 0), most), shift)
