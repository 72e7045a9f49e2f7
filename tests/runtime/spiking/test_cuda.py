"""A GPU gives the same bits as the processor: coding, neurons, attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from triton_dsl.runtime.spiking.attention import SpikingAttention
from triton_dsl.runtime.spiking.coding import decode, encode
from triton_dsl.runtime.spiking.neurons import (
    AdaptiveLifNeuron,
    CubaLifNeuron,
    IntegrateFireNeuron,
    LifNeuron,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def drawn(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("scheme", ["rate", "regular", "latency", "phase"])
def test_coding(scheme: str) -> None:
    x = drawn(300, 7)
    options: dict[str, Any] = {"seed": 5} if scheme == "rate" else {}
    spikes, there = (encode(v, scheme, 11, **options) for v in (x, x.cuda()))
    assert torch.equal(spikes, there.cpu())
    for decoding in ("rate", "first_spike"):
        assert torch.equal(decode(spikes, decoding), decode(there, decoding).cpu())


@pytest.mark.parametrize(
    "neuron",
    [
        LifNeuron(0.83, v_leak=-0.1, gain=0.7, threshold=0.4),
        LifNeuron(0.83, reset="to_value", v_reset=-0.1, compare="gt"),
        IntegrateFireNeuron(gain=0.3),
        CubaLifNeuron(0.7, 0.83, w_in=0.9),
        AdaptiveLifNeuron(0.83, 0.9, 0.3),
    ],
    ids=lambda neuron: type(neuron).__name__,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_neurons(neuron: nn.Module, dtype: torch.dtype) -> None:
    current = (drawn(40, 3, 50) * 2 - 0.7).to(dtype)
    spikes, state = neuron(current)
    there, after = neuron(current.cuda())
    assert torch.equal(spikes, there.cpu()) and spikes.any()
    assert all(torch.equal(a, b.cpu()) for a, b in zip(state, after, strict=True))


@pytest.mark.parametrize("kind", ["ssa", "sdsa"])
def test_attention(kind: str) -> None:
    q, k, v = ((drawn(6, 2, 40, 32) < rate).float() for rate in (0.3, 0.4, 0.5))
    attention = SpikingAttention(kind, tau=3.0)
    spikes, state = attention(q, k, v)
    there, after = attention(q.cuda(), k.cuda(), v.cuda())
    assert torch.equal(spikes, there.cpu()) and spikes.any()
    assert torch.equal(state, after.cpu())
