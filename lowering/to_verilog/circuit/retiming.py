"""When each step of a computation works, so that few bits wait in registers.

As soon as it can is not always best: where its operands wait anyway, for other users, a step had
better be made late. Not here: the registers themselves (`circuit`), and what the steps compute:
adders of shared graphs (`products`), rows of look-up tables (`heaps`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

SWEEPS = 8
"""The most times that all steps are looked at."""


class Step(NamedTuple):
    """A step of a computation, with a register behind it.

    Attributes:
        reads: the values that it takes.
        gives: those that it makes.
    """

    reads: tuple[int, ...]
    gives: tuple[int, ...]


def calm_cycles(
    steps: Sequence[Step],
    widths: Sequence[int],
    ready: Sequence[int],
    results: Iterable[int],
    *,
    held: bool,
) -> list[int]:
    """For each step the cycle in which its values are there.

    No result comes later than the last one would if every step worked as soon as it can. Steps are
    moved while that saves registers, one by one, and together with all that only they use.

    Args:
        steps: each after those whose values it reads.
        widths: the bits of each value.
        ready: the cycle in which each of the first values is there, which no step makes.
        results: values that are wanted at the end.
        held: whether results that are there early wait in registers; else they cost one bit.
    """
    tries: list[_Timing] = []
    for late in (False, True):
        timing = _Timing(steps, widths, ready, set(results), held)
        order = range(len(steps))
        if late:
            for step in reversed(order):
                timing.put_off(step)
        for sweep in range(SWEEPS):
            moved = [timing.move_with_makers(step) for step in reversed(order)]
            moved += [timing.move(step) for step in (order if sweep % 2 else reversed(order))]
            if not any(moved):
                break
        tries.append(timing)
    return min(tries, key=_Timing.registers).cycles


class _Timing:
    def __init__(
        self,
        steps: Sequence[Step],
        widths: Sequence[int],
        ready: Sequence[int],
        results: set[int],
        held: bool,
    ) -> None:
        self.steps = [Step(tuple(dict.fromkeys(step.reads)), step.gives) for step in steps]
        self.widths = widths
        self.held = held
        self.results = results
        self.made = [*ready, *[0] * (len(widths) - len(ready))]
        self.maker: list[int | None] = [None] * len(widths)
        self.users: list[list[int]] = [[] for _ in widths]
        self.cycles: list[int] = []
        for index, step in enumerate(self.steps):
            self.cycles.append(1 + max((self.made[value] for value in step.reads), default=0))
            for value in step.gives:
                self.made[value] = self.cycles[index]
                self.maker[value] = index
            for value in step.reads:
                self.users[value].append(index)
        self.end = max((self.made[value] for value in results), default=0)
        # How many steps read each value in each cycle.
        never = [0] * (max(self.cycles, default=0) + 1)
        self.reads = [never.copy() for _ in widths]
        for index, step in enumerate(self.steps):
            for value in step.reads:
                self.reads[value][self.cycles[index] - 1] += 1

    def _put(self, step: int, cycle: int) -> None:
        change = self.cycles[step]
        for value in self.steps[step].reads:
            self.reads[value][change - 1] -= 1
            self.reads[value][cycle - 1] += 1
        for value in self.steps[step].gives:
            self.made[value] = cycle
        self.cycles[step] = cycle

    def _range(self, step: int) -> tuple[int, int]:
        """The first and the last cycle that a step may have, the others staying."""
        made, cycles, users = self.made, self.cycles, self.users
        least = 1 + max([made[value] for value in self.steps[step].reads], default=0)
        later = [cycles[user] for value in self.steps[step].gives for user in users[value]]
        return least, min(later) - 1 if later else self.end

    def _weight(self, step: int) -> int:
        """The bits that do not wait for each cycle that a step is later."""
        return sum(
            self.widths[value] if self.users[value] or self.held else 1
            for value in self.steps[step].gives
            if self.users[value] or value in self.results
        )

    def put_off(self, step: int) -> None:
        """Let a step work as late as those that need it allow."""
        self._put(step, max(self._range(step)[1], self.cycles[step]))

    def registers(self) -> int:
        """The bits that wait, and those that are made early; lower is better."""
        wait = self._waiting(range(len(self.widths)))
        early = 0 if self.held else sum(self.end - self.made[value] for value in self.results)
        return wait + early

    def move(self, step: int) -> bool:
        """Give a step the cycle in which the fewest bits wait; whether that is another one."""
        least, most = self._range(step)
        if least >= most:
            return False
        now = self.cycles[step]
        others = {value: self._needed(value, now - 1) for value in self.steps[step].reads}
        weight = self._weight(step)

        def bits(cycle: int) -> int:
            waiting = (self.widths[v] * max(needed, cycle - 1) for v, needed in others.items())
            return sum(waiting) - weight * cycle

        best = min(range(least, most + 1), key=bits)
        if bits(best) == bits(now):
            return False
        self._put(step, best)
        return True

    def move_with_makers(self, step: int) -> bool:
        """Put a step and all that is made for it alone off, if then fewer bits wait."""
        _, most = self._range(step)
        slack = most - self.cycles[step]
        if slack < 1:
            return False
        makers = self._made_for(step)
        inside = {value for maker in makers for value in self.steps[maker].gives}
        outside = {
            value for maker in makers for value in self.steps[maker].reads if value not in inside
        }
        before = self._waiting(outside)
        weight = self._weight(step)
        saved: list[tuple[int, int]] = [(0, 0)]
        for delay in range(1, slack + 1):
            for maker in makers:
                self._put(maker, self.cycles[maker] + 1)
            saved.append((before - self._waiting(outside) + weight * delay, -delay))
        best = -max(saved)[1]
        for maker in makers:
            self._put(maker, self.cycles[maker] - slack + best)
        return best > 0

    def _made_for(self, step: int) -> list[int]:
        """The step and, before it, those that reach nothing else."""
        found, waiting = {step}, [step]
        while waiting:
            for value in self.steps[waiting.pop()].reads:
                maker = self.maker[value]
                if maker is not None and maker not in found and self._reaches_only(maker, found):
                    found.add(maker)
                    waiting.append(maker)
        return sorted(found)

    def _reaches_only(self, maker: int, steps: set[int]) -> bool:
        gives = self.steps[maker].gives
        return all(v not in self.results and steps.issuperset(self.users[v]) for v in gives)

    def _waiting(self, values: Iterable[int]) -> int:
        """The bits that wait of those values, all cycles together."""
        return sum(self.widths[v] * (self._needed(v, -1) - self.made[v]) for v in values)

    def _needed(self, value: int, but: int) -> int:
        """The last cycle in which the value is taken, one taking in a cycle left out."""
        if value in self.results and self.held:
            return self.end
        counts = self.reads[value]
        for cycle in range(len(counts) - 1, -1, -1):
            if counts[cycle] - (cycle == but):
                return cycle
        return self.made[value]
