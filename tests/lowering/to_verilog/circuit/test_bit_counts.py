"""Sums of bits are exact, whatever the widths, the signs, the pace and the look-up tables.

Plans count every bit once, in the stages asked for, with the look-up tables they say.
"""

import random
from collections.abc import Callable, Iterator
from itertools import count as whole_numbers
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import comb, seq

from triton_dsl.lowering.to_verilog.circuit.arithmetic import at_least
from triton_dsl.lowering.to_verilog.circuit.bit_counts import (
    COUNTED,
    ColumnSums,
    Plan,
    cheapest_plan,
    ones_among,
    planes,
)
from triton_dsl.lowering.to_verilog.circuit.pacing import Pacing
from triton_dsl.lowering.to_verilog.estimate.areas import areas_of
from triton_dsl.passes.adder_graph.graph import width_of

BOUNDS = [(0, 1), (0, 3), (-1, 1), (-2, 1), (0, 2)]
PACINGS = [Pacing(0), Pacing(1), Pacing(2), Pacing(1, device="ice40-hx"), Pacing(clock=350.0)]

Bench = Callable[..., Any]


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from(BOUNDS), min_size=1, max_size=40),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from(PACINGS),
    st.randoms(use_true_random=False),
)
def test_sums_are_exact(
    bench: Bench,
    bounds: list[tuple[int, int]],
    columns: int,
    exact: bool,
    pacing: Pacing,
    rng: random.Random,
) -> None:
    under = bench(bounds, pacing)
    trits = [[rng.choice((-1, 0, 1)) for _ in bounds] for _ in range(columns)]
    sums = [
        planes(
            [(wire, trit) for wire, trit in zip(under.wires, column, strict=True) if trit],
            exact=exact,
        )
        for column in trits
    ]
    writer = ColumnSums(under.circuit, sums, asked=not exact and rng.random() < 0.5)
    signals = [writer.total(column) for column in sums]
    for draw in (min, max, rng.choice, rng.choice):
        x = [draw(range(low, high + 1)) for low, high in bounds]
        for column, signal in zip(trits, signals, strict=True):
            expected = sum(t * value for t, value in zip(column, x, strict=True))
            assert under.number(signal, x) == expected
            assert not exact or signal.offset == 0


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 30), st.integers(0, 30))
def test_widths_of_counted_bits_are_the_least(bench: Bench, plus: int, minus: int) -> None:
    under = bench([(0, 1)] * (plus + minus), Pacing(1))
    column = planes([(w, 1 if i < plus else -1) for i, w in enumerate(under.wires)], exact=True)
    signal = ColumnSums(under.circuit, [column]).total(column)
    if not column:
        assert signal.wire is None and signal.offset == 0
        return
    assert signal.bounds == (-minus, plus)
    assert signal.wire is not None and signal.wire.width == width_of(-minus, plus)


def test_all_columns_come_together(bench: Bench) -> None:
    under = bench([(0, 1)] * 64, Pacing(1))
    columns = [
        planes([(wire, 1) for wire in under.wires[:count]], exact=False) for count in (3, 17, 64)
    ]
    writer = ColumnSums(under.circuit, columns)
    cycles = {total.wire.cycle for total in map(writer.total, columns) if total.wire is not None}
    assert cycles == {writer.stages - 1}


@pytest.mark.parametrize("threshold", [-2, 0, 3])
def test_six_bits_and_a_threshold_are_one_cycle_without_carry_chain(
    bench: Bench, threshold: int
) -> None:
    under = bench([(0, 1)] * 6, Pacing(1))
    pairs = [(wire, 1 if i < 4 else -1) for i, wire in enumerate(under.wires)]
    column = planes(pairs, exact=False)
    total = ColumnSums(under.circuit, [column], asked=True).total(column)
    fires = at_least(under.circuit, total, threshold)
    for x in product((0, 1), repeat=6):
        wanted = sum(x[:4]) - sum(x[4:]) >= threshold
        assert under.number(fires, list(x)) == wanted
    assert fires.wire is None or fires.wire.cycle == 0
    kinds = {type(op) for op in under.block.ops}
    assert not kinds & {comb.ICmpOp, comb.AddOp, comb.SubOp, seq.CompRegOp}


@pytest.mark.parametrize("size", [1, 7, 20])
def test_one_sum(bench: Bench, size: int) -> None:
    under = bench([(0, 1)] * size, Pacing(1))
    ones = [i % 3 == 0 for i in range(size)]
    signal = ones_among(under.circuit, under.wires)
    assert under.number(signal, [int(one) for one in ones]) == sum(ones)


AREAS = {6: areas_of("ultrascale+"), 4: areas_of("ecp5")}
"""By the inputs of a look-up table."""


def luts(plan: Plan) -> int:
    """The look-up tables of all rows, as Yosys counts them for tables of six inputs."""
    if not plan.numbers:
        return plan.count.bit_length() if plan.count > 1 else 0
    narrow = plan.counted
    if len(plan.numbers) > 1:
        narrow = min(number.count for number in plan.numbers)
    return narrow.bit_length() + sum(map(luts, plan.numbers))


def parts(plan: Plan) -> Iterator[Plan]:
    yield plan
    for number in plan.numbers:
        yield from parts(number)


def least_stages(inputs: int, count: int) -> int:
    """The fewest stages there is a plan for."""
    return next(stages for stages in whole_numbers() if cheapest_plan(AREAS[inputs], count, stages))


@settings(deadline=None)
@given(st.integers(1, 400), st.integers(0, 2), st.sampled_from([6, 4]))
def test_plans_count_every_bit_once(count: int, more: int, inputs: int) -> None:
    plan = cheapest_plan(AREAS[inputs], count, least_stages(inputs, count) + more)
    assert plan is not None and plan.count == count
    for part in parts(plan):
        inside = sum(number.count for number in part.numbers)
        assert inside + part.counted + part.carry == part.count
        if not part.numbers:
            assert part.count <= inputs
        elif inputs == 6:
            assert part.counted <= COUNTED and len(part.numbers) + bool(part.counted) <= 2
        else:
            assert not part.counted and min(number.count for number in part.numbers) > 1


@settings(deadline=None)
@given(st.integers(1, 400), st.integers(0, 2), st.sampled_from([6, 4]))
def test_no_plan_takes_more_stages_than_asked(count: int, more: int, inputs: int) -> None:
    def depth(plan: Plan) -> int:
        return 0 if plan.count == 1 else 1 + max(map(depth, plan.numbers), default=0)

    stages = least_stages(inputs, count) + more
    plan = cheapest_plan(AREAS[inputs], count, stages)
    assert plan is not None and depth(plan) <= stages


@pytest.mark.parametrize(
    ("count", "stages", "expected"), [(1, 0, 0), (3, 1, 1), (7, 1, 3), (13, 2, 6)]
)
def test_rows_take_counts_in(count: int, stages: int, expected: int) -> None:
    plan = cheapest_plan(AREAS[6], count, stages)
    assert plan is not None and luts(plan) == expected


@given(st.integers(8, 400))
@settings(deadline=None)
def test_a_bit_costs_less_than_in_full_adders(count: int) -> None:
    """A tree of full adders takes a look-up table for each bit that goes away, or more."""
    plan = cheapest_plan(AREAS[6], count, least_stages(6, count))
    assert plan is not None and luts(plan) < count - count.bit_length()


def test_less_than_needed_is_no_plan() -> None:
    assert cheapest_plan(AREAS[6], 8, 1) is None and cheapest_plan(AREAS[6], 1, 0) is not None
    assert least_stages(6, 7) == 1 and least_stages(6, 31) == 3
