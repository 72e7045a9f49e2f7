"""Counters, which say where they are by comparisons or from registers.

From registers, which are set one step before, no handshake waits for a comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

if TYPE_CHECKING:
    from .body import ModuleBody


def clog2(count: int) -> int:
    """The bits of a number in [0, count), at least one."""
    return max(1, (count - 1).bit_length())


class Counter:
    """A number that goes round in [0, count), 0 after reset; `step` says when it goes on.

    Args:
        early: whether answers come from registers, else from comparisons.

    Attributes:
        value: the number.
        last: whether it is count - 1.
    """

    def __init__(self, body: ModuleBody, count: int, name: str, *, early: bool = False) -> None:
        self.body, self.count, self.name = body, count, name
        self.early = early and count > 1
        self._flags: dict[tuple[int, int], SSAValue] = {}
        self._before: dict[int, SSAValue] = {}
        self.value = body.state(clog2(count), name, 0) if count > 1 else body.constant(0, 1)
        self.last = self.is_at(count - 1) if count > 1 else body.constant(1, 1)

    def is_at(self, number: int) -> SSAValue:
        """Whether the counter is at that number."""
        if self.early:
            return self._flag(number, number + 1)
        return self.body.compare(self.value, "eq", number)

    def within(self, first: int, size: int) -> list[SSAValue]:
        """Bits that all are 1 where first ≤ counter < first + size; none where that always is."""
        if not self.early:
            return self.compared(first, size)
        whole = first <= 0 and first + size >= self.count
        return [] if whole else [self._flag(max(first, 0), min(first + size, self.count))]

    def compared(self, first: int, size: int) -> list[SSAValue]:
        """As `within`, by comparisons."""
        body, end = self.body, first + size
        bits: list[SSAValue] = []
        if first > 0:
            inside = first < self.count
            bits.append(body.compare(self.value, "uge", first) if inside else body.constant(0, 1))
        if end < self.count:
            bits.append(body.compare(self.value, "ult", end) if end > 0 else body.constant(0, 1))
        return bits

    def step(self, move: SSAValue) -> SSAValue:
        """Let it go on, after the last number to 0, where `move` is 1; the next number.

        No register can be asked for after that.
        """
        body = self.body
        for (first, end), flag in self._flags.items():
            following = self.before(first)
            if end - first > 1:
                stays = body.all_of(flag, body.inverse(self.before(end)))
                following = body.any_of(following, stays)
            body.drive(flag, following, move)
        if self.count == 1:
            return self.value
        following = body.add(self.value, 1)
        if self.count & (self.count - 1):
            following = body.select(self.last, body.constant(0, clog2(self.count)), following)
        body.drive(self.value, following, move)
        return following

    def before(self, number: int) -> SSAValue:
        """Whether the next number is that one, 0 after the last."""
        if number % self.count == 0:
            return self.last
        if number not in self._before:
            self._before[number] = self.body.compare(self.value, "eq", number - 1)
        return self._before[number]

    def _flag(self, first: int, end: int) -> SSAValue:
        if self.count == 2:
            return self.value if first else self.body.inverse(self.value)
        if (first, end) not in self._flags:
            place = "last" if first == self.count - 1 else f"from_{first}_to_{end - 1}"
            self._flags[first, end] = self.body.state(1, f"{self.name}_{place}", int(first == 0))
        return self._flags[first, end]
