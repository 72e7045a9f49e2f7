"""Memory planning: temporary buffers that are not needed at once share the workspace.

Offsets are polynomials in the batch with coefficients that are multiples of 64. Buffers of
k·batch^p bytes are packed beside each other for each power p; those of several powers get slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .sizes import ZERO, Size
from .views import Buffer


@dataclass(frozen=True)
class Lifetime:
    """A buffer and the first and last step that need it."""

    buffer: Buffer
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Whether both are needed at once."""
        return self.first <= other.last and other.first <= self.last


def plan(lifetimes: Sequence[Lifetime]) -> Size:
    """Give every buffer its offset; the size of the workspace."""
    powers = sorted({_power(life) for life in lifetimes} - {None}, key=lambda p: p or 0)
    total = ZERO
    for power in powers:
        group = [life for life in lifetimes if _power(life) == power]
        total = total + _pack(group, power or 0, total)
    return _slots([life for life in lifetimes if _power(life) is None], total)


def _power(life: Lifetime) -> int | None:
    """p for a buffer of k·batch^p bytes, `None` for other ones."""
    powers = [power for power, c in enumerate(life.buffer.size.coefficients) if c]
    if not powers:
        return 0
    return powers[0] if len(powers) == 1 else None


def _pack(lifetimes: Sequence[Lifetime], power: int, start: Size) -> Size:
    """Each, the largest first, at the lowest place where nothing else is while it lives."""
    unit = Size.of(*[0] * power, 1)
    placed: list[tuple[int, int, Lifetime]] = []
    end = 0
    for life in sorted(lifetimes, key=lambda life: -life.buffer.size.coefficient(power)):
        need = life.buffer.size.aligned().coefficient(power)
        place = 0
        for begin, after, _ in sorted(
            (b, a, i) for i, (b, a, other) in enumerate(placed) if life.overlaps(other)
        ):
            if begin - place >= need:
                break
            place = max(place, after)
        placed.append((place, place + need, life))
        life.buffer.offset = start + unit * Size.of(place)
        end = max(end, place + need)
    return unit * Size.of(end)


def _slots(lifetimes: Sequence[Lifetime], start: Size) -> Size:
    """Each in the first slot that is free while it lives; a slot is as large as its largest."""
    slots: list[list[Lifetime]] = []
    for life in lifetimes:
        free = [slot for slot in slots if not any(life.overlaps(other) for other in slot)]
        if free:
            free[0].append(life)
        else:
            slots.append([life])
    for slot in slots:
        size = ZERO
        for life in slot:
            life.buffer.offset = start
            size = size.bound(life.buffer.size.aligned())
        start = start + size
    return start
