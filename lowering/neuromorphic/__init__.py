"""Neuromorphic machines as a user sees them: what runs there, what it takes, what takes less.

`backend` is one interface to all of them, `machines` those that are here; `analysis` says what a
program takes on a machine and on others beside it, `optimization` which conversion takes least. Not
here: files for them (`to_loihi2`, `to_spinnaker`, `to_c`), and where neurons stand and what that
costs (`placement`).
"""
