"""Random numbers: a state brings all generators back, and a block leaves them alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from triton_dsl.ir.errors import ParameterError
from triton_dsl.runtime.training.random_state import get_random_state, seeded, set_random_state

CPU = torch.device("cpu")


def draw() -> list[float]:
    """Numbers of all generators; the normal ones come in pairs of which one is kept."""
    return [
        *torch.rand(2).tolist(),
        torch.randn(()).item(),
        random.random(),
        random.gauss(),
        random.gauss(0, 1),
        float(np.random.rand()),
        float(np.random.randn()),
    ]


@pytest.mark.parametrize("before", range(4))
def test_a_state_comes_back(before: int) -> None:
    for _ in range(before):
        draw()
    state = get_random_state(CPU)
    expected = [draw() for _ in range(3)]
    set_random_state(state.clone(), CPU)
    assert [draw() for _ in range(3)] == expected
    assert torch.equal(state, state) and state.dtype == torch.uint8
    assert len(get_random_state(CPU)) == len(state)


def test_blocks() -> None:
    state = get_random_state(CPU)
    expected = draw()
    set_random_state(state, CPU)
    found: list[list[float]] = []
    for seed, rank in ((0, 0), (0, 0), (0, 1), (1, 0)):
        with seeded(seed, rank, CPU):
            found.append(draw())
    assert found[0] == found[1] and len({tuple(numbers) for numbers in found}) == 3
    assert draw() == expected


def test_other_bytes() -> None:
    state = get_random_state(CPU)
    for damaged in (state[:-1], state.to(torch.int64), torch.full_like(state, 255)):
        with pytest.raises(ParameterError, match="random states"):
            set_random_state(damaged, CPU)
