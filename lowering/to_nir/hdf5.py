"""A NIR graph as an HDF5 file, laid out as `nir.write` does; same graph, same bytes."""

from __future__ import annotations

import numpy as np

from ..from_nir.graph import Graph
from ..hdf5_file import write_hdf5

VERSION = "1.0.8"
"""The release of NIR whose layout the file has."""


def write_graph(graph: Graph) -> bytes:
    """The bytes of the file; no times in it.

    Raises:
        BackendError: the `h5py` package is missing.
    """
    edges = np.array(sorted(graph.edges), dtype=object).reshape(-1, 2)
    nodes = {
        name: {"type": n.kind, **n.values, **({"metadata": n.metadata} if n.metadata else {})}
        for name, n in sorted(graph.nodes.items())
    }
    content = {"edges": edges, "metadata": graph.metadata, "nodes": nodes, "type": "NIRGraph"}
    return write_hdf5({"node": content, "version": VERSION})
