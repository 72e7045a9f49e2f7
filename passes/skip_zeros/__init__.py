"""Weights, channels and neurons that do nothing, taken out.

Not here: constants that fold (`fold_constants`).
"""
