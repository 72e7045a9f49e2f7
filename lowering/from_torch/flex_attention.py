"""Attention whose scores a function changes: `torch.nn.attention.flex_attention`, written out."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn.attention import flex_attention as layers


@contextmanager
def written_out_scores() -> Generator[None]:
    """It is two products, a softmax and the functions that it is given in a `with` block."""
    # Releases of PyTorch differ in whether they have the second one.
    with (
        patch.object(layers, "flex_attention_hop", _attention, create=True),
        patch.object(layers, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True, create=True),
    ):
        yield


def _attention(
    query: Tensor, key: Tensor, value: Tensor, changed: Callable[..., Tensor],
    mask: tuple[Callable[..., Tensor], ...], scale: float, _options: object,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """What PyTorch's operator gives: the result, and the sums and greatest scores to base 2.

    The functions get places along axes of their own, where PyTorch calls them for each score.
    """
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (torch.repeat_interleave(part, groups, dim=1) for part in (key, value))
    scores = query @ key.transpose(-2, -1) * scale
    places = [
        torch.arange(size).reshape([-1 if a == axis else 1 for a in range(4)])
        for axis, size in enumerate(scores.shape)
    ]
    scores = changed(scores, *places)
    is_hidden = ~mask[-1](*places).expand_as(scores)
    scores = scores.masked_fill(is_hidden, -math.inf)
    sums, most = scores.logsumexp(-1), scores.amax(-1)
    weights = torch.softmax(scores, -1).masked_fill(most.unsqueeze(-1) == -math.inf, 0)
    return weights @ value, sums / math.log(2), most / math.log(2)
