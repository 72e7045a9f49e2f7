"""Programs as networks of populations and projections, and back: two passes and their parts.

Not here: the ops of networks (`dialects.spike`).
"""
