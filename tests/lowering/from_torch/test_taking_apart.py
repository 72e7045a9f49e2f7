"""Operators without a rule are taken apart where they stand; the graph is not run again."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from .conftest import Checker


class Network(nn.Module):
    """Composite operators, decomposed ones, one of several results, and sizes as operands."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 2, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.nan_to_num(self.up(x / (x > -0.5)), posinf=3.0, neginf=-2.0)
        low, high = torch.aminmax(y.reshape(x.shape[0] * 2, -1), dim=1)
        return torch.concatenate([low, high.logit(0.1)]), y.mean(2).relu_(), torch.cov(y[0, 0].T)


def test_the_graph_is_not_run_again(check: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("the graph is taken apart")

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", refuse)
    check.same(Network().eval(), [torch.randn(2, 3, 4, 4)], [torch.randn(5, 3, 4, 4)])


def test_sizes_stay_free(check: Checker) -> None:
    """What PyTorch takes apart for one batch alone is left to a run of the whole graph."""
    check.same(nn.GRUCell(4, 4).eval(), [torch.randn(3, 4)], [torch.randn(5, 4)])
