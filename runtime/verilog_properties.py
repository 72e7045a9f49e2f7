"""Proofs of the assertions in Verilog, by Yosys and ABC: for all time, or some cycles from reset.

Not here: equality of two modules (`verilog_equivalence`), and what is asserted.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from .verilog import run_tool
from .verilog_equivalence import check_provers


@dataclass(frozen=True)
class Outcome:
    """What was found.

    Attributes:
        holds: whether the assertions hold; `None` where the time was over before.
        seconds: for the proof.
    """

    holds: bool | None
    seconds: float


_SCRIPT = """\
read_verilog -formal {defines} {files}
prep -top {top} -flatten
memory_map
async2sync
opt -full
setundef -undriven -anyseq
techmap
dffunmap
opt_clean
aigmap
opt_clean
write_aiger -zinit asserted.aig
"""
"""Assumptions become constraints of the graph; registers without a first value hold anything."""


def prove_assertions(
    files: Mapping[str, str],
    top: str,
    folder: Path,
    *,
    seconds: float,
    cycles: int | None = None,
    defines: Sequence[str] = (),
) -> Outcome:
    """Whether assertions hold wherever assumptions do.

    Args:
        files: Verilog by name.
        top: the outermost module.
        folder: for all files.
        seconds: for all of it.
        cycles: from the beginning on; for all time where not given.
        defines: macros besides `FORMAL`.

    Raises:
        BackendError: a tool is missing, or refuses the Verilog.
    """
    check_provers()
    start = perf_counter()
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    words = " ".join(f"-D{name}" for name in defines)
    script = _SCRIPT.format(defines=words, files=" ".join(files), top=top)
    (folder / "assert.ys").write_text(script, encoding="utf-8")
    try:
        run_tool(["yosys", "-q", "assert.ys"], folder, seconds=max(0.1, seconds), last=True)
        left = seconds - (perf_counter() - start)
        engine = f"pdr -T {left:.0f}" if cycles is None else f"bmc3 -F {cycles} -T {left:.0f}"
        said = run_tool(
            ["yosys-abc", "-c", f"read asserted.aig; fold; strash; scorr; {engine}; print_status"],
            folder,
            seconds=max(0.1, left + 1),
            last=True,
        )
    except subprocess.TimeoutExpired:
        return Outcome(None, perf_counter() - start)
    holds = False if "was asserted in frame" in said else _is_proved(said, cycles) or None
    return Outcome(holds, perf_counter() - start)


def _is_proved(said: str, cycles: int | None) -> bool:
    """Whether ABC says that it is done, which it also is where no other state can be reached.

    Where its time was over it tells the cycles that it came to, by the same words.
    """
    if cycles is None:
        return "Property proved" in said
    came = re.search(r"No output asserted in (\d+) frames", said)
    return "Explored all reachable states" in said or (came is not None and int(came[1]) >= cycles)
