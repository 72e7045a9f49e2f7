"""What runs a compiled model, and what it runs on: engines, packed tensors, devices, measurements.

Also networks of PyTorch to compile: their layers (`layers`, `spiking`, `models`) and `training`.

A module here takes finished artefacts and arrays. It does not compile: nothing in this folder
imports `lowering` or `passes`, and of `ir` and `dialects` only types.
"""
