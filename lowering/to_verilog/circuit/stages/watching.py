"""Counters whose places are known from registers, so that a handshake waits for no comparison."""

from __future__ import annotations

from xdsl.ir import SSAValue

from .body import Counter, StageBody


class Watch:
    """Asks where a counter is.

    Args:
        body: of the stage.
        counter: not driven yet; `count_on` does.
        name: of its registers.
        early: whether answers come from registers, which are set one step before; else from
            comparisons.
    """

    def __init__(self, body: StageBody, counter: Counter, name: str, *, early: bool) -> None:
        self.body = body
        self.counter = counter
        self.name = name
        self.early = early and counter.count > 1
        self._flags: dict[tuple[int, int], SSAValue] = {}
        if self.early:
            last = self._flag(counter.count - 1, counter.count)
            self.counter = Counter(counter.value, last, counter.count)

    def is_at(self, number: int) -> SSAValue:
        """Whether the counter is at that number."""
        if self.early:
            return self._flag(number, number + 1)
        return self.body.compare(self.counter.value, "eq", number)

    def within(self, first: int, size: int) -> list[SSAValue]:
        """Bits that all are 1 where first ≤ counter < first + size; none where that always is."""
        value, count, end = self.counter.value, self.counter.count, first + size
        if not self.early:
            return compared(self.body, value, count, first, size)
        whole = first <= 0 and end >= count
        return [] if whole else [self._flag(max(first, 0), min(end, count))]

    def count_on(self, step: SSAValue) -> None:
        """Let the counter go on where `step` is 1; nothing can be asked after that."""
        body = self.body
        for (first, end), flag in self._flags.items():
            following = self._before(first)
            if end - first > 1:
                stays = body.all_of(flag, body.inverse(self._before(end)))
                following = body.any_of(following, stays)
            body.drive(flag, following, step)
        body.count_on(self.counter, step)

    def _flag(self, first: int, end: int) -> SSAValue:
        if (first, end) not in self._flags:
            name = f"{self.name}_from_{first}_to_{end - 1}"
            self._flags[first, end] = self.body.state(1, name, int(first == 0))
        return self._flags[first, end]

    def _before(self, number: int) -> SSAValue:
        """Whether the next number is that one, 0 after the last."""
        if number % self.counter.count == 0:
            return self.counter.last
        return self.body.compare(self.counter.value, "eq", number - 1)


def compared(body: StageBody, value: SSAValue, count: int, first: int, size: int) -> list[SSAValue]:
    """As `Watch.within`, by comparisons of a number in [0, count)."""
    bits: list[SSAValue] = []
    end = first + size
    if first > 0:
        bits.append(body.compare(value, "uge", first) if first < count else body.constant(0, 1))
    if end < count:
        bits.append(body.compare(value, "ult", end) if end > 0 else body.constant(0, 1))
    return bits
