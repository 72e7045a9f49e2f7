"""What PyTorch's operators of this package have in common. Not here: the operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import flop_counter

LIBRARY = torch.library.Library("triton_dsl", "FRAGMENT")
"""The operators `triton_dsl::…`."""
_flop_counter: Any = flop_counter


def autocast(x: Tensor) -> Tensor:
    """A tensor of floats in the type of `torch.autocast`, where that is on."""
    kind = x.device.type
    if (
        x.is_floating_point()
        and torch.amp.is_autocast_available(kind)
        and torch.is_autocast_enabled(kind)
    ):
        return x.to(torch.get_autocast_dtype(kind))
    return x


def register_flops(operator: Any, count: Callable[..., int]) -> None:
    """Let PyTorch's counter of operations count an operator."""
    _flop_counter.register_flop_formula(operator)(count)
