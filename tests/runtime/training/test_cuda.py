"""Training on a GPU: the policy of mixed precision, and resuming with scaled losses."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from triton_dsl.runtime.training.checkpoint import load_tree
from triton_dsl.runtime.training.config import TrainingConfig
from triton_dsl.runtime.training.run import CHECKPOINT
from triton_dsl.runtime.training.spiking_run import SpikingRun
from triton_dsl.runtime.training.trainer import Trainer

from .tasks import halves, perceptron, spiking

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

CONFIG = TrainingConfig(epochs=6, batch_size=32, learning_rate=0.02, device="auto")


@pytest.mark.parametrize("precision", ["auto", "float32", "bfloat16"])
def test_networks_learn(precision: str) -> None:
    config = dataclasses.replace(CONFIG, precision=precision, epochs=12)
    for module, run in ((perceptron(), None), (spiking(), SpikingRun(6, "rate", "mean"))):
        trainer = Trainer(module, config, spiking=run)
        trainer.fit(halves())
        assert trainer.evaluate(halves(80, seed=1))["accuracy"] > 0.93
        assert next(module.parameters()).is_cuda


def test_resuming(tmp_path: Path) -> None:
    """The device's random numbers come back too; products may be summed in another order."""
    config = dataclasses.replace(CONFIG, checkpoint_folder=str(tmp_path))
    straight, resumed = perceptron(0.3), perceptron(0.3)
    Trainer(straight, config).fit(halves())
    assert load_tree(tmp_path / CHECKPOINT)["scaler"]["scale"] > 1
    Trainer(perceptron(0.3), config).fit(halves(), max_steps=9)
    Trainer(resumed, config).fit(halves(), resume=tmp_path / CHECKPOINT)
    for mine, theirs in zip(resumed.parameters(), straight.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
