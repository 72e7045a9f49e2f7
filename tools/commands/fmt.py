"""`triton fmt`: programs in one layout."""

from __future__ import annotations

import sys
from difflib import unified_diff

import typer

from ...ir.errors import TritonError
from ...ir.language.format import format_source
from ...ir.language.parser import read_source
from ...ir.safe_write import PendingFiles
from ..console import error
from .options.programs import Fmt


def fmt(options: Fmt) -> None:
    """Format each file in place, or say what would change."""
    failed = changed = False
    for file in options.files:
        stdin = str(file) == "-"
        try:
            source = sys.stdin.read() if stdin else read_source(file)
            formatted = format_source(source, None if stdin else file)
        except TritonError as wrong:
            error("triton", str(wrong))
            failed = True
            continue
        if stdin and not (options.check or options.diff):
            sys.stdout.write(formatted)
            continue
        if formatted == source:
            continue
        changed = True
        if options.diff:
            _print_diff(str(file), source, formatted)
        elif options.check:
            print(f"would change {file}")
        else:
            with PendingFiles() as pending:
                pending.add(file, formatted.encode())
            print(f"changed {file}")
    if failed or (changed and options.check):
        raise typer.Exit(1)


def _print_diff(name: str, old: str, new: str) -> None:
    lines = unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), name, f"{name} (formatted)"
    )
    sys.stdout.writelines(line if line.endswith("\n") else line + "\n" for line in lines)
