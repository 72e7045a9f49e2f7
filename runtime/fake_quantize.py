"""Quantisation-aware training: numbers rounded to few bits in float, with learned steps.

`FakeQuantize` rounds a tensor to a grid of integers and learns the step of the grid; its results
are the floats that integers stand for, so that `from_torch` and the pass `recognize-quantizers`
make those integers of it. `quantize_aware` puts such grids into a network. Ternary layers
(`runtime.layers`) have grids of their own for weights. Not here: networks that become integer
without training (`passes.quantize_activations`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ..ir.errors import OptionError, refuse
from .compression import check_bits
from .layers import TernaryLayer

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, TernaryLayer)
"""The layers whose inputs and weights are put on grids."""

_RANGES = 40
"""How many ranges are tried for a first step, each a fiftieth of the largest number smaller."""


class FakeQuantize(nn.Module):
    """step·clamp(round(x / step), low, high), halves to even, and a step that learns.

    The gradient of a number goes straight through where it is rounded to a level and is 0 where it
    is cut off; that of the step is LSQ's (Esser et al. 2020, eq. 3, with the factor of section
    2.2), both as PyTorch's `_fake_quantize_learnable_per_tensor_affine` has them. Its logarithm is
    what is trained (Jain et al. 2020, section 3.4), so that a learning rate means the same for
    large and small steps. The first step is that with the least squared error on the first batch in
    training, or on what `fit` is given. Numbers are computed with in float32.

    Args:
        bits: 2 to 8.
        signed: levels -(2^(bits-1) - 1) … 2^(bits-1) - 1; without, 0 … 2^bits - 1; by default
            signed where the first numbers are.
        channels: one step for each position on axis 0, of so many; by default one for all.

    Raises:
        OptionError: bits that are not allowed.
    """

    bounds: Tensor

    def __init__(
        self, bits: int = 8, *, signed: bool | None = None, channels: int | None = None
    ) -> None:
        super().__init__()
        self.bits, self.signed, self.channels = check_bits("bits", bits), signed, channels
        self.log_step = nn.Parameter(torch.zeros(() if channels is None else (channels,)))
        # Numbers of Python, which exported programs have as constants; the buffer keeps them.
        self.low, self.high = 0, 0
        self.register_buffer("bounds", torch.zeros(2, dtype=torch.int32))
        self.register_load_state_dict_post_hook(_read_bounds)

    @property
    def is_fitted(self) -> bool:
        """Whether it has seen numbers, and so has a step and bounds."""
        return self.high > 0

    def step(self, rank: int = 0) -> Tensor:
        """The distance of two levels: of rank 0, or [channels, 1, …] of this rank."""
        step = torch.exp2(self.log_step)
        return step if self.channels is None else step.reshape(-1, *[1] * (rank - 1))

    def fit(self, x: Tensor) -> None:
        """Take the bounds and the step from numbers, those of a weight or a batch."""
        with torch.no_grad():
            signed = bool((x < 0).any()) if self.signed is None else self.signed
            high = (1 << self.bits - 1) - 1 if signed else (1 << self.bits) - 1
            self.bounds.copy_(torch.tensor([-high if signed else 0, high]))
            self.read_bounds()
            rows = x.detach().float().reshape(1 if self.channels is None else len(x), -1)
            peak = rows.abs().amax(1, keepdim=True) if rows.numel() else rows.new_zeros(1, 1)
            peak = torch.where(peak > 0, peak, 1.0)
            best, least = peak / high, torch.full_like(peak, math.inf)
            for index in range(_RANGES):
                step = peak / high * (1 - index / 50)
                error = (rounded(rows, step, self.low, self.high) - rows).square()
                total = error.sum(1, keepdim=True)
                best, least = torch.where(total < least, step, best), torch.minimum(total, least)
            self.log_step.copy_(best.log2().reshape(self.log_step.shape))

    def read_bounds(self) -> None:
        """Take the bounds from the buffer, where that was written."""
        self.low, self.high = int(self.bounds[0]), int(self.bounds[1])

    def forward(self, x: Tensor) -> Tensor:
        """The nearest levels to `x`, of its shape and type.

        Raises:
            OptionError: in evaluation, where no numbers were seen yet.
        """
        if not self.is_fitted:
            if not self.training:
                raise OptionError("FakeQuantize has seen no numbers: train it, or call fit(x)")
            self.fit(x)
        step = self.step(x.dim())
        if torch.is_grad_enabled():
            learned: Any = _LearnedRounding
            return learned.apply(x, step, self.low, self.high)
        return rounded(x.float(), step, self.low, self.high).to(x.dtype)

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return f"bits={self.bits}, low={self.low}, high={self.high}, channels={self.channels}"


def rounded(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """step·clamp(round(x / step), low, high)."""
    return (x / step).round().clamp(low, high) * step


class _LearnedRounding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
        ctx.save_for_backward(x, step)
        ctx.bounds = (low, high)
        return rounded(x.float(), step, low, high).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (gradient,), (x, step), (low, high) = gradients, ctx.saved_tensors, ctx.bounds
        steps = x.float() / step
        level = steps.round().clamp(low, high)
        inside = steps.round() == level
        slope = torch.where(inside, level - steps, level) * gradient
        factor = math.sqrt(max(step.numel(), 1) / max(x.numel() * high, 1))
        return gradient * inside, slope.sum_to_size(step.shape) * factor, None, None


class _RoundedBias(nn.Module):
    """A bias in steps of the layer's sums, as integer products add it (Jacob et al. 2018, 2.4)."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        # In a tuple, so that it is no submodule.
        self._layer = (layer,)

    def forward(self, bias: Tensor) -> Tensor:
        (layer,) = self._layer
        scale: Any = weight_step(layer)
        inputs: Any = layer.input_quantizer
        if scale is None or not inputs.is_fitted:
            return bias
        step = inputs.step().detach() * scale.detach().reshape(-1)
        levels = (bias.detach() / step).round() * step
        return levels + (bias - bias.detach()) if torch.is_grad_enabled() else levels


