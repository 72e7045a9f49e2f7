"""`import_nir`: a NIR file or graph as a module with `spike.network`, and `@forward` to run it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import ModuleOp, StringAttr

from ...dialects.spike.models import INTEGRATIONS
from ...ir.errors import OptionError, SourceError, VerifyError
from .graph import Graph, NirData, close_ends, flat_graph
from .hdf5 import read_hdf5
from .network import Timing, network_module
from .shapes import infer_shapes

if TYPE_CHECKING:
    from nir import NIRNode

DEFAULT_DT = 1e-4
"""Seconds in a step where neither the caller nor the file says; that of nirtorch and snnTorch."""


class NirWarning(UserWarning):
    """A NIR graph that was repaired, or whose time does not fit its steps."""


def import_nir(
    source: Path | str | NIRNode, *, dt: float | None = None, integration: str | None = None
) -> ModuleOp:
    """A NIR graph as a module: `spike.network @net`, and `@forward`, which simulates it.

    NIR is in continuous time. Steps are `dt` long, by default as the file says that our own
    exporter wrote, else `DEFAULT_DT`; feedback takes a step where no Delay does. Arguments of
    `@forward` are currents f32 [T, N, shape…] of the Inputs, results what the Outputs get, both in
    the order of names.

    Args:
        source: a `.nir` file, or a `nir.NIRGraph` or other node.
        dt: seconds in a step.
        integration: `euler` or `exact`; by default as the file says, else `euler` unless a time
            constant is shorter than a step.

    Raises:
        SourceError: no NIR graph, or one that does not fit together and cannot be repaired.
        OptionError: `dt` or `integration` is wrong.
        BackendError: a file, and the `h5py` package is missing.

    Warns:
        NirWarning: every repair, by the names of nodes and edges.
    """
    if dt is not None and not 0 < dt < float("inf"):
        raise OptionError(f"dt expects seconds above 0, got {dt}")
    if integration not in (None, *INTEGRATIONS):
        raise OptionError(f"integration expects {' or '.join(INTEGRATIONS)}, got '{integration}'")
    file = isinstance(source, Path | str)
    where = str(source) if file else "NIR graph"
    data: object = read_hdf5(Path(source)) if file else source.to_dict()
    if not isinstance(data, dict):
        raise SourceError(f"{where}: no NIR graph")
    graph, notes = flat_graph(cast("NirData", data), where)
    notes += close_ends(graph, where)
    shapes = infer_shapes(graph, where)
    timing = _timing(graph, dt, integration, where)
    module = network_module(graph, shapes, timing, where, notes)
    stem = Path(source).stem if file else "model"
    module.sym_name = StringAttr(stem)
    for note in notes:
        warnings.warn(f"{where}: {note}", NirWarning, stacklevel=2)
    _verify(module, where)
    return module


def _timing(graph: Graph, dt: float | None, integration: str | None, where: str) -> Timing:
    metadata = graph.metadata
    if dt is None:
        dt = DEFAULT_DT
        try:
            dt = float(metadata.get("dt", DEFAULT_DT))  # pyright: ignore[reportArgumentType]
        except (TypeError, ValueError):
            raise SourceError(f"{where}: dt in its metadata is no number; give dt") from None
        if not 0 < dt < float("inf"):
            raise SourceError(f"{where}: dt in its metadata is {dt}; give dt")
    stated = metadata.get("integration")
    if integration is None and isinstance(stated, str) and stated in INTEGRATIONS:
        integration = stated
    return Timing(dt, integration)


def _verify(module: ModuleOp, where: str) -> None:
    from xdsl.utils.exceptions import VerifyException

    try:
        module.verify()
    except VerifyException as error:
        raise VerifyError(f"{where}: {error}") from None
