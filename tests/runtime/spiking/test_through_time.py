"""Gradients of runs against the autograd of every operation of every step, for all models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from triton_dsl.runtime.spiking import neuron as layers
from triton_dsl.runtime.spiking.neurons import MODELS, LifNeuron
from triton_dsl.runtime.spiking.steps import run_steps
from triton_dsl.runtime.spiking.surrogate import SurrogateGradient

SCALES = {"izhikevich": 40.0, "adaptive_exponential": 4e4}
"""Currents that make neurons fire which compute in mV and pA."""

CASES = [(name, {}) for name in MODELS] + [
    ("lif", {"reset": "to_value", "v_reset": -0.1, "compare": "gt"}),
    ("cuba_lif", {"reset": "none"}),
    ("adaptive_lif", {"detach_reset": True}),
    ("sigma_delta", {"cumulative": True, "activation": "none"}),
]


def made(name: str, settings: dict[str, Any], dtype: torch.dtype, trained: bool) -> nn.Module:
    """Neurons with v_leak, gains and thresholds unlike those that change nothing."""
    values: dict[str, Any] = {"v_leak": -0.07, "gain": 0.6, "bias": 0.11}
    values = {n: v for n, v in values.items() if n in MODELS[name].PARAMETERS}
    layer = MODELS[name](**values, **settings, surrogate=SurrogateGradient("arctan"))
    if trained:
        for number, parameter in enumerate(MODELS[name].PARAMETERS):
            if parameter != "v_reset" or settings.get("reset") == "to_value":
                shape = (5,) if number % 2 else ()
                value = torch.full(shape, float(getattr(layer, parameter)), dtype=dtype)
                delattr(layer, parameter)
                layer.register_parameter(parameter, nn.Parameter(value))
    return layer


def gradients(layer: nn.Module, tensors: list[Tensor], order: int) -> list[Any]:
    """Those of a random sum of outputs and states; then of the squares of these."""
    generator = torch.Generator().manual_seed(8)
    outputs, after = layer(tensors[0], tuple(tensors[1:]))
    total = tensors[0].new_zeros((), dtype=torch.float64)
    for value in (outputs, *after):
        weights = torch.rand(value.shape, generator=generator, dtype=torch.float64)
        total = total + (value * weights).sum()
    wanted, found = [*tensors, *layer.parameters()], list[Any]()
    for again in range(order):
        kept = again + 1 < order
        parts: Any = torch.autograd.grad(total, wanted, create_graph=kept, allow_unused=True)
        found = list(parts)
        total = sum((g.square().sum() for g in found if g is not None), (tensors[0] * 0).sum())
    return [outputs, *after, *found]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_gradients_are_those_of_autograd(
    name: str,
    settings: dict[str, Any],
    trained: bool,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spikes and states are the same bits; of doubles the second derivatives are compared too."""
    layer, generator = made(name, settings, dtype, trained), torch.Generator().manual_seed(3)
    x = (torch.randn(9, 3, 5, generator=generator) * 0.6 + 0.5) * SCALES.get(name, 1.0)
    x = x.to(dtype).requires_grad_()
    states = len(MODELS[name].STATES)
    state = torch.zeros(states, 3, 5).to(dtype).requires_grad_().unbind(0)
    order = 2 if dtype == torch.float64 else 1
    found = gradients(layer, [x, *state], order)
    monkeypatch.setattr(layers, "run_through_time", run_steps)
    expected = gradients(layer, [x, *state], order)
    assert expected[0] is not None and expected[0].any()
    for mine, theirs in zip(found[: 1 + states], expected, strict=False):
        assert mine is not None and theirs is not None and torch.equal(mine, theirs)
    digits = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 0.04}[dtype]
    for mine, theirs in zip(found[1 + states :], expected[1 + states :], strict=True):
        if theirs is None or mine is None:
            assert mine is None or not mine.any()
            assert theirs is None or not theirs.any()
        else:
            scale = float(theirs.abs().max())
            torch.testing.assert_close(mine, theirs, rtol=digits, atol=digits * scale)


def test_gradients_of_each_sample_and_of_a_last_state() -> None:
    layer, x = LifNeuron(0.8, surrogate="arctan"), torch.rand(4, 6, 2, 3, dtype=torch.float64)

    def total(x: Tensor) -> Tensor:
        return layer(x)[0].sum()

    each = torch.func.vmap(torch.func.grad(total))(x)
    whole = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(torch.stack([total(part) for part in whole]).sum(), whole)
    torch.testing.assert_close(each, expected)
    (found,) = torch.autograd.grad(torch.func.vmap(layer)(whole)[0].sum(), whole)
    torch.testing.assert_close(found, expected)
    (last,) = torch.autograd.grad(layer(whole[0])[1][0].sum(), whole)
    assert last[0].any() and not last[1:].any()


def test_a_run_is_one_function_and_keeps_one_value_a_step() -> None:
    """What is kept of a leaky neuron is its potential before the reset."""
    kept: list[int] = []
    x = torch.rand(6, 2, 3, requires_grad=True)

    def note(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        spikes, _ = LifNeuron(0.8)(x)
    assert sum(size for size in kept if size > 1) == x.numel()
    assert spikes.grad_fn is not None
    assert spikes.grad_fn.next_functions[0][0].name().endswith("AccumulateGrad")
