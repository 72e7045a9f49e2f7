"""What the measurements share on their way to the reader: names asked for, tables, JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def chosen(text: str, known: Sequence[str], what: str) -> list[str]:
    """A list of names; stops the program at one that is unknown."""
    names = [part.strip() for part in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        program = f"benchmarks/{Path(sys.argv[0]).name}"
        sys.exit(f"{program}: error: no {what} '{unknown[0]}'; there are {', '.join(known)}")
    return names


def print_table(table: Table, width: int) -> None:
    """Print a table, on so many columns where there is no terminal."""
    Console(width=None if sys.stdout.isatty() else width).print(table)


def load_average() -> float | None:
    """How many processes wanted to run in the last minute, where the system tells."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def tell(
    figures: Sequence[DataclassInstance],
    show: Callable[[], object],
    *,
    as_json: bool,
    load: float | None,
) -> None:
    """Print figures with the number of processors and the load: as JSON, or as `show` does."""
    processors = os.cpu_count()
    if as_json:
        found = [asdict(figure) for figure in figures]
        print(json.dumps({"processors": processors, "load": load, "figures": found}, indent=2))
        return
    show()
    print(f"{processors} processors, load {load}")
