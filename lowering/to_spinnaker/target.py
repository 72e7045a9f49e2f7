"""The target `spinnaker`: a folder with a PyNN script, its arrays, and where everything stands."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ...dialects.spike import NetworkOp
from ...dialects.spike.network_graph import nodes
from ...dialects.spike.neuron import FiringOp
from ...ir.arrays import Array
from ...ir.errors import LoweringError, OptionError
from ..artifact import Artifact
from ..emission import UnsupportedOps, require_values
from ..network_module import NetworkPorts, network_ports
from ..options import TargetOptions, option
from ..placement import Workload, load_device, place, workload_of
from ..placement.run import Driver
from ..stages import apply_passes
from ..target import Target
from .network import PyNNNetwork

BUILD = "fuse-pools,canonicalize,split-synapses,canonicalize,cse,dce,build-network"
"""What makes a network of a spiking program."""

RESET = (
    "does not reset to a value, as IF_curr_delta does; train or convert with reset 'to_value' "
    "(convert-ann-to-snn{reset=to_value}, triton convert -t spinnaker), or take Loihi"
)
"""Why neurons are refused that subtract their threshold, and the way out."""

SCRIPT = Path(__file__).parent / "run.py.txt"


@dataclass(frozen=True)
class SpiNNakerOptions(TargetOptions):
    """On which machine, and how steps run."""

    device: str = option("spinnaker1", "machine to place on: a name, or a .toml file")
    step_ms: float = option(1.0, "milliseconds of a step on the machine and in NEST")
    nest_only: bool = option(
        False, "allow what 16.15 bits of SpiNNaker cannot hold, to run in NEST"
    )
    activity: str | None = option(
        None, ".npz of measured spikes a neuron and step, by population, to place by"
    )


class SpiNNakerTarget(Target[SpiNNakerOptions]):
    """A PyNN script for the one network of a module."""

    name = "spinnaker"
    holds_graded = False
    subtracts = False
    description = "PyNN script and arrays of a spiking network, for SpiNNaker 1 and 2 and NEST"
    Options = SpiNNakerOptions
    engine = f"{__package__}.engine:NestEngine"
    backend = "triton_dsl.lowering.neuromorphic.machines:SpiNNakerBackend"

    def emit(self, module: ModuleOp, options: SpiNNakerOptions) -> Artifact:
        """The folder: `run.py`, `network.json`, `network.npz`, `placement.json`.

        Raises:
            UnsupportedError: names everything that PyNN cannot say.
            OptionError: no such machine, no length of a step, or no activity.
            LoweringError: not one network, parameters without values, or it does not fit.
        """
        network, op, ports, work = self._read(module, options)
        placement = place(work, options.device)
        files = {
            "run.py": SCRIPT.read_bytes(),
            "network.json": _json({**network.data, **_ordered(ports, op)}),
            "network.npz": _npz(network.arrays),
            "placement.json": _json(placement.to_dict()),
        }
        return Artifact(op.sym_name.data, files, {"cores": placement.cores})

    def driver(self, module: ModuleOp, options: SpiNNakerOptions) -> Driver:
        """See `Target.driver`; errors as of `emit`."""
        network, _, _, work = self._read(module, options)
        return partial(network.drive, module, work)

    def _read(
        self, module: ModuleOp, options: SpiNNakerOptions
    ) -> tuple[PyNNNetwork, NetworkOp, NetworkPorts, Workload]:
        """The network that a program is, in PyNN's words too, how it is run, and its neurons."""
        if not 0 < options.step_ms < 1000:
            raise OptionError(
                f"target 'spinnaker': step-ms expects 0 to 1000, got {options.step_ms:g}"
            )
        slots = load_device(options.device)["delay_slots"] or 16
        unsupported = UnsupportedOps(self.name)
        require_values(module, "a PyNN script")
        names = {op.name for op in module.walk()}
        if NetworkOp.name not in names and any(name.startswith("spike.") for name in names):
            for op in module.walk():
                if isinstance(op, FiringOp) and op.reset.data != "to_value":
                    unsupported.add(op, RESET)
            unsupported.raise_if_any()
            apply_passes(module, BUILD)
        ports = network_ports(module, unsupported, "a PyNN script", "PyNN has no form", around=True)
        networks = [op for op in module.body.block.ops if isinstance(op, NetworkOp)]
        written = [
            PyNNNetwork(op, options.step_ms, slots, options.nest_only, unsupported.add, ports.held)
            for op in networks
        ]
        unsupported.raise_if_any(ports.hint)
        if len(written) != 1:
            raise LoweringError(
                f"target 'spinnaker' needs a module with one spike.network, got {len(written)}"
            )
        (network,), (op,) = written, networks
        work = network.workload(workload_of(op, _activity(options.activity)))
        return network, op, ports, work


def _ordered(ports: NetworkPorts, op: NetworkOp) -> dict[str, object]:
    shapes = {name: node.shape.get_values() for name, node in nodes(op).items()}
    return {
        "arguments": list(ports.arguments),
        "results": list(ports.results),
        "steps": ports.steps,
        "held": {name: list(shapes[name]) for name in ports.held},
        "means": list(ports.means),
    }


def _json(data: object) -> bytes:
    return (json.dumps(data, indent=1) + "\n").encode()


def _npz(arrays: Mapping[str, Array]) -> bytes:
    """Arrays as `np.load` reads them; the same arrays give the same bytes."""
    buffer = io.BytesIO()
    # At NumPy's level of 6, lists of synapses take longer than all else.
    with ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, array, allow_pickle=False)
            archive.writestr(ZipInfo(f"{name}.npy"), data.getvalue(), ZIP_DEFLATED, 2)
    return buffer.getvalue()


def _activity(path: str | None) -> dict[str, Array] | None:
    if path is None:
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError) as error:
        raise OptionError(f"activity '{path}': {error}") from None
