"""Native kernels at run time: compiled to machine code, kept on disk, called on arrays.

Nothing here knows how a kernel is made: it takes modules of the `llvm` dialect, and functions of
the form that `abi.linear` states.
"""
