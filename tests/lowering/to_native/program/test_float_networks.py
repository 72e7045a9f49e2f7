"""Networks of float convolutions as machine code, against PyTorch in float64."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.to_native.callables import native_program, traced_program
from triton_dsl.lowering.to_native.kernels.recipes import best_recipe
from triton_dsl.lowering.to_native.target import NativeOptions
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")

RECIPES = list(dict.fromkeys((best_recipe(host_features()).name, "generic")))
BOTH = ("blocks", "depthwise", "rows meet rows")
"""Networks for every recipe in each run: convolutions, those of a channel each, and products."""


class Residual(nn.Module):
    """Sums that others follow, one of which a second network reads too."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, 2 * channels, 3, 2, 1)
        self.beside = nn.Conv2d(channels, 2 * channels, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = torch.relu(self.first(x)) + x
        return torch.relu(self.second(inside) + self.beside(inside))


class Gate(nn.Module):
    """A convolution, times the mean of what it gives, as in squeeze and excitation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, (3, 1), padding=(2, 1), dilation=(2, 1))
        self.fc = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return y * torch.sigmoid(self.fc(y.mean((2, 3), keepdim=True)))


class Meeting(nn.Module):
    """Products of what is computed: rows with rows, with columns, and columns with columns."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares = torch.softmax(x @ x.mT, -1)
        return (shares @ x).mT @ x + x.mT @ (2 * shares.mT @ x)


NETWORKS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "stem": (
        nn.Sequential(nn.Conv2d(3, 20, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)),
        (3, 31, 26),
    ),
    "blocks": (nn.Sequential(nn.Conv2d(3, 24, 3, 2, 1), Residual(24)), (3, 27, 33)),
    "many channels": (nn.Conv2d(96, 144, 3, padding=1), (96, 7, 7)),
    "more weights": (nn.Conv2d(128, 70, 3, padding=1), (128, 5, 8)),
    "depthwise": (
        nn.Sequential(
            nn.Conv2d(8, 43, 1),
            nn.ReLU6(),
            nn.Conv2d(43, 43, 3, 2, 1, groups=43),
            nn.ReLU6(),
            nn.Conv2d(43, 12, 1),
            nn.Flatten(),
            nn.Linear(12 * 35, 9),
        ),
        (8, 13, 9),
    ),
    "groups": (nn.Sequential(nn.Conv2d(8, 32, 3), nn.Conv2d(32, 48, 3, groups=4)), (8, 9, 11)),
    "gate": (Gate(17), (17, 9, 8)),
    "lines": (
        nn.Sequential(nn.Conv1d(5, 19, 5, padding=2), nn.GELU(), nn.Conv1d(19, 8, 3)),
        (5, 41),
    ),
    "averages": (nn.Sequential(nn.Conv2d(3, 16, 3), nn.AvgPool2d(2), nn.Softmax(1)), (3, 12, 12)),
    "pools alone": (nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2, 2)), (5, 9, 167)),
    "many steps behind sums": (
        nn.Sequential(nn.Conv2d(3, 37, 3), nn.Mish(), nn.GELU(), nn.Conv2d(37, 7, 1), nn.Mish()),
        (3, 9, 14),
    ),
    "many steps behind lines": (nn.Sequential(nn.Linear(83, 29), nn.Mish(), nn.GELU()), (83,)),
    "rows meet rows": (Meeting(), (53, 19)),
    "heads": (nn.Sequential(nn.Unflatten(1, (3, 35)), Meeting()), (105, 17)),
    "two results of padding": (
        nn.Sequential(nn.Conv2d(3, 9, 1), nn.ReflectionPad2d(2), nn.Conv2d(9, 9, 3)),
        (3, 8, 8),
    ),
}


CASES = [
    pytest.param(
        *(name, recipe),
        marks=() if name in BOTH or recipe == RECIPES[0] else pytest.mark.slow,
    )
    for recipe in RECIPES
    for name in NETWORKS
]


@pytest.mark.parametrize(("name", "recipe"), CASES)
def test_a_network_is_what_pytorch_computes(name: str, recipe: str) -> None:
    module, shape = NETWORKS[name]
    torch.manual_seed(3)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.2)
    x = torch.randn(3, *shape)
    with torch.no_grad():
        expected = deepcopy(module).double()(x.double()).numpy()
    program = native_program(from_torch(module.eval(), (x,)), {"recipe": recipe})
    for rows in (slice(1), slice(3)):
        found = program(x[rows].numpy())
        bound = 2e-6 * max(1.0, np.abs(expected[rows]).max())
        assert np.abs(found - expected[rows]).max() <= bound


def test_what_follows_a_sum_takes_no_memory_of_its_own() -> None:
    """The second convolution reads the first one's results, which nothing else was made of."""
    x = torch.zeros(1, 8, 16, 16)
    conv = nn.Conv2d(8, 16, 1)
    plain = nn.Sequential(conv, nn.Conv2d(16, 8, 1))
    longer = nn.Sequential(conv, nn.ReLU(), nn.Hardswish(), nn.Conv2d(16, 8, 1))
    sizes = [
        native_program(from_torch(m.eval(), (x,)))._workspace_bytes(1)  # pyright: ignore[reportPrivateUsage]
        for m in (plain, longer)
    ]
    assert sizes[1] <= sizes[0]


@pytest.mark.parametrize(("rows", "steps"), [(40, 2), (2, 1)])
def test_what_many_rows_meet_is_turned_once(rows: int, steps: int) -> None:
    class Scores(nn.Module):
        def forward(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
            return queries @ keys.mT

    module = from_torch(Scores(), (torch.zeros(3, rows, 24), torch.zeros(3, 50, 24)))
    _, trace = traced_program(module, NativeOptions(), 3)
    assert [step.what for step in trace.steps] == ["loops"] * steps
