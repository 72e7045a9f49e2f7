"""`SpikingMLP` against a program of the dialect; export, mixed precision, training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import verify_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.layers import TernaryLinear
from triton_dsl.runtime.spiking.coding import decode, encode
from triton_dsl.runtime.spiking.config import SpikingConfig
from triton_dsl.runtime.spiking.mlp import SpikingMLP

OPS: dict[str, Callable[..., Any]] = {
    "LIF": lambda i, **p: spike.LifOp(i, 0.9, **p),
    "IF": spike.IntegrateFireOp,
    "CubaLIF": lambda i, **p: spike.CubaLifOp(i, 0.8, 0.9, **p),
    "AdaptiveLIF": lambda i, **p: spike.AdaptiveLifOp(i, 0.9, 0.99, 1.8, **p),
}


def eighths(network: SpikingMLP) -> SpikingMLP:
    """Weights and biases with few binary digits: sums of them are exact in any order."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_((parameter * 16).round() / 8)
    return network


@pytest.mark.parametrize("model", list(OPS))
@pytest.mark.parametrize("readout", ["spikes", "membrane"])
def test_a_program_of_the_dialect_gives_the_same(model: str, readout: str) -> None:
    torch.manual_seed(0)
    config = SpikingConfig(timesteps=10, neuron_model=model, threshold=0.5)
    network = eighths(SpikingMLP([7, 9, 4], config, readout=readout))
    x = encode(torch.rand(3, 7), "rate", config.timesteps, seed=2)

    weights = [p.detach().numpy() for p in network.parameters()]
    arrays = [x.numpy() > 0, *(np.ascontiguousarray(w.T) if w.ndim > 1 else w for w in weights)]
    types = [spike.train(*x.shape), *(TensorType(f32, a.shape) for a in arrays[1:])]
    function = FuncOp("forward", (types, []))
    train, w1, b1, w2, b2 = function.args
    first = spike.LinearOp(train, w1, bias=b1)
    hidden = OPS[model](first.result, threshold=0.5)
    second = spike.LinearOp(hidden.output, w2, bias=b2)
    if readout == "spikes":
        last = OPS[model](second.result, threshold=0.5)
    else:
        last = spike.LeakyIntegratorOp(second.result, 1.0 if model == "IF" else 0.9)
    function.body.block.add_ops([first, hidden, second, last, ReturnOp(last.output)])
    function.update_function_type()
    module = ModuleOp([function])
    verify_module(module)

    (expected,) = run_module(module, arrays)
    found, state = network(x)
    np.testing.assert_array_equal(found.detach().numpy(), expected)
    assert np.any(expected) and len(state) == 2


@pytest.mark.parametrize("normalize", [False, True])
def test_a_run_can_be_cut(normalize: bool) -> None:
    torch.manual_seed(0)
    network = eighths(SpikingMLP([7, 9, 4], normalize=normalize)).eval()
    x = encode(torch.rand(3, 7), "rate", 8, seed=2) * 4
    whole, last = network(x)
    first, state = network(x[:3])
    second, state = network(x[3:], state)
    assert torch.equal(torch.cat([first, second]), whole) and whole.any()
    for mine, theirs in zip(state, last, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict: bool) -> None:
    torch.manual_seed(0)
    network = SpikingMLP([7, 9, 4], normalize=True, readout="membrane").eval()
    x = encode(torch.rand(3, 7), "rate", 6, seed=2)
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(network, (x,), dynamic_shapes=({1: batch},), strict=strict)
    wider = encode(torch.rand(5, 7), "rate", 6, seed=3)
    exported: Callable[[Tensor], Any] = program.module()
    for given in (x, wider):
        output, state = exported(given)
        expected, last = network(given)
        assert torch.equal(output, expected) and output.any()
        assert torch.equal(state[0][0], last[0][0])


def test_mixed_precision() -> None:
    """Under autocast to bfloat16 most spikes stay, gradients are finite and parameters float32."""
    torch.manual_seed(0)
    network = SpikingMLP([20, 30, 10], normalize=True)
    x = encode(torch.rand(16, 20), "rate", 20, seed=2)
    plain, _ = network(x)
    with torch.autocast("cpu", torch.bfloat16):
        mixed, state = network(x)
    assert mixed.dtype == torch.bfloat16 and state[0][0].dtype == torch.bfloat16
    assert set(mixed.unique().tolist()) == {0.0, 1.0}
    assert float((mixed.float() != plain).float().mean()) < 0.05
    decode(mixed).square().sum().backward()
    for parameter in network.parameters():
        assert parameter.grad is not None and parameter.grad.dtype == torch.float32
        assert bool(parameter.grad.isfinite().all()) and parameter.grad.any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    network = SpikingMLP([20, 30, 10], normalize=True).to(dtype)
    output, state = network(encode(torch.rand(16, 20), "rate", 20, seed=2).to(dtype))
    assert output.dtype == dtype and 0 < output.sum() < output.numel()
    assert all(v.dtype == dtype and bool(v.isfinite().all()) for part in state for v in part)


@pytest.mark.parametrize("surrogate", ["fast_sigmoid", "arctan", "triangle", "boxcar"])
@pytest.mark.parametrize("model", ["LIF", "IF", "CubaLIF"])
def test_training_finds_what_is_there(surrogate: str, model: str) -> None:
    """Two classes, told apart by the halves of the input: an untrained network guesses."""
    torch.manual_seed(1)
    config = SpikingConfig(timesteps=8, neuron_model=model, surrogate_gradient=surrogate)
    network = SpikingMLP([16, 24, 2], config, readout="membrane")
    labels = torch.arange(64) % 2
    images = torch.rand(64, 16) * 0.5
    images[labels == 0, :8] += 0.4
    images[labels == 1, 8:] += 0.4
    x = encode(images, "regular", config.timesteps)
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(30):
        trace, _ = network(x)
        loss = nn.functional.cross_entropy(decode(trace, "membrane", "mean"), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    guesses = decode(network(x)[0], "membrane", "mean").argmax(1)
    assert float((guesses == labels).float().mean()) > 0.95


def test_ternary_layers() -> None:
    torch.manual_seed(0)
    network = SpikingMLP([7, 9, 4], SpikingConfig(threshold=0.1), layer=TernaryLinear)
    assert all(isinstance(layer, TernaryLinear) for layer in network.layers)
    output, _ = network(encode(torch.rand(3, 7), "rate", 8, seed=2))
    output.sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in network.parameters())


def test_parameters_of_neurons() -> None:
    network = SpikingMLP([7, 9, 4], bias=False, neuron={"beta": 0.5, "gain": 2.0})
    assert [str(name) for name, _ in network.named_parameters()] == [
        "layers.0.weight",
        "layers.1.weight",
    ]
    assert all(getattr(n, "beta") == 0.5 for n in network.neurons)  # noqa: B009


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpikingMLP([3]), "features: expected two sizes or more"),
        (lambda: SpikingMLP([3, 0]), "features: expected two sizes or more"),
        (lambda: SpikingMLP([3, 2], readout="rate"), "readout: expected one of spikes, membrane"),
        (lambda: SpikingMLP([3, 2], neuron={"tau": 2.0}), "the neuron LIF has no tau"),
        (lambda: SpikingMLP([3, 2])(torch.ones(4, 3)), r"expected \[T, N, 3\], got \[4, 3\]"),
        (lambda: SpikingMLP([3, 2])(torch.ones(4, 1, 3), ()), "states of 1 layers, got 0"),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()
