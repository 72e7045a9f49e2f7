"""The warning that a circuit is slower than the clock that was asked for, by the estimate."""

from __future__ import annotations

import sys
from typing import Any

from ..lowering.artifact import Artifact


def warn_missed_clock(artifact: Artifact, tool: str) -> None:
    """One line on stderr where the estimated clock is below the option `clock`."""
    report: Any = artifact.manifest.get("report")
    size = report.get("estimate") if isinstance(report, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if isinstance(size, dict) and not size.get("clock_reached", True):  # pyright: ignore[reportUnknownMemberType]
        print(
            f"{tool}: warning: the circuit reaches {size['clock_mhz']} MHz of "
            f"{size['clock_goal_mhz']:g} MHz by the estimate; held back by {size['slowest']}",
            file=sys.stderr,
        )
