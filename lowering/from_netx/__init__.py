"""The netx front end: a network of lava-dl, in the HDF5 of its module netx, becomes IR.

`layers` reads and checks what the file says, `importer` writes the ops. Not here: the way back
(`lowering.to_loihi2`), and HDF5 itself (`lowering.hdf5_file`).
"""

from .importer import NetxWarning, import_netx

__all__ = ["NetxWarning", "import_netx"]