def weight_step(layer: nn.Module) -> Tensor | None:
    """The distance of two levels of a layer's weights; `None` where they are any floats."""
    if isinstance(layer, TernaryLayer):
        scale = layer.get_scale()
        return torch.ones(()) if scale is None else scale
    grids = (part for part in parametrizations_of(layer) if isinstance(part, FakeQuantize))
    return next((grid.step() for grid in grids), None)


def parametrizations_of(layer: Any) -> list[nn.Module]:
    """What makes a layer's weight of its parameter, in order."""
    is_one = parametrize.is_parametrized(layer, "weight")
    return list(layer.parametrizations["weight"]) if is_one else []


def layers_of(module: nn.Module) -> Iterator[nn.Module]:
    """The layers of `LAYERS` in `module` that are called, in the order of its parts."""
    attention = {
        id(part)
        for block in module.modules()
        if isinstance(block, nn.MultiheadAttention)
        for part in block.modules()
    }
    for part in module.modules():
        if isinstance(part, LAYERS) and id(part) not in attention:
            yield part


def quantize_aware(
    module: nn.Module, *, weight_bits: int | None = None, activation_bits: int | None = None
) -> None:
    """Put what enters the layers of `LAYERS`, and their weights, on learned grids, in place.

    Weights get a step for each output channel, but one for all in the last layer, whose integers
    are then comparable; with 2 bits they are trits. Ternary layers keep their own weights. Where
    inputs are on a grid too, biases are rounded to the steps of the sums. What is there already
    stays. Inside of `nn.MultiheadAttention` nothing changes: it does not call its layers.

    Weights and biases are parametrizations: `torch.nn.utils.parametrize.remove_parametrizations`
    leaves the rounded values in their place.

    Args:
        module: a network.
        weight_bits: 2 to 8; by default weights stay floats.
        activation_bits: 2 to 8; by default activations stay floats.

    Raises:
        OptionError: bits that are not allowed, or no such layer.
    """
    for name, bits in (("weight_bits", weight_bits), ("activation_bits", activation_bits)):
        if bits is not None:
            check_bits(name, bits)
    layers = list(layers_of(module))
    refuse(not layers, "the network has no linear layer and no convolution to quantise")
    for layer in layers:
        device = next(layer.parameters()).device
        if weight_bits and not isinstance(layer, TernaryLayer) and weight_step(layer) is None:
            weight: Any = layer.weight
            channels = None if layer is layers[-1] else len(weight)
            grid = FakeQuantize(weight_bits, signed=True, channels=channels).to(device)
            grid.fit(weight)
            parametrize.register_parametrization(layer, "weight", grid)
        if activation_bits and not hasattr(layer, "input_quantizer"):
            grid = FakeQuantize(activation_bits).to(device).train(layer.training)
            layer.register_module("input_quantizer", grid)
            layer.register_forward_pre_hook(_quantize_input)
            if layer.bias is not None:
                parametrize.register_parametrization(layer, "bias", _RoundedBias(layer))


def _quantize_input(layer: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return (layer.input_quantizer(arguments[0]), *arguments[1:])


def _read_bounds(grid: nn.Module, _keys: object) -> None:
    assert isinstance(grid, FakeQuantize)
    grid.read_bounds()
