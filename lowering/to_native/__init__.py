"""Native CPU kernels: functions in xDSL's `llvm` dialect, made for an instruction set.

Not here: compiling and running them (`runtime.native`), nor joining the two (`tools.native`).
"""
