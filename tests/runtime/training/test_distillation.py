"""Learning from a teacher: the loss in float64, and what happens to layers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.training.config import TrainingConfig
from triton_dsl.runtime.training.distillation import Distillation, DistillationLoss
from triton_dsl.runtime.training.spiking_run import SpikingRun
from triton_dsl.runtime.training.trainer import Trainer

from .tasks import bits, halves, perceptron, spiking

CONFIG = TrainingConfig(epochs=6, batch_size=30, learning_rate=0.02, device="cpu")


def log_softmax(x: Any) -> Any:
    return (
        x
        - x.max(1, keepdims=True)
        - np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True))
    )


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("temperature", [1.0, 4.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_in_numpy(alpha: float, temperature: float, smoothing: float) -> None:
    random = np.random.default_rng(0)
    student, teacher = random.normal(size=(2, 7, 5)) * 3
    classes = random.integers(0, 5, 7)
    p, q = (log_softmax(x / temperature) for x in (teacher, student))
    soft = (np.exp(p) * (p - q)).sum(1).mean()
    wanted = np.eye(5)[classes] * (1 - smoothing) + smoothing / 5
    hard = -(wanted * log_softmax(student)).sum(1).mean()
    expected = alpha * temperature**2 * soft + (1 - alpha) * hard
    loss = DistillationLoss(temperature, alpha, smoothing=smoothing)
    found = loss(torch.tensor(student), torch.tensor(teacher), torch.tensor(classes))
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_gradients_keep_their_size() -> None:
    """At a high temperature it is the distance of the logits / classes (section 2.1)."""
    student = torch.randn(1, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
    teacher = torch.randn(1, 6, generator=torch.Generator().manual_seed(1))
    DistillationLoss(1000.0, 1.0)(student, teacher, torch.tensor([0])).backward()
    centred = student.detach() - student.detach().mean() - (teacher - teacher.mean())
    assert student.grad is not None
    torch.testing.assert_close(student.grad, centred / 6, rtol=0.02, atol=1e-3)


def test_features_in_numpy() -> None:
    random = np.random.default_rng(0)
    rates, activity = random.random((4, 3, 2)), random.random((4, 6))
    a = rates.reshape(4, 6) / np.linalg.norm(rates.reshape(4, 6), axis=1, keepdims=True)
    b = activity / np.linalg.norm(activity, axis=1, keepdims=True)
    expected = 0.5 * ((a - b) ** 2).sum(1).mean()
    logits, classes = torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64)
    pair = (torch.tensor(rates), torch.tensor(activity))
    loss = DistillationLoss(feature_weight=0.5)
    plain = loss(logits, logits, classes)
    assert (loss(logits, logits, classes, [pair]) - plain).item() == pytest.approx(expected)
    same = loss(logits, logits, classes, [pair, (pair[1] * 7, pair[1])]) - plain
    assert same.item() == pytest.approx(expected / 2)
    silent = (torch.zeros(4, 6, requires_grad=True), pair[1])
    loss(logits, logits, classes, [silent]).backward()
    assert silent[0].grad is not None and silent[0].grad.isfinite().all()


@pytest.mark.parametrize("chunk", [None, "auto"])
def test_rates_of_layers(chunk: str | None) -> None:
    """What a spiking layer is taught is its rate over all steps, in chunks too, once a step."""
    x, y = halves(30)
    student, teacher = spiking(), perceptron()
    loss = DistillationLoss(alpha=0.5, feature_weight=2.0)
    pairs = {"neurons.0": "1"}
    seen: list[torch.Tensor] = []
    loss.register_forward_pre_hook(lambda layer, given: seen.append(given[3][0][0].detach()))
    objective = Distillation(teacher, loss, features=pairs)
    before = student.state_dict()["layers.0.weight"].clone()
    config = dataclasses.replace(CONFIG, shuffle=False, epochs=2)
    run = SpikingRun(9, "direct", "mean", chunk=chunk)
    expected = spiking().neurons[0](spiking().layers[0](x.expand(9, *x.shape)))[0].mean(0)
    # Evaluations, whose last batch is smaller, are no part of it.
    Trainer(student, config, spiking=run, loss=objective).fit((x, y), halves(45))
    assert len(seen) == 2
    torch.testing.assert_close(seen[0], expected)
    assert not torch.equal(student.state_dict()["layers.0.weight"], before)


def test_features_pull_rates_towards_the_teacher() -> None:
    x, y = halves(60)
    teacher = perceptron()
    Trainer(teacher, CONFIG).fit((x, y))
    distances: list[float] = []
    for weight in (0.0, 20.0):
        student = spiking()
        loss = DistillationLoss(alpha=0.5, feature_weight=weight)
        features = {"neurons.0": "1"} if weight else None
        objective = Distillation(teacher, loss, features=features)
        config = dataclasses.replace(CONFIG, epochs=20, keep_best=False)
        Trainer(student, config, spiking=SpikingRun(8, "direct", "mean"), loss=objective).fit(
            (x, y)
        )
        rates = student.neurons[0](student.layers[0](x.expand(8, *x.shape)))[0].mean(0)
        activity = teacher[1](teacher[0](x))
        distance = DistillationLoss(alpha=0.0, feature_weight=1.0)
        zero, classes = torch.full((60, 2), 0.0), torch.zeros(60, dtype=torch.int64)
        plain = distance(zero, zero, classes)
        distances.append((distance(zero, zero, classes, [(rates, activity)]) - plain).item())
    assert distances[1] < 0.7 * distances[0]


def test_the_teacher_stays_as_it_is() -> None:
    x, y = halves(60)
    teacher = perceptron(0.5, norm=True)
    teacher[1].eval()
    before = bits(teacher)
    student = perceptron()
    objective = Distillation(teacher, features=None, spiking=False)
    trainer = Trainer(student, CONFIG, loss=objective)
    trainer.fit((x, y))
    assert bits(teacher) == before and all(p.grad is None for p in teacher.parameters())
    assert teacher.training and not teacher[1].training
    # The student gives what the teacher gives in evaluation, without targets.
    only = Distillation(teacher, DistillationLoss(1.0, 1.0), spiking=False)
    config = dataclasses.replace(CONFIG, epochs=60, keep_best=False)
    Trainer(student, config, loss=only).fit((x, 1 - y))
    difference = student(x).softmax(1) - teacher.eval()(x).softmax(1)
    assert difference.abs().max() < 0.15


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature: expected a number above 0"),
        ({"alpha": 1.1}, "alpha: expected a number from 0 to 1"),
        ({"feature_weight": -1.0}, "a feature_weight from 0"),
        ({"smoothing": 1.0}, "a smoothing from 0 below 1"),
    ],
)
def test_refusals(options: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        DistillationLoss(**options)


def test_layers_that_do_not_fit() -> None:
    loss = DistillationLoss(feature_weight=1.0)
    run = SpikingRun(4, "direct", "mean")
    data = halves(30)

    def fit(features: dict[str, str]) -> None:
        objective = Distillation(perceptron(), loss, features=features)
        Trainer(spiking(), CONFIG, spiking=run, loss=objective).fit(data)

    with pytest.raises(OptionError, match="features: the loss has a feature_weight of 0"):
        Distillation(perceptron(), features={"neurons.0": "1"})
    with pytest.raises(OptionError, match="the teacher has no layer '9'"):
        fit({"neurons.0": "9"})
    with pytest.raises(OptionError, match=r"the student has no layer 'neurons\.7'"):
        fit({"neurons.7": "1"})
    with pytest.raises(OptionError, match="do not fit together"):
        fit({"neurons.0": "2"})
    with pytest.raises(OptionError, match="layers of the student did not run: layers"):
        fit({"layers": "1"})
    with pytest.raises(OptionError, match=r"student and teacher give \[3, 2\] and \[3, 4\]"):
        loss(torch.zeros(3, 2), torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64))
    assert "temperature=4" in repr(loss) and isinstance(loss, nn.Module)
