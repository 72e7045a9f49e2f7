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


def _sorted(value: object) -> object:
    """Dictionaries in the order of their keys."""
    if isinstance(value, dict):
        return sorted(value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    if isinstance(value, list | tuple):
        return [_sorted(part) for part in value]  # pyright: ignore[reportUnknownVariableType]
    return value
