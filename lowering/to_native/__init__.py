"""Native code: programs to modules of the `llvm` dialect, and these to object files by llvmlite.

`linalg` makes loops of tensors, `program` plans memory and calls, `kernels` computes products with
trits and spikes, `llvm` has arithmetic and functions; `callables` compiles and loads in one call.
Not here: loading objects and running them (`runtime.native`).
"""
