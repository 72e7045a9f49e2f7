"""Products with constant matrices as circuits, in the form that takes least of the fabric.

Shared adders; the inputs' single bits counted; or rows of look-up tables before carry chains, where
the fabric has them. Not here: the search for shared adders (`passes.adder_graph`), counts
(`bit_counts`), rows (`heaps`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ....passes.adder_graph import InputRange, optimize_integers
from ....passes.adder_graph.graph import AdderGraph, width_of
from ....passes.adder_graph.integers import common_shifts, digit_planes
from ....passes.adder_graph.retiming import calm_adders
from ..estimate.areas import Areas
from .arithmetic import add, scaled
from .bit_counts import ColumnSums, Plane, planes
from .circuit import Circuit, Search
from .heaps.emission import rows_of_plan
from .heaps.plan import HeapPlan, Input, heap_plan, is_worth_planning
from .heaps.search import NoSumError
from .signals import Signal, Wire

WIDEST_COUNTED = 2
"""The most bits of a number that is summed bit by bit."""

SAMPLES = ((1024, 0.55), (4096, 0.85))
"""Elements of the inputs that are a sample of a matrix, and a share: a form that takes less than
this share of shared adders, by those found at once for the sample, is taken without a search."""

WHOLE = 0.94
"""The same share where the sample is all of the matrix: a search saves at most a twentieth."""


def times_matrix(
    circuit: Circuit, row: Sequence[Signal], matrix: NDArray[np.int64], *, exact: bool
) -> list[Signal]:
    """row · M for a known matrix [K, N], in the form that takes the fewest look-up tables.

    Shared adders are searched for where rows of look-up tables may take more.

    Args:
        exact: whether the results are wanted as they are, and not with offsets that cost nothing
            where thresholds follow.
    """
    shifts = common_shifts(matrix)
    matrix = matrix >> np.array(shifts, np.int64)
    form, inputs = _other_form(circuit, matrix, row, exact=exact), _range(row)
    if form is not None and _is_sure(form, matrix, inputs):
        sums = form.sums()
    else:
        graph = _searched(matrix.tobytes(), matrix.shape[1], circuit.search, inputs)
        sums = _smaller(circuit, graph, row, form, exact=exact)
    return [scaled(circuit, total, 1 << shift) for total, shift in zip(sums, shifts, strict=True)]


def graph_row(
    circuit: Circuit, graph: AdderGraph, row: Sequence[Signal], *, exact: bool
) -> list[Signal]:
    """The same for the matrix of a graph that was searched for before."""
    form = _other_form(circuit, graph.matrix(), row, exact=exact)
    return _smaller(circuit, graph, row, form, exact=exact)


def _smaller(
    circuit: Circuit, graph: AdderGraph, row: Sequence[Signal], form: _Form | None, *, exact: bool
) -> list[Signal]:
    """The adders of a graph, or another form that takes less."""
    if form is not None and form.takes_less(graph.bits(_range(row))):
        return form.sums()
    return _shared(circuit, graph, row, exact=exact)


@lru_cache(maxsize=8)
def _searched(integers: bytes, columns: int, search: Search, inputs: InputRange) -> AdderGraph:
    """The shared adders of a matrix each of whose columns has an odd number, or zeros alone."""
    graph, _ = optimize_integers(
        np.frombuffer(integers, np.int64).reshape(-1, columns),
        cost=search.cost,
        max_depth=search.max_depth,
        time_budget=search.time_budget,
        inputs=inputs,
    )
    return graph


def _is_sure(form: _Form, matrix: NDArray[np.int64], inputs: InputRange) -> bool:
    """Whether a form takes less than shared adders, without a search for these.

    Adders are shared the more, the more inputs there are; a small sample is soon there.
    """
    inputs_of_matrix, columns = matrix.shape
    for elements, share in SAMPLES:
        sample = matrix[: max(1, elements // max(columns, 1))]
        is_whole = len(sample) == inputs_of_matrix
        graph, _ = optimize_integers(sample, time_budget=0, inputs=inputs)
        bits = graph.bits(inputs) * np.count_nonzero(matrix) / max(np.count_nonzero(sample), 1)
        if form.takes_less((WHOLE if is_whole else share) * bits):
            return True
        if is_whole:
            break
    return False


@dataclass(frozen=True)
class _Form:
    """Another form of a product than shared adders.

    Attributes:
        cost: what it takes, in look-up tables with registers.
        areas: of the family.
        sums: writes it into the circuit, and gives the columns.
    """

    cost: float
    areas: Areas
    sums: Callable[[], list[Signal]]

    def takes_less(self, bits: float) -> bool:
        """Whether it takes less than adders of so many bits."""
        return self.cost < self.areas.adders(bits)


def _other_form(
    circuit: Circuit, matrix: NDArray[np.int64], row: Sequence[Signal], *, exact: bool
) -> _Form | None:
    """The best form but shared adders that a product has, if any."""
    planned = _planned(circuit, matrix, row, exact=exact)
    return planned or _column_sums(circuit, matrix, row, exact=exact)


def _planned(
    circuit: Circuit, matrix: NDArray[np.int64], row: Sequence[Signal], *, exact: bool
) -> _Form | None:
    """The product as rows of look-up tables; `None` where the fabric has none or none are tried."""
    if not circuit.pacing.has_rows() or all(signal.wire is None for signal in row):
        return None
    columns, places = np.unique(matrix, axis=1, return_inverse=True)
    planes = digit_planes(columns).swapaxes(0, 1)
    inputs: list[Input] = []
    wires: list[Wire] = []
    trits: list[NDArray[np.int8]] = []
    for signal, digits in zip(row, planes, strict=True):
        for shift, plane in enumerate(digits):
            if signal.wire is not None and plane.any():
                inputs.append(Input(signal.wire.low, signal.wire.high, shift))
                wires.append(signal.wire)
                trits.append((plane * signal.sign).astype(np.int8))
    if not inputs or not is_worth_planning(np.stack(trits), inputs, exact=exact):
        return None
    areas = circuit.pacing.areas
    plan = _plan(np.stack(trits).tobytes(), len(columns[0]), tuple(inputs), areas, exact)
    if plan is None or not circuit.pacing.has_rows(plan.readers):
        return None
    offsets = (np.array([signal.offset for signal in row]) @ matrix).tolist()
    order: list[int] = places.reshape(-1).tolist()

    def sums() -> list[Signal]:
        totals = rows_of_plan(circuit, plan, wires)
        return [totals[place].plus(o) for place, o in zip(order, offsets, strict=True)]

    return _Form(areas.kept(plan.sites, plan.registers), areas, sums)


@lru_cache(maxsize=8)
def _plan(
    trits: bytes, columns: int, inputs: tuple[Input, ...], areas: Areas, exact: bool
) -> HeapPlan | None:
    matrix = np.frombuffer(trits, np.int8).reshape(-1, columns)
    try:
        return heap_plan(matrix, inputs, areas, exact=exact)
    except NoSumError:
        return None


def _column_sums(
    circuit: Circuit, matrix: NDArray[np.int64], row: Sequence[Signal], *, exact: bool
) -> _Form | None:
    """The columns summed bit by bit, equal ones once; `None` where numbers have many bits."""
    widths = {signal.wire.width for signal in row if signal.wire is not None}
    if not widths or max(widths) > WIDEST_COUNTED:
        return None
    if not matrix.size or np.abs(matrix).max() > 1:
        return None
    keys = [column.tobytes() for column in matrix.T]
    columns: dict[bytes, list[Plane]] = {}
    for key, column in zip(keys, matrix.T, strict=True):
        pairs = [
            (signal.wire, signal.sign * trit)
            for signal, trit in zip(row, column.tolist(), strict=True)
            if trit and signal.wire is not None
        ]
        columns.setdefault(key, planes(pairs, exact=exact))
    sums = ColumnSums(circuit, list(columns.values()), asked=not exact)
    offsets = (np.array([signal.offset for signal in row]) @ matrix).tolist()

    def results() -> list[Signal]:
        totals: dict[bytes, Signal] = {}
        for index, key in enumerate(keys):
            if key not in totals:
                with circuit.element(index):
                    totals[key] = sums.total(columns[key])
        return [totals[key].plus(offset) for key, offset in zip(keys, offsets, strict=True)]

    return _Form(sums.cost, circuit.pacing.areas, results)


def _range(row: Sequence[Signal]) -> InputRange:
    return InputRange.around(signal.bounds for signal in row)


def _shared(
    circuit: Circuit, graph: AdderGraph, row: Sequence[Signal], *, exact: bool
) -> list[Signal]:
    """One adder a node."""
    users = Counter(value for node in graph.nodes for value in node[:2])
    values = [_spread(circuit, signal, users[value]) for value, signal in enumerate(row)]
    cycles = _cycles(circuit, graph, row, exact=exact)
    columns: dict[int, int] = {}
    for column, (value, sign) in enumerate(graph.outputs):
        if sign:
            columns.setdefault(value, column)
    for index, (a, b, sign, shift) in enumerate(graph.nodes, graph.inputs):
        column = columns.get(index)
        first, second = values[a], values[b]
        if cycles is not None:
            first, second = (_at(circuit, signal, cycles[index] - 1) for signal in (first, second))
        with circuit.element(column):
            name = circuit.name("add" if column is None else "acc")
            other = scaled(circuit, second, sign << shift)
            values.append(_spread(circuit, add(circuit, first, other, name), users[index]))
    return [
        Signal.constant(0) if not sign else values[value] if sign > 0 else values[value].negated()
        for value, sign in graph.outputs
    ]


def _spread(circuit: Circuit, signal: Signal, users: int) -> Signal:
    """A signal that is later for going to so many adders."""
    late = circuit.pacing.after_sharing(users)
    if not late or signal.wire is None:
        return signal
    return replace(signal, wire=replace(signal.wire, level=signal.wire.level + late))


def _cycles(
    circuit: Circuit, graph: AdderGraph, row: Sequence[Signal], *, exact: bool
) -> list[int] | None:
    """When each value is there, where there is a register behind each adder."""
    wires = [signal.wire for signal in row if signal.wire is not None]
    if not circuit.pacing.is_every_level or len(wires) < len(row) or not wires:
        return None
    widths = [width_of(*bounds) for bounds in graph.ranges(_range(row))]
    ready = [wire.cycle + bool(wire.level) for wire in wires]
    return calm_adders(graph, widths, ready, held=exact)


def _at(circuit: Circuit, signal: Signal, cycle: int) -> Signal:
    if signal.wire is None:
        return signal
    return replace(signal, wire=circuit.at(signal.wire, cycle))
