"""What a spiking program takes on a machine, and on several side by side.

Where a target makes files for the machine, the neurons are those of the files, with their names,
and they stand where the files say; programs that it refuses, and machines without a target, get
the neurons of the program as given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import LoweringError, PassError, UnsupportedError, first_line, refuse
from ...ir.interpreter import entry_function
from ...passes.analysis.time_axis import has_time_first
from ..placement import Device, load_device, place
from ..placement.drive import drive_of
from ..placement.energy import EnergyMetrics, energy_of
from ..placement.run import Drive, Driver
from ..targets import driver

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

SIDE_BY_SIDE = ("loihi2", "spinnaker1", "spin2-48node", "fpga", "cpu", "gpu")
"""Machines that are compared where none are named."""


@dataclass(frozen=True)
class EnergyAnalyzer:
    """What programs take on one machine.

    Args:
        device: a machine, its name, or the path of its file; see `placement.load_device`.
        options: of the target that makes files for it.
    """

    device: str | Path | Device
    options: Mapping[str, object] = field(default_factory=dict[str, object])

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
        device = load_device(self.device)
        run = program
        if not isinstance(run, Drive):
            run = driven(run, device, function, self.options)(inputs)
        return energy_of(run, place(run.workload, device))

    def samples(
        self, program: ModuleOp, inputs: Sequence[Array], function: str = "forward"
    ) -> Array:
        """What each sample takes where neurons stand as is best for all, J, f64 [samples, 2].

        Args:
            program: with samples on the first axis of its inputs, or on the second one of trains.
            inputs: of the program.
            function: its name.
        """
        device = load_device(self.device)
        run = driven(program, device, function, self.options)
        whole = run(inputs)
        placement, rows = place(whole.workload, device), list[Array]()
        axes = [int(has_time_first(value)) for value in entry_function(program, function).args]
        for n in range(whole.samples):
            one = [x.take([n], axis) for x, axis in zip(inputs, axes, strict=True)]
            rows.append(energy_of(run(one), placement).total)
        return np.stack(rows)


def driven(
    module: ModuleOp,
    device: Device,
    function: str = "forward",
    options: Mapping[str, object] | None = None,
    given: Driver | None = None,
) -> Driver:
    """What runs a program as the files for a machine have it, else as it is given.

    Args:
        module: a spiking program, which stays as it is.
        device: the machine; its `target` makes the files.
        function: the function; targets take `forward`.
        options: of the target.
        given: what runs it as given, where that is known; by default `drive_of`.
    """
    given = given or partial(drive_of, module, function=function)
    if not device.target:
        return given
    reason = "targets take @forward"
    if function == "forward":
        try:
            run = driver(module, device.target, {**(options or {}), "device": device.text})
        except UnsupportedError as error:
            reason = f"{error.problems[0][0]} {error.problems[0][2]}"
        except (LoweringError, PassError) as error:
            reason = first_line(error)
        else:
            return run or given
    refused = f"target '{device.target}' does not take it: {reason}"
    return lambda inputs: replace(given(inputs), refused=refused)


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
        refuse(not self.devices, "a comparison needs a machine at least")

        @cache
        def given() -> Drive:
            assert not isinstance(program, Drive)
            return drive_of(program, inputs, function)

        found, left_out = list[EnergyMetrics](), dict[str, str]()
        for device in map(load_device, self.devices):
            run = program
            if not isinstance(run, Drive):
                run = driven(run, device, function, given=lambda _: given())(inputs)
            try:
                found.append(energy_of(run, place(run.workload, device)))
            except LoweringError as error:
                left_out[device.text] = str(error)
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
        """What JSON has of it, machines as they were named."""
        machines = {energy.device.text: energy.to_dict() for energy in self.machines}
        return {"machines": machines, "left_out": dict(self.left_out)}
