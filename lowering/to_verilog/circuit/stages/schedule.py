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
from itertools import chain, islice, pairwise
from operator import add

from .....ir.errors import LoweringError
from .handshake import Cycle, Handshake

_FRAMES = 8
"""A network that takes frames at no steady pace after so many is refused."""

_FACTOR = 8
"""Runs that are the next longer one."""

_LEVELS = 6
"""Lengths of runs."""

_States = tuple[tuple[int, ...], ...]
"""Of all stages."""

_Extents = tuple[int, ...]
"""How far each table was looked at."""

_Seen = tuple[bytes, ...]
"""What stood there."""


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
class _Run:
    """What some cycles did. Cycles are counted from its first one.

    Attributes:
        cycles: how many.
        states: of all stages, after it.
        moves: how far each position went.
        held: how many beats more each queue holds after it.
        most: how many beats more each queue held at most.
        taken: the first cycle in which the source gave a beat; `None` for none.
        ends: the cycles in which frames of results ended.
    """

    cycles: int
    states: _States
    moves: tuple[int, ...]
    held: tuple[int, ...]
    most: tuple[int, ...]
    taken: int | None = None
    ends: tuple[int, ...] = ()

    def then(self, run: _Run) -> _Run:
        """Both, one after the other."""
        tops = [held + more for held, more in zip(self.held, run.most, strict=True)]
        taken = self.taken
        if taken is None and run.taken is not None:
            taken = self.cycles + run.taken
        return _Run(
            self.cycles + run.cycles,
            run.states,
            tuple(map(add, self.moves, run.moves)),
            tuple(map(add, self.held, run.held)),
            tuple(map(max, self.most, tops)),
            taken,
            (*self.ends, *[self.cycles + end for end in run.ends]),
        )


def schedule(nodes: Sequence[Node], source: int, sink: int, beats: int) -> Schedule:
    """Run a network.

    Args:
        nodes: the stages, each after those that it takes beats from.
        source: the channel that the network takes its beats from.
        sink: the channel that its results go out on.
        beats: of a frame of results.

    Raises:
        LoweringError: the network is blocked.
    """
    network = _Network(nodes, source, sink, beats)
    past, level, climbing, count = network.begin, 0, True, 0
    while not _is_steady(past.ends):
        run = network.run(level, past.states, past.moves)
        if run.states == past.states and not any(run.moves):
            raise LoweringError("the stages of the circuit wait for each other")
        both = past.then(run)
        if level and _is_steady(both.ends):
            level, climbing = level - 1, False
            continue
        past, count = both, count + 1
        if climbing and count == _FACTOR and level + 1 < _LEVELS:
            level, count = level + 1, 0
    assert past.taken is not None
    return Schedule(past.ends[0] - past.taken, past.ends[-1] - past.ends[-2], past.most)


class _Network:
    """The stages of a network, and what is known of their cycles.

    Attributes:
        begin: no cycle after reset.
    """

    def __init__(self, nodes: Sequence[Node], source: int, sink: int, beats: int) -> None:
        self.nodes, self.source, self.sink = nodes, source, sink
        channels = 1 + max(channel for node in nodes for channel in (*node.inputs, *node.outputs))
        self.valid, self.ready = [False] * channels, [False] * channels
        self.valid[source] = self.ready[sink] = True
        self.queues = [(*node.inputs, *node.outputs) for node in nodes if node.is_queue]
        tables = [table for node in nodes for table in node.handshake.tables]
        tables.append(bytes((*[0] * (beats - 1), 1)))  # where a frame of results ends
        self.tables = [(table + table, len(table)) for table in tables]
        none = (0,) * len(self.queues)
        states = tuple(node.handshake.first for node in nodes)
        self.begin = _Run(0, states, (0,) * len(tables), none, none)
        # By level and states, then by how far tables were looked at: what stood there.
        self._known: list[dict[_States, dict[_Extents, dict[_Seen, _Run]]]] = [
            {} for _ in range(_LEVELS)
        ]

    def run(self, level: int, states: _States, positions: Sequence[int]) -> _Run:
        """Pass the cycles of a level: one, or so many runs of the level below."""
        known = self._known[level].setdefault(states, {})
        for extents, runs in known.items():
            result = runs.get(self._seen(positions, extents))
            if result is not None:
                return result
        if not level:
            result = self._cycle(states, positions)
            extents = (1,) * len(self.tables)
        else:
            result = self.run(level - 1, states, positions)
            for _ in range(_FACTOR - 1):
                now = [*map(add, positions, result.moves)]
                result = result.then(self.run(level - 1, result.states, now))
            extents = tuple([move + 1 for move in result.moves])
        known.setdefault(extents, {})[self._seen(positions, extents)] = result
        return result

    def _seen(self, positions: Sequence[int], extents: _Extents) -> _Seen:
        """What stands in the tables from positions on, so far; all that goes round, at most."""
        parts: list[bytes] = []
        for (twice, size), position, extent in zip(self.tables, positions, extents, strict=True):
            start = position % size
            parts.append(twice[start : start + min(extent, size)])
        return tuple(parts)

    def _cycle(self, states: _States, positions: Sequence[int]) -> _Run:
        """What one cycle does."""
        valid, ready = self.valid, self.ready
        *symbols, ends = [
            table[at % size] for (table, size), at in zip(self.tables, positions, strict=True)
        ]
        left = iter(symbols)
        stages = [
            (node, state, tuple(islice(left, len(node.handshake.tables))))
            for node, state in zip(self.nodes, states, strict=True)
        ]
        for node, state, seen in stages:
            values = node.handshake.valid(state, seen, tuple([valid[c] for c in node.inputs]))
            for channel, value in zip(node.outputs, values, strict=True):
                valid[channel] = value
        done: list[Cycle] = []
        for node, state, seen in reversed(stages):
            inputs = tuple([valid[c] for c in node.inputs])
            done.append(
                node.handshake.cycle(state, seen, inputs, tuple([ready[c] for c in node.outputs]))
            )
            for channel, value in zip(node.inputs, done[-1].ready, strict=True):
                ready[channel] = value
        given = valid[self.sink]
        held = tuple(
            [
                (valid[comes] and ready[comes]) - (valid[goes] and ready[goes])
                for comes, goes in self.queues
            ]
        )
        return _Run(
            1,
            tuple([cycle.after for cycle in reversed(done)]),
            (*chain.from_iterable([cycle.moved for cycle in reversed(done)]), int(given)),
            held,
            tuple([max(0, change) for change in held]),
            0 if ready[self.source] else None,
            (0,) if given and ends else (),
        )


def _is_steady(ends: Sequence[int]) -> bool:
    """Whether the pace was known after one of those ends of frames."""
    steps = [b - a for a, b in pairwise(ends)]
    return len(steps) >= _FRAMES or any(a == b for a, b in pairwise(steps[1:]))
