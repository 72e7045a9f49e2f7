"""Shared terms of sums by trits: what instructions do to numbers, beside products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_dsl.lowering.to_native.kernels.shared_sums import (
    FOURS,
    TWOS,
    Instruction,
    instructions_of,
)

Array = NDArray[Any]


def sums_by(instructions: list[Instruction], inputs: Array, registers: int) -> Array:
    """What registers hold at the end, in 16 bits."""
    held = np.full(registers, 12345, np.int16)
    with np.errstate(over="ignore"):
        for name, to, a, b in instructions:
            match name:
                case "clear":
                    held[to] = 0
                case "load":
                    held[to] = inputs[a]
                case "add":
                    held[to] = held[a] + held[b]
                case "sub":
                    held[to] = held[a] - held[b]
    return held


def random_trits(rng: np.random.Generator, outs: int, inputs: int, share: float) -> Array:
    trits = (rng.random((outs, inputs)) < share) * rng.choice([-1, 1], (outs, inputs))
    return trits.astype(np.int8)


@given(
    seed=st.integers(0, 1 << 30),
    outs=st.integers(1, 26),
    inputs=st.integers(0, 60),
    share=st.floats(0, 1),
    more=st.sampled_from([TWOS, FOURS]),
)
def test_sums_are_those_of_the_trits(
    seed: int, outs: int, inputs: int, share: float, more: int
) -> None:
    rng = np.random.default_rng(seed)
    trits = random_trits(rng, outs, inputs, share)
    x = rng.integers(-300, 300, inputs).astype(np.int16)
    instructions = [*instructions_of(trits, more)]
    assert max(i.to for i in instructions) < outs + more
    found = sums_by(instructions, x, outs + more)[:outs]
    np.testing.assert_array_equal(found, (trits.astype(np.int64) @ x).astype(np.int16))
    plain = inputs + outs + np.count_nonzero(trits)
    assert len(instructions) <= plain


@pytest.mark.parametrize(
    ("share", "more", "most"), [(0.75, FOURS, 0.39), (0.75, TWOS, 0.47), (0.5, FOURS, 0.33)]
)
def test_what_a_weight_costs(share: float, more: int, most: float) -> None:
    trits = random_trits(np.random.default_rng(0), 21, 288, share)
    added = sum(i.name in ("add", "sub") for i in instructions_of(trits, more))
    assert added <= most * trits.size


def test_inputs_that_no_output_takes_are_not_read() -> None:
    trits = np.zeros((3, 5), np.int8)
    trits[1, 2] = -1
    names = [(i.name, i.a) for i in instructions_of(trits, FOURS) if i.name != "clear"]
    assert names[0] == ("load", 2)
    assert len(names) == 2
