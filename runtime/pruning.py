"""Pruning of networks: masks that hold weights at zero, by magnitude or by sensitivity.

A mask is a parametrization of the weight, as those of `fake_quantize` are, so that both hold at
once; `torch.nn.utils.prune` has other means for masks, and PyTorch lets a weight have one of the
two. Not here: when a run of training prunes (`training.run`), trits whose number a layer fixes
(`layers`, `fan_in`), and rows that targets leave out (`passes.skip_zeros`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from ..ir.errors import refuse
from .compression import final_sparsity, parse_pattern
from .fake_quantize import layers_of, parametrizations_of

_DECAY = 0.95
"""Of the running mean of squared gradients."""


class Mask(nn.Module):
    """w ↦ w·mask, and what is known of how much the loss depends on w.

    Attributes:
        mask: 1 for weights that are kept, of their shape.
        squared: the running mean of the squared gradient of w·mask, where it is counted.
    """

    mask: Tensor
    squared: Tensor

    def __init__(self, weight: Tensor, *, counts: bool) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones_like(weight, requires_grad=False))
        if counts:
            self.register_buffer("squared", torch.zeros_like(weight, requires_grad=False))

    def forward(self, weight: Tensor) -> Tensor:
        """The weights that are kept, and zeros."""
        return weight * self.mask


def add_masks(module: nn.Module, *, method: str = "magnitude") -> None:
    """Give each layer a mask that keeps all of its weights yet; those that have one keep it."""
    layers = list(layers_of(module))
    refuse(not layers, "the network has no linear layer and no convolution to prune")
    for layer in layers:
        if mask_of(layer) is None:
            weight: Any = layer.weight
            mask = Mask(weight, counts=method == "sensitivity")
            parametrize.register_parametrization(layer, "weight", mask)


def mask_of(layer: nn.Module) -> Mask | None:
    """The mask of a layer's weights."""
    return next((part for part in parametrizations_of(layer) if isinstance(part, Mask)), None)


def count_gradients(module: nn.Module) -> None:
    """Take the gradients of this step into the running means of their squares."""
    for mask, weight in _masked(module):
        if weight.grad is not None:
            mask.squared.mul_(_DECAY).addcmul_(weight.grad, weight.grad, value=1 - _DECAY)


def set_masks(
    module: nn.Module, sparsity: float, *, method: str = "magnitude", pattern: str | None = None
) -> None:
    """Choose anew which weights the masks keep.

    The score of a weight is its magnitude, or its sensitivity w²·E[g²]: what the loss grows by to
    second order without it, with the squared gradient for the curvature (LeCun et al. 1990, Optimal
    Brain Damage; Theis et al. 2018). Without a pattern the scores are compared within a layer by
    magnitude, so that all layers get the same sparsity, and across all layers by sensitivity; each
    layer keeps a weight at least.

    Args:
        module: with masks.
        sparsity: the part of the weights that become zero.
        method: `magnitude` or `sensitivity`.
        pattern: `N:M`: compare within each M weights in a row of inputs, of a convolution in
            the order [height, width, channels]. With it, `sparsity` of M is rounded to whole
            weights, and is at most 1 - N/M.
    """
    masked = list(_masked(module))
    scores = [_scores(mask, weight, method) for mask, weight in masked]
    groups = parse_pattern(pattern)
    kept: list[Tensor]
    if groups is not None:
        count = max(groups[0], groups[1] - round(groups[1] * sparsity))
        kept = [_largest_of_groups(score, count, groups[1]) for score in scores]
    elif method == "magnitude":
        kept = [_largest(score, round(score.numel() * (1 - sparsity))) for score in scores]
    else:
        flat = torch.cat([score.flatten() for score in scores])
        chosen: Any = _largest(flat, round(flat.numel() * (1 - sparsity)))
        parts: list[Tensor] = chosen.split([score.numel() for score in scores])
        kept = [part.reshape(s.shape) for part, s in zip(parts, scores, strict=True)]
        kept = [k if k.any() else _largest(s, 1) for k, s in zip(kept, scores, strict=True)]
    for (mask, _), keep in zip(masked, kept, strict=True):
        mask.mask.copy_(keep)


