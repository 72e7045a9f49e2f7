"""Trits that make up for each other's errors: against plain rounding, brute force, exact cases."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_dsl.passes.ternarize.compensated_rounding import (
    Compensation,
    Moments,
    damped,
    rounded,
)

Array = NDArray[Any]
DAMPING = 0.01


def layer(seed: int, outs: int, ins: int, rows: int = 200) -> tuple[Array, Array]:
    """Weights [outs, ins], and inputs [rows, ins] that hang together."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(ins, ins)) * rng.exponential(size=ins)
    return rng.normal(size=(outs, ins)), rng.normal(size=(rows, ins)) @ mixing + rng.normal(
        size=ins
    )


def moments(inputs: Array, targets: Array) -> tuple[Array, Array]:
    """H and Σ y·xᵀ about the means, by the definition."""
    x, y = inputs - inputs.mean(axis=0), targets - targets.mean(axis=0)
    return x.T @ x / len(x), y.T @ x / len(x)


def penalty(weights: Array, approximate: Array, hessian: Array) -> Array:
    """The damped squared error of each row, by the definition."""
    held = hessian + DAMPING * np.mean(np.diagonal(hessian)) * np.eye(len(hessian))
    off = weights - approximate
    return np.einsum("oi,ij,oj->o", off, held, off)


def twn(weights: Array) -> tuple[Array, Array]:
    """Li & Liu 2016, eq. 5 and 6, for each row."""
    sizes = np.abs(weights)
    kept = sizes > 0.7 * sizes.mean(axis=1, keepdims=True)
    return np.sign(weights) * kept, (sizes * kept).sum(axis=1) / kept.sum(axis=1)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(2, 40), st.integers(0, 3))
def test_never_worse_than_plain_rounding(seed: int, outs: int, ins: int, sweeps: int) -> None:
    weights, inputs = layer(seed, outs, ins)
    hessian, _ = moments(inputs, inputs @ weights.T)
    trits, scales = rounded(weights, hessian, None, Compensation(DAMPING, sweeps))
    plain, plain_scales = twn(weights)
    found = penalty(weights, trits * scales[:, None], hessian)
    assert (found <= penalty(weights, plain * plain_scales[:, None], hessian) * (1 + 1e-9)).all()
    assert trits.dtype == np.int8 and set(np.unique(trits)) <= {-1, 0, 1}
    assert (scales >= 0).all()


def test_much_better_where_inputs_hang_together() -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(30, 200))
    inputs = rng.normal(size=(2000, 40)) @ rng.normal(size=(40, 200))
    hessian, _ = moments(inputs, inputs @ weights.T)
    trits, scales = rounded(weights, hessian, None, Compensation(DAMPING))
    plain, plain_scales = twn(weights)
    found = penalty(weights, trits * scales[:, None], hessian).sum()
    assert found < penalty(weights, plain * plain_scales[:, None], hessian).sum() / 3


@pytest.mark.parametrize("seed", range(6))
def test_near_the_best_of_all_trits(seed: int) -> None:
    weights, inputs = layer(seed, 8, 6)
    hessian, _ = moments(inputs, inputs @ weights.T)
    held = hessian + DAMPING * np.mean(np.diagonal(hessian)) * np.eye(6)
    every = np.array(list(itertools.product((-1, 0, 1), repeat=6)))
    every = every[every.any(axis=1)]
    energy = np.einsum("ti,ij,tj->t", every, held, every)
    gain = (every @ held @ weights.T) ** 2 / energy[:, None]
    best = np.einsum("oi,ij,oj->o", weights, held, weights) - gain.max(axis=0)
    trits, scales = rounded(weights, hessian, None, Compensation(DAMPING))
    found = penalty(weights, trits * scales[:, None], hessian)
    assert (found >= best - 1e-9 * np.abs(best)).all()
    assert found.sum() <= 1.5 * best.sum()


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(2, 30))
def test_ternary_weights_stay(seed: int, outs: int, ins: int) -> None:
    rng = np.random.default_rng(seed)
    trits = rng.integers(-1, 2, size=(outs, ins))
    trits[:, 0] = 1
    scales = rng.uniform(0.1, 3, size=outs).astype(np.float32)
    weights = (trits * scales[:, None]).astype(np.float32)
    inputs = layer(seed, outs, ins)[1]
    hessian, _ = moments(inputs, inputs @ weights.T)
    found, steps = rounded(weights, hessian, None, Compensation(DAMPING))
    np.testing.assert_array_equal(found, trits)
    np.testing.assert_array_equal(steps.astype(np.float32), scales)


