"""Memory planning: temporary buffers that are not needed at once share the workspace.

Offsets are polynomials in the batch, their coefficients multiples of the alignment. Buffers of
k·batch^p bytes are packed beside each other for each power p; those of several powers get slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....runtime.native.abi.interface import ALIGNMENT
from .program import Step
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


def lifetimes_of(steps: Sequence[Step]) -> list[Lifetime]:
    """When the temporary buffers of a program are needed."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for position, step in enumerate(steps):
        buffers = [view.buffer for view in (*step.reads, *step.writes)]
        if step.scratch is not None:
            buffers.append(step.scratch)
        for buffer in buffers:
            if buffer.place == "workspace":
                first.setdefault(buffer, position)
                last[buffer] = position
    return [Lifetime(b, first[b], last[b]) for b in first]


def plan(lifetimes: Sequence[Lifetime], alignment: int = ALIGNMENT) -> Size:
    """Give every buffer its offset, a multiple of `alignment`; the size of the workspace."""
    powers = sorted({_power(life) for life in lifetimes} - {None}, key=lambda p: p or 0)
    total = ZERO
    for power in powers:
        group = [life for life in lifetimes if _power(life) == power]
        total = total + _pack(group, power or 0, total, alignment)
    return _slots([life for life in lifetimes if _power(life) is None], total, alignment)


def _power(life: Lifetime) -> int | None:
    """p for a buffer of k·batch^p bytes, `None` for other ones."""
    powers = [power for power, c in enumerate(life.buffer.size.coefficients) if c]
    if not powers:
        return 0
    return powers[0] if len(powers) == 1 else None


def _pack(lifetimes: Sequence[Lifetime], power: int, start: Size, alignment: int) -> Size:
    """Each, the largest first, at the lowest place where nothing else is while it lives."""
    unit = Size.of(*[0] * power, 1)
    placed: list[tuple[int, int, Lifetime]] = []
    end = 0
    for life in sorted(lifetimes, key=lambda life: -life.buffer.size.coefficient(power)):
        need = life.buffer.size.aligned(alignment).coefficient(power)
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


def _slots(lifetimes: Sequence[Lifetime], start: Size, alignment: int) -> Size:
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
            size = size.bound(life.buffer.size.aligned(alignment))
        start = start + size
    return start
