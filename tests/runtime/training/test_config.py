"""Settings of training: what is refused, and the way through dictionaries."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.training.config import NOT_OF_THE_RUN, TrainingConfig


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epochs": 0}, "epochs: expected a whole number from 1, got 0"),
        ({"epochs": 2.0}, "epochs: expected a whole number"),
        ({"epochs": True}, "epochs: expected a whole number"),
        ({"batch_size": -1}, "batch_size: expected a whole number from 1"),
        ({"seed": -1}, "seed: expected a whole number from 0"),
        ({"seed": 2**63}, "seed: expected a number below"),
        ({"patience": 0}, "patience: expected a whole number from 1"),
        ({"optimizer": "adamax"}, "optimizer: expected one of adam, adamw, sgd, rmsprop"),
        ({"schedule": "plateau"}, "schedule: expected one of constant"),
        ({"precision": "int8"}, "precision: expected one of auto"),
        ({"device": "tpu"}, "device: expected one of auto, cpu"),
        ({"learning_rate": 0}, "learning_rate: expected a finite number above 0, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate: expected a finite number"),
        ({"learning_rate": float("inf")}, "learning_rate: expected a finite number"),
        ({"learning_rate": "fast"}, "learning_rate: expected a finite number"),
        ({"weight_decay": -0.1}, "weight_decay: expected a finite number from 0"),
        ({"momentum": 1}, "momentum: expected a finite number from 0 and below 1"),
        ({"warmup": 1.0}, "warmup: expected a finite number from 0 and below 1"),
        ({"label_smoothing": 1.5}, "label_smoothing"),
        ({"clip_norm": 0.0}, "clip_norm: expected a finite number above 0"),
        ({"min_delta": -1}, "min_delta"),
        ({"shuffle": 1}, "shuffle: expected true or false, got 1"),
        (
            {"log_to": "mlflow"},
            "log_to: expected some of tensorboard, mlflow, prometheus, got 'mlflow'",
        ),
        ({"log_to": ("wandb",)}, "log_to"),
        ({"log_to": ("mlflow", "mlflow")}, "log_to"),
        ({"monitor": 3}, "monitor: expected a text, got 3"),
        ({"checkpoint_folder": 3}, "checkpoint_folder: expected a text, got 3"),
        ({"log_folder": None}, "log_folder: expected a text, got None"),
        ({"checkpoint_steps": 5}, "checkpoint_steps needs a checkpoint_folder"),
    ],
)
def test_refusals(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        TrainingConfig(**fields)


def test_paths_are_texts() -> None:
    folders = {"checkpoint_folder": Path("a") / "b", "log_folder": Path("c")}
    config = TrainingConfig.from_dict(folders)
    assert (config.checkpoint_folder, config.log_folder) == (str(Path("a") / "b"), "c")


def test_through_json() -> None:
    config = TrainingConfig(epochs=3, log_to=("mlflow",), clip_norm=1.0)
    fields = json.loads(json.dumps(config.to_dict()))
    assert TrainingConfig.from_dict(fields) == config
    assert TrainingConfig.from_dict({}) == TrainingConfig()
    with pytest.raises(OptionError, match=r"unknown field\(s\) batch, rate; expected some of"):
        TrainingConfig.from_dict({"rate": 1, "batch": 2})


def test_differences_that_decide_the_numbers() -> None:
    config = TrainingConfig()
    other = dataclasses.replace(config, seed=1, epochs=99, optimizer="sgd", progress=False)
    assert config.differences(other.to_dict()) == ["optimizer", "seed"]
    assert {entry.name for entry in dataclasses.fields(config)} > NOT_OF_THE_RUN
