"""`HybridTrainer`: a trained network becomes a spiking one, which is trained on with its spikes.

Rathi et al. 2020, "Enabling deep spiking neural networks with hybrid conversion and spike timing
dependent backpropagation". Not here: the conversion, which is a function that the caller gives, or
that of the entry point `snn` in the group `triton_dsl.conversions`, so that nothing here compiles.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ...ir.errors import BackendError, OptionError, refuse
from ...ir.extras import plug_ins
from .config import TrainingConfig
from .data import Batches, Data
from .distillation import Distillation, DistillationLoss
from .objectives import Metric
from .spiking_run import SpikingRun
from .tracking import History
from .trainer import Trainer

Convert = Callable[[nn.Module, Tensor], nn.Module]


@dataclass(frozen=True)
class HybridReport:
    """What each network reaches on the validation data.

    Attributes:
        ann: loss and metrics of the network that was given.
        converted: those of the spiking one after conversion.
        tuned: those after training; of the converted one where training made it worse.
        history: of the training.
    """

    ann: dict[str, float]
    converted: dict[str, float]
    tuned: dict[str, float]
    history: History


class HybridTrainer:
    """Converts `ann` to a spiking network and trains that with surrogate gradients.

    Where training made it worse on the validation data, it stays as it was converted.

    Args:
        ann: gives logits for a batch; it is not changed.
        convert: gives the spiking network, a module with parameters, for a copy of `ann` in
            evaluation and inputs to calibrate with, on the processor; by default the compiler's
            conversion for `timesteps`.
        config: of the training.
        spiking: how the spiking network is run; none where it takes a batch and gives logits.
        distillation: learn from `ann`, besides or in the place of targets; none learns from targets
            alone.
        features: for names of the spiking network's layers, which give trains with time first,
            those of `ann` that they follow.
        metrics: as for `Trainer`.
        calibration: rows of the training data to calibrate with, at most.
        timesteps: of the default conversion.

    Attributes:
        module: the spiking network, after `fit` has begun.

    Raises:
        OptionError: a value that is not allowed.
    """

    def __init__(
        self,
        ann: nn.Module,
        convert: Convert | None = None,
        config: TrainingConfig | None = None,
        *,
        spiking: SpikingRun | None = None,
        distillation: DistillationLoss | None = None,
        features: Mapping[str, str] | None = None,
        metrics: Mapping[str, Metric] | None = None,
        calibration: int = 256,
        timesteps: int = 4,
    ) -> None:
        refuse(calibration < 1, f"calibration: expected at least 1 row, got {calibration}")
        if features and distillation is None:
            raise OptionError("features belong to a distillation with a feature_weight")
        self.ann, self.convert = ann, convert or partial(_compiled, timesteps=timesteps)
        self.config = TrainingConfig() if config is None else config
        self.spiking, self.distillation, self.features = spiking, distillation, features
        self.metrics, self.calibration = metrics, calibration
        self.module: nn.Module | None = None

    def fit(self, train: Data, validation: Data) -> HybridReport:
        """Convert, train, and measure before and after.

        Args:
            train: as for `Trainer.fit`.
            validation: the same.

        Raises:
            OptionError: data that does not fit, or a conversion that gives nothing to train.
        """
        teacher = copy.deepcopy(self.ann).eval()
        plain = Trainer(teacher, self.config, metrics=self.metrics)
        before = plain.evaluate(validation)
        self.module = self._converted(train)
        trainer = Trainer(
            self.module,
            self.config,
            spiking=self.spiking,
            loss=None if self.distillation is None else self._objective(teacher, self.distillation),
            metrics=self.metrics,
        )
        converted = trainer.evaluate(validation)
        state = copy.deepcopy(self.module.state_dict())
        history = trainer.fit(train, validation)
        tuned = trainer.evaluate(validation)
        if _is_worse(tuned, converted):
            self.module.load_state_dict(state)
            tuned = converted
        return HybridReport(before, converted, tuned, history)

    def _converted(self, train: Data) -> nn.Module:
        first = next(Batches(train, self.calibration).epoch(0)).inputs[: self.calibration]
        with torch.no_grad():
            module = self.convert(copy.deepcopy(self.ann).cpu().eval(), first.cpu())
        if not any(p.requires_grad for p in module.parameters()):
            raise OptionError("the converted network has no parameters that require gradients")
        return module

    def _objective(self, teacher: nn.Module, loss: DistillationLoss) -> Distillation:
        return Distillation(teacher, loss, features=self.features)


def _compiled(network: nn.Module, inputs: Tensor, timesteps: int) -> nn.Module:
    """The network by the conversion of the compiler."""
    for entry in plug_ins("triton_dsl.conversions", "snn"):
        return entry.load()(network, inputs, timesteps)
    raise BackendError("no conversion is installed: give one as convert=…")


def _is_worse(tuned: Mapping[str, float], converted: Mapping[str, float]) -> bool:
    """By accuracy where it is measured, else by loss."""
    if "accuracy" in tuned:
        return tuned["accuracy"] < converted["accuracy"]
    return tuned["loss"] > converted["loss"]
