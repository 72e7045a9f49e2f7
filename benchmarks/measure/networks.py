"""Networks that are exported: those that the tests have, and ternary layers alone.

The tests' definitions are read from their file, `tests/lowering/real_models.py`. Nothing here needs
the package, so that exporters of other environments read the same networks.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import OrderedDict
from functools import cache
from pathlib import Path
from typing import Any

TERNARY = {"ternary 784x256": (784, 256), "ternary 1024x1024": (1024, 1024)}
"""Inputs and outputs of a linear layer whose weights are trits times a scale."""

SHIPPED = ("resnet18", "mobilenet_v2", "vit_tiny", "keyword")

SMALL = ("resnet8",)
"""Networks of microcontrollers that tests have not."""

NETWORKS = (*SHIPPED, *TERNARY)


@cache
def _shipped() -> Any:
    path = Path(__file__).parents[2] / "tests" / "lowering" / "real_models.py"
    spec = importlib.util.spec_from_file_location("real_models", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _resnet8() -> Any:
    """ResNet-8 of MLPerf Tiny (Banbury et al. 2021, arXiv 2106.07597): images of CIFAR-10."""
    import torch
    from torch import nn

    block, conv_norm = _shipped().BasicBlock, _shipped().conv_norm
    with torch.random.fork_rng():
        torch.manual_seed(0)
        blocks = (block(16, 16, 1), block(16, 32, 2), block(32, 64, 2))
        ends = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
        return nn.Sequential(*conv_norm(3, 16, 3), nn.ReLU(), *blocks, *ends).eval()


def network(name: str) -> Any:
    """One of `NETWORKS` and `SMALL`: an `nn.Module` that evaluates, the same weights each time."""
    import torch
    from torch import nn

    if name in SMALL:
        return _resnet8()
    if name not in TERNARY:
        return _shipped().build(name)
    layer = nn.Linear(*TERNARY[name])
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        trits = torch.randint(-1, 2, layer.weight.shape, generator=generator)
        layer.weight.copy_(trits * 0.0625)
        layer.bias.normal_(generator=generator)
    return nn.Sequential(OrderedDict(fc=layer)).eval()


def small_network() -> tuple[Any, Any]:
    """A network with a few operators, whose shapes no other has, and an input of one sample."""
    import torch
    from torch import nn

    layers = (nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU6(), nn.Flatten(), nn.Linear(27, 5))
    return nn.Sequential(*layers).eval(), torch.zeros(1, 2, 5, 5)


def example(name: str, batch: int) -> Any:
    """Inputs of one of `NETWORKS` and `SMALL`: a tensor of float32."""
    import torch

    if name in SMALL:
        return torch.randn(batch, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    if name not in TERNARY:
        return _shipped().inputs(name, batch)
    return torch.randn(batch, TERNARY[name][0], generator=torch.Generator().manual_seed(1))
