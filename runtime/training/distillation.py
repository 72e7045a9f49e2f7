"""Learning from a trained network: its softened outputs, and the activity of its layers.

Hinton, Vinyals & Dean 2015, "Distilling the knowledge in a neural network", section 2. For the
activity of layers: Zagoruyko & Komodakis 2017, "Paying more attention to attention", eq. 2, on
firing rates in the place of attention maps.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...ir.errors import OptionError, refuse
from .objectives import CrossEntropy, Objective, as_classes, evaluating

FeaturePairs = Sequence[tuple[Tensor, Tensor]]


class DistillationLoss(nn.Module):
    """α·T²·KL(softmax(teacher/T) ‖ softmax(student/T)) + (1-α)·cross-entropy + γ·features.

    The factor T² keeps the sizes of both gradients when T changes. The features' part is, for each
    pair of a student's firing rates r and a teacher's activations a, the mean over rows of
    ‖r/‖r‖ - a/‖a‖‖², which knows nothing of scales; a mean over pairs.

    Args:
        temperature: T, above 0.
        alpha: α from 0 to 1.
        feature_weight: γ, from 0.
        smoothing: of the cross-entropy, from 0, below 1.

    Raises:
        OptionError: a value that is not allowed.
    """

    def __init__(
        self,
        temperature: float = 4.0,
        alpha: float = 0.9,
        feature_weight: float = 0.0,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 < temperature < math.inf:
            raise OptionError(f"temperature: expected a number above 0, got {temperature}")
        refuse(not 0 <= alpha <= 1, f"alpha: expected a number from 0 to 1, got {alpha}")
        if not 0 <= feature_weight < math.inf or not 0 <= smoothing < 1:
            raise OptionError(
                "expected a feature_weight from 0 and a smoothing from 0 below 1, got "
                f"{feature_weight} and {smoothing}"
            )
        self.temperature, self.alpha = temperature, alpha
        self.feature_weight, self.smoothing = feature_weight, smoothing

    def forward(
        self,
        student: Tensor,
        teacher: Tensor,
        targets: Tensor,
        features: FeaturePairs = (),
    ) -> Tensor:
        """The loss, a mean over rows.

        Args:
            student: logits [N, classes].
            teacher: logits like the student's.
            targets: classes [N].
            features: pairs of firing rates and activations, [N, …] of equally many values each.

        Raises:
            OptionError: shapes that do not fit.
        """
        if student.shape != teacher.shape:
            raise OptionError(
                f"student and teacher give {list(student.shape)} and {list(teacher.shape)}"
            )
        # The types of autocast are too short for small probabilities.
        student, teacher = student.float(), teacher.detach().float()
        soft = functional.kl_div(
            functional.log_softmax(student / self.temperature, 1),
            functional.log_softmax(teacher / self.temperature, 1),
            reduction="batchmean",
            log_target=True,
        )
        targets = as_classes(student, targets)
        hard = functional.cross_entropy(student, targets, label_smoothing=self.smoothing)
        loss = self.alpha * self.temperature**2 * soft + (1 - self.alpha) * hard
        if features and self.feature_weight:
            parts = [_feature_distance(rates, activity) for rates, activity in features]
            loss = loss + self.feature_weight * torch.stack(parts).mean()
        return loss

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return (
            f"temperature={self.temperature:g}, alpha={self.alpha:g}, "
            f"feature_weight={self.feature_weight:g}, smoothing={self.smoothing:g}"
        )


class Distillation(Objective):
    """Trains a student on a teacher's outputs, and perhaps on the activity of its layers.

    The teacher runs in evaluation on the inputs as they are, and does not change. A student that is
    spiking has firing rates: the mean over time of what a layer gives.

    Args:
        teacher: gives logits for a batch; its parameters and mode are left as they are.
        loss: by default `DistillationLoss()`.
        features: for names of the student's layers those of the teacher's that they follow, as
            `named_modules` has them.
        spiking: whether the student's layers give trains, time first.

    Raises:
        OptionError: a teacher without such a layer, or features without a weight in the loss.
    """

    def __init__(
        self,
        teacher: nn.Module,
        loss: DistillationLoss | None = None,
        *,
        features: Mapping[str, str] | None = None,
        spiking: bool = True,
    ) -> None:
        self.teacher = teacher
        self.function = DistillationLoss() if loss is None else loss
        self.features, self.spiking = dict(features or {}), spiking
        if self.features and not self.function.feature_weight:
            raise OptionError("features: the loss has a feature_weight of 0")
        for name in self.features.values():
            _layer(teacher, name, "teacher")
        self._plain = CrossEntropy()
        self._seen: dict[str, Tensor] = {}
        self._steps: dict[str, int] = {}
        self._is_watching = False

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy with the targets."""
        return self._plain.loss(outputs, targets)

    def training_loss(self, outputs: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        """The distillation loss of the forward pass that gave `outputs`."""
        # What runs backward may compute layers again; their outputs are known already.
        self._is_watching = False
        missing = [name for name in self.features if name not in self._seen]
        refuse(missing, f"layers of the student did not run: {', '.join(missing)}")
        with torch.no_grad(), _recording(self.teacher, self.features.values()) as activity:
            teacher: Any = self.teacher(inputs)
        pairs = [
            (self._seen[mine] / self._steps[mine], activity[theirs])
            for mine, theirs in self.features.items()
        ]
        self._seen, self._steps = {}, {}
        return self.function(outputs, teacher, targets, pairs)

    def begin(self) -> None:
        """Note the layers of the pass that starts."""
        self._seen, self._steps, self._is_watching = {}, {}, True

    @contextmanager
    def watching(self, module: nn.Module) -> Generator[object]:
        """Note the rates of the student's layers; the teacher is in evaluation meanwhile."""
        handles: list[Any] = []
        try:
            for name in self.features:
                layer = _layer(module, name, "student")
                handles.append(layer.register_forward_hook(self._noting(name)))
            with evaluating(self.teacher):
                yield self
        finally:
            self._seen, self._steps, self._is_watching = {}, {}, False
            for handle in handles:
                handle.remove()

    def to(self, device: torch.device) -> None:
        """Move the teacher."""
        self.teacher.to(device)

    def _noting(self, name: str) -> Any:
        def note(layer: nn.Module, arguments: Any, result: Any) -> None:
            if not self._is_watching:
                return
            train = _first(result)
            steps = len(train) if self.spiking else 1
            total = train.sum(0) if self.spiking else train
            # A run in chunks comes by once a chunk.
            self._seen[name] = total + self._seen[name] if name in self._seen else total
            self._steps[name] = steps + self._steps.get(name, 0)

        return note


@contextmanager
def _recording(module: nn.Module, names: Any) -> Generator[dict[str, Tensor]]:
    """A block that collects what layers of `module` give."""
    outputs: dict[str, Tensor] = {}
    handles: list[Any] = []
    try:
        for name in set(names):
            layer = _layer(module, name, "teacher")
            handles.append(
                layer.register_forward_hook(
                    lambda layer, arguments, result, name=name: outputs.update(
                        {name: _first(result)}
                    )
                )
            )
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


def _layer(module: nn.Module, name: str, whose: str) -> nn.Module:
    try:
        return module.get_submodule(name)
    except AttributeError:
        raise OptionError(f"features: the {whose} has no layer {name!r}") from None


def _first(result: Any) -> Tensor:
    value: Any = cast(Any, result)[0] if isinstance(result, tuple) else result
    if not isinstance(value, Tensor):
        raise OptionError(f"features: a layer gives {type(value).__name__}, not a tensor")
    return value


def _feature_distance(rates: Tensor, activity: Tensor) -> Tensor:
    mine, theirs = rates.flatten(1).float(), activity.detach().flatten(1).float()
    if mine.shape != theirs.shape:
        raise OptionError(
            f"features of {list(rates.shape)} and {list(activity.shape)} do not fit together"
        )
    difference = functional.normalize(mine, dim=1) - functional.normalize(theirs, dim=1)
    return difference.square().sum(1).mean()
