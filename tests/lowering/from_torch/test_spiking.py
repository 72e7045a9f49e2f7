"""Spiking layers of `runtime.spiking` become ops of `spike`, equal to PyTorch spike for spike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.runtime.layers import TernaryLinear
from triton_dsl.runtime.spiking.attention import SpikingAttention, SpikingSelfAttention
from triton_dsl.runtime.spiking.coding import decode, encode
from triton_dsl.runtime.spiking.config import SpikingConfig
from triton_dsl.runtime.spiking.mlp import SpikingMLP
from triton_dsl.runtime.spiking.neuron import Neuron
from triton_dsl.runtime.spiking.neurons import (
    AdaptiveLifNeuron,
    CubaLifNeuron,
    IntegrateFireNeuron,
    LeakyIntegrator,
    LifNeuron,
    SigmaDeltaNeuron,
)
from triton_dsl.runtime.spiking.normalization import TemporalBatchNorm
from triton_dsl.runtime.spiking.spikeformer import SpikeFormer

TIME_FIRST = {"x": {1: "N"}}
VECTOR = torch.tensor([0.5, 1.0, 1.5, 2.0])

NEURONS: list[tuple[Neuron, type[Any]]] = [
    (LifNeuron(0.9), spike.LifOp),
    (LifNeuron(0.75, v_leak=0.25, gain=2.0, threshold=VECTOR, compare="gt", reset="to_value",
               v_reset=-0.5), spike.LifOp),
    (LifNeuron(nn.Parameter(VECTOR / 4), reset="none"), spike.LifOp),
    (IntegrateFireNeuron(threshold=2.0), spike.IntegrateFireOp),
    (CubaLifNeuron(0.5, 0.75, w_in=0.5), spike.CubaLifOp),
    (LeakyIntegrator(0.75), spike.LeakyIntegratorOp),
    (AdaptiveLifNeuron(0.75, 0.5, 1.5), spike.AdaptiveLifOp),
    (SigmaDeltaNeuron(threshold=0.5), spike.SigmaDeltaOp),
    (SigmaDeltaNeuron(bias=0.25, threshold=0.5, activation="none", cumulative=True),
     spike.SigmaDeltaOp),
]  # fmt: skip


def quarters(*shape: int) -> Tensor:
    """Numbers whose sums and halves are exact."""
    return torch.randint(-8, 9, shape) / 4


def equal(module: nn.Module, made: Any, *inputs: Tensor) -> None:
    """The interpreter gives the bits of PyTorch."""
    with torch.no_grad():
        wanted = pytree.tree_leaves(module.eval()(*inputs))
    found = run_module(made, [value.numpy() for value in inputs])
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b.numpy())


def kinds(made: Any) -> list[type[Any]]:
    return [type(op) for op in made.walk() if op.name.startswith(("spike.", "tensor."))]


@pytest.mark.parametrize(("neuron", "kind"), NEURONS, ids=[str(n) for n, _ in NEURONS])
def test_neurons(neuron: Neuron, kind: type[Any]) -> None:
    """One op for all steps, states as results, and runs that are resumed."""
    made = from_torch(neuron, (quarters(6, 2, 4),), dynamic=TIME_FIRST)
    assert kinds(made).count(kind) == 1
    equal(neuron, made, quarters(6, 3, 4))


class Resumed(nn.Module):
    """A neuron that takes its states."""

    def __init__(self) -> None:
        super().__init__()
        self.neuron = CubaLifNeuron(0.5, 0.75)

    def forward(self, x: Tensor, c: Tensor, v: Tensor) -> Any:
        return self.neuron(x, (c, v))


def test_states_go_in_and_come_out() -> None:
    module, states = Resumed(), [quarters(2, 4), quarters(2, 4)]
    free = {"x": {1: "N"}, "c": {0: "N"}, "v": {0: "N"}}
    made = from_torch(module, (quarters(6, 2, 4), *states), dynamic=free)
    equal(module, made, quarters(6, 3, 4), quarters(3, 4), quarters(3, 4))


def test_time_is_a_free_size() -> None:
    module = LifNeuron(0.75)
    made = from_torch(module, (quarters(6, 2, 4),), dynamic={"x": {0: "T", 1: "N"}})
    equal(module, made, quarters(9, 3, 4))


class Coded(nn.Module):
    """Every encoding and decoding."""

    def forward(self, x: Tensor, trace: Tensor) -> list[Tensor]:
        trains = [
            encode(x, "rate", 8, seed=5),
            encode(x, "regular", 8, start=2),
            encode(x, "latency", 8, threshold=0.2),
            encode(x, "phase", 8, period=4),
        ]
        changes = encode(trace, "delta", threshold=0.5, previous=trace[0])
        direct = encode(x, "direct", 3)
        read = [decode(train, scheme) for train in trains for scheme in ("rate", "first_spike")]
        traces = [decode(trace, "membrane", how) for how in ("last", "max")]
        return [*trains, changes, direct, *read, *traces, decode(trace, "first_spike")]


def test_coding() -> None:
    module = Coded()
    free = {"x": {0: "N"}, "trace": {1: "N"}}
    made = from_torch(module, (torch.rand(2, 4), quarters(5, 2, 4)), dynamic=free)
    assert kinds(made).count(spike.EncodeOp) == 6
    equal(module, made, torch.rand(3, 4), quarters(5, 3, 4))


class Classifier(nn.Module):
    """Encoded inputs, a spiking perceptron, rates."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        config = SpikingConfig(threshold=0.5)
        self.network = SpikingMLP([6, 8, 4], config, layer=layer, neuron={"beta": 0.5})
        for value in self.network.layers.parameters():
            value.data = (torch.randn_like(value) * 4).round() / 4

    def forward(self, x: Tensor) -> Tensor:
        train = encode(x, "rate", 8, seed=1)
        spikes, _ = self.network(train)
        return decode(spikes)


