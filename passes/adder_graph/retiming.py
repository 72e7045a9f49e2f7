"""When each step of a computation works, so that few bits wait in registers.

As soon as it can is not always best: where its operands wait anyway, for other users, a step had
better be made late. Not here: the registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .graph import AdderGraph

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
            moved += [timing.move_alone(step) for step in (order if sweep % 2 else reversed(order))]
            if not any(moved):
                break
        tries.append(timing)
    return min(tries, key=lambda timing: timing.registers(range(len(widths)))).cycles


def calm_adders(
    graph: AdderGraph, widths: Sequence[int], ready: Sequence[int], *, held: bool
) -> list[int]:
    """For each value of a graph with a register behind each adder the cycle in which it is there.

    Args:
        widths: the bits of each value.
        ready: the cycle in which each input is there.
        held: see `calm_cycles`.
    """
    steps = [Step((a, b), (node,)) for node, (a, b, _, _) in enumerate(graph.nodes, graph.inputs)]
    results = {value for value, sign in graph.outputs if sign}
    return [*ready, *calm_cycles(steps, widths, ready, results, held=held)]


@dataclass(slots=True)
class _Group:
    """Steps that are moved together.

    Attributes:
        steps: their places.
        touched: the values that they read and give.
        stayed: the moves that had been made when they last stayed where they were; -1 before.
    """

    steps: list[int]
    touched: list[int]
    stayed: int = -1


class _Timing:
    def __init__(
        self,
        steps: Sequence[Step],
        widths: Sequence[int],
        ready: Sequence[int],
        results: set[int],
        held: bool,
    ) -> None:
        self.steps, self.widths, self.results, self.held = steps, widths, results, held
        self.made = [*ready, *[0] * (len(widths) - len(ready))]
        self.maker: dict[int, int] = {}
        self.users: list[list[int]] = [[] for _ in widths]
        self.cycles: list[int] = []
        for index, step in enumerate(steps):
            self.cycles.append(1 + max((self.made[value] for value in step.reads), default=0))
            for value in step.gives:
                self.made[value] = self.cycles[index]
                self.maker[value] = index
            for value in step.reads:
                self.users[value].append(index)
        self.end = max((self.made[value] for value in results), default=0)
        self.groups: dict[tuple[int, bool], _Group] = {}
        # How many moves there were, and had been when one changed what a value waits for.
        self.moves = 0
        self.changed = [0] * len(widths)

    def registers(self, values: Iterable[int]) -> int:
        """The bits that wait of those values, all cycles together, and one for each cycle that a
        result is early which is not held."""
        total, cycles = 0, self.cycles
        for value in values:
            made, users = self.made[value], self.users[value]
            is_result = value in self.results
            if is_result and self.held:
                total += self.widths[value] * (self.end - made)
            elif users:
                total += self.widths[value] * (max([cycles[user] for user in users]) - 1 - made)
            elif is_result:
                total += self.end - made
        return total

    def _put(self, step: int, cycle: int) -> None:
        self.cycles[step] = cycle
        for value in self.steps[step].gives:
            self.made[value] = cycle

    def _first(self, step: int) -> int:
        """The first cycle that a step may have, the others staying."""
        made = self.made
        return 1 + max([made[value] for value in self.steps[step].reads], default=0)

    def _last(self, step: int) -> int:
        """The last cycle that a step may have, the others staying."""
        cycles, users, gives = self.cycles, self.users, self.steps[step].gives
        used = [cycles[user] for value in gives for user in users[value]]
        return min(used, default=self.end + 1) - 1

    def put_off(self, step: int) -> None:
        """Let a step work as late as those that need it allow."""
        self._put(step, max(self._last(step), self.cycles[step]))

    def move_alone(self, step: int) -> bool:
        """Give a step the cycle in which the fewest bits wait; whether that is another one."""
        now = self.cycles[step]
        delays = range(self._first(step) - now, self._last(step) - now + 1)
        return len(delays) > 1 and self._move(self._group(step, alone=True), delays)

    def move_with_makers(self, step: int) -> bool:
        """Put a step and all that is made for it alone off, if then fewer bits wait."""
        slack = self._last(step) - self.cycles[step]
        return slack > 0 and self._move(self._group(step, alone=False), range(slack + 1))

    def _group(self, step: int, *, alone: bool) -> _Group:
        """The step, alone or with those that are made for it alone."""
        key = step, alone
        if key not in self.groups:
            steps = [step] if alone else self._made_for(step)
            touched = {v for s in steps for v in (*self.steps[s].reads, *self.steps[s].gives)}
            self.groups[key] = _Group(steps, [*touched])
        return self.groups[key]

    def _move(self, group: _Group, delays: range) -> bool:
        """Let steps be later by what lets the fewest bits wait; whether that is any time."""
        changed, touched = self.changed, group.touched
        if max([changed[value] for value in touched], default=0) <= group.stayed:
            return False
        cycles = [self.cycles[step] for step in group.steps]

        def delay_by(delay: int) -> None:
            for step, cycle in zip(group.steps, cycles, strict=True):
                self._put(step, cycle + delay)

        found: dict[int, int] = {}
        for delay in dict.fromkeys((0, *delays)):
            delay_by(delay)
            found[delay] = self.registers(touched)
        best = min(found, key=found.__getitem__)
        delay_by(best)
        if not best:
            group.stayed = self.moves
            return False
        self.moves += 1
        for value in touched:
            changed[value] = self.moves
        return True

    def _made_for(self, step: int) -> list[int]:
        """The step and, before it, those that reach nothing else."""
        found, waiting = {step}, [step]
        while waiting:
            for value in self.steps[waiting.pop()].reads:
                maker = self.maker.get(value)
                if maker is not None and maker not in found and self._reaches_only(maker, found):
                    found.add(maker)
                    waiting.append(maker)
        return sorted(found)

    def _reaches_only(self, maker: int, steps: set[int]) -> bool:
        gives = self.steps[maker].gives
        return all(v not in self.results and steps.issuperset(self.users[v]) for v in gives)
