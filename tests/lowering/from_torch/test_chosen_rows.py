"""Rows that values choose, against PyTorch at sizes other than the example's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_torch import from_torch

from .conftest import Checker, Function


class Experts(nn.Module):
    """A router, and three experts that each take the tokens that are sent to them.

    Args:
        send: how they are sent, from rows [n, 6], logits [n, 3] and the experts.
    """

    def __init__(self, send: Callable[[Tensor, Tensor, nn.ModuleList], Tensor]) -> None:
        super().__init__()
        self.router = nn.Linear(6, 3)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6)) for _ in range(3)
        )
        self.send = send

    def forward(self, x: Tensor) -> Tensor:
        return self.send(x, self.router(x), self.experts)


def by_where(x: Tensor, logits: Tensor, experts: nn.ModuleList) -> Tensor:
    """Two experts for each token, found by `where`."""
    weights, chosen = logits.softmax(-1).topk(2, -1)
    masks = functional.one_hot(chosen, 3).permute(2, 1, 0)
    out = torch.zeros_like(x)
    for mask, expert in zip(masks, experts, strict=True):
        place, token = torch.where(mask)
        out.index_add_(
            0, token, expert(x[None, token].reshape(-1, 6)) * weights[token, place, None]
        )
    return out


def by_mask(x: Tensor, logits: Tensor, experts: nn.ModuleList) -> Tensor:
    """One expert for each token, found by a mask."""
    out = torch.zeros_like(x)
    for index, expert in enumerate(experts):
        mask = logits.argmax(-1) == index
        out[mask] = expert(x[mask])
    return out


def by_nonzero(x: Tensor, logits: Tensor, experts: nn.ModuleList) -> Tensor:
    """The same, by the places of what is not zero."""
    out = torch.zeros_like(x)
    for index, expert in enumerate(experts):
        token = (logits.argmax(-1) == index).nonzero().squeeze(-1)
        out[token] = expert(x[token])
    return out


def by_counts(x: Tensor, logits: Tensor, experts: nn.ModuleList) -> Tensor:
    """Tokens sorted by expert, in as many pieces."""
    chosen = logits.argmax(-1)
    order = torch.argsort(chosen, stable=True)
    pieces = x[order].split(functional.one_hot(chosen, 3).sum(0).tolist())
    joined = torch.cat([expert(piece) for expert, piece in zip(experts, pieces, strict=True)])
    return torch.zeros_like(x).index_copy(0, order, joined)


@pytest.mark.parametrize("send", [by_where, by_mask, by_nonzero, by_counts])
def test_experts_take_the_tokens_that_are_sent_to_them(
    check: Checker, send: Callable[..., Tensor]
) -> None:
    module, x = Experts(send), torch.randn(7, 6)
    made = check.same(module, (torch.randn(4, 6),), (x,))
    check.same_in_onnx(module, made, (x,))


def changed_between(x: Tensor) -> tuple[Tensor, Tensor]:
    """What is chosen stays as it was, and a mask is that of its time."""
    y = x * 1
    chosen = y[y > 0]
    y.mul_(-1)
    z = y.clone()
    z[y > 0] = 1
    return chosen.sum(), z


FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "sum": lambda x: x[x[:, 0] > 0].sum(0),
    "mean": lambda x: x[x[:, 0] > -9].mean(0, keepdim=True),
    "none": lambda x: x[x[:, 0] > 99].sum(),
    "greatest": lambda x: x[x[:, 0] > -9].amax(0),
    "truth": lambda x: ((x[x[:, 0] > 0] > 1).any(0), (x[x > 0] > 0.01).all()),
    "elements": lambda x: torch.masked_select(x, x > 0).exp().sum(),
    "columns": lambda x: x[:, torch.isfinite(x).all(0)].log1p().nansum(1),
    "in its place": lambda x: torch.where(x > 0, 0, x).masked_scatter(x > 9, x)[:1].sum(),
    "back": lambda x: x.clone().index_put((x > 0.5,), x[x > 0.5].tanh() * 2),
    "normalised": lambda x: functional.normalize(x[x[:, 0] > 0], dim=-1).sum(0),
    "places": lambda x: (i := torch.where(x > 0), torch.zeros_like(x).index_put(i, x[i].exp()))[1],
    "copied": lambda x: x.index_copy(0, i := (x[:, 0] > 0).nonzero()[:, 0], x[i] * 2),
    "added": lambda x: x.new_zeros(x.shape[0]).index_add(0, *[(p := torch.where(x > 0))[0], x[p]]),
    "images": lambda x: functional.conv1d(x[x[:, 0] > 0][:, None], x[:1, None, :3]).sum(0),
    "other axes": lambda x: x[x[:, 0] > 0].softmax(-1).mT.reshape(2, 3, -1).sum(),
    "changed between": changed_between,
}  # fmt: skip


def test_what_becomes_of_them(check: Checker) -> None:
    check.all_same(FUNCTIONS, (torch.randn(5, 6),), (torch.randn(8, 6),))


def test_numbers_that_are_no_index_are_not_looked_up(check: Checker) -> None:
    table = torch.randn(7, 4)

    def looked_up(ids: Tensor) -> Tensor:
        out = torch.zeros(*ids.shape, 4)
        out[ids >= 0] = functional.embedding(ids[ids >= 0], table)
        return out

    ids = torch.randint(-1, 7, (2, 5))
    check.same(looked_up, (ids,), (torch.where(ids < 0, -100, ids),))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[x[:, 0] > 0].cumsum(0).sum(0),
        lambda x: x[x[:, 0] > 0].softmax(0).sum(0),
        lambda x: x * x[x[:, 0] > 0].shape[0],
        lambda x: x[x[:, 0] > 0] + 1,
        lambda x: x[x > 0].reshape(-1, 1).T @ x[x > 0],
        lambda x: (x.long()[x > 1] // x.long()[x > 1]).sum(),
    ],
)
def test_rows_that_meet_are_refused(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(UnsupportedError, match="depends on values"):
        from_torch(Function(function), torch.randn(4, 6) + 1)
