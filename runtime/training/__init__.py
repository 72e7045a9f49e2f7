"""Training float, ternary and spiking modules of PyTorch: `trainer.Trainer` and what it is made of.

Not here: layers and networks (`runtime.layers`, `runtime.models`, `runtime.spiking`), and the
conversion of networks, which is the compiler's. Nothing is imported here, so that PyTorch is loaded
only by the module that needs it.
"""
