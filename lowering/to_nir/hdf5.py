"""Writes a NIR graph as an HDF5 file, laid out as `nir.write` does; same graph, same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from types import ModuleType
from typing import TYPE_CHECKING, cast

import numpy as np

from ..from_nir.graph import Graph
from ..from_nir.hdf5 import h5py_module

if TYPE_CHECKING:
    import h5py

VERSION = "1.0.8"
"""The release of NIR whose layout the file has."""

_PACKED_FROM = 1024
"""Bytes from which on values are worth packing."""


def write_hdf5(graph: Graph) -> bytes:
    """The bytes of the file; no times in it.

    Raises:
        BackendError: the `h5py` package is missing.
    """
    h5py = h5py_module()
    edges = np.array(sorted(graph.edges), dtype=object).reshape(-1, 2)
    nodes = {
        name: {"type": n.kind, **n.values, **({"metadata": n.metadata} if n.metadata else {})}
        for name, n in sorted(graph.nodes.items())
    }
    content = {"edges": edges, "metadata": graph.metadata, "nodes": nodes, "type": "NIRGraph"}
    buffer = BytesIO()
    with h5py.File(buffer, "w") as file:
        _write(h5py, file, {"node": content, "version": VERSION})
    return buffer.getvalue()


def _write(h5py: ModuleType, group: h5py.Group, content: Mapping[str, object]) -> None:
    for name, value in content.items():
        if isinstance(value, Mapping):
            _write(h5py, group.create_group(name), cast("Mapping[str, object]", value))
            continue
        array = np.asarray(value)
        options: dict[str, object] = {"track_times": False}
        if isinstance(value, str) or array.dtype == object:
            options["dtype"] = h5py.string_dtype()
        elif array.nbytes >= _PACKED_FROM:
            options["compression"] = "gzip"
        group.create_dataset(name, data=value, **options)
