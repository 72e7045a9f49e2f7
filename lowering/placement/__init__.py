"""Placement of spiking networks on neuromorphic machines: who stands on which core of which chip.

`place` is the way in. `workload` says of a network what counts here, neurons with their spikes and
who reaches whom (`connectivity`); `device` what a machine has, `device_file` reads it;
`slicing` cuts populations to what a core holds, `cores` puts slices on cores and cores on chips,
`routing` gives keys and counts entries of routers, `placement` is the result. Not here: what a
target writes for its cores (`lowering.to_loihi2`, `lowering.to_spinnaker`).
"""

from .device import Device
from .device_file import device_names, device_text, load_device
from .placement import Placement, Slice
from .planner import place
from .workload import Neurons, Synapses, Workload, workload_of

__all__ = [
    "Device",
    "Neurons",
    "Placement",
    "Slice",
    "Synapses",
    "Workload",
    "device_names",
    "device_text",
    "load_device",
    "place",
    "workload_of",
]
