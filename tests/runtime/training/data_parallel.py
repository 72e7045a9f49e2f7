"""Trains a small network in as many processes as there are, for `test_distributed`.

Run by `torchrun` with a folder for the results.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from triton_dsl.runtime.spiking.config import SpikingConfig
from triton_dsl.runtime.spiking.mlp import SpikingMLP
from triton_dsl.runtime.training.config import TrainingConfig
from triton_dsl.runtime.training.run import CHECKPOINT
from triton_dsl.runtime.training.spiking_run import SpikingRun
from triton_dsl.runtime.training.trainer import Trainer


class Unused(nn.Module):
    """A network of which a part takes no part."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(8, 2), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 2))


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 12), nn.Dropout(0.4), nn.ReLU(), nn.Linear(12, 2))


def spiking() -> nn.Module:
    config = SpikingConfig(threshold=0.5, surrogate_gradient="arctan")
    return SpikingMLP([8, 12, 2], config, readout="membrane", normalize=True)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], SpikingRun | None]] = {
    "unused": (Unused, None),
    "normalised": (normalised, None),
    "dropping": (dropping, None),
    "spiking": (spiking, SpikingRun(5, "rate", "mean")),
}


def data(name: str) -> tuple[Tensor, Tensor]:
    """In batches of 12 the last has one row, and a process none; a mean of one row is no use."""
    rows = 38 if name == "normalised" else 37
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (rows,), generator=generator)
    noise = torch.rand(rows, 8, generator=generator)
    return (0.6 * noise + 0.4 * (torch.arange(8) // 4 == y[:, None])).double(), y


def train(name: str, folder: Path, part: str = "all") -> dict[str, Tensor]:
    """What this process has after all steps, after `halt`ing at six, or after `resume` from there.

    The weights, and the numbers of the epochs.
    """
    config = TrainingConfig(
        epochs=3,
        batch_size=12,
        learning_rate=0.05,
        weight_decay=0.1,
        optimizer="sgd",
        clip_norm=1.0,
        device="cpu",
        checkpoint_folder=str(folder),
    )
    make, run = NETWORKS[name]
    torch.manual_seed(1)
    trainer = Trainer(make().double(), config, spiking=run)
    if trainer.processes.rank:  # what the first process has is given to all
        for parameter in trainer.module.parameters():
            parameter.data.add_(1.0)
    history = trainer.fit(
        data(name),
        data(name),
        resume=folder / CHECKPOINT if part == "resume" else None,
        max_steps=6 if part == "halt" else None,
    )
    found = {name: value.clone() for name, value in trainer.module.state_dict().items()}
    numbers = [list(record.values()) for record in history.records]
    return {**found, "history": torch.tensor(numbers, dtype=torch.float64)}


def main() -> None:
    """Write what each network has, in a folder for each process."""
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    results = folder / os.environ["RANK"]
    results.mkdir()
    for name in NETWORKS:
        save_file(train(name, folder / name), results / name)
    for part in ("halt", "resume"):
        save_file(train("dropping", folder / "parts", part), results / part)


if __name__ == "__main__":
    main()
