"""Spiking attention against the reference interpreter, and the layer around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from triton_dsl.dialects import spike
from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.neurons.arithmetic import RESETS
from triton_dsl.runtime.spiking.attention import SpikingAttention, SpikingSelfAttention
from triton_dsl.runtime.spiking.config import SpikingConfig
from triton_dsl.runtime.spiking.neurons import LifNeuron

RunOp = Callable[..., tuple[Tensor, ...]]

T, N, L, D = 6, 2, 5, 12


def trains(*tokens: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [(torch.rand(T, N, count, D, generator=generator) < 0.4).to(dtype) for count in tokens]


@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize("compare", ["gt", "ge"])
@pytest.mark.parametrize("heads", [1, 3, 6])
@pytest.mark.parametrize("keys", [3, 9])
def test_ssa(reset: str, compare: str, heads: int, keys: int, run_op: RunOp) -> None:
    """With few tokens and with many: the products are taken in both orders."""
    q, k, v = trains(L, keys, keys)
    scale = 12.5 * heads / (keys * D)
    options: dict[str, Any] = {
        "scale": scale,
        "tau": 3.0,
        "threshold": 0.4,
        "compare": compare,
        "reset": reset,
    }
    spikes, state = SpikingAttention("ssa", heads, **options)(q, k, v)
    expected, final = run_op(
        lambda *x: spike.AttentionOp(*x, kind="ssa", heads=heads, **options, final=True),
        *(x.bool() for x in (q, k, v)),
    )
    assert torch.equal(spikes, expected.float()) and torch.equal(state, final)
    assert 0 < spikes.sum() < spikes.numel()


@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize("compare", ["gt", "ge"])
def test_sdsa(reset: str, compare: str, run_op: RunOp) -> None:
    q, k, v = trains(L, L, L)
    options: dict[str, Any] = {
        "scale": 0.3,
        "tau": 3.0,
        "threshold": 0.4,
        "compare": compare,
        "reset": reset,
    }
    spikes, state = SpikingAttention("sdsa", **options)(q, k, v)
    expected, final = run_op(
        lambda *x: spike.AttentionOp(*x, kind="sdsa", **options, final=True),
        *(x.bool() for x in (q, k, v)),
    )
    assert torch.equal(spikes, expected.float()) and torch.equal(state, final)
    assert 0 < spikes.sum() < q.sum()


@pytest.mark.parametrize("kind", ["ssa", "sdsa"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_defaults_in_any_type_and_under_autocast(
    kind: str, dtype: torch.dtype, run_op: RunOp
) -> None:
    q, k, v = trains(L, L, L, dtype=dtype)
    with torch.autocast("cpu", torch.bfloat16):
        spikes, state = SpikingAttention(kind)(q, k, v)
    expected, final = run_op(
        lambda *x: spike.AttentionOp(*x, kind=kind, final=True), *(x.bool() for x in (q, k, v))
    )
    assert spikes.dtype == dtype and state.dtype == torch.float32
    assert torch.equal(spikes, expected.to(dtype)) and torch.equal(state, final)


@pytest.mark.parametrize("kind", ["ssa", "sdsa"])
@pytest.mark.parametrize("cut", [0, 2, 6])
def test_a_run_can_be_cut(kind: str, cut: int) -> None:
    attention, (q, k, v) = SpikingAttention(kind), trains(L, L, L)
    whole, last = attention(q, k, v)
    first, state = attention(q[:cut], k[:cut], v[:cut])
    second, state = attention(q[cut:], k[cut:], v[cut:], state)
    assert torch.equal(torch.cat([first, second]), whole) and torch.equal(state, last)


@pytest.mark.parametrize("keys", [3, 9])
def test_gradients_are_those_of_the_formula(keys: int) -> None:
    """In both orders of the products; the neuron is a LIF with β = 1 - 1/τ and gain 1/τ."""
    given = [x.requires_grad_() for x in trains(L, keys, keys)]
    heads, surrogate = 3, "arctan"
    weights = torch.randn(T, N, L, D, generator=torch.Generator().manual_seed(1))
    spikes, _ = SpikingAttention("ssa", heads, surrogate=surrogate)(*given)
    found = torch.autograd.grad((spikes * weights).sum(), given)
    q, k, v = (x.reshape(T, N, -1, heads, D // heads) for x in given)
    x = torch.einsum("tnlhd,tnshd,tnshe->tnlhe", q, k, v).reshape(T, N, L, D) * 0.125
    neuron = LifNeuron(
        0.5, gain=0.5, threshold=0.5, reset="to_value", v_reset=0.0, surrogate=surrogate
    )
    expected = torch.autograd.grad((neuron(x)[0] * weights).sum(), given)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)
        assert mine.any()


def test_memory_does_not_grow_with_the_square_of_the_tokens() -> None:
    """No product of queries and keys, one of 4096 × 4096, is made."""
    largest: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        largest.append(tensor.numel())
        return tensor

    q, k, v = ((torch.rand(1, 1, 4096, 8) < 0.5).float().requires_grad_() for _ in range(3))
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        SpikingAttention()(q, k, v)
    assert 0 < max(largest) <= 4096 * 8


@pytest.mark.parametrize("kind", ["ssa", "sdsa"])
def test_the_layer_is_made_of_its_parts(kind: str) -> None:
    torch.manual_seed(0)
    config = SpikingConfig(neuron_model="CubaLIF", threshold=0.5)
    layer = SpikingSelfAttention(D, 3, kind, config=config, neuron={"beta": 0.7})
    (x,) = trains(40)
    output, state = layer.train()(x)
    assert output.shape == x.shape and 0 < output.sum() < output.numel()
    assert [len(part) for part in state] == [2, 2, 2, 1, 2]
    output.sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in layer.parameters())

    layer.eval()
    whole, last = layer(x)
    parts = {}
    for name in ("query", "key", "value"):
        current = layer.norms[name](layer.projections[name](x))
        parts[name], _ = layer.neurons[name](current)
    mixed, potential = SpikingAttention(kind, 3)(*parts.values())
    current = layer.norms["output"](layer.projections["output"](mixed))
    assert torch.equal(layer.neurons["output"](current)[0], whole)
    assert torch.equal(potential, last[3][0])

    first, state = layer(x[:2])
    second, _ = layer(x[2:], state)
    assert torch.equal(torch.cat([first, second]), whole)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpikingAttention("softmax"), "kind: expected one of ssa, sdsa"),
        (lambda: SpikingAttention(compare="eq"), "compare: expected one of"),
        (lambda: SpikingAttention(reset="zero"), "reset: expected one of"),
        (lambda: SpikingAttention(heads=0), "heads: expected at least 1"),
        (lambda: SpikingAttention(tau=0.5), "tau: expected at least 1 step"),
        (lambda: SpikingAttention(scale=float("inf")), "expected finite numbers"),
        (lambda: SpikingAttention(heads=5)(*trains(L, L, L)), "5 heads do not divide 12 channels"),
        (lambda: SpikingAttention()(*trains(L, L, 3)), "that fit"),
        (lambda: SpikingAttention("sdsa")(*trains(L, 3, 3)), "that fit"),
        (lambda: SpikingAttention()(*(x[0] for x in trains(L, L, L))), "that fit"),
        (lambda: SpikingAttention()(*(x.bool() for x in trains(L, L, L))), "floats of one type"),
        (lambda: SpikingAttention()(*trains(L, L, L), torch.zeros(1)), "state: expected float32"),
        (lambda: SpikingSelfAttention(12, 5), "5 heads do not divide 12 channels"),
        (lambda: SpikingSelfAttention(D)(trains(L)[0], ()), "states of 5 layers, got 0"),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()
