"""Memory planning: temporary buffers that are not needed at once share the workspace.

Offsets are sums of products of free sizes, their factors multiples of the alignment. Buffers of k
times the same product are packed beside each other; those of several products get slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....runtime.native.abi.interface import ALIGNMENT
from ....runtime.native.abi.sizes import ZERO, Monomial, Size
from .program import Step
from .repetition import LoopStep
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
    products = {_product(life): None for life in lifetimes}
    total = ZERO
    for one in sorted((p for p in products if p is not None), key=len):
        group = [life for life in lifetimes if _product(life) == one]
        total = total + _pack(group, one, total, alignment)
    return _slots([life for life in lifetimes if _product(life) is None], total, alignment)


def _product(life: Lifetime) -> Monomial | None:
    """The product of free sizes for a buffer of k times it bytes, `None` for other ones."""
    terms = life.buffer.size.terms
    if not terms:
        return ()
    return terms[0][0] if len(terms) == 1 else None


def _pack(lifetimes: Sequence[Lifetime], product: Monomial, start: Size, alignment: int) -> Size:
    """Each, the largest first, at the lowest place where nothing else is while it lives."""
    unit = Size(((product, 1),))
    placed: list[tuple[int, int, Lifetime]] = []
    end = 0
    for life in sorted(lifetimes, key=lambda life: -life.buffer.size.coefficient(product)):
        need = life.buffer.size.aligned(alignment).coefficient(product)
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