def test_perceptrons_of_floats() -> None:
    """Products take whole trains, and no state that nobody reads is computed."""
    module = Classifier(nn.Linear)
    made = from_torch(module, torch.rand(2, 6))
    found = kinds(made)
    assert found.count(spike.LinearOp) == found.count(spike.LifOp) == 2
    assert not any(op.final for op in made.walk() if isinstance(op, spike.LifOp))
    assert spike.ToTensorOp not in found
    equal(module, made, torch.rand(5, 6))


def test_perceptrons_of_trits() -> None:
    def layer(inputs: int, outputs: int, bias: bool) -> TernaryLinear:
        return TernaryLinear(inputs, outputs, bias=bias, scale="none")

    module = Classifier(layer)
    made = from_torch(module, torch.rand(2, 6))
    text = str(made)
    assert text.count("ternary.parameter") == 2 and "spike.linear" in text
    equal(module, made, torch.rand(5, 6))


class Convolutional(nn.Module):
    """A convolution on the steps of a train, pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.conv.weight.data = quarters(4, 2, 3, 3)
        self.conv.bias = nn.Parameter(quarters(4))
        self.norm = TemporalBatchNorm(4, threshold=0.5)
        nn.init.uniform_(self.norm.running_mean)
        self.neuron = LifNeuron(0.5)

    def forward(self, x: Tensor) -> Tensor:
        train, _ = self.neuron(x)
        steps = self.conv(train.flatten(0, 1)).unflatten(0, train.shape[:2])
        spikes, _ = self.neuron(self.norm(steps))
        return nn.functional.max_pool2d(spikes.flatten(0, 1), 2)


def test_convolutions_take_whole_trains() -> None:
    module = Convolutional()
    made = from_torch(module, quarters(4, 2, 2, 6, 6), dynamic=TIME_FIRST)
    assert kinds(made).count(spike.ConvOp) == kinds(made).count(spike.BatchNormOp) == 1
    equal(module, made, quarters(4, 3, 2, 6, 6))


@pytest.mark.parametrize("kind", ["ssa", "sdsa"])
def test_self_attention(kind: str) -> None:
    module = SpikingSelfAttention(8, 1 if kind == "sdsa" else 2, kind)
    for part in module.projections.values():
        part.weight.data = quarters(8, 8)
    train = (torch.rand(4, 2, 5, 8) > 0.5).float()
    made = from_torch(module, train, dynamic=TIME_FIRST)
    assert kinds(made).count(spike.AttentionOp) == 1
    equal(module, made, (torch.rand(4, 3, 5, 8) > 0.5).float())


def test_attention_takes_spikes_alone() -> None:
    class Direct(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = SpikingAttention()

        def forward(self, x: Tensor) -> Tensor:
            return self.attention(x, x, x)[0]

    with pytest.raises(UnsupportedError, match="it takes spikes alone"):
        from_torch(Direct(), torch.rand(4, 2, 5, 8), dynamic=TIME_FIRST)


def test_a_spiking_transformer(check: Any) -> None:
    module = SpikeFormer((8, 8), 4, 3, channels=8, depth=1, heads=2).eval()
    x = torch.rand(2, 2, 1, 8, 8)
    made = from_torch(module, x, dynamic=TIME_FIRST)
    x = torch.rand(2, 3, 1, 8, 8)
    with torch.no_grad():
        wanted = pytree.tree_leaves(module(x))
    found = run_module(made, [x.numpy()])
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-5)


class Own(LifNeuron):
    """A neuron of the user's: what it computes is not known, and its loop is unrolled."""

    def _advance(self, arithmetic: Any, x: Tensor, state: Any) -> Any:
        spikes, (v,) = super()._advance(arithmetic, x, state)
        return spikes, (v / 2,)


def test_neurons_of_others_are_unrolled() -> None:
    module = Own(0.5)
    made = from_torch(module, quarters(3, 2, 4), dynamic=TIME_FIRST)
    assert spike.LifOp not in kinds(made)
    equal(module, made, quarters(3, 3, 4))


class Loop(nn.Module):
    """A leaky neuron as tutorials write it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        v = torch.zeros(x.shape[1], 3)
        count = torch.zeros(x.shape[1], 3)
        for step in x:
            v = 0.5 * v + self.linear(step)
            fired = (v > 1).float()
            v = v - fired
            count = count + fired
        return count, v


def test_loops_are_unrolled(check: Any) -> None:
    check.same(Loop(), (torch.randn(5, 2, 4),), (torch.randn(5, 6, 4),), dynamic=TIME_FIRST)
