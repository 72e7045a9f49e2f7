"""The target `loihi2`: a folder with a Lava script, its arrays, and where neurons stand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ...dialects.parameters import module_of
from ...ir.arrays import Array
from ...ir.errors import LoweringError
from ...ir.identifiers import identifier
from ...ir.pipeline import option_text
from ...passes.calibration.observation import read_batches
from ..artifact import Artifact
from ..emission import Inexpressible, UnsupportedOps, entry_function, require_values
from ..options import TargetOptions, option
from ..placement import Workload, place
from ..placement.run import Driver
from ..stages import Stage
from ..target import Target
from .cores import drive, workload
from .fixed_point import SAMPLES
from .network import network_of
from .netx import netx_file
from .parts import LoihiNetwork
from .script import script_files


@dataclass(frozen=True)
class Loihi2Options(TargetOptions):
    """How floats become fixed point, and what is written."""

    form: Literal["script", "netx"] = option(
        "script", "a folder with a Lava script, or a .net file of lava-dl"
    )
    device: str = option("loihi2", "the machine of the core map: a name, or the path of its file")
    data: str | None = option(
        None, "samples of the inputs, by which scales are chosen and neurons placed"
    )
    peak: float = option(1.0, "the largest number that constant inputs hold, where no data tell")
    spikes: bool = option(False, "inputs of floats to synapses are 0 and 1: make them trains")


class Loihi2Target(Target[Loihi2Options]):
    """A network in the fixed-point arithmetic of Loihi 2."""

    name = "loihi2"
    holds_graded = False
    description = "spiking network for Intel's Loihi 2: a folder with a Lava script, or netx"
    Options = Loihi2Options
    engine = "triton_dsl.lowering.to_loihi2.engine:Loihi2Engine"
    backend = "triton_dsl.lowering.neuromorphic.machines:Loihi2Backend"

    def options_for(self, options: Loihi2Options, output: Path) -> Loihi2Options:
        """A path that ends in `.net` asks for netx."""
        return replace(options, form="netx") if output.suffix == ".net" else options

    def stages(self, options: Loihi2Options) -> Sequence[Stage]:
        """Networks and layers become ops on runs, and these fixed point."""
        words = ["spikes=true"] if options.spikes else []
        words += [option_text("data", (options.data,))] if options.data is not None else []
        words += [f"peak={options.peak}"] if options.peak != 1.0 else []
        convert = f"convert-spike-to-loihi{{{' '.join(words)}}}"
        return (
            Stage(
                "lower",
                "lower-network,inline-spike-layers,fuse-pools,canonicalize,split-synapses,canonicalize,cse,dce",
            ),
            Stage("fixed-point", f"{convert},canonicalize,cse,dce"),
        )

    def emit(self, module: ModuleOp, options: Loihi2Options) -> Artifact:
        """The files.

        Raises:
            UnsupportedError: names everything that is no part of a network of Loihi.
            LoweringError: no `@forward`, parameters without values, or it does not fit.
            OptionError: there is no such machine, or the samples do not fit.
            BackendError: netx, and the `h5py` package is missing.
        """
        function, network, name = self._read(module)
        try:
            if options.form == "netx":
                return Artifact(name, {f"{name}.net": netx_file(network)})
            files = script_files(network, name)
        except Inexpressible as reason:
            unsupported = UnsupportedOps(self.name)
            unsupported.add(function, str(reason))
            unsupported.raise_if_any()
            raise
        cores = place(_workload(function, network, name, options.data), options.device).to_dict()
        files["cores.json"] = (json.dumps(cores, indent=1, sort_keys=True) + "\n").encode()
        return Artifact(name, files)

    def driver(self, module: ModuleOp, options: Loihi2Options) -> Driver:
        """See `Target.driver`; errors as of `emit`."""
        function, network, name = self._read(module)
        work = _workload(function, network, name, options.data)
        return partial(drive, module, network, work)

    def _read(self, module: ModuleOp) -> tuple[FuncOp, LoihiNetwork, str]:
        """The function of a program in fixed point, its network, and what that is called."""
        require_values(module, "a network for Loihi 2")
        function = entry_function(module, self.name)
        unsupported = UnsupportedOps(self.name)
        network = network_of(function, unsupported)
        unsupported.raise_if_any(
            "docs/targets/loihi2.md says what becomes fixed point, and what is left to the caller"
        )
        if not network.populations:
            raise LoweringError("target 'loihi2' needs a program with spiking neurons; it has none")
        name = identifier(module.sym_name.data) if module.sym_name is not None else "network"
        return function, network, name


def _workload(function: FuncOp, network: LoihiNetwork, name: str, data: str | None) -> Workload:
    """The neurons to place: each fires in each step, or as often as on samples in a file."""
    work = workload(network, name)
    if data is None:
        return work
    module = module_of(function)
    batches = read_batches(function, data, size=SAMPLES, limit=SAMPLES)
    runs = [drive(module, network, work, batch).rates() for batch in batches]
    rates: dict[str, Array] = {
        part.name: np.mean([run[part.name] for run in runs], axis=0) for part in work.neurons
    }
    return workload(network, name, rates)
