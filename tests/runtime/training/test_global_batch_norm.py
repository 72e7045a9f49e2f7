"""Batch normalisation over processes: with one process it is PyTorch's own."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from triton_dsl.runtime.spiking.normalization import TemporalBatchNorm
from triton_dsl.runtime.training.distributed import Processes
from triton_dsl.runtime.training.global_batch_norm import GlobalBatchNorm, has_batch_norm

ALONE = Processes(0, 1, torch.device("cpu"))

KINDS: list[tuple[Any, tuple[int, ...]]] = [
    (lambda: nn.BatchNorm1d(3), (8, 3)),
    (lambda: nn.BatchNorm1d(3, affine=False), (5, 3, 4)),
    (lambda: nn.BatchNorm2d(3, momentum=None), (4, 3, 2, 5)),
    (lambda: nn.BatchNorm2d(3, track_running_stats=False), (4, 3, 2, 5)),
    (lambda: TemporalBatchNorm(3, alpha=0.5), (6, 4, 3)),
    (lambda: TemporalBatchNorm(3, axis=3), (6, 4, 5, 3)),
]


@pytest.mark.parametrize(("make", "shape"), KINDS)
def test_statistics_and_gradients(make: Any, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3 + 1
    weights = torch.randn(shape, dtype=torch.float64)
    found: list[list[Tensor | None]] = []
    for mode in (nullcontext(), GlobalBatchNorm(ALONE)):
        norm, leaf = make().double(), x.clone().requires_grad_()
        with mode:
            norm(leaf)
            y = norm(leaf)
        (y * weights).sum().backward()
        gradients = [p.grad for p in (leaf, *norm.parameters())]
        found.append([y, *gradients, *norm.buffers()])
    for mine, theirs in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_evaluation_and_other_functions_are_left_alone() -> None:
    norm, x = nn.BatchNorm1d(3).eval(), torch.randn(4, 3)
    expected = norm(x)
    with GlobalBatchNorm(ALONE):
        assert torch.equal(norm(x), expected)
        assert torch.equal(torch.relu(x), x.clamp(min=0))


def test_short_types() -> None:
    norm = nn.BatchNorm1d(3)
    x = torch.randn(16, 3).to(torch.bfloat16)
    expected = nn.BatchNorm1d(3)(x.float())
    with GlobalBatchNorm(ALONE):
        y = norm(x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), expected, rtol=0.01, atol=0.01)


def test_where_it_is_needed() -> None:
    assert has_batch_norm(nn.Sequential(nn.Sequential(TemporalBatchNorm(2))))
    assert has_batch_norm(nn.BatchNorm2d(2)) and not has_batch_norm(nn.LayerNorm(2))
