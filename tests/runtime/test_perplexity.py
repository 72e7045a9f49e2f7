"""Perplexity beside its definition, and where windows begin and end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.perplexity import Perplexity, foretold
from triton_dsl.runtime.session import Session

SIZE = 7


def logits_after(told: Sequence[int]) -> np.ndarray:
    """A function of all that was told since the last reset."""
    return np.random.default_rng([len(told), *told]).normal(size=SIZE).astype(np.float32)


class Model(Session):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__(SIZE, "model")

    def _told(self, tokens: np.ndarray, count: int) -> np.ndarray:
        told = [*self._tokens, *tokens.tolist()]
        return np.stack(
            [logits_after(told[:end]) for end in range(len(told) - count + 1, len(told) + 1)]
        )


@settings(deadline=None)
@given(
    st.lists(st.integers(0, SIZE - 1), min_size=2, max_size=300),
    st.integers(2, 150),
    st.data(),
)
def test_each_token_is_scored_once(text: list[int], window: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, window - 1))
    expected: list[float] = []
    end = 1
    for begin in range(0, len(text), stride):
        while end < min(begin + window, len(text)):
            given = torch.from_numpy(logits_after(text[begin:end])).double()
            expected.append(-float(torch.log_softmax(given, 0)[text[end]]))
            end += 1
    score, seen = Perplexity(), [text[0]]
    for part in foretold(Model(), text, window, stride):
        score.add(part)
        seen += part.tokens.tolist()
    assert seen == text and score.tokens == len(expected) == len(text) - 1
    np.testing.assert_allclose(score.nats, sum(expected), rtol=1e-9)
    np.testing.assert_allclose(score.value, np.exp(np.mean(expected)), rtol=1e-9)
    error = np.exp(np.mean(expected)) * np.std(expected) / np.sqrt(len(expected))
    np.testing.assert_allclose(score.error, error, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(score.bits_per_byte(10), sum(expected) / np.log(2) / 10, rtol=1e-9)


@pytest.mark.parametrize(("window", "stride"), [(8, 8), (8, 0), (1, 1)])
def test_windows_that_are_none(window: int, stride: int) -> None:
    with pytest.raises(OptionError, match="stride"):
        next(foretold(Model(), [1, 2, 3], window, stride))


def test_one_token_foretells_none() -> None:
    with pytest.raises(OptionError, match="1 tokens foretells none"):
        next(foretold(Model(), [1]))
