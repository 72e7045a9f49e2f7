"""`import_nir`: a NIR file or graph as a module with `spike.network`, and `@forward` to run it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr

from ...dialects.spike.models import INTEGRATIONS
from ...ir.errors import OptionError, SourceError, VerifyError, refuse
from ...ir.neurons.arithmetic import RESETS
from ..hdf5_file import read_hdf5
from .graph import RESET, Graph, NirData, close_ends, flat_graph
from .network import Timing, network_module
from .shapes import infer_shapes

if TYPE_CHECKING:
    from nir import NIRNode

DEFAULT_DT = 1e-4
"""Seconds in a step where neither the caller nor the file says; that of snnTorch, SpikingJelly."""

UNIT_DT = 1.0
"""The same where nothing in the graph has a time but integrators: they add r·i a step."""

UNTIMED = ("I", "IF")
"""The primitives that integrate without a time constant."""


class NirWarning(UserWarning):
    """A NIR graph that was repaired, or whose time does not fit its steps."""


def import_nir(
    source: Path | str | NIRNode,
    *,
    dt: float | None = None,
    integration: str | None = None,
    reset: str | None = None,
) -> ModuleOp:
    """A NIR graph as a module: `spike.network @net`, and `@forward`, which simulates it.

    NIR is in continuous time. Steps are `dt` long, by default as the file says that our own
    exporter wrote, else `DEFAULT_DT`, or `UNIT_DT` for integrators alone; feedback takes a step
    where no Delay does. Arguments of `@forward` are currents f32 [T, N, shape…] of the Inputs,
    results what the Outputs get, both in the order of names.

    Args:
        source: a `.nir` file, or a `nir.NIRGraph` or other node.
        dt: seconds in a step.
        integration: `euler` or `exact`; by default as the file says, else `euler` unless a time
            constant is shorter than a step.
        reset: what neurons do after a spike: `to_value` (v_reset), `subtract` (the threshold) or
            `none`; by default as the metadata of each says, else `to_value`.

    Raises:
        SourceError: no NIR graph, or one that does not fit together and cannot be repaired.
        OptionError: `dt`, `integration` or `reset` is wrong.
        BackendError: a file, and the `h5py` package is missing.

    Warns:
        NirWarning: every repair, by the names of nodes and edges.
    """
    if dt is not None and not 0 < dt < float("inf"):
        raise OptionError(f"dt expects seconds above 0, got {dt}")
    words = (("integration", integration, INTEGRATIONS), ("reset", reset, RESETS))
    for name, word, known in words:
        refuse(word not in (None, *known), f"{name} expects {' or '.join(known)}, got '{word}'")
    file = isinstance(source, Path | str)
    where = str(source) if file else "NIR graph"
    data: object = read_hdf5(Path(source), "node", "NIR graph") if file else source.to_dict()
    if not isinstance(data, dict):
        raise SourceError(f"{where}: no NIR graph")
    graph, notes = flat_graph(cast("NirData", data), where)
    if reset is not None:
        for node in graph.nodes.values():
            node.metadata = {RESET: reset} if "v_reset" in node.values else {}
    notes += close_ends(graph, where)
    shapes = infer_shapes(graph, where, notes)
    timing = _timing(graph, dt, integration, where, notes)
    module = network_module(graph, shapes, timing, where, notes)
    stem = Path(source).stem if file else "model"
    module.sym_name = StringAttr(stem)
    for note in notes:
        warnings.warn(f"{where}: {note}", NirWarning, stacklevel=2)
    _verify(module, where)
    return module


def _timing(
    graph: Graph, dt: float | None, integration: str | None, where: str, notes: list[str]
) -> Timing:
    metadata = graph.metadata
    if dt is None:
        try:
            stated = metadata["dt"] if "dt" in metadata else _assumed_dt(graph, notes)
            dt = float(stated)  # pyright: ignore[reportArgumentType]
        except (TypeError, ValueError):
            raise SourceError(f"{where}: dt in its metadata is no number; give dt") from None
        if not 0 < dt < float("inf"):
            raise SourceError(f"{where}: dt in its metadata is {dt}; give dt")
    stated = metadata.get("integration")
    if integration is None and isinstance(stated, str) and stated in INTEGRATIONS:
        integration = stated
    return Timing(dt, integration)


def _assumed_dt(graph: Graph, notes: list[str]) -> float:
    """Seconds in a step where nobody says: `UNIT_DT` where integrators alone have a time.

    Integrators of r = 1/`DEFAULT_DT`, as SpikingJelly writes them, add their input whole in steps
    of that; beside time constants or delays in seconds, others do not, which `notes` is told, as
    it is of an r above 1 in steps of `UNIT_DT`.
    """
    others = {n: node.array("r") for n, node in graph.nodes.items() if node.kind in UNTIMED}
    others = {n: r for n, r in others.items() if not np.allclose(r * DEFAULT_DT, 1, rtol=1e-6)}
    if not others:
        return DEFAULT_DT
    timed = {
        name
        for name, node in graph.nodes.items()
        if node.kind == "Delay" or any(key.startswith("tau") for key in node.values)
    }
    for name, r in sorted(others.items()):
        if not timed:
            if (r > 1).any():
                notes.append(
                    f"'{name}' ({graph.nodes[name].kind}) adds r = {r.max():g} times its input in "
                    f"a step; where r means 1/dt, as to SpikingJelly, give dt={1 / r.max():g}"
                )
            continue
        notes.append(
            f"'{name}' ({graph.nodes[name].kind}) adds r·dt = {r.max() * DEFAULT_DT:g} of its "
            f"input in a step of {DEFAULT_DT:g} s, because '{min(timed)}' has a time in seconds; "
            "frameworks that step it by 1 add all of it: give dt, or make r 1/dt"
        )
    return DEFAULT_DT if timed else UNIT_DT


def _verify(module: ModuleOp, where: str) -> None:
    from xdsl.utils.exceptions import VerifyException

    try:
        module.verify()
    except VerifyException as error:
        raise VerifyError(f"{where}: {error}") from None
