"""Choices are made again until the circuit that they make reaches the goal.

The circuits here are those of the formulas with more time and area, as stages that wait and windows
take; real ones are in `tests/lowering/to_verilog/test_folding.py`.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.to_verilog.circuit.folding.choice import Choice, Goal, Measured, area_of
from triton_dsl.lowering.to_verilog.circuit.folding.reaching import Build, reached
from triton_dsl.lowering.to_verilog.estimate.areas import Cost

from .test_choice import chosen, layer

LAYERS = [layer(f"fc{i}", 30, 20, 4, 3, 1, i) for i in (1, 2, 3)]


def circuits(slower: float, rest: int, larger: float) -> Build:
    """Circuits whose slowest layer takes so many times its cycles, and areas that are off so."""

    def build(choices: Sequence[Choice]) -> Measured:
        cycles = max(choice.cycles for choice in choices)
        return Measured(int(cycles * slower), Cost(int(area_of(choices) * larger) + rest))

    return build


@settings(max_examples=30)
@given(st.integers(5, 500), st.floats(1, 2), st.integers(0, 900), st.floats(0.6, 1.3))
def test_a_pace_is_reached(cycles: int, slower: float, rest: int, larger: float) -> None:
    found, circuit = reached(LAYERS, {}, Goal(cycles), circuits(slower, rest, larger))
    assert circuit.interval <= cycles
    assert max(choice.cycles for choice in found) * slower < cycles + 1


@settings(max_examples=30)
@given(st.integers(1500, 20_000), st.floats(1, 2), st.integers(0, 900), st.floats(0.6, 1.3))
def test_a_budget_is_kept(luts: int, slower: float, rest: int, larger: float) -> None:
    build = circuits(slower, rest, larger)
    smallest = build(chosen(LAYERS, {}, Goal(10**9))).cost.area
    if smallest > luts:
        message = f"lut-budget={luts:,} is too small: the circuit takes {smallest:,} LUTs at least"
        with pytest.raises(OptionError, match=message):
            reached(LAYERS, {}, Goal(luts=luts), build)
        return
    _, circuit = reached(LAYERS, {}, Goal(luts=luts), build)
    assert circuit.cost.area <= luts


def test_a_budget_is_used() -> None:
    """Where circuits are smaller than the formulas say, they get quicker than those allow."""
    build = circuits(1.0, 0, 0.6)
    _, circuit = reached(LAYERS, {}, Goal(luts=1800), build)
    assert circuit.interval < build(chosen(LAYERS, {}, Goal(luts=1800))).interval


def test_what_is_out_of_reach_is_told_with_numbers() -> None:
    def stuck(choices: Sequence[Choice]) -> Measured:
        return Measured(784, Cost(100 + area_of(choices)))

    with pytest.raises(
        OptionError, match="may take 500 cycles, and the circuit takes 784, because"
    ):
        reached(LAYERS, {}, Goal(500), stuck)
    build = circuits(1.5, 100, 1.0)
    _, best = reached(LAYERS, {}, Goal(luts=1500), build)
    cycles = best.interval // 2
    _, smallest = reached(LAYERS, {}, Goal(cycles), build)
    with pytest.raises(OptionError) as caught:
        reached(LAYERS, {}, Goal(cycles, 1500), build)
    rate = f"{100e6 / best.interval:,.0f} frames/s at 100 MHz"
    assert f"lut-budget=1,500 allows {rate} at best" in str(caught.value)
    assert f"take {smallest.cost.area:,} LUTs" in str(caught.value)


def test_a_program_without_products_reaches_what_it_takes() -> None:
    def alone(choices: Sequence[Choice]) -> Measured:
        assert not choices
        return Measured(49, Cost(300))

    assert reached([], {}, Goal(49, 300), alone) == ([], Measured(49, Cost(300)))
    with pytest.raises(OptionError, match="may take 48 cycles, and the circuit takes 49"):
        reached([], {}, Goal(48), alone)
