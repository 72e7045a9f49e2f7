"""The target `loihi2`: a folder with a Lava script, its arrays, and where neurons stand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from ...ir.arrays import Array
from ...ir.errors import LoweringError
from ...ir.pipeline import option_text
from ..artifact import Artifact
from ..emission import Inexpressible, UnsupportedOps, entry_function, identifier, require_values
from ..options import TargetOptions, option
from ..placement import Placement
from ..placement.drive import Drive
from ..stages import Stage, run_stages
from ..target import Target
from .cores import driven, measured, placed
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
            Stage("lower", "lower-network,inline-spike-layers,fuse-pools,canonicalize,cse,dce"),
            Stage("fixed-point", f"{convert},canonicalize,cse,dce"),
        )

    def emit(self, module: ModuleOp, options: Loihi2Options) -> Artifact:
        """The files.

        Raises:
            UnsupportedError: names everything that is no part of a network of Loihi.
            LoweringError: no `@forward`, or parameters without values.
            BackendError: netx, and the `h5py` package is missing.
        """
        require_values(module, "a network for Loihi 2")
        function = entry_function(module, self.name)
        unsupported = UnsupportedOps(self.name)
        network = network_of(function, unsupported)
        unsupported.raise_if_any(
            "docs/targets/loihi2.md says what becomes fixed point, and what is left to the caller"
        )
        if not network.populations:
            raise LoweringError("target 'loihi2' needs a program with spiking neurons; it has none")
        name = _name(module)
        try:
            if options.form == "netx":
                return Artifact(name, {f"{name}.net": netx_file(network)})
            files = script_files(network, name)
        except Inexpressible as reason:
            unsupported.add(function, str(reason))
            unsupported.raise_if_any()
            raise
        cores = self.placement(module, network, name, options).to_dict()
        files["cores.json"] = (json.dumps(cores, indent=1, sort_keys=True) + "\n").encode()
        return Artifact(name, files)

    def placement(
        self, module: ModuleOp, network: LoihiNetwork, name: str, options: Loihi2Options
    ) -> Placement:
        """Where the neurons of a network stand."""
        rates = None if options.data is None else measured(module, network, options.data)
        return placed(network, name, options.device, rates)

    def run_placed(
        self, module: ModuleOp, options: Loihi2Options, inputs: Sequence[Array]
    ) -> tuple[Drive, Placement]:
        """See `Target.run_placed`."""
        run_stages(module, self.stages(options))
        network = network_of(entry_function(module, self.name), UnsupportedOps(self.name))
        name = _name(module)
        placement = self.placement(module, network, name, options)
        return driven(module, network, name, inputs), placement


def _name(module: ModuleOp) -> str:
    return identifier(module.sym_name.data) if module.sym_name is not None else "network"
