"""Training: it learns, equals a loop by hand, and resumes bit for bit."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from triton_dsl.ir.errors import BackendError, OptionError, ParameterError
from triton_dsl.runtime.layers import TernaryLinear
from triton_dsl.runtime.training.checkpoint import load_tree, save_tree
from triton_dsl.runtime.training.config import TrainingConfig
from triton_dsl.runtime.training.run import CHECKPOINT
from triton_dsl.runtime.training.spiking_run import SpikingRun
from triton_dsl.runtime.training.trainer import Trainer

from .tasks import WIDTH, bits, halves, perceptron, spiking

TRAIN, TEST = halves(), halves(80, seed=1)
CONFIG = TrainingConfig(epochs=4, batch_size=32, learning_rate=0.02, device="cpu")
RATE = SpikingRun(6, "rate", "mean")


def ternary() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(TernaryLinear(WIDTH, 16), nn.ReLU(), TernaryLinear(16, 2))


@pytest.mark.parametrize(
    ("make", "run"),
    [
        (perceptron, None),
        (ternary, None),
        (spiking, RATE),
        (lambda: spiking("spikes"), SpikingRun(8, "direct")),
        (lambda: spiking(normalize=True), SpikingRun(4, "regular", "last")),
        (spiking, dataclasses.replace(RATE, chunk="auto")),
    ],
    ids=["float", "ternary", "rate", "spikes", "tdbn", "chunks"],
)
def test_networks_learn(make: Callable[[], nn.Module], run: SpikingRun | None) -> None:
    config = dataclasses.replace(CONFIG, epochs=12, schedule="one_cycle", clip_norm=5.0)
    trainer = Trainer(make(), config, spiking=run)
    before = trainer.evaluate(TEST)
    history = trainer.fit(TRAIN, TEST)
    after = trainer.evaluate(TEST)
    assert len(history) == 12 and history["epoch"] == list(range(1, 13))
    assert after["accuracy"] > 0.93 and after["loss"] < before["loss"]
    assert after["loss"] == min(history["val_loss"]) and trainer.best_epoch is not None
    assert history["val_accuracy"][trainer.best_epoch - 1] == after["accuracy"]
    predicted = trainer.predict(TEST[0]).argmax(1)
    assert (predicted == TEST[1]).float().mean().item() == pytest.approx(after["accuracy"])


def test_a_loop_by_hand() -> None:
    """Without shuffling the steps are those of PyTorch's own optimizer, bit for bit."""
    module, twin = perceptron(), perceptron()
    config = dataclasses.replace(
        CONFIG, shuffle=False, optimizer="sgd", clip_norm=0.5, keep_best=False, label_smoothing=0.1
    )
    history = Trainer(module, config).fit(TRAIN)
    optimizer = torch.optim.SGD(twin.parameters(), 0.02, 0.9)
    losses: list[float] = []
    for _ in range(4):
        total = 0.0
        for first in range(0, 120, 32):
            x, y = TRAIN[0][first : first + 32], TRAIN[1][first : first + 32]
            loss = functional.cross_entropy(twin(x), y, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
            optimizer.step()
            total += loss.item() * len(x)
        losses.append(total / 120)
    assert bits(module) == bits(twin)
    assert history["loss"] == pytest.approx(losses)
    expected = functional.cross_entropy(twin(TEST[0]), TEST[1]).item()
    assert Trainer(module, config).evaluate(TEST)["loss"] == pytest.approx(expected)


class Noisy(Dataset[Any]):
    """Draws from every source of random numbers that there is."""

    def __len__(self) -> int:
        return len(TRAIN[0])

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        noise = random.random() + np.random.rand() + torch.rand(()).item()
        return TRAIN[0][index] + 0.01 * noise, TRAIN[1][index]


@pytest.mark.parametrize("steps", [1, 8, 11, 15], ids=["first", "two epochs", "inside", "last"])
@pytest.mark.parametrize(
    ("make", "run", "data"),
    [
        (lambda: perceptron(0.3, True), None, TRAIN),
        (spiking, RATE, TRAIN),
        (lambda: perceptron(0.3), None, Noisy()),
        (perceptron, None, DataLoader(TensorDataset(*TRAIN), 32, shuffle=True)),
    ],
    ids=["dropout and norm", "rate", "dataset", "loader"],
)
def test_resuming_bit_for_bit(
    make: Callable[[], nn.Module], run: SpikingRun | None, data: Any, steps: int, tmp_path: Path
) -> None:
    config = dataclasses.replace(
        CONFIG, schedule="cosine", warmup=0.1, clip_norm=1.0, checkpoint_folder=str(tmp_path)
    )
    straight = make()
    expected = Trainer(straight, config, spiking=run).fit(data, TEST)
    final = load_tree(tmp_path / CHECKPOINT)
    halted = make()
    Trainer(halted, config, spiking=run).fit(data, TEST, max_steps=steps)
    assert load_tree(tmp_path / CHECKPOINT)["position"]["total"] == steps
    resumed = make()
    with torch.no_grad():  # what is resumed comes from the checkpoint alone
        for parameter in resumed.parameters():
            parameter.zero_()
    torch.manual_seed(99)
    found = Trainer(resumed, config, spiking=run).fit(data, TEST, resume=tmp_path / CHECKPOINT)
    assert bits(resumed) == bits(straight) != bits(halted)
    assert found == expected
    # Every tensor and number of the last checkpoint is the same, the random states too.
    again = tmp_path / "again"
    save_tree(again, final)
    assert (tmp_path / CHECKPOINT).read_bytes() == again.read_bytes()


def test_resuming_in_several_parts(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, checkpoint_folder=str(tmp_path))
    straight = perceptron(0.2)
    Trainer(straight, config).fit(TRAIN)
    part = perceptron(0.2)
    Trainer(part, config).fit(TRAIN, max_steps=3)
    for _ in range(5):
        part = perceptron(0.2)
        Trainer(part, config).fit(TRAIN, resume=tmp_path / CHECKPOINT, max_steps=3)
    assert bits(part) == bits(straight)


def test_resuming_with_scaled_losses(tmp_path: Path) -> None:
    """float16 products on the processor: the scale of the losses is part of the state."""
    config = dataclasses.replace(
        CONFIG, precision="float16", clip_norm=1.0, checkpoint_folder=str(tmp_path)
    )
    straight, resumed = perceptron(), perceptron()
    history = Trainer(straight, config).fit(TRAIN)
    assert load_tree(tmp_path / CHECKPOINT)["scaler"]["scale"] >= 1
    Trainer(perceptron(), config).fit(TRAIN, max_steps=6)
    Trainer(resumed, config).fit(TRAIN, resume=tmp_path / CHECKPOINT)
    assert bits(resumed) == bits(straight)
    assert history["loss"][-1] < history["loss"][0]


def test_steps_that_overflow_are_left_out(tmp_path: Path) -> None:
    """No step is taken where scaled gradients are infinite, and the rate does not move on."""
    config = dataclasses.replace(
        CONFIG, precision="float16", schedule="linear", checkpoint_folder=str(tmp_path)
    )
    module, factor = perceptron(), 1e36
    before = bits(module)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.float(), targets) * factor

    Trainer(module, config, loss=loss).fit(TRAIN, max_steps=2)
    state = load_tree(tmp_path / CHECKPOINT)
    assert bits(module) == before and state["scheduler"]["last_epoch"] == 0
    assert state["scaler"]["scale"] == 2.0**14
    factor = 1.0
    Trainer(module, config, loss=loss).fit(TRAIN, resume=tmp_path / CHECKPOINT, max_steps=2)
    state = load_tree(tmp_path / CHECKPOINT)
    assert bits(module) != before and state["scheduler"]["last_epoch"] == 2
    assert state["scaler"]["scale"] == 2.0**14


