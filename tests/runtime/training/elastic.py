"""Trains on several nodes, of which one dies once, for `test_elastic`.

Run by `torchrun` with a folder for the results, and the step before which the last process dies.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from triton_dsl.runtime.training.config import TrainingConfig
from triton_dsl.runtime.training.trainer import Trainer

from tasks import halves, perceptron  # isort: skip


def main() -> None:
    folder, dies_at = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    rank, died, calls = int(os.environ["RANK"]), folder / "died", 0
    config = TrainingConfig(
        epochs=3,
        batch_size=12,
        learning_rate=0.05,
        device="cpu",
        checkpoint_folder=str(folder / "run"),
        checkpoint_steps=4,
        progress=False,
    )

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if rank == 1 and calls == dies_at and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.nn.functional.cross_entropy(outputs, targets)

    module = perceptron(0.3)
    # As a script that may be started again says it: go on where the last one was.
    history = Trainer(module, config, loss=loss).fit(halves(60), resume=True)
    if rank == 0:
        numbers = torch.tensor([list(record.values()) for record in history.records])
        (folder / "steps").write_text(str(calls))
        save_file({**module.state_dict(), "history": numbers}, folder / "result.safetensors")


if __name__ == "__main__":
    main()
