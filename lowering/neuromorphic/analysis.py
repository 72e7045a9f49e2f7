"""What a spiking program takes on a machine, and on several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import LoweringError, OptionError
from ..placement import Device, Placement, place
from ..placement.drive import Drive, drive_of
from ..placement.energy import EnergyMetrics, energy_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

SIDE_BY_SIDE = ("loihi2", "spinnaker1", "spin2-48node", "fpga", "cpu", "gpu")
"""Machines that are compared where none are named."""


@dataclass(frozen=True)
class EnergyAnalyzer:
    """What programs take on one machine.

    Args:
        device: a machine, its name, or the path of its file; see `placement.load_device`.
    """

    device: str | Path | Device

    def analyze(
        self, program: ModuleOp | Drive, inputs: Sequence[Array] = (), function: str = "forward"
    ) -> EnergyMetrics:
        """What a sample takes, on average over the inputs.

        Args:
            program: a spiking program, which stays as it is, or a run of one.
            inputs: of the program.
            function: its name.

        Raises:
            OptionError: no such machine.
            LoweringError: no spiking neurons, or they do not fit.
            UnsupportedError: ops between spikes and neurons that are no synapses.
        """
        drive = program if isinstance(program, Drive) else drive_of(program, inputs, function)
        return energy_of(drive, self.place(drive))

    def place(self, drive: Drive) -> Placement:
        """Where the neurons of a run stand."""
        return place(drive.workload, self.device)

    def samples(
        self, program: ModuleOp, inputs: Sequence[Array], function: str = "forward"
    ) -> Array:
        """What each sample takes where neurons stand as is best for all, J, f64 [samples, 2].

        Args:
            program: with samples on the first axis of its inputs, or on the second one of trains.
            inputs: of the program.
            function: its name.
        """
        whole = drive_of(program, inputs, function)
        placement, rows = self.place(whole), list[Array]()
        for n in range(whole.samples):
            one = [
                x[n : n + 1] if len(x) == whole.samples and x.dtype != np.bool_ else x[:, n : n + 1]
                for x in inputs
            ]
            rows.append(energy_of(drive_of(program, one, function), placement).total)
        return np.stack(rows)


@dataclass(frozen=True)
class ComparisonFramework:
    """What programs take on several machines.

    Args:
        devices: machines, their names, or paths of their files.
    """

    devices: Sequence[str | Path | Device] = SIDE_BY_SIDE

    def compare(
        self, program: ModuleOp | Drive, inputs: Sequence[Array] = (), function: str = "forward"
    ) -> Comparison:
        """What a sample takes on each; see `EnergyAnalyzer.analyze`.

        A machine that the program does not fit on is left out, with the reason.
        """
        if not self.devices:
            raise OptionError("a comparison needs a machine at least")
        drive = program if isinstance(program, Drive) else drive_of(program, inputs, function)
        found, left_out = list[EnergyMetrics](), dict[str, str]()
        for device in self.devices:
            try:
                found.append(EnergyAnalyzer(device).analyze(drive))
            except LoweringError as error:
                left_out[str(device)] = str(error)
        return Comparison(found, left_out)


@dataclass(frozen=True, eq=False)
class Comparison:
    """What one program takes on several machines.

    Attributes:
        machines: those that it fits on, in the order in which they were named.
        left_out: those that it does not fit on, with the reasons.
    """

    machines: Sequence[EnergyMetrics]
    left_out: Mapping[str, str]

    def to_dict(self) -> dict[str, object]:
        """What JSON has of it."""
        machines = {energy.device.name: energy.to_dict() for energy in self.machines}
        return {"machines": machines, "left_out": dict(self.left_out)}
