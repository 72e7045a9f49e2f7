"""Float convolutions with windows of 3×3 by tiles of places, against PyTorch in float64."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from triton_dsl.ir.arrays import Array
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.lowering.to_native.kernels.recipes import best_recipe
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")

BEST = best_recipe(host_features()).name


class Block(nn.Module):
    """Two convolutions, of which the second is added to what came in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + x)


def exact(module: nn.Module, x: torch.Tensor) -> Array:
    with torch.no_grad():
        return deepcopy(module).double()(x.double()).numpy()


def both(module: nn.Module, x: torch.Tensor, **options: Any) -> tuple[Array, Array]:
    """By tiles, and place by place."""
    program = from_torch(module.eval(), (x,))
    tiled, direct = (
        native_program(program, {**options, "winograd": winograd})(x.numpy())
        for winograd in (True, False)
    )
    return tiled, direct


@pytest.mark.parametrize(
    ("sizes", "batch", "recipe"),
    [
        ((7, 7), 3, BEST),
        ((9, 12), 1, "generic"),
        ((2, 5), 1, "avx2"),
    ],
)
def test_sizes_even_and_odd(sizes: tuple[int, int], batch: int, recipe: str) -> None:
    if recipe == "avx2" and "avx2" not in host_features():
        pytest.skip("this processor has no AVX2")
    torch.manual_seed(0)
    module = nn.Sequential(Block(48), nn.Conv2d(48, 37, 3, padding=(2, 0)))
    x = torch.randn(batch, 48, *sizes)
    tiled, direct = both(module, x, recipe=recipe)
    expected = exact(module, x)
    assert np.abs(tiled - expected).max() <= 1e-6 * np.abs(expected).max()
    assert not np.array_equal(tiled, direct)


@pytest.mark.parametrize("trits", [False, True])
@pytest.mark.parametrize("size", [2, 3])
def test_images_of_one_tile(size: int, trits: bool) -> None:
    torch.manual_seed(2)
    module, x = nn.Conv2d(256, 512, 3, padding=1).eval(), torch.randn(3, 256, size, size)
    if trits:
        with torch.no_grad():
            module.weight.copy_(module.weight.sign() * 0.5)
    source = from_torch(module, (x,))
    if trits:
        apply_passes(source, "ternarize,fuse-linear")
    found, expected = native_program(source)(x.numpy()), exact(module, x)
    np.testing.assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max())


def test_images_with_channels_outside_and_a_free_batch() -> None:
    torch.manual_seed(1)
    module = nn.Conv2d(64, 32, 3).eval()
    x = torch.randn(3, 64, 33, 18)
    program = from_torch(module, (x,))
    assert "tensor<?x64x33x18xf32>" in str(program)
    compiled = native_program(program, threads=2)
    for count in (3, 1):
        expected = exact(module, x[:count])
        found = compiled(x[:count].numpy())
        assert np.abs(found - expected).max() <= 1e-6 * np.abs(expected).max()


def test_many_rows_of_tiles_take_turns() -> None:
    """The last row of an odd image is done after the turns."""
    torch.manual_seed(2)
    module = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.Hardswish())
    x = torch.randn(1, 64, 57, 31)
    tiled, direct = both(module, x)
    expected = exact(module, x)
    assert np.abs(tiled - expected).max() <= 1e-6 * np.abs(expected).max()
    # It is no less exact than place by place, whose sums are nine times as long.
    assert np.abs(tiled - expected).max() <= np.abs(direct - expected).max()


def test_trits_are_tiled_in_each_call() -> None:
    torch.manual_seed(3)
    channels = 40
    conv = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
    trits = torch.randint(-1, 2, conv.weight.shape).float()
    with torch.no_grad():
        conv.weight.copy_(trits)
    x = torch.randn(1, channels, 20, 23)
    program = from_torch(conv.eval(), (x,))
    apply_passes(program, "ternarize,fuse-linear")
    assert "ternary.conv" in str(program)
    found = native_program(program)(x.numpy())
    direct = native_program(program, {"winograd": False})(x.numpy())
    expected = exact(conv, x)
    assert np.abs(found - expected).max() <= 1e-6 * np.abs(expected).max()
    assert not np.array_equal(found, direct)


def test_whole_numbers_are_exact() -> None:
    """Weights and tiles are multiples of a quarter, and so are all sums."""
    torch.manual_seed(4)
    conv = nn.Conv2d(64, 64, 3, padding=1)
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.copy_(torch.randint(-7, 8, parameter.shape).float())
    x = torch.randint(-8, 9, (1, 64, 16, 16)).float()
    expected = exact(conv, x)
    np.testing.assert_array_equal(both(conv, x)[0], expected)


@pytest.mark.parametrize(
    "module",
    [
        nn.Conv2d(64, 64, 3, stride=2),
        nn.Conv2d(64, 64, 5),
        nn.Conv2d(4, 64, 3),
        nn.Conv2d(64, 64, 3, groups=64),
        nn.Conv2d(64, 64, (3, 1)),
    ],
    ids=str,
)
def test_others_stay(module: nn.Conv2d) -> None:
    x = torch.randn(1, module.in_channels, 15, 15)
    np.testing.assert_array_equal(*both(module, x))


def test_a_window_with_gaps_is_a_window() -> None:
    """Its taps are as far apart as neighbours of the result."""
    torch.manual_seed(5)
    module = nn.Conv2d(64, 64, 3, stride=2, dilation=2, padding=2)
    x = torch.randn(1, 64, 26, 31)
    tiled, direct = both(module, x)
    expected = exact(module, x)
    assert np.abs(tiled - expected).max() <= 1e-6 * np.abs(expected).max()
    assert not np.array_equal(tiled, direct)
