"""NIR graphs in another framework that reads them, where one is installed: Norse or snnTorch.

The frameworks step and reset neurons in their own ways; a difference here is one between two
readings of the file.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib.metadata import version
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from ...ir.arrays import Array
from ...ir.errors import BackendError, first_line
from ...runtime.engines import from_array, to_array
from ..from_nir.importer import DEFAULT_DT
from .source import Source

if TYPE_CHECKING:
    from nir import NIRGraph
    from torch import Tensor, nn


class NIRSource(Source):
    """A NIR graph with one input and one output.

    Args:
        path: of the file.
        dt: seconds in a step; by default as the file says.
    """

    def __init__(self, path: Path, dt: float | None = None) -> None:
        self.path, self.dt = path, dt
        self.size = path.stat().st_size
        self.engine = "none"

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Source.run`; currents [T, N, …], each sample by itself."""
        import nir
        import torch

        package = next((name for name in PEERS if find_spec(name) is not None), None)
        if package is None:
            names = " or ".join(PEERS)
            raise BackendError(f"no other framework that reads NIR is installed: {names}")
        if len(inputs) != 1:
            raise BackendError(f"{package} takes one input, the graph has {len(inputs)}")
        try:
            with torch.no_grad(), warnings.catch_warnings(), redirect_stdout(StringIO()):
                warnings.simplefilter("ignore")
                graph = nir.read(self.path)
                if self.dt is not None:
                    graph.metadata["dt"] = self.dt
                samples = from_array(inputs[0]).unbind(1)
                outputs = [_simulated(PEERS[package](graph), sample) for sample in samples]
        except BackendError:
            raise
        except Exception as error:  # frameworks raise whatever they meet
            text = first_line(error)
            raise BackendError(f"{package} refuses the graph: {text}") from error
        self.engine = f"{package} {version(package)}"
        return [to_array(torch.stack(outputs, 1))]


def _simulated(module: nn.Module, currents: Tensor) -> Tensor:
    """What a module gives at each step, from rest."""
    import torch

    state = None
    outputs: list[Tensor] = []
    for current in currents:
        output, state = module(current, state)
        outputs.append(output)
    return torch.stack(outputs)


_NORSE_TAKES = {
    "IF": {"r": 1, "v_reset": 0},
    "LIF": {"r": 1, "v_reset": 0},
    "CubaLIF": {"v_reset": 0},
}
"""Numbers of neurons that Norse does not read."""


def _norse(graph: NIRGraph) -> nn.Module:
    for node in graph.nodes.values():
        kind = type(node).__name__
        for key, taken in _NORSE_TAKES.get(kind, {}).items():
            if (getattr(node, key) != taken).any():
                raise BackendError(f"Norse takes {key} of {kind} as {taken}, whatever a file says")
    from norse.torch import from_nir  # pyright: ignore

    return from_nir(graph, ignore_warnings=True, dt=_step(graph))  # pyright: ignore


def _snntorch(graph: NIRGraph) -> nn.Module:
    if any(type(node).__name__ == "IF" for node in graph.nodes.values()):
        raise BackendError("snnTorch reads IF as a leaky neuron that loses a tenth in a step")
    if _step(graph) != DEFAULT_DT:
        raise BackendError(f"snnTorch steps by {DEFAULT_DT:g} s, the graph by {_step(graph):g} s")
    from snntorch.import_nir import import_from_nir  # pyright: ignore

    return import_from_nir(graph)  # pyright: ignore


def _step(graph: NIRGraph) -> float:
    return float(graph.metadata.get("dt", DEFAULT_DT))


PEERS: dict[str, Callable[[NIRGraph], nn.Module]] = {"norse": _norse, "snntorch": _snntorch}
"""Packages that read NIR, the first one that is installed runs; they make a module of a graph."""
