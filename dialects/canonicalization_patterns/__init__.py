"""Patterns of `canonicalize`, a file for each dialect, named like it.

`traits.CanonicalizableOp` finds them when the pass asks, by the dialect's name: the patterns know
the ops, and the ops know no pattern. A file has `patterns_of`, which gives those of an op class.
"""
