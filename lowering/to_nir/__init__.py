"""The NIR target: a `spike.network` as a graph of the Neuromorphic Intermediate Representation.

`graph` makes NIR's nodes and edges of a network, `nodes` each node, `forms` says a graph in other
words, `hdf5` writes the bytes of the file.
Not here: the way back (`lowering.from_nir`).
"""
