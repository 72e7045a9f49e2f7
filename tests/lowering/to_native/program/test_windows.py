"""Pools and depthwise convolutions in vectors along images, and NaN there, beside PyTorch."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from triton_dsl import import_model
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.runtime.native.processor import host_features


class Windows(nn.Module):
    """Windows that overlap in rows, in columns and in both; one input for all."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = nn.ModuleList(
            [
                nn.MaxPool2d(3, 2, 1),
                nn.MaxPool2d((2, 4), (2, 1), (1, 2)),
                nn.AvgPool2d(3, 1, 1, count_include_pad=False),
                nn.Conv2d(9, 18, (3, 5), 2, padding=(1, 2), groups=9),
            ]
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [pool(x) for pool in self.pools]


_SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("avx512vnni", "generic")]


@pytest.mark.parametrize("recipe", ["avx2", *_SLOW])
def test_windows(recipe: str) -> None:
    needed = {"avx512vnni": {"avx512f", "avx512vnni"}, "avx2": {"avx2"}}.get(recipe, set[str]())
    if not needed <= host_features():
        pytest.skip(f"this processor has no {recipe}")
    torch.manual_seed(0)
    model = Windows().eval()
    x = torch.randn(2, 9, 11, 41)
    program = native_program(import_model(model, example_inputs=(x,)), {"recipe": recipe})
    special = x.clone()
    places = torch.randint(0, x.numel(), (120,))
    kinds = (np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e-45, 9.0, -9.0)
    special.view(-1)[places] = torch.tensor(kinds).repeat(15)
    for images in (x, special, torch.full_like(x, -np.inf), torch.full_like(x, -0.0)):
        found = program(images.numpy())
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            expected = [pool(images).numpy() for pool in model.pools]
        for pool, got, want in zip(model.pools, found, expected, strict=True):
            if isinstance(pool, nn.MaxPool2d):
                np.testing.assert_array_equal(got, want, str(pool))
            else:
                np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6, err_msg=str(pool))


@pytest.mark.parametrize("recipe", ["best", "avx2"])
def test_windows_of_many_elements(recipe: str) -> None:
    """Rows of a tile share what they read, along either axis, apart or not."""
    if recipe == "avx2" and "avx2" not in host_features():
        pytest.skip("this processor has no avx2")
    options = {} if recipe == "best" else {"recipe": recipe}
    torch.manual_seed(0)
    modules = nn.ModuleList(
        [
            nn.Conv2d(9, 9, 7, padding=3, groups=9),
            nn.Conv2d(9, 9, (5, 7), (2, 1), padding=(2, 3), dilation=(1, 2), groups=9),
            nn.Conv2d(9, 9, (4, 8), (1, 2), padding=(6, 3), dilation=(3, 1), groups=9),
            nn.AvgPool2d((4, 5), 1, (2, 1)),
        ]
    )
    model = Windows().eval()
    model.pools = modules
    x = torch.randn(2, 9, 17, 41)
    program = native_program(import_model(model, example_inputs=(x,)), options)
    for module, found in zip(modules, program(x.numpy()), strict=True):
        with torch.no_grad():
            expected = module.double()(x.double()).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=str(module))
