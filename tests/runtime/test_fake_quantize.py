"""Learned grids: values and gradients are those of PyTorch's own operator; networks get them."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime import TernaryLinear
from triton_dsl.runtime.fake_quantize import FakeQuantize, layers_of, quantize_aware, weight_step


@pytest.mark.parametrize(("bits", "signed"), [(2, True), (4, True), (4, False), (8, False)])
def test_values_and_gradients_are_those_of_pytorch(bits: int, signed: bool) -> None:
    x = torch.randn(257, generator=torch.Generator().manual_seed(bits)).requires_grad_()
    grid = FakeQuantize(bits, signed=signed)
    grid.fit(x)
    (grid(x) * torch.arange(257)).sum().backward()
    scale = grid.step().detach().reshape(1).clone().requires_grad_()
    y = x.detach().clone().requires_grad_()
    factor = 1 / math.sqrt(x.numel() * grid.high)
    operators: Any = torch.ops.aten
    expected = operators._fake_quantize_learnable_per_tensor_affine(
        y, scale, torch.zeros(1), grid.low, grid.high, factor
    )
    (expected * torch.arange(257)).sum().backward()
    torch.testing.assert_close(grid(x), expected)
    torch.testing.assert_close(x.grad, y.grad)
    assert scale.grad is not None and grid.log_step.grad is not None
    # The parameter is log2 of the step.
    slope = scale.grad * scale.detach() * math.log(2)
    torch.testing.assert_close(grid.log_step.grad.reshape(1), slope, rtol=1e-4, atol=1e-5)
    assert grid(x).unique().numel() <= 2**bits


def test_the_first_step_loses_less_than_the_whole_range() -> None:
    x = torch.randn(4, 500, generator=torch.Generator().manual_seed(0)) ** 3
    grid = FakeQuantize(3, signed=True, channels=4)
    grid.fit(x)
    whole = x.abs().amax(1, keepdim=True) / 3
    plain = (x / whole).round() * whole
    assert bool(((grid(x) - x).square().sum(1) < 0.85 * (plain - x).square().sum(1)).all())


def test_a_grid_is_kept_in_the_state() -> None:
    grid, other = FakeQuantize(4), FakeQuantize(4)
    grid(torch.rand(10))
    other.load_state_dict(grid.state_dict())
    other.eval()
    assert (other.low, other.high) == (0, 15)
    assert torch.equal(other(torch.ones(1)), grid(torch.ones(1)))


def test_what_is_not_allowed_is_refused() -> None:
    with pytest.raises(OptionError, match="bits: expected a whole number from 2 to 8, got 1"):
        FakeQuantize(1)
    with pytest.raises(OptionError, match="FakeQuantize has seen no numbers"):
        FakeQuantize(4).eval()(torch.ones(1))
    with pytest.raises(OptionError, match="no linear layer and no convolution"):
        quantize_aware(nn.ReLU(), weight_bits=4)


def network() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
        TernaryLinear(144, 8), nn.ReLU(), nn.Linear(8, 3),
    )  # fmt: skip


def test_a_network_gets_grids() -> None:
    model = network()
    quantize_aware(model, weight_bits=4, activation_bits=3)
    quantize_aware(model, weight_bits=4, activation_bits=3)
    x = torch.rand(5, 1, 8, 8)
    y = model(x)
    y.sum().backward()
    found: list[Any] = list(layers_of(model))
    conv, ternary, last = found
    steps = [weight_step(layer) for layer in (conv, ternary, last)]
    assert [tuple(s.shape) for s in steps if s is not None] == [(4,), (8,), ()]
    for layer in (conv, last):
        assert all(isinstance(w, torch.Tensor) for w in (layer.weight, layer.bias))
        chain: Any = layer.parametrizations
        assert len(chain["weight"]) == 1 and chain["weight"].original.grad is not None
    assert last.input_quantizer.high == 7
    # Biases are whole steps of the sums.
    sums = last.input_quantizer.step() * steps[2]
    torch.testing.assert_close(last.bias / sums, (last.bias / sums).round(), atol=1e-4, rtol=0)
    model.eval()
    expected = model(x)
    for layer in (conv, ternary, last):
        for name in sorted(getattr(layer, "parametrizations", {})):
            parametrize.remove_parametrizations(layer, name)
    torch.testing.assert_close(model(x), expected)
    with torch.no_grad():
        torch.testing.assert_close(copy.deepcopy(model)(x), expected)


def test_attention_keeps_its_own_layers() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    quantize_aware(layer, weight_bits=8, activation_bits=8)
    assert len(list(layers_of(layer))) == 2
    assert layer(torch.randn(2, 3, 8)).shape == (2, 3, 8)
