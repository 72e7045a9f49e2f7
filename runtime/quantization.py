"""Floats to trits in PyTorch, with straight-through gradients.

The same rules as the op `ternary.ternarize`. Packing is in `runtime.ternary_tensor`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ..ir.errors import OptionError, refuse

RULES = ("fixed", "twn", "absmean")


def check_rule(rule: str | None, threshold: float | None) -> str:
    """The rule that two arguments mean: `fixed` with a threshold, else `twn` by default.

    Raises:
        OptionError: an unknown rule, or a threshold that is missing, superfluous or negative.
    """
    chosen = rule or ("twn" if threshold is None else "fixed")
    refuse(chosen not in RULES, f"unknown rule '{chosen}'; expected one of {', '.join(RULES)}")
    if (chosen == "fixed") != (threshold is not None):
        raise OptionError("a threshold belongs to the rule 'fixed', and only there")
    if threshold is not None and not 0 <= threshold < math.inf:
        raise OptionError(f"expected a threshold of at least 0, got {threshold}")
    return chosen


def ternarize(
    tensor: Tensor,
    threshold: float | None = None,
    *,
    rule: str | None = None,
    axis: int | None = None,
) -> Tensor:
    """Trits of `tensor`, as floats of its type; the gradient goes straight through.

    |x| <= Δ gives 0, else the sign of x. Means are taken in float64 and rounded to x's type.

    Args:
        tensor: floats of any shape.
        threshold: Δ of the rule `fixed`, which it selects.
        rule: `twn`, the default: Δ = 0.7·mean|x| (Li & Liu 2016, eq. 6); `absmean`:
            clip(round(x / mean|x|), -1, 1) (Ma et al. 2024, BitNet b1.58, eq. 1-3); `fixed`.
        axis: take the mean for each position on this axis instead of the whole tensor.

    Raises:
        OptionError: arguments that do not go together, or a tensor that is not of floats.
    """
    chosen = check_rule(rule, threshold)
    _check_floats(tensor)
    # As the interpreter does, numbers of 16 bits are computed with in float32.
    x = tensor.detach()
    x = x.float() if torch.finfo(x.dtype).bits == 16 else x
    if chosen == "absmean":
        mean = mean_magnitude(x, axis).to(x.dtype)
        trits = torch.where(mean > 0, x / mean, 0).round().clamp(-1, 1)
    else:
        limit = (
            torch.full((), threshold, dtype=_wide(x), device=x.device)
            if threshold is not None
            else 0.7 * mean_magnitude(x, axis)
        )
        trits = torch.where(x.abs() <= limit.to(x.dtype), 0, x.sign())
    return _straight_through(tensor, trits.to(tensor.dtype))


def ternarize_largest(tensor: Tensor, count: int, *, axis: int = 0) -> Tensor:
    """The sign of the `count` largest magnitudes of each position on `axis`, else 0.

    Each position keeps exactly so many, a zero among them as 1; which ones of equal magnitude is
    not specified. The gradient goes straight through to all elements, so that others can take their
    places.

    Args:
        tensor: floats of any shape.
        count: of the elements that are kept, at each position.
        axis: of the positions; that of the outputs, for a weight.

    Raises:
        OptionError: a count below 1 or above the elements of a position, or not floats.
    """
    _check_floats(tensor)
    rest = math.prod([tensor.shape[a] for a in _other_axes(tensor, axis)])
    if not 1 <= count <= rest:
        raise OptionError(f"expected a count from 1 to {rest}, got {count}")
    rows = tensor.detach().movedim(axis, 0)
    flat = rows.reshape(len(rows), rest)
    largest = flat.abs().topk(count, dim=1, sorted=False).indices
    signs = torch.where(flat.gather(1, largest) < 0, -1, 1).to(flat.dtype)
    trits = torch.zeros_like(flat).scatter_(1, largest, signs).reshape(rows.shape)
    return _straight_through(tensor, trits.movedim(0, axis))


def ternarize_stochastic(
    tensor: Tensor, seed: int | None = None, *, generator: torch.Generator | None = None
) -> Tensor:
    """The sign of x with probability |x| / max|x|, else 0; the gradient goes straight through.

    The mean over draws is x / max|x|.

    Args:
        tensor: floats of any shape.
        seed: draw as the op `ternary.ternarize` does with this seed, the same on every device.
        generator: draw from this generator of the tensor's device; by default PyTorch's own.

    Raises:
        OptionError: both a seed and a generator, a negative seed, or not floats.
    """
    if seed is not None and (generator is not None or seed < 0):
        raise OptionError("expected a seed of at least 0, or a generator, not both")
    _check_floats(tensor)
    x = tensor.detach()
    magnitude = x.abs().to(_wide(x))
    largest = magnitude.max() if magnitude.numel() else magnitude.sum()
    if seed is not None:
        numbers = np.random.Generator(np.random.Philox(seed)).random(tuple(x.shape))
        draws = torch.as_tensor(numbers, dtype=_wide(x), device=x.device)
    else:
        draws = torch.rand(x.shape, generator=generator, dtype=_wide(x), device=x.device)
    trits = torch.where(draws * largest < magnitude, x.sign(), 0)
    return _straight_through(tensor, trits)


def mean_magnitude(x: Tensor, axis: int | None = None) -> Tensor:
    """The mean of |x| in float64, or that of each position on `axis`; x's rank is kept."""
    magnitude = x.detach().abs()
    rest = _other_axes(x, axis)
    if not rest:
        return magnitude.to(_wide(x))
    count = math.prod([x.shape[a] for a in rest])
    return magnitude.sum(dim=rest, keepdim=True, dtype=_wide(x)) / max(count, 1)


def ternary_scale(x: Tensor, trits: Tensor, axis: int | None = None) -> Tensor:
    """The mean of |x| over the kept elements: the scale that brings `trits` nearest to `x`.

    A scalar, or a vector with one value for each position on `axis`; 0 where nothing is kept
    (Li & Liu 2016, eq. 5). Without gradient.
    """
    nonzero = trits.detach() != 0
    total = torch.where(nonzero, x.detach().abs(), 0)
    rest = _other_axes(x, axis)
    if rest:
        total, nonzero = total.sum(dim=rest, dtype=_wide(x)), nonzero.sum(dim=rest)
    return (total / nonzero.clamp(min=1)).to(x.dtype)


def _wide(x: Tensor) -> torch.dtype:
    """The type of sums; Apple's GPUs have no float64."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def _other_axes(x: Tensor, axis: int | None) -> list[int]:
    if axis is not None and not -x.dim() <= axis < x.dim():
        raise OptionError(f"no axis {axis} in a tensor of {x.dim()} axes")
    return [a for a in range(x.dim()) if axis is None or a != axis % x.dim()]


def _check_floats(tensor: Tensor) -> None:
    if not tensor.is_floating_point():
        raise OptionError(f"expected floats to ternarize, got {tensor.dtype}")


def _straight_through(latent: Tensor, trits: Tensor) -> Tensor:
    return trits + (latent - latent.detach()) if latent.requires_grad else trits
