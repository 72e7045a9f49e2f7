"""Float arithmetic between integer products as integers: multipliers, shifts and their merging.

Not here: which values become integers (`quantize_activations`).
"""
