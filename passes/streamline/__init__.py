"""Functions of floats that have few values, as comparisons of integers.

As FINN's streamlining (Umuroglu and Jahre 2017, arXiv:1709.04060). Not here: networks that have no
quantisers yet (`quantize_activations`).
"""
