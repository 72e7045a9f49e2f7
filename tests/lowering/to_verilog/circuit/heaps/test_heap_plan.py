"""Planned rows compute the product, by NumPy's integers, in fewer sites than adders take."""

import cProfile
from pstats import Stats

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.dialects.fabric import row_values
from triton_dsl.lowering.to_verilog.circuit.heaps.plan import HeapPlan, Input, Word, heap_plan
from triton_dsl.lowering.to_verilog.circuit.heaps.rows import FALSE_NET, TRUE_NET
from triton_dsl.lowering.to_verilog.circuit.heaps.sharing import Sharing
from triton_dsl.lowering.to_verilog.estimate.areas import areas_of

AREAS = areas_of("ultrascale+")


def inputs_of(rng: np.random.Generator, count: int) -> list[Input]:
    """Numbers of up to five bits, some with a sign, some times a power of two."""
    result: list[Input] = []
    for _ in range(count):
        low, high = sorted(rng.integers(-16, 17, 2).tolist())
        signed = rng.random() < 0.5
        low, high = (min(low, 0), max(high, 1)) if signed else (0, abs(high) + 1)
        result.append(Input(low, high, int(rng.integers(0, 3))))
    return result


def computed(plan: HeapPlan, numbers: list[int]) -> list[int]:
    """The outputs of a plan for numbers as they are before their powers of two, row by row."""
    values = {FALSE_NET: 0, TRUE_NET: 1}
    for number, nets in zip(numbers, plan.nets, strict=True):
        values |= {net: number >> place & 1 for place, net in enumerate(nets)}
    for _, row in plan.rows:
        word = sum(values[net] << place for place, net in enumerate(row.inputs))
        result = row_values(row.tables, row.direct, row.linked, word, values[row.carry_in])
        values |= {net: result >> place & 1 for net, place in row.gives()}
    return [number_of(word, values) for word in plan.words]


def number_of(word: Word, values: dict[int, int]) -> int:
    """An output from the bits of all nets."""
    bits = [values[literal >> 1] ^ (literal & 1) for literal in word.literals]
    sign = bits[-1] << len(bits) if word.low < 0 else 0
    return sum(bit << place for place, bit in enumerate(bits)) - sign + word.offset


def extremes(matrix: np.ndarray, inputs: list[Input]) -> list[list[int]]:
    """The numbers that make each output least and largest."""
    return [
        [i.high if (t > 0) == top else i.low for t, i in zip(column, inputs, strict=True)]
        for column in matrix.T.tolist()
        for top in (False, True)
    ]


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 24), st.integers(1, 10), st.booleans(), st.floats(0, 0.9), st.integers(0))
def test_every_plan_is_the_product(
    rows: int, columns: int, exact: bool, zeros: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.choice([-1, 0, 1], (rows, columns), p=[(1 - zeros) / 2, zeros, (1 - zeros) / 2])
    inputs = inputs_of(rng, rows)
    plan = heap_plan(matrix.astype(np.int8), inputs, AREAS, exact=exact, tries=4)
    scales = np.array([1 << each.shift for each in inputs])
    drawn = [[int(rng.integers(i.low, i.high + 1)) for i in inputs] for _ in range(8)]
    for numbers in [*drawn, *extremes(matrix, inputs)]:
        found = computed(plan, numbers)
        assert found == (np.array(numbers) * scales @ matrix).tolist()
        for word, number in zip(plan.words, found, strict=True):
            assert word.low <= number - word.offset <= word.high
            assert word.offset == 0 or not exact
            assert exact or word.low >= 0


@settings(deadline=None, max_examples=10)
@given(st.integers(3, 40), st.integers(1, 12), st.integers(0))
def test_single_bits_with_any_signs(rows: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-1, 2, (rows, columns)).astype(np.int8)
    plan = heap_plan(matrix, [Input(0, 1)] * rows, AREAS, tries=4)
    for numbers in rng.integers(0, 2, (20, rows)).tolist():
        assert computed(plan, numbers) == (np.array(numbers) @ matrix.astype(int)).tolist()


def levels_hold(plan: HeapPlan) -> bool:
    """Whether every row comes after those that it reads."""
    made = {net: 0 for nets in plan.nets for net in nets}
    for level, row in plan.rows:
        if any(made[net] >= level for net in row.reads()):
            return False
        made |= {net: level for net, _ in row.gives()}
    return True


@pytest.mark.parametrize(
    ("bits", "most_sites", "most_registers", "most_levels"),
    [(4, 3_090, 8_500, 8), (1, 1_100, 2_400, 5)],
)
def test_a_matrix_of_64_by_64(
    bits: int, most_sites: int, most_registers: int, most_levels: int
) -> None:
    # Shared adders take 5,300 look-up tables and 7,900 registers, counts of bits 1,220.
    matrix = np.random.default_rng(7).integers(-2, 2, (64, 64)) // 2 * 2 + 1
    matrix[np.random.default_rng(8).random((64, 64)) < 0.5] = 0
    ends = (-8, 7) if bits == 4 else (0, 1)
    plan = heap_plan(matrix.astype(np.int8), [Input(*ends)] * 64, AREAS)
    assert levels_hold(plan)
    assert plan.sites <= most_sites
    assert plan.registers <= most_registers
    assert plan.levels <= most_levels
    for numbers in np.random.default_rng(9).integers(ends[0], ends[1] + 1, (20, 64)).tolist():
        assert computed(plan, numbers) == (np.array(numbers) @ matrix).tolist()


def test_the_same_matrix_gives_the_same_plan() -> None:
    matrix = np.random.default_rng(1).integers(-1, 2, (20, 9)).astype(np.int8)
    first, second = (heap_plan(matrix, [Input(-4, 3)] * 20, AREAS) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("bits", "count", "columns"), [(2, 160, 32), (4, 80, 12)])
def test_work_of_sharing_grows_with_the_rows(bits: int, count: int, columns: int) -> None:
    matrix = np.random.default_rng(3).integers(-1, 2, (2 * count, columns)).astype(np.int8)
    calls: list[int] = []
    for rows in (count, 2 * count):
        profile = cProfile.Profile()
        found = profile.runcall(Sharing, matrix[:rows], [(1,) * bits] * rows, 2)
        calls.append(vars(Stats(profile))["total_calls"])
        sources = list(np.eye(rows, dtype=int))
        for terms in [*found.nodes, *(each.items() for each in found.sums)]:
            sources.append(np.array([sign * sources[source] for source, sign in terms]).sum(axis=0))
        np.testing.assert_array_equal(np.array(sources[-columns:]).T, matrix[:rows])
    assert calls[1] < 3.5 * calls[0]
