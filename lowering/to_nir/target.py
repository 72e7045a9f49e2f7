"""The target `nir`: the file of the network in a module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from ...dialects.spike import NetworkOp
from ...ir.errors import LoweringError, OptionError
from ...ir.identifiers import identifier
from ..artifact import Artifact
from ..emission import UnsupportedOps, require_values
from ..network_module import network_ports
from ..options import TargetOptions, option
from ..target import Target
from .forms import retimed
from .graph import graph_of
from .hdf5 import write_graph


@dataclass(frozen=True)
class NirOptions(TargetOptions):
    """What a file says of time and resets."""

    dt: float | None = option(
        None, "seconds in a step; time constants follow, so that a step does the same"
    )
    v_reset: bool = option(True, "state v_reset where it is 0 too, which nir before 1.0.5 refuses")
    resets: Literal["refuse", "metadata", "nodes"] = option(
        "refuse", "neurons that do not reset to a value: refuse, as nodes, or say it in metadata"
    )


class NirTarget(Target[NirOptions]):
    """A NIR graph of the one network of a module."""

    name = "nir"
    holds_graded = False
    description = "NIR graph (HDF5) of a spiking network, for neuromorphic simulators and chips"
    Options = NirOptions

    def emit(self, module: ModuleOp, options: NirOptions) -> Artifact:
        """The `.nir` file.

        Raises:
            UnsupportedError: names everything that NIR cannot hold.
            OptionError: `dt` is no time.
            LoweringError: not one network, or parameters without values.
            BackendError: the `h5py` package is missing.
        """
        if options.dt is not None and not 0 < options.dt < float("inf"):
            raise OptionError(f"target 'nir': dt expects seconds above 0, got {options.dt:g}")
        networks = [op for op in module.body.block.ops if isinstance(op, NetworkOp)]
        unsupported = UnsupportedOps(self.name)
        require_values(module, "a NIR file")
        graphs = [graph_of(network, unsupported, options.resets) for network in networks]
        ports = network_ports(module, unsupported, "a NIR file", "NIR has no node")
        unsupported.raise_if_any(ports.hint)
        if len(graphs) != 1:
            raise LoweringError(
                f"target 'nir' needs a module with one spike.network, got {len(graphs)}"
            )
        name = identifier(module.sym_name.data) if module.sym_name is not None else "network"
        graph = graphs[0] if options.dt is None else retimed(graphs[0], options.dt)
        for node in graph.nodes.values():
            if not options.v_reset and "v_reset" in node.values and not node.array("v_reset").any():
                del node.values["v_reset"]
        return Artifact(name, {f"{name}.nir": write_graph(graph)})
