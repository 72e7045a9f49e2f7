"""Ternary networks of well-known shapes, as PyTorch modules built from `runtime.layers`.

Each is untrained. Not here: training (`examples`), networks written in `.tri`.
"""
