"""The ways into the IR and out of it.

`from_*.py` are the frontends, `to_*` the targets, with all that leads to one target alone: its
conversions, kernels and estimates. The driver runs the stages that a target declares. Here, too,
generating is joined with running, for users in Python: `conversion`, `ternarization`, `simulator`,
`to_native.callables`. Not here: rewrites that serve several targets (`passes`), and whatever runs
the result (`runtime`).
"""
