"""A compiled program in phases, for one sample in several threads.

`lowering.to_native.program.phases` makes them, `runtime.native` runs them. Not here: parts of other
kernels (`parallel`), threads (`team_code`).

The function `forward_phase` is a function in parts (`abi.parallel`) for a batch of 1. Its argument
is the address of the arguments of `forward`, eight bytes each, and one number behind them: which
phase it is. A phase has as many things as the program's interface says; the next one begins when
all are done. The workspace is that of `forward`, and for each further member the bytes behind it
that the interface says.
"""

from __future__ import annotations

PHASE = "forward_phase"
