"""Spiking networks in PyTorch: neurons, layers, coding, spike tensors, training through time.

The equations are those of the dialect `spike`, where their sources stand; the same currents give
the same spikes. Time is the first axis: a train is a float tensor [T, batch, …] of zeros and ones.
Not here: compiling or converting networks. Nothing is imported here, so that PyTorch is loaded only
by the module that needs it.
"""