def test_a_killed_run_has_a_checkpoint(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, checkpoint_folder=str(tmp_path), checkpoint_steps=3)
    straight, killed, resumed = perceptron(0.2), perceptron(0.2), perceptron(0.2)
    Trainer(straight, config).fit(TRAIN)
    seen = 0

    def failing(outputs: Tensor, targets: Tensor) -> Tensor:
        nonlocal seen
        seen += 1
        if seen == 8:
            raise KeyboardInterrupt
        return functional.cross_entropy(outputs, targets)

    with pytest.raises(KeyboardInterrupt):
        Trainer(killed, config, loss=failing).fit(TRAIN)
    assert load_tree(tmp_path / CHECKPOINT)["position"]["total"] == 6
    Trainer(resumed, config).fit(TRAIN, resume=tmp_path / CHECKPOINT)
    assert bits(resumed) == bits(straight)


def test_more_epochs_than_before(tmp_path: Path) -> None:
    """With a rate that does not depend on the end, a finished run can be made longer."""
    config = dataclasses.replace(CONFIG, checkpoint_folder=str(tmp_path))
    longer = dataclasses.replace(config, epochs=6)
    straight, resumed = perceptron(), perceptron()
    Trainer(straight, longer).fit(TRAIN)
    Trainer(resumed, config).fit(TRAIN)
    Trainer(resumed, longer).fit(TRAIN, resume=tmp_path / CHECKPOINT)
    assert bits(resumed) == bits(straight)


