"""Complex numbers between real ones: rotary positions and Fourier transforms, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_torch import from_torch


def rotary(x: Tensor) -> Tensor:
    """Positions as rotations, as Llama 4 and DeepSeek have them."""
    angles = torch.outer(torch.arange(x.shape[1]), 1 / 10 ** torch.arange(0, 1, 0.25))
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None]).flatten(2)


def computed(x: Tensor) -> Tensor:
    """Angles that depend on the input."""
    z = torch.complex(x[..., :4], x[..., 4:])
    w = torch.polar(x[..., :4].abs(), x[..., 4:])
    return ((z.conj() * w + z - w.unsqueeze(0)[0]) * 0.5).abs() + z.real * w.transpose(
        1, 2
    ).imag.sum()


def filtered(x: Tensor) -> Tensor:
    """A product of spectra, as in global filters."""
    spectrum = torch.fft.rfft2(x, dim=(1, 2), norm="ortho")
    weight = torch.complex(torch.linspace(0, 1, 5), torch.linspace(1, 2, 5))
    return torch.fft.irfft2(spectrum * weight, s=x.shape[1:], dim=(1, 2), norm="ortho")


def modes(x: Tensor) -> Tensor:
    """Products of low frequencies with weights, as Fourier neural operators have them."""
    spectrum = torch.fft.rfft2(x[:, None])
    weight = torch.complex(torch.linspace(-1, 1, 18), torch.linspace(1, 2, 18)).view(1, 2, 3, 3)
    out = torch.zeros(x.shape[0], 2, *spectrum.shape[2:], dtype=torch.cfloat)
    out[:, :, :3, :3] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :3, :3], weight)
    out[:, :, -3:, :3] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -3:, :3], weight)
    return torch.fft.irfft2(out, s=x.shape[1:])


CORNERS = torch.tensor([[0.0, 0], [1, 0], [-1, 0], [-4, 0.0], [0, 2], [0, -2], [3, -4], [-3, 1e-3]])


def of_corners(x: Tensor) -> list[Tensor]:
    """Functions of numbers on the axes and beside the cut of the root."""
    z = torch.view_as_complex(CORNERS + 0 * x[0, 0, :2])
    whole = [z.sqrt(), z**2, z**3, z**0.5, z**1.5, z ** (1 + 2j), z**0, 2**z, (z + 9) ** z]
    circular = [z.sin(), z.cos(), z.tan(), z.sinh(), z.cosh(), z.tanh(), z.sigmoid(), z.square()]
    z = z[1:]
    others = [z.log(), z.log2(), z.log10(), z.rsqrt(), z.reciprocal()]
    return [torch.view_as_real(value) for value in whole + circular + others]


FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "rotary": rotary,
    "of corners": of_corners,
    "computed": computed,
    "filtered": filtered,
    "phases": lambda x: (
        torch.fft.fft(x).angle(),
        torch.fft.rfft(x)[..., 1:4].angle(),
        (x.abs() * torch.exp(1j * x.abs())).real,
    ),
    "quotients": lambda x: (
        torch.view_as_real(torch.fft.rfft(x) / (torch.fft.rfft(x.flip(1)) + 9)),
        torch.view_as_real(-torch.exp(torch.fft.rfft(x) / 9) / (2 + 1j) / (x[..., :5] + 9)),
    ),
    "mixed tokens": lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real,
    "there and back": lambda x: torch.fft.ifft2(torch.fft.fft2(x) * x).imag,
    "modes": modes,
    "products": lambda x: (
        torch.view_as_real(torch.fft.rfft(x) @ torch.fft.rfft(x).mT),
        torch.einsum(
            "bij,bkj,bl->bikl", torch.fft.rfft(x), x[..., :5] * (1 + 2j), x[:, 0] * 1j
        ).imag,
    ),
    "sums and places": lambda x: (
        torch.view_as_real(torch.cat([torch.fft.rfft(x), 1j * torch.fft.rfft(x)], 1).mean(1)),
        torch.view_as_real(
            torch.where(x[..., :5] > 0, torch.fft.rfft(x), torch.fft.rfft(-x)).cumsum(1).flip(2)
        ),
        torch.view_as_real((1 / (torch.fft.rfft(x)[:, torch.tensor([0, 2])] + 9)).sum(1)),
    ),
    "real parts": lambda x: torch.fft.rfft(x).to(torch.float32),
    "an odd length": lambda x: torch.fft.irfft(torch.fft.rfft(x[..., :7]), n=7),
}


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_complex_numbers_inside(check: Any) -> None:
    check.all_same(FUNCTIONS, [torch.randn(2, 6, 8)], [torch.randn(3, 6, 8)])


def test_complex_results_are_refused() -> None:
    class Spectrum(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.fft.rfft(x)

    with pytest.raises(UnsupportedError, match=r"it is complex; return torch\.view_as_real"):
        from_torch(Spectrum(), torch.zeros(2, 8))
    assert np.iscomplexobj(Spectrum()(torch.zeros(2, 8)).numpy())
