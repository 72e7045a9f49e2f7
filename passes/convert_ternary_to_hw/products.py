"""Products with constant trits as circuits: shared adders, or sums of the inputs' single bits.

Not here: the search for shared adders (`passes.adder_graph`), rows of bits (`compressors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..adder_graph import InputRange
from ..adder_graph.graph import AdderGraph
from .arithmetic import add, scaled
from .circuit import Circuit
from .compressors import ColumnSums, Plane, planes
from .signals import Signal

WIDEST_COUNTED = 2
"""The most bits of a number that is summed bit by bit."""

LUT_PER_ADDER_BIT = 0.85
"""Measured with Yosys (synth_xilinx) on shared graphs of adders with a register a level."""


def graph_row(
    circuit: Circuit, graph: AdderGraph, row: Sequence[Signal], *, exact: bool
) -> list[Signal]:
    """row · M for the matrix of a graph, in the form that takes the fewest look-up tables.

    Args:
        circuit: where it goes.
        graph: of the matrix.
        row: the inputs.
        exact: whether the results are wanted as they are, and not with offsets that cost nothing
            where thresholds follow.
    """
    return _column_sums(circuit, graph, row, exact=exact) or _shared(circuit, graph, row)


def _column_sums(
    circuit: Circuit, graph: AdderGraph, row: Sequence[Signal], *, exact: bool
) -> list[Signal] | None:
    """The columns summed bit by bit, equal ones once; `None` if shared adders take fewer LUTs."""
    widths = {signal.wire.width for signal in row if signal.wire is not None}
    if not widths or max(widths) > WIDEST_COUNTED:
        return None
    matrix = _matrix(graph)
    if not matrix.size or np.abs(matrix).max() > 1:
        return None
    columns: dict[bytes, list[Plane]] = {}
    for column in matrix.T:
        pairs = [
            (signal.wire, signal.sign * trit)
            for signal, trit in zip(row, column.tolist(), strict=True)
            if trit and signal.wire is not None
        ]
        columns.setdefault(column.tobytes(), planes(pairs))
    sums = ColumnSums(circuit, list(columns.values()), exact=exact)
    lows, highs = zip(*(s.bounds for s in row if s.wire is not None), strict=True)
    if sums.luts >= LUT_PER_ADDER_BIT * graph.bits(InputRange(min(lows), max(highs))):
        return None
    offsets = np.array([signal.offset for signal in row]) @ matrix
    found: dict[bytes, Signal] = {}
    results: list[Signal] = []
    for index, (column, offset) in enumerate(zip(matrix.T, offsets.tolist(), strict=True)):
        key = column.tobytes()
        if key not in found:
            with circuit.element(index):
                found[key] = sums.total(columns[key]).plus(offset)
        results.append(found[key])
    return results


@lru_cache(maxsize=8)
def _matrix(graph: AdderGraph) -> NDArray[np.int64]:
    return graph.matrix()


def _shared(circuit: Circuit, graph: AdderGraph, row: Sequence[Signal]) -> list[Signal]:
    """One adder a node."""
    values = list(row)
    columns: dict[int, int] = {}
    for column, (value, sign) in enumerate(graph.outputs):
        if sign:
            columns.setdefault(value, column)
    for index, (a, b, sign, shift) in enumerate(graph.nodes, graph.inputs):
        column = columns.get(index)
        with circuit.element(column):
            name = circuit.name("add" if column is None else "acc")
            other = scaled(circuit, values[b], sign << shift)
            values.append(add(circuit, values[a], other, name))
    return [
        Signal.constant(0) if not sign else values[value] if sign > 0 else values[value].negated()
        for value, sign in graph.outputs
    ]
