"""SANA-FE, a simulator of neuromorphic chips, as the measure of our energies.

`environment` makes its environment, `simulate` runs in it, `cases` has networks and where their
neurons stand; `recorded/` what SANA-FE gave.
"""
