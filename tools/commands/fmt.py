"""`triton fmt`: programs in one layout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...ir.errors import TritonError


def fmt(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Programs; '-' reads stdin.", show_default=False),
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if a file would change.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; print what would.")] = False,
) -> None:
    """Format programs in place.

    Example: triton fmt model.tri
    """
    from ...ir.language.format import format_source
    from ...ir.language.parser import read_source
    from ...ir.safe_write import PendingFiles
    from ..console import error

    failed = changed = False
    for file in files:
        stdin = str(file) == "-"
        try:
            source = sys.stdin.read() if stdin else read_source(file)
            formatted = format_source(source, None if stdin else file)
        except TritonError as wrong:
            error("triton", str(wrong))
            failed = True
            continue
        if stdin and not (check or diff):
            sys.stdout.write(formatted)
            continue
        if formatted == source:
            continue
        changed = True
        if diff:
            _print_diff(str(file), source, formatted)
        elif check:
            print(f"would change {file}")
        else:
            with PendingFiles() as pending:
                pending.add(file, formatted.encode())
            print(f"changed {file}")
    if failed or (changed and check):
        raise typer.Exit(1)


def _print_diff(name: str, old: str, new: str) -> None:
    from difflib import unified_diff

    lines = unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), name, f"{name} (formatted)"
    )
    sys.stdout.writelines(line if line.endswith("\n") else line + "\n" for line in lines)
