"""Ternary kernels for processors: functions in xDSL's `llvm` dialect, made for an instruction set.

`recipes` is the table of instruction sets, `code` the layer over the dialect that all kernels are
written with. Not here: whole programs (`to_native.program`), machine code
(`lowering.to_native`), running it (`runtime.native`).
"""
