"""Schedules are those of running all models cycle by cycle, and large images take little time."""

from collections.abc import Sequence
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.ir.errors import LoweringError
from triton_dsl.lowering.to_verilog.circuit.folding.timing import SerialTiming, SteppedTiming
from triton_dsl.lowering.to_verilog.circuit.stages.frames import FrameTiming
from triton_dsl.lowering.to_verilog.circuit.stages.schedule import Node, Schedule, schedule
from triton_dsl.lowering.to_verilog.circuit.stages.timing import (
    FifoTiming,
    ForkTiming,
    JoinTiming,
    PipelineTiming,
    Timing,
)
from triton_dsl.lowering.to_verilog.circuit.stages.window_shape import WindowShape, WindowTiming

Nodes = list[Node]


def by_cycles(nodes: Nodes, source: int, sink: int, beats: int) -> Schedule:
    """All models side by side, one cycle after another."""
    channels = 1 + max(channel for node in nodes for channel in (*node.inputs, *node.outputs))
    valid, ready = [False] * channels, [False] * channels
    valid[source] = ready[sink] = True
    began = -1
    ends: list[int] = []
    sent = cycle = 0
    while not is_steady(ends):
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
        if valid[sink]:
            sent += 1
            if sent % beats == 0:
                ends.append(cycle)
        cycle += 1
    return Schedule(ends[0] - began, ends[-1] - ends[-2])


def is_steady(ends: Sequence[int]) -> bool:
    steps = [b - a for a, b in pairwise(ends)]
    return len(steps) >= 8 or (len(steps) >= 3 and steps[-1] == steps[-2])


def copied(nodes: Nodes) -> Nodes:
    return [Node(node.timing.copy(), node.inputs, node.outputs) for node in nodes]


def most(nodes: Nodes) -> list[int]:
    """What FIFOs held at most."""
    return [node.timing.most for node in nodes if isinstance(node.timing, FifoTiming)]


class Chain:
    """Stages one after another, each on the images that the one before gives."""

    def __init__(self, rows: int, columns: int) -> None:
        self.size = rows, columns
        self.nodes: Nodes = []
        self.end = 0
        self.channels = 1

    def channel(self) -> int:
        self.channels += 1
        return self.channels - 1

    def add(self, timing: Timing) -> None:
        output = self.channel()
        self.nodes.append(Node(timing, (self.end,), (output,)))
        self.end = output

    def window(self, kernel: int, stride: int, padding: int, dilation: int = 1) -> None:
        least = (kernel - 1) * dilation + 1 - 2 * padding
        if min(self.size) < least:
            return
        pair = padding, padding
        shape = WindowShape(
            self.size, (kernel, kernel), (stride, stride), pair, pair, (dilation, dilation)
        )
        self.add(WindowTiming(shape))
        self.size = shape.result

    def around(self, kernels: Sequence[int], depth: int | None) -> None:
        """Ways that meet again: windows and pipelines, and a FIFO."""
        ways = self.channel(), self.channel()
        self.nodes.append(Node(ForkTiming(2), (self.end,), ways))
        self.end = ways[0]
        for kernel in kernels:
            self.window(kernel, 1, kernel // 2)
            self.add(PipelineTiming(kernel))
        long, self.end = self.end, ways[1]
        self.add(FifoTiming(depth))
        output = self.channel()
        self.nodes.append(Node(JoinTiming(2), (long, self.end), (output,)))
        self.end = output

    @property
    def beats(self) -> int:
        return self.size[0] * self.size[1]

    def gather(self) -> None:
        self.add(FrameTiming(self.beats, 1))
        self.size = 1, 1


PARTS = st.one_of(
    st.tuples(
        st.just("window"),
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.integers(1, 2)),
    ),
    st.tuples(st.just("pipeline"), st.integers(0, 5)),
    st.tuples(st.just("fifo"), st.integers(1, 9)),
    st.tuples(
        st.just("folded"),
        st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6), st.booleans()),
    ),
    st.tuples(st.just("serial"), st.tuples(st.integers(1, 6), st.integers(1, 6), st.booleans())),
    st.tuples(st.just("around"), st.lists(st.sampled_from([1, 3]), min_size=1, max_size=2)),
)


def chain_of(rows: int, columns: int, parts: Sequence[tuple[str, object]], end: bool) -> Chain:
    built = Chain(rows, columns)
    for kind, numbers in parts:
        match kind, numbers:
            case "window", (int() as k, int() as s, int() as p, int() as d):
                built.window(k, s, p, d)
            case "folded", (int() as inputs, int() as n, int() as depth, bool() as keep):
                built.add(SteppedTiming(inputs, n, depth, keep_beat=keep, at_once=inputs == 1))
            case "serial", (int() as digits, int() as depth, bool() as keep):
                built.add(SerialTiming(digits, depth, keep_beat=keep))
            case "pipeline", int() as latency:
                built.add(PipelineTiming(latency))
            case "fifo", int() as depth:
                built.add(FifoTiming(depth))
            case _:
                assert isinstance(numbers, list)
                built.around(numbers, None)
    if end or not built.nodes:
        built.gather()
    return built


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 9),
    columns=st.integers(1, 9),
    parts=st.lists(PARTS, min_size=1, max_size=5),
    end=st.booleans(),
)
def test_a_schedule_is_that_of_all_cycles(
    rows: int, columns: int, parts: list[tuple[str, object]], end: bool
) -> None:
    built = chain_of(rows, columns, parts, end)
    slow, fast = copied(built.nodes), copied(built.nodes)
    expected = by_cycles(slow, 0, built.end, built.beats)
    assert schedule(fast, 0, built.end, built.beats) == expected
    assert most(fast) == most(slow)


def test_a_larger_image_too() -> None:
    built = pyramid(40, 3)
    slow, fast = copied(built.nodes), copied(built.nodes)
    assert schedule(fast, 0, built.end, 1) == by_cycles(slow, 0, built.end, 1)
    assert most(fast) == most(slow)


def pyramid(size: int, halvings: int) -> Chain:
    """Convolutions of 3x3 with a shortcut, and pooling, so many times; a vector at the end."""
    built = Chain(size, size)
    for _ in range(halvings):
        built.window(3, 1, 1)
        built.add(PipelineTiming(7))
        built.around([3], None)
        built.window(2, 2, 0)
        built.add(PipelineTiming(2))
    built.gather()
    return built


@pytest.mark.parametrize("folded", [False, True])
def test_large_images_take_little_time(folded: bool) -> None:
    built = pyramid(224, 1 if folded else 5)
    if folded:
        built.nodes.insert(0, Node(SteppedTiming(9, 4, 3, keep_beat=True, at_once=False), (0,), ()))
        built.nodes[0] = Node(built.nodes[0].timing, (built.channels,), (0,))
    source = built.channels if folded else 0
    begin = process_time()
    found = schedule(built.nodes, source, built.end, 1)
    assert process_time() - begin < 5
    assert found.interval == 224 * 224 * (36 if folded else 1)


def test_stages_that_wait_for_each_other() -> None:
    built = Chain(4, 4)
    built.around([3, 3], 3)
    with pytest.raises(LoweringError, match="wait for each other"):
        schedule(built.nodes, 0, built.end, 16)
