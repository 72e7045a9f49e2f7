"""How command lines speak: tables on stdout, everything else on stderr, JSON on request."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def print_json(value: Any) -> None:
    """One JSON document on stdout; keys sorted, numbers that JSON lacks as `null`."""
    json.dump(_finite(value), sys.stdout, indent=2, sort_keys=True, ensure_ascii=False)
    sys.stdout.write("\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}  # pyright: ignore
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]  # pyright: ignore
    return value


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table whose columns after the first are right-aligned when they hold numbers."""
    from rich.table import Table
    from rich.text import Text

    cells = [[_cell(value) for value in row] for row in rows]
    made = Table(title=Text(title), title_justify="left")
    for index, column in enumerate(columns):
        numeric = index > 0 and all(_is_number(row[index]) for row in cells)
        made.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        made.add_row(*(Text(cell) for cell in row))
    return made


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "-" if value is None else str(value)


def _is_number(cell: str) -> bool:
    return not cell or cell[0].isdigit() or cell[0] in "-+" or cell in ("nan", "inf")


def show(*renderables: Any) -> None:
    """Print tables and text on stdout; wide tables keep their columns when piped."""
    from rich.console import Console

    console = Console(soft_wrap=False, width=None if sys.stdout.isatty() else 160)
    for renderable in renderables:
        console.print(renderable)


def progress() -> Any:
    """A rich progress display on stderr, silent when stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)


def error(tool: str, message: str) -> None:
    """One error on stderr, with the tool's name unless the message names a source place."""
    first = message.split("\n", 1)[0]
    located = ": error: " in first or ": warning: " in first
    placeless = first.startswith(("error: ", "warning: "))
    prefix = "" if located else f"{tool}: " if placeless else f"{tool}: error: "
    print(prefix + message, file=sys.stderr)


def open_streams() -> None:
    """Put an empty file in the place of each standard stream that the caller closed (`>&-`)."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def guarded(tool: str, run: Callable[[], int]) -> int:
    """The exit code of `run`, or of the one message for what it raised; never a traceback.

    A defect of ours is one line too; with the variable TRITON_DEBUG set it is raised as it is.
    """
    from xdsl.utils.exceptions import DiagnosticException

    from ..ir.errors import TritonError

    open_streams()
    try:
        return run()
    except TritonError as wrong:
        error(tool, str(wrong))
        return wrong.exit_code
    except DiagnosticException as wrong:
        error(tool, " ".join(str(wrong).split()))
        return 1
    except KeyboardInterrupt:
        error(tool, "interrupted")
        return 130
    except BrokenPipeError:
        return 1
    except OSError as wrong:
        error(tool, f"{wrong.filename}: {wrong.strerror}" if wrong.filename else str(wrong))
        return 1
    except MemoryError as wrong:
        error(tool, " ".join(f"out of memory: {wrong}".rstrip(": ").split()))
        return 1
    except Exception as defect:
        if os.environ.get("TRITON_DEBUG"):
            raise
        reason = " ".join(str(defect).split())
        error(tool, f"internal error: {type(defect).__name__}: {reason} (set TRITON_DEBUG=1)")
        return 1
