"""Losses and metrics."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.training.objectives import (
    CrossEntropy,
    LossObjective,
    accuracy,
    make_objective,
    metrics_of,
)

LOGITS = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0], [0.5, 0.0, 0.0]])
CLASSES = torch.tensor([0, 1, 0])


def test_cross_entropy_is_smoothed_in_training_alone() -> None:
    objective = make_objective(None, 0.3)
    assert isinstance(objective, CrossEntropy)
    plain = functional.cross_entropy(LOGITS, CLASSES)
    # Smoothing by hand: the target is 0.7 of the class and 0.1 of each class.
    wanted = 0.7 * functional.one_hot(CLASSES, 3) + 0.1
    smooth = -(wanted * LOGITS.log_softmax(1)).sum(1).mean()
    assert objective.loss(LOGITS, CLASSES).item() == pytest.approx(plain.item())
    found = objective.training_loss(LOGITS, torch.zeros(3), CLASSES)
    assert found.item() == pytest.approx(smooth.item())


def test_other_losses() -> None:
    objective = make_objective(functional.mse_loss, 0.0)
    assert isinstance(objective, LossObjective) and make_objective(objective, 0.0) is objective
    expected = (LOGITS**2).mean().item()
    zeros = torch.zeros(3, 3)
    assert objective.training_loss(LOGITS, zeros, zeros).item() == pytest.approx(expected)
    with objective.watching(nn.ReLU()):
        objective.begin()
        objective.to(torch.device("cpu"))
    for given in (functional.mse_loss, objective):
        with pytest.raises(OptionError, match="belongs to the trainer's own loss, cross-entropy"):
            make_objective(given, 0.1)


def test_metrics() -> None:
    assert accuracy(LOGITS, CLASSES).item() == pytest.approx(2 / 3)
    pixels = torch.stack([LOGITS, -LOGITS], 2)
    assert accuracy(pixels, torch.stack([CLASSES, CLASSES], 1)).item() == pytest.approx(2 / 6)
    assert list(metrics_of(None, CLASSES)) == ["accuracy"]
    assert metrics_of(None, LOGITS) == {} and metrics_of({}, CLASSES) == {}


@pytest.mark.parametrize("type", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_classes_are_whole_numbers_of_any_type(type: torch.dtype) -> None:
    expected = functional.cross_entropy(LOGITS, CLASSES)
    for objective in (make_objective(None, 0.0), make_objective(None, 0.5)):
        torch.testing.assert_close(objective.loss(LOGITS, CLASSES.to(type)), expected)
    likely = LOGITS.softmax(1)
    expected = functional.cross_entropy(LOGITS, likely)
    torch.testing.assert_close(make_objective(None, 0.0).loss(LOGITS, likely), expected)


@pytest.mark.parametrize("targets", [CLASSES.float(), CLASSES[:, None], CLASSES[:2], LOGITS[:, :2]])
def test_targets_that_are_no_classes(targets: torch.Tensor) -> None:
    objective = make_objective(None, 0.1)
    for take in (
        lambda: objective.loss(LOGITS, targets),
        lambda: objective.training_loss(LOGITS, LOGITS, targets),
    ):
        with pytest.raises(OptionError, match=r"as whole numbers, got \[3, 3\] and"):
            take()
