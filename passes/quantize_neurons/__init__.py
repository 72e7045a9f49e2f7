"""Neurons, currents and trains on whole numbers.

Not here: layers without neurons (`quantize_activations`).
"""
