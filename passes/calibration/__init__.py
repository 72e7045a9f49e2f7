"""What values a program takes on samples, and the grids that are chosen for them.

Not here: the passes that ask (`quantize_activations`, `balance_thresholds`, `normalize_weights`).
"""
