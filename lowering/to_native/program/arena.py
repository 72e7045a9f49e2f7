"""Memory planning: temporary buffers that are not needed at once share the workspace.

Offsets are polynomials in the batch, their coefficients multiples of the alignment. Buffers of
k·batch^p bytes are packed beside each other for each power p; those of several powers get slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....runtime.native.abi.interface import ALIGNMENT
from .program import Step
from .repetition import LoopStep
from .sizes import ZERO, Size
from .views import Buffer, holder


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
    """When the temporary buffers of a program are needed.

    A loop needs those that hold something before it, behind it, or from one time to the next at all
    times; others as if it ran once.
    """
    uses: dict[Buffer, list[tuple[int, bool]]] = {}
    loops: list[tuple[int, int]] = []
    _note(steps, 0, uses, loops)
    found: list[Lifetime] = []
    for buffer, own in uses.items():
        first, last = own[0][0], own[-1][0]
        for begin, end in loops:
            inside = [read for position, read in own if begin <= position <= end]
            if inside and (inside[0] or len(inside) < len(own)):
                first, last = min(first, begin), max(last, end)
        found.append(Lifetime(buffer, first, last))
    return found


def _note(
    steps: Sequence[Step],
    position: int,
    uses: dict[Buffer, list[tuple[int, bool]]],
    loops: list[tuple[int, int]],
) -> int:
    """Note which steps touch each temporary buffer, and whether they read it; the next position."""
    for step in steps:
        if isinstance(step, LoopStep):
            begin, position = position, _note(step.repeated, position, uses, loops)
            loops.append((begin, position - 1))
            continue
        touched = [(holder(view), True) for view in step.reads]
        touched += [(holder(view), False) for view in step.writes]
        touched += [] if step.scratch is None else [(step.scratch, False)]
        for buffer, read in touched:
            if buffer.place == "workspace":
                uses.setdefault(buffer, []).append((position, read))
        position += 1
    return position


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
