"""`OptimizationEngine`: the conversion of a float network that takes least energy on a machine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...dialects.interpret import run_module
from ...ir.arrays import Array
from ...ir.errors import LoweringError, OptionError, first_line, refuse
from ..conversion import convert_to_snn
from ..models import Model, import_for
from ..placement import Device, load_device, place
from ..placement.energy import EnergyMetrics, energy_of
from ..targets import get_target
from .analysis import driven

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True, eq=False)
class Tried:
    """One conversion on the machine.

    Attributes:
        timesteps: of it.
        price: of a spike, by which thresholds were chosen; see `convert_to_snn`.
        neurons_per_core: the most that a core was given.
        accuracy: the share of right answers, of what runs on the machine.
        energy: of a sample.
        module: the spiking program.
    """

    timesteps: int
    price: float
    neurons_per_core: int
    accuracy: float
    energy: EnergyMetrics
    module: ModuleOp


@dataclass(frozen=True, eq=False)
class Optimized:
    """What was found.

    Attributes:
        best: of those that are accurate enough, that with the least energy.
        tried: all, in the order in which they were tried.
    """

    best: Tried
    tried: Sequence[Tried]


@dataclass(frozen=True)
class OptimizationEngine:
    """Searches steps, thresholds and how neurons are shared among cores.

    Args:
        device: a machine, its name, or the path of its file; see `placement.load_device`.
        timesteps: that are tried.
        prices: of spikes; the higher, the fewer spikes and the higher the thresholds.
        shares: parts of `neurons_per_core` that a core is given.
    """

    device: str | Path | Device
    timesteps: Sequence[int] = (1, 2, 4, 8)
    prices: Sequence[float] = (0.001, 0.004, 0.016)
    shares: Sequence[float] = (1.0, 0.25, 1 / 16)

    def optimize(
        self,
        program: Model,
        samples: Array,
        inputs: Array,
        *,
        accuracy: float,
        labels: Array | None = None,
    ) -> Optimized:
        """The conversion with the least energy, by the most that sources say.

        Args:
            program: a float program of one argument, which stays as it is.
            samples: by which it is converted, [count, …].
            inputs: others, on which accuracy and energy are measured, [count, …].
            accuracy: the least share of right answers, from 0 to 1.
            labels: the classes of `inputs`; without them the float program is right.

        Raises:
            OptionError: nothing to try, or nothing is accurate enough; with the best.
            LoweringError: it does not fit on the machine.
        """
        for name, tried_of in (("timesteps", self.timesteps), ("prices", self.prices)):
            refuse(not tried_of, f"OptimizationEngine: {name} needs one at least")
        if not self.shares or not all(0 < share <= 1 for share in self.shares):
            raise OptionError(
                f"OptimizationEngine: shares expects parts above 0 up to 1, got {self.shares}"
            )
        if not len(inputs) or (labels is not None and np.shape(labels) != (len(inputs),)):
            got = "none" if labels is None else f"labels {list(np.shape(labels))}"
            raise OptionError(f"expected inputs, and a label for each, got {len(inputs)} and {got}")
        module = import_for(program, [samples])
        if labels is None:
            labels = np.argmax(run_module(module, [inputs])[0], axis=1)
        device = load_device(self.device)
        target = get_target(device.target) if device.target else None
        tried: list[Tried] = []
        for steps, price in product(self.timesteps, self.prices):
            spiking = convert_to_snn(
                module,
                samples,
                steps,
                price=price,
                pools="auto" if target is None or target.holds_graded else "before",
                reset="subtract" if target is None or target.subtracts else "to_value",
            )
            drive = driven(spiking, device)([inputs])
            right = np.argmax(drive.outputs[0], axis=1) == labels
            for share in self.shares:
                most = max(1, int(device["neurons_per_core"] * share))
                limited = device.with_constraints({"neurons_per_core": most})
                try:
                    energy = energy_of(drive, place(drive.workload, limited))
                except LoweringError as error:
                    if share == max(self.shares):
                        raise
                    warnings.warn(first_line(error), stacklevel=2)
                    continue
                tried.append(Tried(steps, price, most, float(right.mean()), energy, spiking))
        enough = [one for one in tried if one.accuracy >= accuracy]
        if not enough:
            best = max((one.accuracy for one in tried), default=0.0)
            raise OptionError(
                f"no conversion has an accuracy of {accuracy:g}; the best has {best:g}"
            )
        return Optimized(min(enough, key=lambda one: float(one.energy.total[1])), tried)
