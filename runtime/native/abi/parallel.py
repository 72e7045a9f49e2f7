"""Kernels with their arguments in memory, whole or in parts that threads take.

`to_native.kernels.parallel` generates the functions, `runtime.native` calls them. Not here:
the other functions of a kernel (`abi.linear`), who takes which part (`team_code`).

A part is called with five arguments of eight bytes each:

    void part(const void *arguments, int64_t phase, int64_t first, int64_t end, int64_t member)

It does the things from `first` to `end` of a phase, in any order, and beside others that do theirs.
The next phase begins when all things of this one are done. `member` tells those who are at work at
the same time apart: each has scratch memory of its own. Who takes what never changes a result.
"""

from __future__ import annotations

CALL = "linear_call"
"""Takes the address of the `LINEAR_ARGUMENTS`, eight bytes each, and does what `linear` does."""
PART = "linear_part"
"""A part of the same: prepares rows in the first phase, computes panels in the second."""
