"""The ways into the IR and out of it.

`from_*.py` are the frontends, `to_*` the emitters, one target a file or folder, and the driver runs
the stages that a target declares. Not here: rewrites that serve several targets (`passes`), and
whatever runs the result (`runtime`).
"""
