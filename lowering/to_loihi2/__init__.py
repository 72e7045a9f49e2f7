"""The target `loihi2`: spiking networks for Intel's Loihi 2, as a folder with a Lava script.

`fixed_point` brings neurons of floats to the chip's arithmetic, `network` reads what there is then,
`synapses` its weights as the chip holds them, `script` and `netx` write it. Not here: the neurons
(`dialects.spike.loihi`), which are the simulator, and where they stand (`lowering.placement`).
"""
