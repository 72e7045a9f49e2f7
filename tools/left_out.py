"""The warning that a circuit ends before the program does, see `passes.expose_logits`."""

from __future__ import annotations

import sys
from typing import Any

from ..lowering.artifact import Artifact


def warn_left_out(artifact: Artifact, tool: str) -> None:
    """One line on stderr where a last softmax or sigmoid is left to the receiver."""
    report: Any = artifact.manifest.get("report")
    names: list[str] = []
    if isinstance(report, dict) and report.get("left_out"):  # pyright: ignore[reportUnknownMemberType]
        names = [step["op"] for steps in report["left_out"] for step in steps]  # pyright: ignore[reportUnknownVariableType]
    if names:
        print(
            f"{tool}: warning: the circuit gives the integers of the logits, with their scale in "
            f"the report; {', '.join(dict.fromkeys(names))} is left to the receiver",
            file=sys.stderr,
        )
