"""Small data and networks that tests of training share."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from triton_dsl.runtime.spiking.config import SpikingConfig
from triton_dsl.runtime.spiking.mlp import SpikingMLP

WIDTH = 8


def halves(rows: int = 120, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Noisy numbers [rows, 8] from 0 to 1, of which one half is larger: that of the label."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (rows,), generator=generator)
    noise = torch.rand(rows, WIDTH, generator=generator)
    return 0.6 * noise + 0.4 * (torch.arange(WIDTH) // 4 == labels[:, None]), labels


def perceptron(dropout: float = 0.0, norm: bool = False) -> nn.Sequential:
    """8-12-2, the same each time."""
    torch.manual_seed(7)
    layers: list[nn.Module] = [nn.Linear(WIDTH, 12)]
    layers += [nn.BatchNorm1d(12)] if norm else []
    layers += [nn.ReLU()]
    layers += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*layers, nn.Linear(12, 2))


def spiking(readout: str = "membrane", normalize: bool = False) -> SpikingMLP:
    """8-12-2 with spikes, the same each time."""
    torch.manual_seed(7)
    config = SpikingConfig(threshold=0.5, surrogate_gradient="arctan")
    return SpikingMLP([WIDTH, 12, 2], config, readout=readout, normalize=normalize)


def bits(module: nn.Module) -> list[bytes]:
    """What the parameters and buffers of `module` are, byte for byte."""
    return [value.detach().numpy().tobytes() for value in module.state_dict().values()]
