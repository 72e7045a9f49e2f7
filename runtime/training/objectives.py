"""What training makes small: a loss of outputs and targets, or that and more about a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...ir.errors import OptionError, refuse

Loss = Callable[[Tensor, Tensor], Tensor]
Metric = Callable[[Tensor, Tensor], Tensor]


class Objective(ABC):
    """What a trainer makes small; all values are means over the rows they are given.

    The rows of a batch may be in several processes, so that what depends on other rows of the batch
    (a maximum over them, say) has no place here.
    """

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss without what only training adds, as evaluation reports it."""

    def training_loss(self, outputs: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        """The loss whose gradient is taken."""
        return self.loss(outputs, targets)

    def begin(self) -> None:
        """A forward pass whose loss is taken is about to start."""
        return

    def watching(self, module: nn.Module) -> AbstractContextManager[object]:
        """A block in which `module` is trained; hooks on its layers belong here."""
        return nullcontext()

    def to(self, device: torch.device) -> None:
        """Move what the objective holds."""
        return


class LossObjective(Objective):
    """A function of outputs and targets that gives the mean over rows, such as those of PyTorch."""

    def __init__(self, function: Loss) -> None:
        self._function = function

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """What the function gives."""
        return self._function(outputs, targets)


class CrossEntropy(Objective):
    """Cross-entropy of logits [N, classes, …] and targets, smoothed in training alone.

    Targets are classes [N, …], whole numbers of any type, or probabilities [N, classes, …]; others
    raise `OptionError`.

    Args:
        smoothing: see `torch.nn.functional.cross_entropy`.
    """

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Without smoothing."""
        return functional.cross_entropy(outputs, as_classes(outputs, targets))

    def training_loss(self, outputs: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        """With smoothing."""
        targets = as_classes(outputs, targets)
        return functional.cross_entropy(outputs, targets, label_smoothing=self.smoothing)


def as_classes(outputs: Tensor, targets: Tensor) -> Tensor:
    """Classes as int64, the one type of them that PyTorch takes; probabilities as they are.

    Raises:
        OptionError: neither, or not of the rows of `outputs`.
    """
    if targets.is_floating_point() and targets.shape == outputs.shape:
        return targets
    if targets.is_floating_point() or targets.shape != outputs.shape[:1] + outputs.shape[2:]:
        raise OptionError(
            "cross-entropy expects logits [N, classes, …] and classes [N, …] as whole numbers, got "
            f"{list(outputs.shape)} and {targets.dtype} {list(targets.shape)}; other targets need "
            "a loss of their own"
        )
    return targets.to(torch.int64)


def make_objective(objective: Objective | Loss | None, smoothing: float) -> Objective:
    """`objective` as an objective; `None` is cross-entropy.

    Raises:
        OptionError: smoothing belongs to cross-entropy alone.
    """
    if objective is None:
        return CrossEntropy(smoothing)
    refuse(smoothing, "label_smoothing belongs to the trainer's own loss, cross-entropy")
    return objective if isinstance(objective, Objective) else LossObjective(objective)


def accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The part of rows whose largest output is the target's class.

    Args:
        outputs: [N, classes, …].
        targets: classes [N, …].
    """
    return (outputs.argmax(1) == targets).to(sum_type(targets.device)).mean()


@contextmanager
def evaluating(module: nn.Module) -> Generator[None]:
    """A block in which `module` is in evaluation; after it each part has its own mode back."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, was_training in modes:
            part.training = was_training


def sum_type(device: torch.device) -> torch.dtype:
    """The type of sums over rows: float64, which Apple's devices do not have."""
    return torch.float32 if device.type == "mps" else torch.float64


def metrics_of(metrics: Mapping[str, Metric] | None, targets: Tensor) -> Mapping[str, Metric]:
    """The metrics that were asked for; `None` is `accuracy` where targets are classes."""
    if metrics is not None:
        return metrics
    is_classes = not targets.is_floating_point() and not targets.is_complex()
    return cast("Mapping[str, Metric]", {"accuracy": accuracy} if is_classes else {})
