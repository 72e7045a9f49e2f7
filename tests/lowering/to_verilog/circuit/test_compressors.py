"""Sums of bits are exact, whatever the widths, the signs, the pace and the look-up tables."""

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import comb, seq

from triton_dsl.lowering.to_verilog.circuit.arithmetic import at_least
from triton_dsl.lowering.to_verilog.circuit.compressors import (
    ColumnSums,
    compressed_sum,
    planes,
)
from triton_dsl.lowering.to_verilog.circuit.pacing import Pacing
from triton_dsl.lowering.to_verilog.circuit.popcounts import Planner
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
        planes([(wire, trit) for wire, trit in zip(under.wires, column, strict=True) if trit])
        for column in trits
    ]
    writer = ColumnSums(under.circuit, sums, exact=exact, asked=not exact and rng.random() < 0.5)
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
    column = planes(
        [(w, 1 if i < plus else -1) for i, w in enumerate(under.wires)],
    )
    signal = ColumnSums(under.circuit, [column], exact=True).total(column)
    if not column:
        assert signal.wire is None and signal.offset == 0
        return
    assert signal.bounds == (-minus, plus)
    assert signal.wire is not None and signal.wire.width == width_of(-minus, plus)


def test_all_columns_come_together(bench: Bench) -> None:
    under = bench([(0, 1)] * 64, Pacing(1))
    columns = [planes([(wire, 1) for wire in under.wires[:count]]) for count in (3, 17, 64)]
    writer = ColumnSums(under.circuit, columns, exact=False)
    cycles = {total.wire.cycle for total in map(writer.total, columns) if total.wire is not None}
    assert cycles == {writer.stages - 1}


@pytest.mark.parametrize("threshold", [-2, 0, 3])
def test_six_bits_and_a_threshold_are_one_cycle_without_carry_chain(
    bench: Bench, threshold: int
) -> None:
    under = bench([(0, 1)] * 6, Pacing(1))
    column = planes([(wire, 1 if i < 4 else -1) for i, wire in enumerate(under.wires)])
    total = ColumnSums(under.circuit, [column], exact=False, asked=True).total(column)
    fires = at_least(under.circuit, total, threshold)
    for x in product((0, 1), repeat=6):
        wanted = sum(x[:4]) - sum(x[4:]) >= threshold
        assert under.number(fires, list(x)) == wanted
    assert fires.wire is None or fires.wire.cycle == 0
    kinds = {type(op) for op in under.block.ops}
    assert not kinds & {comb.ICmpOp, comb.AddOp, comb.SubOp, seq.CompRegOp}


@pytest.mark.parametrize("plus", [0, 1, 7, 20])
@pytest.mark.parametrize("minus", [0, 5])
def test_one_sum(bench: Bench, plus: int, minus: int) -> None:
    under = bench([(0, 1)] * (plus + minus), Pacing(1))
    signal = compressed_sum(under.circuit, under.wires[:plus], under.wires[plus:])
    ones = [i % 3 == 0 for i in range(plus + minus)]
    assert under.number(signal, [int(one) for one in ones]) == sum(ones[:plus]) - sum(ones[plus:])


def test_look_up_tables_of_one_sum() -> None:
    planner = Planner()
    plans = [planner.plan(count, planner.together([count])) for count in (1, 7, 13)]
    assert [plan.luts for plan in plans if plan is not None] == [0, 3, 6]
