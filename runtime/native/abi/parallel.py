"""Kernels with their arguments in memory, and what a team of threads needs of an OpenMP runtime.

`to_native.kernels.parallel` generates the functions, `runtime.native` calls them. Not here:
the other functions of a kernel (`abi.linear`).
"""

from __future__ import annotations

CALL = "linear_call"
"""Takes the address of the `LINEAR_ARGUMENTS`, eight bytes each, and does what `linear` does."""

TASK = "linear_task"
"""Takes the same; called by every thread of a team, it does one call of `linear` together. Only in
modules that are asked for it: whoever loads such a module must name these three functions to the
loader, in the runtime that starts the team."""

CONV_CALL = "conv_call"
"""Takes the address of the `CONV_CALL_ARGUMENTS`, eight bytes each, and convolves all images."""
CONV_TASK = "conv_task"
"""Takes the same; every thread of a team does its share of the units (`ConvGeometry.units`)."""
CONV_CALL_ARGUMENTS = ("x", "weights", "y", "scratch", "scale", "bias", "batch")
"""Six pointers, one int64. A team needs the scratch memory of one thread as often as it has
threads. Without an epilogue, `scale` and `bias` are not read."""

BARRIER = "GOMP_barrier"
"""Waits for all threads of the team."""
THREAD_NUMBER = "omp_get_thread_num"
"""The number of this thread in its team, an int32."""
TEAM_SIZE = "omp_get_num_threads"
"""How many threads the team has, an int32."""
START = "GOMP_parallel"
"""Starts a team: a function, its argument, the number of threads, 0."""
