"""Lava, Intel's framework for Loihi, in an environment of its own, and what it gave.

`environment` makes the environment, `record` runs in it, `recorded` holds what the tests compare
with.
"""
