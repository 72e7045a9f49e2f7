"""Quantisation clip-floor-shift: float networks that already say what their neurons will say.

A network whose ReLUs are replaced by `QcfsActivation` can be trained on for a few epochs before it
is converted; its trained thresholds then go to `ThresholdCalibrator.annotate`. Not needed for
conversion, which finds thresholds without training. Conversion itself is a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...ir.errors import OptionError

Loss = Callable[[Tensor, Tensor], Tensor]


class QcfsActivation(nn.Module):
    """θ/L·clamp(⌊x·L/θ + ½⌋, 0, L) with a trained θ (Bu et al. 2022, "Optimal ANN-SNN conversion").

    What an integrate-and-fire neuron with the threshold θ, which starts at θ/2, says in L steps of
    the constant current x. The gradient of the floor is taken as 1.

    Args:
        threshold: θ to begin with.
        levels: L.
    """

    def __init__(self, threshold: float = 1.0, levels: int = 8) -> None:
        super().__init__()
        if levels < 1 or not threshold > 0:
            raise OptionError(
                f"QcfsActivation expects a positive threshold and levels of at least 1, got "
                f"{threshold} and {levels}"
            )
        self.levels = levels
        self.threshold = nn.Parameter(torch.tensor(float(threshold)))

    def forward(self, x: Tensor) -> Tensor:
        """The activation of x, of the same shape."""
        scaled = (x / self.threshold).clamp(0, 1) * self.levels + 0.5
        # Straight through: forward the floor, backward the identity.
        floored = scaled + (scaled.floor() - scaled).detach()
        return floored.clamp(0, self.levels) / self.levels * self.threshold

    def extra_repr(self) -> str:
        """θ and L."""
        return f"threshold={float(self.threshold):g}, levels={self.levels}"


def replace_relus(
    module: nn.Module, sample: Tensor, *, levels: int = 8, quantile: float = 0.995
) -> list[QcfsActivation]:
    """Put `QcfsActivation` in the place of each `ReLU` and `ReLU6` of a module, in place.

    Args:
        module: the trained float network; every ReLU a module of its own, used once.
        sample: a batch of inputs, from which the first θ is taken.
        levels: L, best the T of the converted program.
        quantile: of the positive activations: the first θ.

    Returns:
        The activations in the order in which they run.

    Raises:
        OptionError: a ReLU runs several times, or there is none.
    """
    seen: dict[nn.Module, list[float]] = {}

    def watch(activation: nn.Module, _inputs: object, output: Tensor) -> None:
        positive = output.detach()[output > 0].float().cpu().numpy()
        level = float(np.quantile(positive, quantile)) if positive.size else 1.0
        seen.setdefault(activation, []).append(level)

    names: dict[nn.Module, str] = {}
    modules: Iterable[tuple[str, nn.Module]] = cast(Any, module).named_modules()
    for name, child in modules:
        if isinstance(child, nn.ReLU | nn.ReLU6):
            names[child] = name
    hooks = [relu.register_forward_hook(watch) for relu in names]
    training = module.training
    module.eval()
    with torch.no_grad():
        module(sample)
    module.train(training)
    for hook in hooks:
        hook.remove()
    if not seen or any(len(levels_seen) > 1 for levels_seen in seen.values()):
        raise OptionError("replace_relus expects ReLU modules, each used once")
    activations: list[QcfsActivation] = []
    for relu, (level,) in seen.items():
        activation = QcfsActivation(level, levels).to(sample.device)
        parent, _, last = names[relu].rpartition(".")
        setattr(module.get_submodule(parent), last, activation)
        activations.append(activation)
    return activations


def replace_staircases(module: nn.Module) -> None:
    """Put min(max(x, 0), θ) in the place of each `QcfsActivation`, whose mean it is, in place."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, QcfsActivation):
                setattr(parent, name, nn.Hardtanh(0.0, float(child.threshold.detach().abs())))


def fine_tune(
    module: nn.Module,
    batches: Callable[[], Iterable[tuple[Tensor, Tensor]]],
    *,
    epochs: int = 1,
    rate: float = 3e-4,
    loss: Loss = nn.functional.cross_entropy,
) -> list[float]:
    """Train a network with its thresholds on; the mean loss of each epoch.

    Args:
        module: the network after `replace_relus`.
        batches: gives the batches of an epoch, inputs and targets.
        epochs: how many.
        rate: of Adam; it falls along a cosine to 0 over the epochs.
        loss: of results and targets.
    """
    optimizer = torch.optim.Adam(module.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    means: list[float] = []
    for _ in range(epochs):
        module.train()
        losses: list[float] = []
        for inputs, targets in batches():
            error = loss(module(inputs), targets)
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            losses.append(float(error.detach()))
        schedule.step()
        means.append(float(np.mean(losses)) if losses else 0.0)
    module.eval()
    return means


def trained_thresholds(activations: Iterable[QcfsActivation]) -> list[NDArray[np.float64]]:
    """The θ of each activation, for `ThresholdCalibrator.annotate`."""
    return [np.array(float(a.threshold.detach().abs()), np.float64) for a in activations]