def test_results_of_other_inputs_are_made_up_for() -> None:
    weights, inputs = layer(2, 20, 60, rows=3000)
    rng = np.random.default_rng(2)
    seen = np.clip(inputs, -1, 1) + 0.1 * rng.normal(size=inputs.shape)
    hessian, products = moments(seen, inputs @ weights.T)

    def error(trits: Array, scales: Array) -> float:
        off = inputs @ weights.T - seen @ (trits * scales[:, None]).T
        return float(((off - off.mean(axis=0)) ** 2).sum())

    informed = error(*rounded(weights, hessian, products, Compensation(DAMPING)))
    assert informed < 0.7 * error(*rounded(weights, hessian, None, Compensation(DAMPING)))


def test_inputs_that_say_nothing() -> None:
    weights = np.array([[1.0, -2.0, 0.1], [0.0, 0.0, 0.0]])
    trits, scales = rounded(weights, np.zeros((3, 3)), None, Compensation(DAMPING))
    np.testing.assert_array_equal(trits, [[1, -1, 0], [0, 0, 0]])
    np.testing.assert_allclose(scales, [1.5, 0])


def test_moments_do_not_depend_on_batches() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 50, 4)), rng.normal(size=(2, 50, 3))
    made = Moments(2, 4, 3)
    for start, stop in ((0, 20), (20, 21), (21, 50)):
        made.add(x[:, start:stop], y[:, start:stop])
    for group in range(2):
        for found, expected in zip(
            made.of_group(group, centred=True), moments(x[group], y[group]), strict=True
        ):
            np.testing.assert_allclose(found, expected, atol=1e-12)
        hessian, _ = made.of_group(group, centred=False)
        np.testing.assert_allclose(hessian, x[group].T @ x[group] / 50, atol=1e-12)


def test_damping_is_a_share_of_the_mean() -> None:
    found, added = damped(np.diag([1.0, 3.0]), 0.5)
    assert added == 1.0
    np.testing.assert_array_equal(found, np.diag([2.0, 4.0]))


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(1e-6, 1e6))
def test_inputs_that_never_change_round_the_weights_plainly(
    seed: int, ins: int, size: float
) -> None:
    """What is left of their moments about the means is rounding, of either sign."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(3, ins))
    noise = rng.normal(size=(ins, ins)) * size * 1e-16
    trits, scales = rounded(weights, noise + noise.T, None, Compensation(0.01, 20))
    assert np.isfinite(scales).all() and set(np.unique(trits)) <= {-1, 0, 1}
    found, _ = damped(noise + noise.T, 0.01)
    assert np.linalg.eigvalsh(found)[0] > 0


def test_dead_inputs_in_a_batch_of_moments() -> None:
    made = Moments(1, 6, 3)
    rows = np.tile(np.random.default_rng(0).normal(size=6) * 1e3, (1, 500, 1))
    made.add(rows, np.zeros((1, 500, 3)))
    hessian, products = made.of_group(0, centred=True)
    trits, scales = rounded(np.ones((3, 6)), hessian, products, Compensation(0.01, 20))
    assert np.isfinite(scales).all() and trits.shape == (3, 6)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(2, 30), st.sampled_from([3, 7, 64]))
def test_more_levels_are_never_worse_than_each_weight_by_itself(
    seed: int, outs: int, ins: int, most: int
) -> None:
    weights, inputs = layer(seed, outs, ins)
    hessian, _ = moments(inputs, inputs @ weights.T)
    levels, scales = rounded(weights, hessian, None, Compensation(DAMPING, most=most))
    assert np.abs(levels).max() <= most and (scales >= 0).all()
    step = np.abs(weights).max(axis=1, keepdims=True) / most
    nearest = np.rint(weights / step) * step
    found = penalty(weights, levels * scales[:, None], hessian)
    assert found.sum() <= penalty(weights, nearest, hessian).sum() * (1 + 1e-9)


def test_four_bits_make_up_for_each_other() -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(30, 200))
    inputs = rng.normal(size=(2000, 40)) @ rng.normal(size=(40, 200))
    hessian, _ = moments(inputs, inputs @ weights.T)
    levels, scales = rounded(weights, hessian, None, Compensation(DAMPING, most=7))
    step = np.abs(weights).max(axis=1, keepdims=True) / 7
    nearest = penalty(weights, np.rint(weights / step) * step, hessian).sum()
    assert penalty(weights, levels * scales[:, None], hessian).sum() < nearest / 10
