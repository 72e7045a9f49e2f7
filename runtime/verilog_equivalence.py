"""Proofs that two Verilog modules are equal, by Yosys and ABC.

Yosys makes graphs of and gates of both, ABC finds them equal for every input or gives an input for
which they are not. Nothing here knows what the modules are, nor compiles a program to Verilog.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Literal

from ..ir.errors import BackendError
from .verilog import run_tool

TOOLS = ("yosys", "yosys-abc")

Registers = Literal["none", "wires", "for ever"] | int
"""What becomes of registers: there are `none`; they count as `wires`, which is right for pipelines
whose paths all have as many, with the enable at 1; or they begin with zeros and count in so many
cycles, or `for ever`."""


@dataclass(frozen=True)
class Verdict:
    """What was found.

    Attributes:
        equal: whether the modules are equal; `None` where the time was over before.
        gates: of both graphs together, and gates of two inputs.
        seconds: for the proof.
    """

    equal: bool | None
    gates: int
    seconds: float


def check_provers() -> None:
    """Refuse a machine without the tools.

    Raises:
        BackendError: names those that are missing.
    """
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        raise BackendError(
            f"proofs need {' and '.join(missing)}, which come with Yosys: install it, on Debian "
            "'apt-get install yosys'"
        )


def prove_equal(
    files: Mapping[str, str],
    sides: tuple[str, str],
    folder: Path,
    *,
    seconds: float,
    registers: Registers = "none",
) -> Verdict:
    """Whether two modules with the same ports give the same for every input.

    Args:
        files: Verilog by name.
        sides: the names of the two modules.
        folder: for all files.
        seconds: for all of it.
        registers: what becomes of them.

    Raises:
        BackendError: a tool is missing, or refuses the Verilog.
    """
    check_provers()
    start = perf_counter()
    for name, content in {**files, _WIRES: _WIRES_TEXT}.items():
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "read.ys").write_text(
        _script(list(files), sides, registers == "wires"), encoding="utf-8"
    )
    if _run(["yosys", "-q", "read.ys"], folder, seconds) is None:
        return Verdict(None, 0, perf_counter() - start)
    graphs = [f"{side}.aig" for side in sides]
    gates = sum(_gates(folder / graph) for graph in graphs)
    left = seconds - (perf_counter() - start)
    commands: list[str] = []
    if isinstance(registers, int):
        commands += [f"read {each}; frames -i -F {registers}; write {each}" for each in graphs]
    prove = (
        "dsec" if registers == "for ever" else f"cec -C {_CONFLICTS} -T {_ROUNDED_UP + left:.0f}"
    )
    said = _run(
        ["yosys-abc", "-c", "; ".join([*commands, f"{prove} {' '.join(graphs)}"])], folder, left
    )
    equal = None
    if said is not None and "Networks are equivalent" in said:
        equal = True
    elif said is not None and "NOT EQUIVALENT" in said:
        equal = False
    return Verdict(equal, gates, perf_counter() - start)


_CONFLICTS = 1_000_000_000
"""ABC gives up after so many: the time is over before."""

_ROUNDED_UP = 1
_WIRES = "wires.map"

_WIRES_TEXT = r"""
module \$dff (CLK, D, Q);
  parameter WIDTH = 1;
  parameter CLK_POLARITY = 1;
  input CLK;
  input [WIDTH-1:0] D;
  output [WIDTH-1:0] Q;
  assign Q = D;
endmodule
"""
"""A register of Yosys as a wire."""


def _script(files: Sequence[str], sides: Sequence[str], wires: bool) -> str:
    """Two graphs of and gates, `SIDE.aig`."""
    script = f"read_verilog {' '.join(files)}\nhierarchy -check\nproc\ndesign -save both\n"
    simplify = f"opt -full -nodffe -nosdff\ntechmap -map {_WIRES}\n" if wires else ""
    for side in sides:
        script += (
            f"design -load both\nhierarchy -top {side}\nflatten\n{simplify}opt -full\nwreduce\n"
            "setundef -init -zero\ntechmap\ndffunmap\nopt_clean\n"
            f"aigmap\nwrite_aiger -zinit {side}.aig\n"
        )
    return script


def _gates(graph: Path) -> int:
    """And gates, from the first line of an AIGER file: `aig M I L O A`."""
    with graph.open("rb") as file:
        return int(file.readline().split()[5])


def _run(command: Sequence[str], folder: Path, seconds: float) -> str | None:
    """What a tool said; `None` if it took too long."""
    try:
        return run_tool(command, folder, seconds=max(0.1, seconds), last=True)
    except subprocess.TimeoutExpired:
        return None