def test_checkpoints_of_other_runs(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, epochs=1, checkpoint_folder=str(tmp_path))
    Trainer(perceptron(), config).fit(TRAIN)
    path = tmp_path / CHECKPOINT
    other = dataclasses.replace(config, seed=5, optimizer="adam")
    with pytest.raises(OptionError, match="is of a run with other optimizer, seed; resume it"):
        Trainer(perceptron(), other).fit(TRAIN, resume=path)
    with pytest.raises(OptionError, match="with other data"):
        Trainer(perceptron(), config).fit(TEST, resume=path)
    with pytest.raises(ParameterError, match="does not fit"):
        Trainer(perceptron(norm=True), config).fit(TRAIN, resume=path)
    save_tree(path, {"config": config.to_dict()})
    with pytest.raises(ParameterError, match="does not fit"):
        Trainer(perceptron(), config).fit(TRAIN, resume=path)
    with pytest.raises(ParameterError, match="no such file"):
        Trainer(perceptron(), config).fit(TRAIN, resume=tmp_path / "none")


def scores(values: list[float], **fields: Any) -> tuple[Trainer, int]:
    """A run whose epochs have `values` as their score; its trainer, and its epochs."""
    given = iter(values)
    config = dataclasses.replace(
        CONFIG, epochs=len(values), batch_size=200, monitor="val_score", **fields
    )

    def score(outputs: Tensor, targets: Tensor) -> Tensor:
        # Training data has more rows than the validation.
        return torch.tensor(0.0 if len(targets) == 120 else next(given))

    trainer = Trainer(perceptron(), config, metrics={"score": score})
    return trainer, len(trainer.fit(TRAIN, TEST))


@pytest.mark.parametrize(
    ("values", "fields", "best", "epochs"),
    [
        ([0.1, 0.3, 0.2, 0.2, 0.9], {"patience": 2}, 2, 4),
        ([0.1, 0.3, 0.2, 0.4, 0.3, 0.3], {"patience": 2}, 4, 6),
        ([0.1, 0.2, 0.3, 0.4], {"patience": 1, "min_delta": 0.15}, 1, 2),
        ([0.1, float("nan"), 0.3], {}, 3, 3),
        ([float("nan")] * 3, {"patience": 2}, None, 2),
    ],
)
def test_stopping_early(
    values: list[float], fields: dict[str, Any], best: int | None, epochs: int
) -> None:
    assert (scores(values, **fields)[0].best_epoch, scores(values, **fields)[1]) == (best, epochs)


def test_the_best_weights_are_kept() -> None:
    best, _ = scores([0.1, 0.9, 0.2])
    last, _ = scores([0.1, 0.9, 0.2], keep_best=False)
    second, _ = scores([0.1, 0.9], keep_best=False, schedule="constant")
    assert bits(best.module) == bits(second.module) != bits(last.module)


