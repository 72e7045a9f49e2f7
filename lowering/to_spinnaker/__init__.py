"""The SpiNNaker target: a `spike.network` as a PyNN script with arrays, for sPyNNaker and NEST.

`neurons` says a population in PyNN's numbers, `timing` when each runs, `synapses` lists and
kernels, `network` all of it as data, `run.py.txt` is the script that reads them, `engine` runs it
in NEST. Not here: which core takes what (`lowering.placement`).
"""
