"""Float arithmetic between integer products as integers: multipliers, shifts and their merging.

`rescaling_fit`, `rescaling` and `division` find numbers with which the same steps cost least.

Not here: which values become integers (`quantize_activations`).
"""
