"""What PyTorch's operators of this package have in common. Not here: the operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import flop_counter

from ..ir.errors import OptionError

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


def on_processor(kernel: Callable[..., Tensor | None], formula: Callable[..., Tensor]) -> Any:
    """What a native kernel of float32 and int8 gives, or the formula where it gives nothing.

    Floats of 16 bits are multiplied in float32.
    """

    def run(x: Tensor, *others: Any) -> Tensor:
        result = None
        if x.dtype in (torch.float32, torch.int8):
            result = kernel(x, *others)
        elif x.dtype in (torch.float16, torch.bfloat16):
            wide = kernel(x.float(), *others)
            result = None if wide is None else wide.to(x.dtype)
        return formula(x, *others) if result is None else result

    return run


def check_vectors(
    operator: str, inputs: str, x: Tensor, outputs: int, scale: Tensor | None, bias: Tensor | None
) -> None:
    """Refuse a scale or bias of another size than the outputs, or beside integers.

    Raises:
        OptionError: it is so; the operator and its inputs are named.
    """
    for name, vector in (("scale", scale), ("bias", bias)):
        if vector is None:
            continue
        if not x.is_floating_point():
            raise OptionError(f"{operator}: expected no {name} with int8 {inputs}")
        if vector.shape != (outputs,):
            raise OptionError(
                f"{operator}: expected {name} of shape [{outputs}], got {list(vector.shape)}"
            )


def register_flops(operator: Any, count: Callable[..., int]) -> None:
    """Let PyTorch's counter of operations count an operator."""
    _flop_counter.register_flop_formula(operator)(count)
