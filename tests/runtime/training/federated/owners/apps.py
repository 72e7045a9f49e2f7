"""The apps of a federated run on scikit-learn's digits, for `test_federated`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_dsl.runtime.training.federated import Rounds, coordinator_app, owner_app

if TYPE_CHECKING:
    from torch import Tensor, nn

    from triton_dsl.runtime.training.trainer import Trainer

FOLDER = Path(os.environ.get("TRITON_FEDERATED", "."))
OWNERS, ROUNDS, EPOCHS = 5, 2, 20


def data() -> list[tuple[Tensor, Tensor]]:
    """Images and labels to train and to test on."""
    import torch
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    x = torch.tensor(found.images / 16, dtype=torch.float32).flatten(1)
    y = torch.tensor(found.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return [(x[rows], y[rows]) for rows in (order[:1437], order[1437:])]


def network() -> nn.Module:
    """A ternary network, the same for everybody."""
    import torch
    from torch import nn

    from triton_dsl.runtime.layers import TernaryLinear

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return nn.Sequential(TernaryLinear(64, 64), nn.ReLU(), TernaryLinear(64, 10))


def trainer(module: nn.Module, epochs: int) -> Trainer:
    """What trains it."""
    from triton_dsl.runtime.training.config import TrainingConfig
    from triton_dsl.runtime.training.trainer import Trainer

    config = TrainingConfig(epochs=epochs, batch_size=32, learning_rate=0.01, progress=False)
    return Trainer(module, config)


def part(number: int, of: int) -> tuple[Trainer, Any]:
    """What an owner has: each fifth image."""
    x, y = data()[0]
    with (FOLDER / f"trained-{number}").open("a") as file:
        file.write("x")
    return trainer(network(), EPOCHS), (x[number::of], y[number::of])


def accuracy(module: nn.Module) -> float:
    """The share of the test images that a network reads rightly."""
    return trainer(module, 1).evaluate(data()[1])["accuracy"]


def noted(module: nn.Module) -> None:
    """Write down how good the mean is."""
    with (FOLDER / "accuracies").open("a") as file:
        file.write(f"{accuracy(module)}\n")


owner = owner_app(part)
rounds = Rounds(ROUNDS, OWNERS, timeout=float(os.environ.get("TRITON_FEDERATED_TIMEOUT", "60")))
coordinator = coordinator_app(network, rounds, noted)
