"""Native code: modules of the `llvm` dialect to object files, by way of llvmlite.

Not here: making such modules (`passes.convert_ternary_to_llvm`, `passes.ternary_kernels`), nor
loading objects and running them (`runtime.native`).
"""
