"""The table of chosen forms that commands show before they write a circuit."""

from __future__ import annotations

from typing import Any

from ..lowering.artifact import Artifact
from .console import table


def folding_table(artifact: Artifact) -> Any:
    """A table a layer: its form, its cycles and its area; `None` where nothing was chosen."""
    from ..lowering.to_verilog.folding import COLUMNS, Folding, folding_rows, folding_title

    report: Any = artifact.manifest.get("report") or {}
    folding: Folding | None = report.get("folding")
    if folding is None:
        return None
    return table(folding_title(folding), COLUMNS, folding_rows(folding))


def show_folding(artifact: Artifact) -> None:
    """Print that table on stderr, if there is one."""
    made = folding_table(artifact)
    if made is None:
        return
    import sys

    from rich.console import Console

    console = Console(stderr=True, soft_wrap=False, width=None if sys.stderr.isatty() else 160)
    console.print(made)
