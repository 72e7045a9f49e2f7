"""Plans count every bit once, in the stages asked for, with the look-up tables they say."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.lowering.to_verilog.circuit.popcounts import COUNTED, Plan, Planner

SIX, FOUR = Planner(6), Planner(4)


def parts(plan: Plan) -> Iterator[Plan]:
    yield plan
    for part in (plan.number, plan.other):
        if part is not None:
            yield from parts(part)


@settings(deadline=None)
@given(st.integers(1, 400), st.integers(0, 2), st.sampled_from([SIX, FOUR]))
def test_plans_count_every_bit_once(count: int, more: int, planner: Planner) -> None:
    stages = planner.least_stages(count) + more
    plan = planner.plan(count, stages)
    assert plan is not None and plan.count == count
    for part in parts(plan):
        assert part.stages <= stages
        if part.kind == "bit":
            assert part.count == 1
        elif part.kind == "table":
            assert part.count <= planner.inputs
        else:
            numbers = [number for number in (part.number, part.other) if number is not None]
            assert sum(n.count for n in numbers) + part.counted + part.carry == part.count
            assert all(number.stages < part.stages for number in numbers)
            assert part.counted <= (COUNTED if planner is SIX else 0)
            assert planner is SIX or min(number.count for number in numbers) > 1


@pytest.mark.parametrize(("count", "stages", "luts"), [(3, 1, 1), (7, 1, 3), (13, 2, 6)])
def test_rows_take_counts_in(count: int, stages: int, luts: int) -> None:
    plan = SIX.plan(count, stages)
    assert plan is not None and plan.luts == luts


@given(st.integers(8, 400))
@settings(deadline=None)
def test_a_bit_costs_less_than_in_full_adders(count: int) -> None:
    """A tree of full adders takes a look-up table for each bit that goes away, or more."""
    plan = SIX.plan(count, SIX.least_stages(count))
    assert plan is not None and plan.luts < count - count.bit_length()


def test_less_than_needed_is_no_plan() -> None:
    assert SIX.plan(8, 1) is None and SIX.plan(1, 0) is not None
    assert SIX.least_stages(7) == 1 and SIX.least_stages(31) == 3