def test_the_best_weights_come_back_when_resumed(tmp_path: Path) -> None:
    """Also those of an epoch before the checkpoint."""
    config = dataclasses.replace(
        CONFIG, batch_size=200, monitor="falling", checkpoint_folder=str(tmp_path)
    )
    calls = 0

    def falling(outputs: Tensor, targets: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return torch.tensor(-float(calls))

    first, resumed = perceptron(), perceptron()
    Trainer(first, dataclasses.replace(config, epochs=1), metrics={"falling": falling}).fit(TRAIN)
    Trainer(perceptron(), config, metrics={"falling": falling}).fit(TRAIN, max_steps=2)
    trainer = Trainer(resumed, config, metrics={"falling": falling})
    trainer.fit(TRAIN, resume=tmp_path / CHECKPOINT)
    assert trainer.best_epoch == 1 and len(trainer.history) == 4
    assert bits(resumed) == bits(first)


def test_the_callers_modes_and_random_numbers_stay() -> None:
    module = perceptron(0.5, norm=True)
    module[1].eval()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    trainer = Trainer(module, dataclasses.replace(CONFIG, epochs=1))
    trainer.evaluate(TEST)
    trainer.predict(TEST[0])
    assert module.training and not module[1].training
    trainer.fit(TRAIN)
    assert torch.equal(torch.rand(2), expected)


def test_one_seed_one_result() -> None:
    found: list[list[bytes]] = []
    for seed in (0, 0, 1):
        module = perceptron(0.5)
        Trainer(module, dataclasses.replace(CONFIG, epochs=1, seed=seed)).fit(TRAIN)
        found.append(bits(module))
    assert found[0] == found[1] != found[2]


def test_regression_with_own_parts() -> None:
    """Another loss, optimizer and scheduler; there is no accuracy of numbers."""
    x = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(0))
    y = x @ torch.arange(8.0)[:, None]
    told: list[float] = []

    def scheduler(optimizer: Any, steps: int) -> Any:
        def factor(step: int) -> float:
            told.append(step / steps)
            return 1.0

        return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)

    trainer = Trainer(
        nn.Linear(WIDTH, 1),
        dataclasses.replace(CONFIG, epochs=2, batch_size=8),
        loss=functional.mse_loss,
        optimizer=lambda module: torch.optim.SGD(module.parameters(), 0.1),
        scheduler=scheduler,
    )
    history = trainer.fit((x, y))
    assert set(history.records[0]) == {"epoch", "loss", "learning_rate"}
    assert told == [step / 16 for step in range(17)] and history["loss"][-1] < history["loss"][0]


def test_bfloat16_products() -> None:
    seen: list[torch.dtype] = []
    module = perceptron()
    module[0].register_forward_hook(lambda layer, given, result: seen.append(result.dtype))
    trainer = Trainer(module, dataclasses.replace(CONFIG, epochs=8, precision="bfloat16"))
    history = trainer.fit(TRAIN)
    assert set(seen) == {torch.bfloat16} and trainer.predict(TEST[0]).dtype == torch.bfloat16
    assert all(parameter.dtype == torch.float32 for parameter in module.parameters())
    assert history["accuracy"][-1] > 0.9


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MLflow's own
def test_metrics_are_sent(tmp_path: Path) -> None:
    """Where no tracker is installed, nothing starts."""
    config = dataclasses.replace(CONFIG, log_to=("mlflow",), log_folder=str(tmp_path))
    module = perceptron()
    before = bits(module)
    try:
        import mlflow  # noqa: F401 # pyright: ignore
    except ModuleNotFoundError:
        with pytest.raises(BackendError, match="MLflow is missing: pip install mlflow"):
            Trainer(module, config).fit(TRAIN)
        assert bits(module) == before
    else:
        Trainer(module, config).fit(TRAIN)
        assert (tmp_path / "mlflow.db").exists()


def test_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    Trainer(perceptron(), CONFIG).fit(TRAIN)
    written = capsys.readouterr()
    assert written.out == written.err == ""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Trainer(perceptron(), CONFIG).fit(TRAIN, max_steps=0), "max_steps: expected"),
        (lambda: Trainer(nn.ReLU(), CONFIG).fit(TRAIN), "no parameters that require gradients"),
        (
            lambda: Trainer(
                perceptron(),
                dataclasses.replace(CONFIG, label_smoothing=0.1),
                loss=functional.cross_entropy,
            ),
            "label_smoothing belongs to the trainer's own loss",
        ),
        (
            lambda: Trainer(perceptron(), dataclasses.replace(CONFIG, monitor="f1")).fit(TRAIN),
            "monitor: no 'f1'; there is epoch, loss, accuracy",
        ),
        (
            lambda: Trainer(perceptron(), CONFIG, spiking=RATE).fit(TRAIN),
            "expected a spiking network that gives its outputs",
        ),
        (
            lambda: Trainer(spiking(normalize=True), CONFIG, spiking=SpikingRun(9, chunk=3)).fit(
                TRAIN
            ),
            "normalises by statistics over all steps",
        ),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


def test_a_script_that_is_started_again_goes_on(tmp_path: Path) -> None:
    config = TrainingConfig(epochs=2, batch_size=20, checkpoint_folder=str(tmp_path))
    straight, data = perceptron(0.3), halves(60)
    Trainer(straight, config).fit(data)
    (tmp_path / CHECKPOINT).unlink()
    again = perceptron(0.3)
    Trainer(again, config).fit(data, resume=True, max_steps=4)
    Trainer(again, config).fit(data, resume=True)
    assert bits(again) == bits(straight)
    with pytest.raises(OptionError, match="resume needs a checkpoint_folder"):
        Trainer(perceptron(), TrainingConfig()).fit(data, resume=True)
