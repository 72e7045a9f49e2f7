"""Schedules are those of running all stages cycle by cycle; of large images few are worked out."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import comb

from triton_dsl.ir.errors import LoweringError
from triton_dsl.lowering.to_verilog.circuit.circuit import Search
from triton_dsl.lowering.to_verilog.circuit.folding.channel_functions import Bounded
from triton_dsl.lowering.to_verilog.circuit.folding.digit_serial import SerialProduct, serial_stage
from triton_dsl.lowering.to_verilog.circuit.folding.folded_stage import folded_stage
from triton_dsl.lowering.to_verilog.circuit.folding.product import FoldedProduct, Folding, Product
from triton_dsl.lowering.to_verilog.circuit.pacing import Pacing
from triton_dsl.lowering.to_verilog.circuit.pipeline import Pipeline
from triton_dsl.lowering.to_verilog.circuit.signals import Signal
from triton_dsl.lowering.to_verilog.circuit.stages.body import StageBody
from triton_dsl.lowering.to_verilog.circuit.stages.frames import gather_stage
from triton_dsl.lowering.to_verilog.circuit.stages.handshake import Cycle, Handshake
from triton_dsl.lowering.to_verilog.circuit.stages.links import fifo_stage, fork_stage, join_stage
from triton_dsl.lowering.to_verilog.circuit.stages.schedule import Node, Schedule, schedule
from triton_dsl.lowering.to_verilog.circuit.stages.stage import Layout, Stage
from triton_dsl.lowering.to_verilog.circuit.stages.window import window_stage
from triton_dsl.lowering.to_verilog.circuit.stages.window_shape import WindowShape
from triton_dsl.passes.adder_graph import optimize_matrix

from ..folding.stage_bench import Running

Nodes = list[Node]

BIT = Layout(((0, 1),))
DEEPEST = 1 << 20


def by_cycles(nodes: Nodes, source: int, sink: int, beats: int) -> Schedule:
    """All stages side by side, one cycle after another."""
    stages = [(node, Running(node.handshake)) for node in nodes]
    channels = 1 + max(channel for node in nodes for channel in (*node.inputs, *node.outputs))
    valid, ready = [False] * channels, [False] * channels
    valid[source] = ready[sink] = True
    queues = [node for node in nodes if node.is_queue]
    holds, most = [0] * len(queues), [0] * len(queues)
    began = -1
    ends: list[int] = []
    sent = cycle = 0
    while not is_steady(ends):
        for node, stage in stages:
            values = stage.valid([valid[c] for c in node.inputs])
            for channel, value in zip(node.outputs, values, strict=True):
                valid[channel] = value
        for node, stage in reversed(stages):
            inputs, outputs = [valid[c] for c in node.inputs], [ready[c] for c in node.outputs]
            values = stage.step(inputs, outputs).ready
            for channel, value in zip(node.inputs, values, strict=True):
                ready[channel] = value
        for index, node in enumerate(queues):
            (comes,), (goes,) = node.inputs, node.outputs
            holds[index] += (valid[comes] and ready[comes]) - (valid[goes] and ready[goes])
            most[index] = max(most[index], holds[index])
        if began < 0 and ready[source]:
            began = cycle
        if valid[sink]:
            sent += 1
            if sent % beats == 0:
                ends.append(cycle)
        cycle += 1
    return Schedule(ends[0] - began, ends[-1] - ends[-2], tuple(most))


def is_steady(ends: Sequence[int]) -> bool:
    steps = [b - a for a, b in pairwise(ends)]
    return len(steps) >= 8 or (len(steps) >= 3 and steps[-1] == steps[-2])


def pipeline(latency: int) -> Stage:
    """Registers one after another."""
    writer = Pipeline("core", {"x": BIT}, Pacing(), Search())
    wire = writer.elements[0][0].wire
    assert wire is not None
    writer.circuit.begin("x", "x")
    core = writer.finish({"y": [Signal(writer.circuit.at(wire, latency))]})
    return core.stage("stage", BIT)


def folded(inputs: int, groups: int, *, keep: bool) -> Stage:
    """A product of that many groups of inputs and of columns."""
    matrix = np.ones((inputs, groups), np.int64)
    product = Product(matrix, ((0, 1),) * inputs, Bounded((0,) * groups))
    return folded_stage("stage", "", FoldedProduct(product, Folding(1, 1)), keep_beat=keep)


def serial(inputs: int, digit: int, *, keep: bool) -> Stage:
    matrix = np.ones((inputs, 1), np.int8)
    product = Product(matrix, ((0, 7),) * inputs, Bounded((0,)))
    return serial_stage(
        "stage", "", SerialProduct(product, optimize_matrix(matrix), digit), keep_beat=keep
    )


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

    def add(self, stage: Stage, *, is_queue: bool = False) -> None:
        output = self.channel()
        self.nodes.append(Node(stage.handshake, (self.end,), (output,), is_queue))
        self.end = output

    def window(self, kernel: int, stride: int, padding: int, dilation: int = 1) -> None:
        least = (kernel - 1) * dilation + 1 - 2 * padding
        if min(self.size) < least:
            return
        pair = padding, padding
        shape = WindowShape(
            self.size, (kernel, kernel), (stride, stride), pair, pair, (dilation, dilation)
        )
        image = Layout(BIT.bounds, self.size[0] * self.size[1])
        self.add(window_stage("stage", shape, image, [0], Pacing()))
        self.size = shape.result

    def around(self, kernels: Sequence[int], depth: int | None) -> None:
        """Ways that meet again: windows and pipelines, and a FIFO."""
        ways = self.channel(), self.channel()
        fork = fork_stage("stage", BIT, [[0], [0]])
        self.nodes.append(Node(fork.handshake, (self.end,), ways))
        self.end = ways[0]
        for kernel in kernels:
            self.window(kernel, 1, kernel // 2)
            self.add(pipeline(kernel))
        long, self.end = self.end, ways[1]
        self.add(fifo_stage("stage", BIT, depth or DEEPEST), is_queue=depth is None)
        output = self.channel()
        join = join_stage("stage", [BIT, BIT])
        self.nodes.append(Node(join.handshake, (long, self.end), (output,)))
        self.end = output

    @property
    def beats(self) -> int:
        return self.size[0] * self.size[1]

    def gather(self) -> None:
        self.add(gather_stage("stage", Layout(BIT.bounds, self.beats)))
        self.size = 1, 1


PARTS = st.one_of(
    st.tuples(
        st.just("window"),
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.integers(1, 2)),
    ),
    st.tuples(st.just("pipeline"), st.integers(0, 5)),
    st.tuples(st.just("fifo"), st.integers(2, 9)),
    st.tuples(
        st.just("folded"),
        st.tuples(st.integers(1, 5), st.integers(1, 4), st.booleans()),
    ),
    st.tuples(st.just("serial"), st.tuples(st.integers(1, 6), st.integers(1, 3), st.booleans())),
    st.tuples(st.just("around"), st.lists(st.sampled_from([1, 3]), min_size=1, max_size=2)),
)


def chain_of(rows: int, columns: int, parts: Sequence[tuple[str, object]], end: bool) -> Chain:
    built = Chain(rows, columns)
    for kind, numbers in parts:
        match kind, numbers:
            case "window", (int() as k, int() as s, int() as p, int() as d):
                built.window(k, s, p, d)
            case "folded", (int() as inputs, int() as groups, bool() as keep):
                built.add(folded(inputs, groups, keep=keep))
            case "serial", (int() as inputs, int() as digit, bool() as keep):
                built.add(serial(inputs, digit, keep=keep))
            case "pipeline", int() as latency:
                built.add(pipeline(latency))
            case "fifo", int() as depth:
                built.add(fifo_stage("stage", BIT, depth))
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
    expected = by_cycles(built.nodes, 0, built.end, built.beats)
    assert schedule(built.nodes, 0, built.end, built.beats) == expected


def test_a_larger_image_too() -> None:
    built = pyramid(40, 3)
    assert schedule(built.nodes, 0, built.end, 1) == by_cycles(built.nodes, 0, built.end, 1)


def pyramid(size: int, halvings: int) -> Chain:
    """Convolutions of 3x3 with a shortcut, and pooling, so many times; a vector at the end."""
    built = Chain(size, size)
    for _ in range(halvings):
        built.window(3, 1, 1)
        built.add(pipeline(7))
        built.around([3], None)
        built.window(2, 2, 0)
        built.add(pipeline(2))
    built.gather()
    return built


@pytest.mark.parametrize(("size", "halvings", "steps"), [(224, 3, 1), (112, 1, 36)])
def test_few_cycles_of_large_images_are_worked_out(
    monkeypatch: pytest.MonkeyPatch, size: int, halvings: int, steps: int
) -> None:
    built = pyramid(size, halvings)
    source = 0
    if steps > 1:
        source = built.channels
        first = folded(9, steps // 9, keep=True)
        built.nodes.insert(0, Node(first.handshake, (source,), (0,)))
    cycle, asked = Handshake.cycle, 0

    def counted(self: Handshake, *args: Any) -> Cycle:
        nonlocal asked
        asked += 1
        return cycle(self, *args)

    monkeypatch.setattr(Handshake, "cycle", counted)
    found = schedule(built.nodes, source, built.end, 1)
    assert found.interval == size * size * steps
    assert asked < len(built.nodes) * found.interval / 10  # three frames are passed at least


def test_stages_that_wait_for_each_other() -> None:
    built = Chain(4, 4)
    built.around([3, 3], 3)
    with pytest.raises(LoweringError, match="wait for each other"):
        schedule(built.nodes, 0, built.end, 16)


def test_a_handshake_that_depends_on_data_is_refused() -> None:
    layout = Layout(((0, 15),))
    body = StageBody(layout)
    valid = body.put(comb.ParityOp(body.in_data[0]))
    stage = body.stage("stage", "", layout, (body.out_ready[0], body.in_data[0], valid))
    with pytest.raises(LoweringError, match="'stage' depends on data"):
        Handshake(stage.module)
