"""Spiking self-attention against the authors' formulas, computed with PyTorch in double precision.

With τ = 2 and scale 1/8 all numbers have few binary digits, so that the comparison is exact.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from triton_dsl.dialects import spike

Array = NDArray[Any]
RunOp = Callable[..., tuple[Array, ...]]

RNG = np.random.default_rng(8)
T, N, L, D = 5, 2, 6, 8


def neuron(currents: torch.Tensor, tau: float = 2.0, threshold: float = 0.5) -> Array:
    """SpikingJelly's multi-step LIF: v ← v + (x - v)/τ, fires at the threshold, reset to 0."""
    v = torch.zeros_like(currents[0])
    spikes: list[torch.Tensor] = []
    for x in currents:
        v = v + (x - v) / tau
        spikes.append(v >= threshold)
        v = torch.where(spikes[-1], 0.0, v)
    return torch.stack(spikes).numpy()


def trains(count: int, tokens: tuple[int, ...]) -> list[Array]:
    return [RNG.random((T, N, tokens[i], D)) < 0.6 for i in range(count)]


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("keys", [L, 3])
def test_ssa(heads: int, keys: int, run_op: RunOp) -> None:
    """Spikformer's SSA: attn = (q @ kᵀ)·scale; x = attn @ v a head; then the neuron."""
    q, k, v = trains(3, (L, keys, keys))
    (result,) = run_op(
        lambda *values: spike.AttentionOp(*values, heads=heads), q, k, v, trains=(0, 1, 2)
    )
    a, b, c = (
        torch.from_numpy(x).double().reshape(T, N, -1, heads, D // heads).permute(0, 1, 3, 2, 4)
        for x in (q, k, v)
    )
    x = (a @ b.transpose(-2, -1)) * 0.125 @ c
    currents = x.transpose(2, 3).reshape(T, N, L, D)
    np.testing.assert_array_equal(result, neuron(currents))
    assert result.any()


def test_sdsa(run_op: RunOp) -> None:
    """Spike-driven attention: the neuron of Σ_L k⊗v, a channel, masks q."""
    q, k, v = trains(3, (L, L, L))
    (result,) = run_op(
        lambda *values: spike.AttentionOp(*values, kind="sdsa", scale=0.25),
        q,
        k,
        v,
        trains=(0, 1, 2),
    )
    a, b, c = (torch.from_numpy(x).double() for x in (q, k, v))
    mask = neuron((b * c).sum(dim=-2, keepdim=True) * 0.25)
    np.testing.assert_array_equal(result, a.numpy() * mask)
    assert result.any() and not mask.all()


@pytest.mark.parametrize("kind", ["ssa", "sdsa"])
@pytest.mark.parametrize("cut", [0, 2, 5])
def test_attention_cut_in_two(kind: str, cut: int, run_op: RunOp) -> None:
    q, k, v = trains(3, (L, L, L))

    def run(part: slice, *state: Array) -> tuple[Array, ...]:
        return run_op(
            lambda q, k, v, *s: spike.AttentionOp(
                q,
                k,
                v,
                kind=kind,
                tau=3.0,
                reset="subtract",
                compare="gt",
                initial=s[0] if s else None,
                final=True,
            ),
            q[part],
            k[part],
            v[part],
            *state,
            trains=(0, 1, 2),
        )

    whole, last = run(slice(None))
    first, state = run(slice(cut))
    second, end = run(slice(cut, None), state)
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)
    np.testing.assert_array_equal(end, last)
