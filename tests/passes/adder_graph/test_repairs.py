"""Repairs of a factoring: the product stays what it was in NumPy, and what is wanted gets less."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from triton_dsl.passes.adder_graph.emission import emit
from triton_dsl.passes.adder_graph.factoring import SINKS, SOURCES, Factoring
from triton_dsl.passes.adder_graph.graph import InputRange
from triton_dsl.passes.adder_graph.repairs import Repairs

MATRIX = np.random.default_rng(3).integers(-1, 2, (24, 20)).astype(np.int8)


def factored(max_depth: int | None, random: Random) -> Factoring:
    factoring = Factoring(MATRIX, max_depth)
    for side in (SINKS, SOURCES):
        factoring.share_pairs(side, 2, "random", random)
    return factoring


@pytest.mark.parametrize("max_depth", [None, 5])
@pytest.mark.parametrize("bits", [None, 4])
def test_repairs_keep_the_product_and_save(max_depth: int | None, bits: int | None) -> None:
    random = Random(1)
    factoring = factored(max_depth, random)
    before = emit(factoring)
    repairs = Repairs(factoring, random, bits)
    stayed = [repairs.repair() for _ in range(400)]
    assert any(stayed) and not all(stayed)
    after = emit(repairs.result())
    x = np.random.default_rng(0).integers(-128, 128, (50, 24))
    assert np.array_equal(after.evaluate(x), x @ MATRIX.astype(np.int64))
    if bits is None:
        assert after.adders < before.adders
    else:
        wide = InputRange.of_bits(bits)
        assert after.bits(wide) < before.bits(wide)
    assert max_depth is None or after.depth <= max_depth


def test_what_is_taken_back_leaves_all_as_it_was() -> None:
    random = Random(2)
    factoring = factored(6, random)
    repairs = Repairs(factoring, random)

    def state() -> object:
        return (
            factoring.terms,
            repairs.made,
            repairs.sizes,
            repairs.prices,
            factoring.load,
            factoring.limit,
        )

    for _ in range(200):
        said = repr(_sorted(state()))
        nodes = [len(side) for side in factoring.terms]
        if not repairs.repair():
            assert repr(_sorted(state())) == said
            assert [len(side) for side in factoring.terms] == nodes


@pytest.mark.parametrize("max_depth", [None, 3])
@pytest.mark.parametrize("side", [SOURCES, SINKS])
def test_a_pair_is_made_once(
    side: int, max_depth: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a pair appears whose sum there is, that sum is taken: even in one place."""
    matrix = np.array([[1, -1, 1, 1], [-1, 1, -1, -1], [0, 0, 0, 1]], np.int8)
    matrix = matrix if side == SOURCES else np.ascontiguousarray(matrix.T)
    factoring = Factoring(matrix, max_depth)
    factoring.merge(side, 0, 1, -1, [0, 1, 2])
    again = factoring.merge(side, 0, 1, -1, [3])
    before = factoring.adders
    repairs = Repairs(factoring, Random(0))
    monkeypatch.setattr(repairs, "_chosen", lambda: [(side, again)])
    assert repairs.repair()
    result = repairs.result()
    assert result.steps == [(side, 0, 1, -1)]
    assert result.adders == before - 1
    x = np.random.default_rng(0).integers(-128, 128, (50, len(matrix)))
    assert np.array_equal(emit(result).evaluate(x), x @ matrix.astype(np.int64))


@pytest.mark.parametrize("side", [SOURCES, SINKS])
def test_a_full_sum_is_not_taken_again(side: int) -> None:
    """Where the sum of a pair has no room within the depth, another one is made."""
    matrix = np.array([[1, 1, 1, 1], [1, 1, 1, 1]], np.int8)
    factoring = Factoring(matrix if side == SOURCES else np.ascontiguousarray(matrix.T), 3)
    node = factoring.merge(side, 0, 1, 1, [0, 1])
    places = factoring.common(side, 0, 1, 1, node)
    assert places == ([2, 3] if side == SOURCES else [])
    assert factoring.common(side, 0, 1, 1) == [2, 3]


def _sorted(value: object) -> object:
    """Dictionaries in the order of their keys."""
    if isinstance(value, dict):
        return sorted(value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    if isinstance(value, list | tuple):
        return [_sorted(part) for part in value]  # pyright: ignore[reportUnknownVariableType]
    return value
