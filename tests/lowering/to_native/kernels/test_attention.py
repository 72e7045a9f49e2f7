"""Attention to a cache: that of PyTorch in float64, for sizes, places and windows of all kinds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from triton_dsl.lowering.to_native.callables import attention
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES, Recipe
from triton_dsl.runtime.native.abi.attention import Heads
from triton_dsl.runtime.native.attention import Attention, Cache
from triton_dsl.runtime.native.jit import Library
from triton_dsl.runtime.native.memory import Arena
from triton_dsl.runtime.native.processor import host_features

HERE = [recipe for recipe in RECIPES if recipe.features <= host_features()]
SIZES = [Heads(4, 2, 16), Heads(6, 1, 10), Heads(3, 3, 128), Heads(10, 2, 36)]


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32) * 2


def cache_of(heads: Heads) -> Cache:
    return Cache(heads, Arena())


def expected(
    queries: np.ndarray, told: list[list[np.ndarray]], start: int, window: int
) -> np.ndarray:
    end = start + len(queries)
    keys, values = (
        torch.from_numpy(np.concatenate(parts).swapaxes(0, 1).astype(np.float64)) for parts in told
    )
    behind = start + torch.arange(len(queries))[:, None] - torch.arange(end)
    seen = (behind >= 0) & ((behind < window) if window else True)
    given = torch.from_numpy(queries.astype(np.float64)).swapaxes(0, 1)
    found = torch.nn.functional.scaled_dot_product_attention(
        given[None], keys[None], values[None], seen, enable_gqa=True
    )
    return found[0].swapaxes(0, 1).numpy()


@pytest.mark.parametrize("heads", SIZES, ids=str)
@pytest.mark.parametrize("recipe", HERE, ids=lambda recipe: recipe.name)
def test_means_are_those_of_pytorch(recipe: Recipe, heads: Heads) -> None:
    attend, cache = Attention(Library(attention(recipe, heads)), heads), cache_of(heads)
    told: list[list[np.ndarray]] = [[], []]
    start = 0
    for tokens, window in ((1, 0), (1, 1), (3, 2), (64, 0), (70, 65), (2, 500)):
        new = [floats(tokens, heads.groups, heads.head_dim) * n for n in (1, 2)]
        cache.put(start, *new)
        for parts, part in zip(told, new, strict=True):
            parts.append(part)
        queries = floats(tokens, heads.heads, heads.head_dim)
        means = attend(queries, cache, start, window)
        np.testing.assert_allclose(
            means, expected(queries, told, start, window), rtol=2e-5, atol=2e-5
        )
        start += tokens


def test_threads_and_what_stands_behind_change_nothing() -> None:
    heads = SIZES[0]
    code, cache = Library(attention(HERE[0], heads)), cache_of(heads)
    cache.put(0, *(floats(3001, 2, 16) for _ in range(2)))
    queries = floats(33, 4, 16)
    one, three = (Attention(code, heads, n)(queries, cache, 2968) for n in (1, 3))
    np.testing.assert_array_equal(one, three)
    cache.put(3001, *(np.full((60, 2, 16), np.nan, np.float32) for _ in range(2)))
    np.testing.assert_array_equal(Attention(code, heads)(queries, cache, 2968), one)
    assert np.isfinite(one).all()


def test_large_scores_and_what_is_no_number() -> None:
    heads = Heads(2, 1, 8)
    attend, cache = Attention(Library(attention(HERE[0], heads)), heads), cache_of(heads)
    values = floats(3, 1, 8)
    cache.put(0, np.eye(3, 8, dtype=np.float32)[:, None] * 1e3, values)
    queries = np.zeros((1, 2, 8), np.float32)
    queries[0, 0, 1], queries[0, 1, 2] = 1e3, -1e3
    means = attend(queries, cache, 2)
    np.testing.assert_array_equal(means[0, 0], values[1, 0])
    np.testing.assert_allclose(means[0, 1], values[:2, 0].mean(axis=0), rtol=1e-6)
    queries[0, 0, 0] = np.nan
    assert np.isnan(attend(queries, cache, 2)[0, 0]).all()
