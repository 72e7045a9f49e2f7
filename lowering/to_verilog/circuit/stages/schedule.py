"""When the beats of a network of stages move: latency, initiation interval, depths of FIFOs.

The handshakes of all stages run side by side, cycle by cycle, without data. A sender who always
sends and a receiver who always takes are assumed. What a network does is determined by the order of
its beats alone, so that FIFOs that are deep enough here never block it at any other pace.

Rows and frames are alike, so that few cycles have to be run: what some cycles did is kept, and done
again at once wherever all stages are in the same state and their tables go on in the same way, as
far as those cycles looked. Eight such runs are a longer one, and so on, after Gosper 1984,
"Exploiting regularities in large cellular spaces".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from .....ir.errors import LoweringError
from .handshake import Handshake

_FRAMES = 8
"""A network that takes frames at no steady pace after so many is refused."""

_SHORTEST = 8
"""Cycles of the runs that are made cycle by cycle."""

_FACTOR = 8
"""Runs that are the next longer one."""

_LEVELS = 5
"""Lengths of runs."""

_States = tuple[tuple[int, ...], ...]
"""Of all stages."""

_Extents = tuple[int, ...]
"""How far each table was looked at."""

_Seen = tuple[bytes, ...]
"""What stood there."""

_Noted = tuple[_States, list[int], tuple[int, int, list[int], list[int]]]
"""States and positions; the cycle, when the first beat came, the ends of frames, what was held."""


@dataclass(frozen=True)
class Node:
    """A stage as the schedule sees it.

    Attributes:
        handshake: how it moves beats.
        inputs: the channels that it takes beats from.
        outputs: the channels that it gives beats to.
        is_queue: whether it is asked how many beats it holds.
    """

    handshake: Handshake
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_queue: bool = False


@dataclass(frozen=True)
class Schedule:
    """What a network does while nobody waits.

    Attributes:
        latency: cycles from the first beat of a frame that comes in to the last beat of its
            result that goes out, for the first frame.
        interval: cycles from frame to frame.
        held: the most beats in each queue.
    """

    latency: int
    interval: int
    held: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Cycle:
    """What one cycle of a network does.

    Attributes:
        states: of all stages, after it.
        moved: positions that go on, as lists and places in them.
        held: queues whose number of beats changes, and by how much.
        taken: whether the source gives a beat.
        given: whether a result goes out.
    """

    states: _States
    moved: tuple[tuple[list[int], int], ...]
    held: tuple[tuple[int, int], ...]
    taken: bool
    given: bool


@dataclass(frozen=True)
class _Run:
    """What some cycles did. Cycles are counted from its first one.

    Attributes:
        cycles: how many.
        states: of all stages, after it.
        moves: how far each position went, and how many beats more each queue holds.
        most: how many beats more each queue held at most.
        taken: the first cycle in which the source gave a beat; `None` for none.
        ends: the cycles in which frames of results ended.
    """

    cycles: int
    states: _States
    moves: tuple[int, ...]
    most: tuple[int, ...]
    taken: int | None
    ends: tuple[int, ...]


def schedule(nodes: Sequence[Node], source: int, sink: int, beats: int) -> Schedule:
    """Run a network.

    Args:
        nodes: the stages, each after those that it takes beats from; their handshakes change.
        source: the channel that the network takes its beats from.
        sink: the channel that its results go out on.
        beats: of a frame of results.

    Raises:
        LoweringError: the network is blocked.
    """
    network = _Network(nodes, source, sink, beats)
    level, climbing, count = 0, True, 0
    while True:
        before = network.noted()
        run = network.advance(level)
        if run.states == before[0] and not any(run.moves):
            raise LoweringError("the stages of the circuit wait for each other")
        if _is_steady(network.ends):
            network.restore(before)
            if not level:
                break
            level, climbing = level - 1, False
            continue
        count += 1
        if climbing and count == _FACTOR and level + 1 < _LEVELS:
            level, count = level + 1, 0
    while not _is_steady(network.ends):
        network.run(1)
    ends = network.ends
    return Schedule(ends[0] - network.began, ends[-1] - ends[-2], tuple(network.most))


class _Network:
    """A network that runs.

    Attributes:
        cycle: how many have passed.
        began: the cycle in which the source gave its first beat; -1 before.
        ends: the cycles in which frames of results ended.
        held: the beats in each queue.
        most: what each queue held at most.
    """

    def __init__(self, nodes: Sequence[Node], source: int, sink: int, beats: int) -> None:
        self.steps = [(node.handshake, node.inputs, node.outputs) for node in nodes]
        channels = 1 + max(channel for node in nodes for channel in (*node.inputs, *node.outputs))
        self.valid, self.readies = [False] * channels, [False] * channels
        self.source, self.sink, self.beats = source, sink, beats
        self.valid[source] = self.readies[sink] = True
        self.stages = [node.handshake for node in nodes]
        self.counting = [stage for stage in self.stages if stage.tables]
        self.states: _States = tuple([stage.state for stage in self.stages])
        self._places = [
            (table, len(table), stage.positions, index)
            for stage in self.counting
            for index, table in enumerate(stage.tables)
        ]
        # By the states and what stands at all positions.
        self._cycles: dict[tuple[_States, bytes], _Cycle] = {}
        self.queues = [(*node.inputs, *node.outputs) for node in nodes if node.is_queue]
        self.tables = [*chain.from_iterable(stage.tables for stage in self.counting)]
        self.tables.append(bytes((*[0] * (beats - 1), 1)))
        self.twice = [table + table for table in self.tables]
        self.cycle, self.began, self.sent = 0, -1, 0
        self.ends: list[int] = []
        self.held = [0] * len(self.queues)
        self.most = [0] * len(self.queues)
        # By level and states, then by how far tables were looked at: what stood there.
        self._known: list[dict[_States, dict[_Extents, dict[_Seen, _Run]]]] = [
            {} for _ in range(_LEVELS)
        ]

    def _positions(self) -> list[int]:
        positions = [*chain.from_iterable([stage.positions for stage in self.counting])]
        positions += [self.sent, *self.held]
        return positions

    def noted(self) -> _Noted:
        """All that `restore` needs to go back to this cycle."""
        own = self.cycle, self.began, [*self.ends], [*self.most]
        return self.states, self._positions(), own

    def restore(self, noted: _Noted) -> None:
        """Go back."""
        states, positions, own = noted
        self._set(states, positions)
        self.cycle, self.began, self.ends, self.most = own

    def _set(self, states: _States, positions: Sequence[int]) -> None:
        self.states = states
        start = 0
        for stage in self.counting:
            end = start + len(stage.tables)
            stage.positions[:] = positions[start:end]
            start = end
        self.sent, *self.held = positions[start:]

    def advance(self, level: int) -> _Run:
        """Pass the cycles of a level."""
        states, before = self.states, self._positions()
        known = self._known[level].setdefault(states, {})
        for extents, runs in known.items():
            result = runs.get(self._seen(before, extents))
            if result is not None:
                self._note(result)
                self._set(result.states, [a + b for a, b in zip(before, result.moves, strict=True)])
                return result
        if level:
            result = _joined([self.advance(level - 1) for _ in range(_FACTOR)])
        else:
            result = self.run(_SHORTEST)
        extents = tuple([move + 1 for move in result.moves[: len(self.tables)]])
        known.setdefault(extents, {})[self._seen(before, extents)] = result
        return result

    def _seen(self, positions: Sequence[int], extents: _Extents) -> _Seen:
        """What stands in the tables from positions on, so far; all that goes round, at most."""
        parts: list[bytes] = []
        for table, position, extent in zip(self.twice, positions, extents, strict=False):
            size = len(table) >> 1
            start = position % size
            parts.append(table[start : start + min(extent, size)])
        return tuple(parts)

    def run(self, cycles: int) -> _Run:
        """Pass so many cycles, one by one."""
        before, held = self._positions(), [*self.held]
        most = [*held]
        first: int | None = None
        ends: list[int] = []
        for cycle in range(cycles):
            done = self._pass()
            if done.held:
                most = [max(pair) for pair in zip(most, self.held, strict=True)]
            if first is None and done.taken:
                first = cycle
            if done.given:
                self.sent += 1
                if self.sent % self.beats == 0:
                    ends.append(cycle)
        moves = tuple(b - a for a, b in zip(before, self._positions(), strict=True))
        more = tuple(b - a for a, b in zip(held, most, strict=True))
        result = _Run(cycles, self.states, moves, more, first, tuple(ends))
        self._note(result, held)
        return result

    def _pass(self) -> _Cycle:
        """One cycle."""
        seen = bytes([table[at[index] % size] for table, size, at, index in self._places])
        key = self.states, seen
        cycle = self._cycles.get(key)
        if cycle is None:
            cycle = self._cycles[key] = self._worked_out()
        else:
            for positions, index in cycle.moved:
                positions[index] += 1
        self.states = cycle.states
        for queue, change in cycle.held:
            self.held[queue] += change
        return cycle

    def _worked_out(self) -> _Cycle:
        """What the cycle does that begins now, with the positions moved."""
        valid, ready = self.valid, self.readies
        for stage, state in zip(self.stages, self.states, strict=True):
            stage.state = state
        for stage, inputs, outputs in self.steps:
            values = stage.valid([valid[c] for c in inputs])
            for channel, value in zip(outputs, values, strict=True):
                valid[channel] = value
        for stage, inputs, outputs in reversed(self.steps):
            values = stage.ready([valid[c] for c in inputs], [ready[c] for c in outputs])
            for channel, value in zip(inputs, values, strict=True):
                ready[channel] = value
        moved = [(stage.positions, index) for stage in self.stages for index in stage.step()]
        held = [
            (valid[comes] and ready[comes]) - (valid[goes] and ready[goes])
            for comes, goes in self.queues
        ]
        return _Cycle(
            tuple([stage.state for stage in self.stages]),
            tuple(moved),
            tuple((queue, change) for queue, change in enumerate(held) if change),
            ready[self.source],
            valid[self.sink],
        )

    def _note(self, run: _Run, held: Sequence[int] | None = None) -> None:
        """Take a run of the shortest or of a known kind into account, from what queues held."""
        if self.began < 0 and run.taken is not None:
            self.began = self.cycle + run.taken
        self.ends += [self.cycle + end for end in run.ends]
        tops = [a + b for a, b in zip(held or self.held, run.most, strict=True)]
        self.most = [max(pair) for pair in zip(self.most, tops, strict=True)]
        self.cycle += run.cycles


def _joined(runs: Sequence[_Run]) -> _Run:
    """Runs one after another."""
    starts = [sum(run.cycles for run in runs[:index]) for index in range(len(runs))]
    placed = list(zip(starts, runs, strict=True))
    queues = len(runs[0].most)
    held, most = [0] * queues, [0] * queues
    for run in runs:
        most = [max(m, h + more) for m, h, more in zip(most, held, run.most, strict=True)]
        moves = run.moves[len(run.moves) - queues :]
        held = [h + move for h, move in zip(held, moves, strict=True)]
    return _Run(
        sum(run.cycles for run in runs),
        runs[-1].states,
        tuple(map(sum, zip(*[run.moves for run in runs], strict=True))),
        tuple(most),
        next((start + run.taken for start, run in placed if run.taken is not None), None),
        tuple(start + end for start, run in placed for end in run.ends),
    )


def _is_steady(ends: Sequence[int]) -> bool:
    """Whether the pace was known after one of those ends of frames."""
    steps = [b - a for a, b in pairwise(ends)]
    return len(steps) >= _FRAMES or any(a == b for a, b in pairwise(steps[1:]))
