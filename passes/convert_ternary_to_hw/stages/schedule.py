"""When the beats of a network of stages move: latency, initiation interval, depths of FIFOs.

The models of all handshakes run side by side, cycle by cycle, without data. A sender who always
sends and a receiver who always takes are assumed. What a network does is determined by the order of
its beats alone, so that FIFOs that are deep enough here never block it at any other pace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ....ir.errors import LoweringError
from .timing import Timing

_FRAMES = 8
"""A network that takes frames at no steady pace after so many is refused."""

_IDLE = 100_000
"""Cycles without any beat going out after which a network is said to be blocked."""


@dataclass(frozen=True)
class Node:
    """A stage as the schedule sees it.

    Attributes:
        timing: its handshake.
        inputs: the channels that it takes beats from.
        outputs: the channels that it gives beats to.
    """

    timing: Timing
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Schedule:
    """What a network does while nobody waits.

    Attributes:
        latency: cycles from the first beat of a frame that comes in to the last beat of its
            result that goes out, for the first frame.
        interval: cycles from frame to frame.
    """

    latency: int
    interval: int


def schedule(nodes: Sequence[Node], source: int, sink: int, beats: int) -> Schedule:
    """Run a network.

    Args:
        nodes: the stages, each after those that it takes beats from; their models change.
        source: the channel that the network takes its beats from.
        sink: the channel that its results go out on.
        beats: of a frame of results.

    Raises:
        LoweringError: the network is blocked.
    """
    channels = 1 + max(channel for node in nodes for channel in (*node.inputs, *node.outputs))
    valid, ready = [False] * channels, [False] * channels
    valid[source] = ready[sink] = True
    began = -1
    ends: list[int] = []
    sent = idle = cycle = 0
    while not _is_steady(ends):
        for node in nodes:
            values = node.timing.valid([valid[c] for c in node.inputs])
            for channel, value in zip(node.outputs, values, strict=True):
                valid[channel] = value
        for node in reversed(nodes):
            values = node.timing.ready(
                [valid[c] for c in node.inputs], [ready[c] for c in node.outputs]
            )
            for channel, value in zip(node.inputs, values, strict=True):
                ready[channel] = value
        for node in nodes:
            node.timing.step([valid[c] for c in node.inputs], [ready[c] for c in node.outputs])
        if began < 0 and ready[source]:
            began = cycle
        idle += 1
        if valid[sink]:
            idle = 0
            sent += 1
            if sent % beats == 0:
                ends.append(cycle)
        if idle > _IDLE:
            raise LoweringError("the stages of the circuit wait for each other")
        cycle += 1
    return Schedule(ends[0] - began, ends[-1] - ends[-2])


def _is_steady(ends: Sequence[int]) -> bool:
    steps = [b - a for a, b in pairwise(ends)]
    return len(steps) >= _FRAMES or (len(steps) >= 3 and steps[-1] == steps[-2])
