"""One interface to every kind of processor that PyTorch runs on: `triton_dsl.backends`.

A backend places, prepares and measures models on a kind of device (`base`, `processors`), and is
made by name (`factory`). What it may do to a model stands in `strategies`, and which of it at what
level in `optimizers`. Not here: what this machine has (`runtime.devices`), and backends of the
compiler, which write artefacts (`triton_dsl.targets`).
"""
