"""Compiling for a command line: the artefact, and on stderr what is to be known of a circuit.

Not here: where the artefact is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..lowering.artifact import Artifact
from ..lowering.targets import compile_to_target
from .console import show, table, warn

if TYPE_CHECKING:
    from rich.table import Table
    from xdsl.dialects.builtin import ModuleOp

_FEW = 1000
"""Of so many sums, one that roundings decide is worth a warning; fewer stand in the report."""


def compile_told(
    tool: str,
    module: ModuleOp,
    target: str,
    *,
    self_check: bool,
    output: str | None,
    dump_stages: Path | None,
) -> Artifact:
    """The artefact of a program; `tool` warns of what a circuit leaves out or does not reach.

    Raises:
        TritonError: see `compile_to_target`.
    """
    artifact = compile_to_target(
        module,
        target,
        None if self_check else {"self_check": False},
        output=Path(output) if output else None,
        dump_stages=dump_stages,
    )
    forms = folding_table(artifact)
    if forms is not None:
        show(forms, to_stderr=True)
    warn_left_out(artifact, tool)
    warn_undecided(artifact, tool)
    warn_missed_clock(artifact, tool)
    return artifact


def _report(artifact: Artifact) -> dict[str, Any]:
    report = artifact.manifest.get("report")
    return cast("dict[str, Any]", report) if isinstance(report, dict) else {}


def folding_table(artifact: Artifact) -> Table | None:
    """A table a layer: its form, its cycles and its area; `None` where nothing was chosen."""
    folding = _report(artifact).get("folding")
    if folding is None:
        return None
    from ..lowering.to_verilog.report import COLUMNS, folding_rows, folding_title

    return table(folding_title(folding), COLUMNS, folding_rows(folding))


def warn_left_out(artifact: Artifact, tool: str) -> None:
    """One line where a last softmax or sigmoid is left to the receiver, see `expose_logits`."""
    steps = [step for steps in _report(artifact).get("left_out") or () for step in steps]
    if steps:
        names = ", ".join(dict.fromkeys(step["op"] for step in steps))
        warn(
            tool,
            "the circuit gives the integers of the logits, with their scale in the report; "
            f"{names} is left to the receiver",
        )


def warn_undecided(artifact: Artifact, tool: str) -> None:
    """One line where roundings of floats decide between levels of many sums, see `streamline`."""
    found = _report(artifact).get("undecided") or ()
    many = [sums for sums in found if sums["undecided"] * _FEW >= sums["sums"]]
    if many:
        places = ", ".join(f"{m['undecided']} of {m['sums']} sums of {m['name']}" for m in many)
        warn(
            tool,
            f"at {places} a float program decides by how it rounds each element; there the "
            "circuit, which knows the sum, may give the next level",
        )


def warn_missed_clock(artifact: Artifact, tool: str) -> None:
    """One line where a circuit is slower, by the estimate, than the option `clock` asks for."""
    size = _report(artifact).get("estimate")
    if isinstance(size, dict) and not size.get("clock_reached", True):  # pyright: ignore[reportUnknownMemberType]
        warn(
            tool,
            f"the circuit reaches {size['clock_mhz']} MHz of {size['clock_goal_mhz']:g} MHz by "
            f"the estimate; held back by {size['slowest']}",
        )
