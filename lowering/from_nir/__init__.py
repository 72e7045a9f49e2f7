"""The NIR frontend: a graph of the Neuromorphic Intermediate Representation becomes IR.

`hdf5` reads a file from strangers, `graph` repairs and flattens, `shapes` finds what flows along
each edge, `network` writes the `spike.network`. Not here: the way back (`lowering.to_nir`).
"""

from .importer import DEFAULT_DT, NirWarning, import_nir

__all__ = ["DEFAULT_DT", "NirWarning", "import_nir"]
