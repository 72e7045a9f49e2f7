"""Masks: as PyTorch's own pruning, in groups, by sensitivity; what they keep at zero."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import prune as peer

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime import TernaryLinear
from triton_dsl.runtime.compression import sparsity_at
from triton_dsl.runtime.fake_quantize import quantize_aware
from triton_dsl.runtime.pruning import bake, mask_of, prune


def network() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 4))


def test_magnitudes_are_compared_as_by_pytorch() -> None:
    mine, theirs = network(), network()
    prune(mine, 0.7)
    for layer in (theirs[0], theirs[2]):
        peer.l1_unstructured(layer, "weight", 0.7)  # pyright: ignore[reportUnknownMemberType]
    x = torch.randn(3, 12)
    assert torch.equal(mine(x), theirs(x))
    bake(mine)
    assert type(mine[0]) is nn.Linear and torch.equal(mine(x), theirs(x))


@given(st.integers(1, 5), st.integers(1, 17), st.integers(1, 3), st.integers(2, 9), st.data())
def test_groups_keep_their_largest(
    rows: int, channels: int, kernel: int, size: int, data: st.DataObject
) -> None:
    kept = data.draw(st.integers(1, size - 1))
    layer = nn.Conv2d(channels, rows, kernel)
    weight = layer.weight.detach().clone()
    prune(layer, pattern=f"{kept}:{size}")
    bake(layer)
    found = layer.weight.permute(0, 2, 3, 1).reshape(rows, -1)
    before = weight.permute(0, 2, 3, 1).reshape(rows, -1)
    for start in range(0, found.shape[1], size):
        group, old = found[:, start : start + size], before[:, start : start + size]
        count = min(kept, old.shape[1])
        limit = old.abs().sort(dim=1, descending=True).values[:, count - 1 : count]
        assert torch.equal(group, torch.where(old.abs() >= limit, old, 0))


def test_sensitivity_is_that_of_the_loss() -> None:
    model: Any = network()
    generator = torch.Generator().manual_seed(0)
    data = [
        (torch.randn(4, 12, generator=generator), torch.randint(0, 4, (4,), generator=generator))
        for _ in range(6)
    ]
    wanted: list[Tensor] = []
    for x, y in data:
        model.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        wanted.append(torch.cat([p.grad.flatten() ** 2 for p in weights(model)]))
    flat = torch.cat([p.detach().flatten() for p in weights(model)])
    scores = flat.square() * torch.stack(wanted).mean(0)
    prune(model, 0.75, method="sensitivity", data=data)
    kept = torch.cat([layer.weight.flatten() != 0 for layer in (model[0], model[2])])
    assert kept.sum() == round(0.25 * len(flat))
    assert scores[kept].min() >= scores[~kept].max()


def weights(model: nn.Module) -> list[Any]:
    return [p for p in model.parameters() if p.dim() > 1]


def test_trits_and_grids_keep_zeros() -> None:
    model: Any = nn.Sequential(TernaryLinear(16, 8), nn.ReLU(), nn.Linear(8, 4))
    prune(model, pattern="1:4")
    quantize_aware(model, weight_bits=4)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 16)).square().sum().backward()
        optimizer.step()
    masks = [mask_of(layer) for layer in (model[0], model[2])]
    bake(model)
    for layer, mask in zip((model[0], model[2]), masks, strict=True):
        assert mask is not None and mask.mask.mean() == 0.25
        assert bool((layer.weight[mask.mask == 0] == 0).all())
    trits = model[0].get_ternary_weights()
    assert bool((trits.reshape(8, 4, 4).abs().sum(2) <= 1).all()) and trits.abs().sum() > 10


def test_sparsity_rises_fast_and_ends_slowly() -> None:
    found = [sparsity_at(0.8, part) for part in (0.0, 0.5, 1.0, 2.0)]
    assert found == pytest.approx([0, 0.7, 0.8, 0.8])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sparsity": 1.0}, "sparsity: expected a number from 0, below 1, got 1.0"),
        ({"sparsity": float("nan")}, "sparsity: expected a number"),
        ({"sparsity": 0.5, "method": "random"}, "pruning: expected one of magnitude, sensitivity"),
        ({"pattern": "4:2"}, "pruning_pattern: expected N:M .* got '4:2'"),
        ({"pattern": "2:4", "sparsity": 0.5}, "leave out sparsity"),
        ({"sparsity": 0.5, "method": "sensitivity"}, "sensitivity needs data"),
    ],
)
def test_what_is_not_allowed_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        prune(network(), **arguments)
    with pytest.raises(OptionError, match="no linear layer and no convolution to prune"):
        prune(nn.ReLU(), 0.5)