def prune(
    module: nn.Module,
    sparsity: float = 0.0,
    *,
    method: str = "magnitude",
    pattern: str | None = None,
    data: Iterable[tuple[Tensor, Tensor]] = (),
    loss: Callable[[Tensor, Tensor], Tensor] = functional.cross_entropy,
) -> None:
    """Prune a trained network at once, in place; `bake` makes the zeros those of its weights.

    Args:
        module: a network of layers of `fake_quantize.LAYERS`.
        sparsity: the part of the weights that become zero; with a pattern that of the pattern.
        method: see `set_masks`.
        pattern: `N:M`, as `2:4`.
        data: for `sensitivity`: batches of inputs and targets, gone over once, small ones best.
        loss: of outputs and targets, the mean over rows.

    Raises:
        OptionError: a value that is not allowed, or no data for `sensitivity`.
    """
    final = final_sparsity(sparsity, pattern, method)
    add_masks(module, method=method)
    if method == "sensitivity":
        _measure(module, data, loss)
    set_masks(module, final, method=method, pattern=pattern)


def bake(module: nn.Module) -> None:
    """Put the weights and biases that masks and grids give into the layers themselves, in place.

    What rounds activations stays.
    """
    for layer in layers_of(module):
        chain: Any = getattr(layer, "parametrizations", {})
        # Biases first: they are rounded to steps of the weights.
        for name in sorted(chain):
            parametrize.remove_parametrizations(layer, name, leave_parametrized=True)


def _masked(module: nn.Module) -> Iterable[tuple[Mask, Any]]:
    for layer in layers_of(module):
        mask = mask_of(layer)
        if mask is not None:
            chain: Any = layer.parametrizations
            yield mask, chain.weight.original


def _scores(mask: Mask, weight: Tensor, method: str) -> Tensor:
    weight = weight.detach()
    return weight.abs() if method == "magnitude" else weight.square() * mask.squared


def _measure(
    module: nn.Module,
    data: Iterable[tuple[Tensor, Tensor]],
    loss: Callable[[Tensor, Tensor], Tensor],
) -> None:
    """The mean of squared gradients over batches, in evaluation mode."""
    masked, count, was_training = list(_masked(module)), 0, module.training
    totals = [torch.zeros_like(mask.squared) for mask, _ in masked]
    module.eval()
    try:
        for inputs, targets in data:
            count += 1
            weights = [weight for _, weight in masked]
            found = torch.autograd.grad(loss(module(inputs), targets), weights)
            for total, gradient in zip(totals, found, strict=True):
                total.addcmul_(gradient, gradient)
    finally:
        module.train(was_training)
    refuse(not count, "sensitivity needs data: batches of inputs and targets")
    for (mask, _), total in zip(masked, totals, strict=True):
        mask.squared.copy_(total / count)


def _largest(scores: Tensor, count: int) -> Tensor:
    """Where the `count` largest scores are; of equal ones the first."""
    kept = torch.zeros(scores.numel(), dtype=torch.bool, device=scores.device)
    order = scores.flatten().argsort(descending=True, stable=True)
    kept[order[: max(count, 1)]] = True
    return kept.reshape(scores.shape)


def _largest_of_groups(scores: Tensor, count: int, size: int) -> Tensor:
    """Where the `count` largest of each `size` scores along the inputs are."""
    moved = scores.movedim(1, -1)
    rows = moved.reshape(len(scores), -1)
    groups = functional.pad(rows, (0, -rows.shape[1] % size), value=-math.inf)
    groups = groups.reshape(len(scores), -1, size)
    order = groups.argsort(dim=-1, descending=True, stable=True)[..., :count]
    kept = torch.zeros_like(groups, dtype=torch.bool).scatter_(-1, order, True)
    kept = kept.flatten(1)[:, : rows.shape[1]].reshape(moved.shape)
    return kept.movedim(-1, 1)
