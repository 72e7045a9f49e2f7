"""Networks of float convolutions, with pads and branches, against PyTorch in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from triton_dsl import import_model
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.usefixtures("users_code")

RUNNABLE = [recipe.name for recipe in RECIPES if recipe.features <= host_features()]


def _conv(*sizes: Any, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(*sizes, **options)


class Residual(nn.Module):
    """A sum of two branches that meet in one op, with an image that is padded and used again."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _conv(9, 9, 3, padding=1), _conv(9, 9, 3, padding=1)
        self.beside = _conv(9, 9, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[N, 9, H, W] to the same."""
        y = torch.relu(self.first(torch.relu(x)))
        y = torch.relu(self.second(y) + self.beside(x) + x)
        return self.second(y) * y


class Twice(nn.Module):
    """A result that two convolutions pad in two ways, and that is returned itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _conv(3, 20, 3, padding=1), _conv(20, 5, 5, padding=(2, 0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[N, 3, H, W] to three results."""
        y = nn.functional.silu(self.first(x))
        other = nn.functional.avg_pool2d(nn.functional.pad(y, (1, 2, 0, 1)), 3, 1)
        return y, self.second(y), other


class Gated(nn.Module):
    """Channels times numbers of their own, made of their means (Hu et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.gate = _conv(6, 24, 3, stride=2, bias=False), _conv(24, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[N, 6, H, W] to [N, 24, …]."""
        y = self.conv(x)
        return y * torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))


CASES: dict[str, tuple[nn.Module, Sequence[int]]] = {
    "3x3": (_conv(5, 37, 3, padding=1), (5, 11, 13)),
    "1x1": (nn.Sequential(_conv(19, 70, 1), nn.ReLU6(), _conv(70, 33, 1)), (19, 7, 7)),
    "strides": (_conv(4, 18, 3, stride=(2, 3), padding=(2, 1)), (4, 12, 17)),
    "1x1 with a stride": (nn.Sequential(nn.Tanh(), _conv(17, 16, 1, stride=2)), (17, 9, 11)),
    "dilation": (_conv(3, 8, (3, 2), dilation=(2, 3), padding=(0, 2)), (3, 9, 10)),
    "one place": (nn.Sequential(_conv(8, 50, 4), nn.Flatten(), nn.Linear(50, 3)), (8, 4, 4)),
    "one column": (_conv(2, 9, (3, 1), padding=(1, 0)), (2, 30, 1)),
    "few outputs": (_conv(7, 3, 3), (7, 8, 8)),
    "many outputs": (_conv(3, 200, 3), (3, 5, 9)),
    "residual": (Residual(), (9, 6, 10)),
    "twice": (Twice(), (3, 8, 9)),
    "gated": (Gated(), (6, 10, 12)),
    "pools": (
        nn.Sequential(
            _conv(3, 21, 3, padding=1),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(21, 42, 3, padding=1, groups=21),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.Conv2d(42, 12, 3, padding=1, groups=3),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
        ),
        (3, 16, 14),
    ),
    "upsampled": (
        nn.Sequential(
            _conv(3, 8, 3, padding=1),
            nn.Upsample(scale_factor=2),
            nn.PixelShuffle(2),
            _conv(2, 8, 3, padding=2, padding_mode="reflect"),
            nn.BatchNorm2d(8),
            nn.Softmax(1),
        ),
        (3, 5, 4),
    ),
}


def _compared(module: nn.Module, shape: Sequence[int], batches: Sequence[int], recipe: str) -> None:
    torch.manual_seed(0)
    module = module.eval()
    program = native_program(
        import_model(module, example_inputs=(torch.randn(2, *shape),)), {"recipe": recipe}
    )
    for batch in batches:
        x = torch.randn(batch, *shape)
        with torch.no_grad():
            expected = module.double()(x.double())
            module.float()
        results = program(x.numpy())
        pairs = (
            [(results, expected)]
            if isinstance(expected, Tensor)
            else zip(results, expected, strict=True)
        )
        for result, wanted in pairs:
            wanted = wanted.numpy()
            error = np.abs(result - wanted).max() / np.abs(wanted).max()
            assert result.shape == wanted.shape
            assert error < 3e-6


@pytest.mark.parametrize("name", CASES)
def test_networks(name: str) -> None:
    _compared(*CASES[name], (1, 3), RUNNABLE[0])


@pytest.mark.parametrize("recipe", RUNNABLE[1:])
@pytest.mark.parametrize("name", ["3x3", "residual", "strides"])
def test_recipes(name: str, recipe: str) -> None:
    _compared(*CASES[name], (2,), recipe)


def test_sums_of_integers_are_exact() -> None:
    conv = _conv(40, 24, 3, padding=1)
    with torch.no_grad():
        conv.weight.copy_(torch.randint(-8, 9, conv.weight.shape))
        conv.bias.copy_(torch.randint(-100, 100, (24,)))  # pyright: ignore[reportOptionalMemberAccess]
    x = torch.randint(-127, 128, (2, 40, 6, 5)).float()
    program = native_program(import_model(conv, example_inputs=(x,)))
    with torch.no_grad():
        np.testing.assert_array_equal(program(x.numpy()), conv.double()(x.double()).numpy())
