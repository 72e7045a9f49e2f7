"""`Engine`: a module on its device, its forward passes, losses and sums of metrics.

What training and evaluation share. Not here: taking steps (`run`), settings and data (`trainer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..device_choice import resolve_amp_config
from .data import Batch, Batches, derived_seed
from .distributed import Processes
from .objectives import Metric, Objective, evaluating, metrics_of, sum_type
from .spiking_run import SpikingRun

Sums = dict[str, Tensor]
"""Sums over rows by name, `rows` the number of these."""


@dataclass(frozen=True)
class Engine:
    """A module, and how it is run.

    Attributes:
        module: on the device of `processes`.
        processes: this process among others.
        objective: what training makes small.
        spiking: how a spiking network is run.
        metrics: by name; `None` is `accuracy` where targets are classes.
        precision: of products, as `TrainingConfig` has it.
        seed: of rate coding.
    """

    module: nn.Module
    processes: Processes
    objective: Objective
    spiking: SpikingRun | None
    metrics: Mapping[str, Metric] | None
    precision: str
    seed: int

    @property
    def device(self) -> torch.device:
        """Where the module is."""
        return self.processes.device

    def mixed_precision(self) -> tuple[torch.dtype | None, bool]:
        """The type of products (`None`: that of operands), and whether losses are scaled."""
        if self.precision == "auto":
            policy = resolve_amp_config(self.device)
            return policy["dtype"], policy["use_grad_scaler"]
        if self.precision == "float16":
            return torch.float16, self.device.type != "mps"
        return (torch.bfloat16 if self.precision == "bfloat16" else None), False

    def autocast(self) -> AbstractContextManager[object]:
        """A block in which products run in that type."""
        dtype, _ = self.mixed_precision()
        return nullcontext() if dtype is None else torch.autocast(self.device.type, dtype=dtype)

    def forward(self, x: Tensor, seed: int, first: int = 0) -> Tensor:
        """The outputs [N, …] for rows of a batch, of which `first` rows stand before these."""
        if self.spiking is None:
            return self.module(x)
        return self.spiking(self.module, x, seed, first)

    def moved(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Inputs and targets on the device."""
        return batch.inputs.to(self.device), batch.targets.to(self.device)

    def measured(self, loss: Tensor, outputs: Tensor, targets: Tensor) -> Sums:
        """The sums of `loss` and the metrics over the rows of `targets`."""
        dtype, rows = sum_type(self.device), len(targets)
        functions: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
            "loss": lambda outputs, targets: loss,
            **metrics_of(self.metrics, targets),
        }
        zero = torch.zeros((), dtype=dtype, device=self.device)
        with torch.no_grad():
            sums = {
                name: function(outputs, targets).detach().to(dtype) * rows if rows else zero
                for name, function in functions.items()
            }
        return {**sums, "rows": zero + rows}

    def means(self, sums: Sums) -> dict[str, float]:
        """The means over the rows of all processes."""
        stacked: Any = self.processes.sum(torch.stack(list(sums.values())))
        totals: dict[str, float] = dict(zip(sums, stacked.tolist(), strict=True))
        rows = totals.pop("rows")
        return {name: total / rows for name, total in totals.items()}

    def evaluate(self, batches: Batches) -> dict[str, float]:
        """The loss without what only training adds, and the metrics; the mode is put back."""
        sums: Sums = {}
        with torch.no_grad(), evaluating(self.module):
            for index, batch in enumerate(batches.epoch(0)):
                x, y = self.moved(batch)
                with self.autocast():
                    outputs = self.forward(x, self.evaluation_seed(index), batch.first)
                    loss = self.objective.loss(outputs, y) if len(x) else outputs.sum()
                sums = added(sums, self.measured(loss, outputs, y))
        return self.means(sums)

    def predict(self, x: Tensor, size: int) -> Tensor:
        """The outputs for `x` in evaluation, `size` rows at a time, on the processor."""
        with torch.no_grad(), evaluating(self.module), self.autocast():
            outputs = [
                self.forward(rows.to(self.device), self.evaluation_seed(index)).cpu()
                for index, rows in enumerate(cast(Any, x).split(size))
            ]
        return torch.cat(outputs)

    def evaluation_seed(self, batch: int) -> int:
        """The seed of rate coding for a batch of an evaluation."""
        return derived_seed(self.seed, 4, batch)

    def training_seed(self, epoch: int, step: int) -> int:
        """The seed of rate coding for a batch of an epoch."""
        return derived_seed(self.seed, 3, epoch, step)


def added(a: Sums, b: Sums) -> Sums:
    """The sums of both; an empty one counts as zeros."""
    return {name: a[name] + b[name] for name in b} if a else b
