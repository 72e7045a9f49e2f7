"""Branches on tensors that a module makes of one number, and on no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from triton_dsl.ir.errors import LoweringError
from triton_dsl.lowering.from_torch import from_torch

from .conftest import Checker, Function


def _no_padding(x: Tensor) -> Tensor:
    mask = torch.ones(x.shape[0], 8)
    return x * 3 if bool((mask[:, None].expand(-1, 2, -1) > 0).all()) else x


def _written(x: Tensor) -> Tensor:
    """What is written through a view counts."""
    mask = x.new_zeros(x.shape[0], 8)
    mask.view(-1)[3:4] = x[0, :1]
    return x * 3 if bool(mask.any()) else x


def _empty(x: Tensor) -> Tensor:
    """A free size less two may be none."""
    return x * 3 if bool(torch.ones(x.shape[0] - 2).any()) else x


CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "no padding": _no_padding,
    "a number": lambda x: x + torch.full((x.shape[0], 8), 2.5).max().item(),
    "a bound": lambda x: x[:, : int(torch.ones(x.shape[0], 8).long().mul(3).amax())],
    "types": lambda x: x + (torch.full((2,), 7) / 2).to(torch.int32).sub(1).max().item(),
}


@pytest.mark.parametrize("name", CASES)
def test_what_one_number_decides(check: Checker, name: str) -> None:
    check.same(CASES[name], [torch.randn(2, 5)], [torch.randn(4, 5)])


@pytest.mark.parametrize("function", [_written, _empty])
def test_what_it_does_not_decide(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(LoweringError, match="data-dependent"):
        from_torch(Function(function), torch.randn(2, 5))
