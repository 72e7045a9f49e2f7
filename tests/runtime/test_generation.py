"""The choice of tokens: what is drawn, how often, and where a text ends."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.generation import Sampling, generate
from triton_dsl.runtime.session import Session

FINITE = st.floats(-20, 20, width=32)


class Counting(Session):
    """Logits that prefer the token after the last."""

    def __init__(self, vocabulary: int = 10) -> None:
        super().__init__(vocabulary, "counting")
        self.told: list[int] = []

    def _told(self, tokens: np.ndarray, count: int) -> np.ndarray:
        self.told += tokens.tolist()
        logits = np.zeros((1, self.vocabulary), np.float32)
        logits[0, (tokens[-1] + 1) % self.vocabulary] = 5
        return logits


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=30), st.floats(0.1, 5))
def test_probabilities_are_a_softmax(logits: list[float], temperature: float) -> None:
    values = np.array(logits, np.float32)
    expected = torch.softmax(torch.from_numpy(values).double() / temperature, 0)
    actual = Sampling(temperature).probabilities(values)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-9, atol=1e-12)


@settings(deadline=None)
@given(st.permutations(range(12)), st.integers(1, 15), st.floats(0.05, 1))
def test_what_is_cut_off(order: list[int], top_k: int, top_p: float) -> None:
    """Against the definitions, on logits that are all different."""
    logits = np.array(order, np.float32) / 3
    kept = set(np.argsort(-logits)[:top_k].tolist())
    shares = np.where([i in kept for i in range(12)], np.exp(logits.astype(np.float64)), 0)
    shares /= shares.sum()
    nucleus, total = set[int](), 0.0
    for token in np.argsort(-shares, kind="stable"):
        if total >= top_p:
            break
        nucleus.add(int(token))
        total += shares[token]
    expected = np.array([shares[i] if i in nucleus else 0 for i in range(12)])
    actual = Sampling(1.0, top_k, top_p).probabilities(logits)
    np.testing.assert_allclose(actual, expected / expected.sum(), rtol=1e-9, atol=1e-12)


@st.composite
def draws(draw: st.DrawFn) -> tuple[np.ndarray, Sampling]:
    """Logits that are all different, of small and large vocabularies, and a way to draw."""
    size = draw(st.sampled_from([1, 2, 7, 50, 3000]))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    logits = rng.normal(0, draw(st.sampled_from([0.01, 1, 5, 30])), size).astype(np.float32)
    return np.unique(logits)[rng.permutation(len(np.unique(logits)))], Sampling(
        draw(st.sampled_from([1e-3, 0.3, 0.7, 1.0, 1.3, 2.0, 100.0])),
        draw(st.sampled_from([0, 1, 2, 5, 40, 10**6])),
        draw(st.sampled_from([1.0, 0.999, 0.95, 0.9, 0.5, 0.1, 1e-6])),
    )


@settings(deadline=None)
@given(draws())
def test_shares_are_those_of_transformers(case: tuple[np.ndarray, Sampling]) -> None:
    """Its processors in their order, in float64: the same tokens are left, with the same shares."""
    logits, sampling = case
    module: Any = pytest.importorskip("transformers.generation.logits_process")
    scores = torch.from_numpy(logits).double()[None]
    scores = module.TemperatureLogitsWarper(sampling.temperature)(None, scores)
    if sampling.top_k:
        scores = module.TopKLogitsWarper(sampling.top_k)(None, scores)
    if sampling.top_p < 1:
        sums = scores.softmax(-1).sort(descending=True).values.cumsum(-1)
        # Where the sum of the likeliest is top_p but for rounding, either is right.
        assume(float((sums - sampling.top_p).abs().min()) > 1e-9)
        scores = module.TopPLogitsWarper(sampling.top_p)(None, scores)
    expected = scores.softmax(-1)[0].numpy()
    found = sampling.probabilities(logits)
    # The softmax of Transformers is 0 where one that is left underflows, as ours is.
    np.testing.assert_array_equal(found > 0, expected > 0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


class Even:
    """Numbers at equal distances in place of chance."""

    def __init__(self, count: int) -> None:
        self.numbers = iter((np.arange(count) + 0.5) / count)

    def random(self) -> float:
        return float(next(self.numbers))


@settings(deadline=None, max_examples=20)
@given(draws())
def test_tokens_come_as_often_as_their_shares(case: tuple[np.ndarray, Sampling]) -> None:
    logits, sampling = case
    count, shares = 300, sampling.probabilities(logits)
    even: Any = Even(count)
    found = np.bincount([sampling.choose(logits, even) for _ in range(count)], None, len(logits))
    assert np.abs(found / count - shares).max() <= 1 / count + 1e-12
    assert not found[shares == 0].any()


def test_logits_that_are_far_apart() -> None:
    """Differences beyond floats, at temperatures near none: the likeliest is drawn alone."""
    logits = np.array([-np.inf, 3e38, -3e38, 2.9e38], np.float32)
    for temperature in (5e-324, 1e-30, 1.0):
        shares = Sampling(temperature, top_p=0.9).probabilities(logits)
        assert shares.tolist() == [0, 1, 0, 0]


def test_the_likeliest_and_the_first_of_equal_ones() -> None:
    assert Sampling().probabilities(np.array([1.0, 3.0, 3.0])).tolist() == [0, 1, 0]


def test_a_text_and_its_end() -> None:
    model = Counting()
    assert list(generate(model, [3, 4], 4)) == [5, 6, 7, 8]
    assert model.told == [3, 4, 5, 6, 7]
    assert list(generate(Counting(), [6], 100, stop=[9])) == [7, 8]


def test_draws_follow_the_seed_and_the_probabilities() -> None:
    def drawn(seed: int) -> list[int]:
        return list(generate(Counting(), [0], 50, sampling=Sampling(2.0, seed=seed)))

    assert drawn(1) == drawn(1) != drawn(2)
    # A token after the last one has 12.18 of 12.18 + 9 parts.
    steps = [0, *(t for seed in range(40) for t in drawn(seed))]
    share = float(np.mean([b == (a + 1) % 10 for a, b in pairwise(steps)]))
    assert abs(share - 12.18 / 21.18) < 0.05


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 0},
        {"seed": -1},
    ],
)
def test_options_out_of_range(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        Sampling(**options)  # pyright: ignore[reportArgumentType]
