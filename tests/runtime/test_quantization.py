"""Ternarization against the reference interpreter, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, TensorType, f16, f32, f64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.ternary.storage import TernarizeOp
from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.quantization import (
    ternarize,
    ternarize_largest,
    ternarize_stochastic,
    ternary_scale,
)

ELEMENTS = {np.dtype(np.float16): f16, np.dtype(np.float32): f32, np.dtype(np.float64): f64}


def interpret(x: Any, **options: Any) -> tuple[Any, ...]:
    """What the op `ternary.ternarize` computes."""
    block = Block(arg_types=[TensorType(ELEMENTS[x.dtype], x.shape)])
    op = TernarizeOp(block.args[0], **options)
    block.add_ops([op, ReturnOp(*op.results)])
    types = ([block.args[0].type], [r.type for r in op.results])
    function = FuncOp("forward", types)
    function.body.detach_block(0)
    function.body.add_block(block)
    return run_module(ModuleOp([function]), [x])


@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.sampled_from(["twn", "absmean", "fixed"]),
    st.booleans(),
)
def test_trits_and_scale_are_those_of_the_interpreter(
    seed: int, shape: list[int], dtype: Any, rule: str, per_channel: bool
) -> None:
    x = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    axis = 0 if per_channel else None
    threshold = 0.5 if rule == "fixed" else None
    kind = "channel" if per_channel else "tensor"
    trits, scale = interpret(x, rule=rule, threshold=threshold, scale=kind, axis=0)
    tensor = torch.from_numpy(x)
    result = ternarize(tensor, threshold, rule=rule, axis=axis)
    assert result.dtype == tensor.dtype
    np.testing.assert_array_equal(result.numpy(), trits)
    np.testing.assert_allclose(
        ternary_scale(tensor, result, axis).numpy(), scale, rtol=2 * np.finfo(dtype).eps
    )


@given(st.integers(0, 2**32), st.integers(0, 2**40))
def test_seeded_draws_are_those_of_the_interpreter(seed: int, draw_seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32)
    (trits,) = interpret(x, mode="stochastic", seed=draw_seed)
    result = ternarize_stochastic(torch.from_numpy(x), seed=draw_seed)
    np.testing.assert_array_equal(result.numpy(), trits)


@given(st.data(), st.integers(0, 2**32), st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_the_largest_of_each_output_are_kept(
    data: st.DataObject, seed: int, shape: list[int]
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    rest = int(np.prod(shape)) // shape[axis]
    count = data.draw(st.integers(1, rest))
    x = np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)  # many equal ones
    latent = torch.from_numpy(x).requires_grad_()
    trits = ternarize_largest(latent, count, axis=axis)
    found = np.moveaxis(trits.detach().numpy(), axis, 0).reshape(shape[axis], rest)
    rows = np.moveaxis(x, axis, 0).reshape(shape[axis], rest)
    assert (np.abs(found).sum(axis=1) == count).all()
    for row, kept in zip(rows, found, strict=True):
        assert set(kept.tolist()) <= {-1.0, 0.0, 1.0}
        assert (kept * row >= 0).all()
        least = np.abs(row[kept != 0]).min()
        assert least >= np.abs(row[kept == 0]).max(initial=0)
    weights = torch.arange(1.0, latent.numel() + 1).reshape(shape)
    (trits * weights).sum().backward()
    assert latent.grad is not None and torch.equal(latent.grad, weights)


@pytest.mark.parametrize("count", [0, 7])
def test_more_than_there_are_cannot_be_kept(count: int) -> None:
    with pytest.raises(OptionError, match="expected a count from 1 to 6"):
        ternarize_largest(torch.zeros(2, 6), count)


def test_defaults_and_threshold() -> None:
    x = torch.tensor([0.05, -0.05, 0.0501, -1.0, 0.0])
    assert ternarize(x, threshold=0.05).tolist() == [0, 0, 1, -1, 0]
    assert ternarize(x, 0.0).tolist() == [1, -1, 1, -1, 0]
    assert torch.equal(ternarize(x), ternarize(x, rule="twn"))
    assert ternarize(torch.zeros(0, 3)).shape == (0, 3)
    assert ternarize(torch.zeros(4), rule="absmean").tolist() == [0] * 4
    assert ternarize(torch.full((2, 2), 3.0)).tolist() == [[1, 1], [1, 1]]


def test_gradients_go_straight_through() -> None:
    for function in (ternarize, ternarize_stochastic):
        x = torch.randn(4, 3, requires_grad=True)
        weights = torch.randn(4, 3)
        (function(x) * weights).sum().backward()
        assert x.grad is not None and torch.equal(x.grad, weights)


def test_stochastic_means_are_the_latents() -> None:
    x = torch.tensor([-1.0, -0.5, 0.0, 0.25, 0.75, 1.0])
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([ternarize_stochastic(x, generator=generator) for _ in range(4000)])
    assert set(draws.unique().tolist()) == {-1.0, 0.0, 1.0}
    # Standard error below 0.008.
    torch.testing.assert_close(draws.mean(dim=0), x, atol=0.04, rtol=0)
    again = torch.Generator().manual_seed(0)
    assert torch.equal(ternarize_stochastic(x, generator=again), draws[0])
    assert ternarize_stochastic(torch.zeros(3)).tolist() == [0, 0, 0]
    assert ternarize_stochastic(torch.zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "median"}, "unknown rule 'median'; expected one of fixed, twn, absmean"),
        ({"rule": "fixed"}, "a threshold belongs to the rule 'fixed'"),
        ({"rule": "twn", "threshold": 0.1}, "a threshold belongs to the rule 'fixed'"),
        ({"threshold": -0.1}, "at least 0"),
        ({"threshold": float("nan")}, "at least 0"),
        ({"axis": 2}, "no axis 2 in a tensor of 2 axes"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ternarize(torch.ones(2, 2), **arguments)


def test_only_floats_are_ternarized() -> None:
    with pytest.raises(OptionError, match="expected floats"):
        ternarize(torch.tensor([1, 2]))
    with pytest.raises(OptionError, match="expected floats"):
        ternarize_stochastic(torch.tensor([1, 2]))
    with pytest.raises(OptionError, match="not both"):
        ternarize_stochastic(torch.ones(2), 1, generator=torch.Generator())
    with pytest.raises(OptionError, match="at least 0"):
        ternarize_stochastic(torch.ones(2), -1)
