"""Adders that work later save registers, and never cost latency."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.passes.adder_graph import AdderGraph, InputRange, optimize_matrix
from triton_dsl.passes.adder_graph.graph import width_of
from triton_dsl.passes.adder_graph.retiming import calm_adders

BITS = InputRange.of_bits(4)


def registers(graph: AdderGraph, widths: list[int], cycles: list[int]) -> int:
    """Bits of all registers: a value is kept from its adder to its last user or to the end."""
    last = list(cycles)
    for node, (a, b, _, _) in enumerate(graph.nodes, graph.inputs):
        for operand in (a, b):
            last[operand] = max(last[operand], cycles[node] - 1)
    end = max(cycles[value] for value, _ in graph.outputs)
    for value, sign in graph.outputs:
        if sign:
            last[value] = end
    stages = [
        n - c + (i >= graph.inputs) for i, (c, n) in enumerate(zip(cycles, last, strict=True))
    ]
    return sum(width * count for width, count in zip(widths, stages, strict=True))


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 24), st.integers(1, 12), st.integers(0, 3), st.integers(0, 1000))
def test_fewer_registers_and_the_same_latency(
    inputs: int, outputs: int, spread: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-1, 2, (inputs, outputs)).astype(np.int8)
    matrix[0] = 1
    graph = optimize_matrix(matrix, inputs=BITS, time_budget=0.001)
    widths = [width_of(*bounds) for bounds in graph.ranges(BITS)]
    ready = rng.integers(0, spread + 1, inputs).tolist()
    soonest = list(ready)
    for a, b, _, _ in graph.nodes:
        soonest.append(1 + max(soonest[a], soonest[b]))
    cycles = calm_adders(graph, widths, ready, held=True)
    assert cycles[:inputs] == ready
    for node, (a, b, _, _) in enumerate(graph.nodes, inputs):
        assert cycles[node] > max(cycles[a], cycles[b])
    ends = [[found[value] for value, _ in graph.outputs] for found in (soonest, cycles)]
    assert max(ends[1]) == max(ends[0])
    assert registers(graph, widths, cycles) <= registers(graph, widths, soonest)


@pytest.mark.parametrize(("held", "cycle"), [(True, 3), (False, 1)])
def test_a_result_that_waits_is_made_late(held: bool, cycle: int) -> None:
    # Input 0 waits for the last adder, input 1 has the first one as its only user.
    nodes = ((0, 1, 1, 0), (2, 2, 1, 0), (4, 4, 1, 0), (5, 0, 1, 0))
    graph = AdderGraph(3, nodes, ((3, 1), (6, 1)))
    assert calm_adders(graph, [4, 4, 4, 5, 5, 6, 7], [0, 0, 0], held=held)[3] == cycle
