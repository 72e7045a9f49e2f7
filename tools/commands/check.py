"""`triton check`: every error and warning of programs, without compiling them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ...ir.errors import CompilationError, TritonError
from ...ir.language.checker import TypeChecker
from ...ir.language.diagnostics import Diagnostic, render
from ...ir.language.nodes import Span
from ...ir.language.parser import read_source
from ..console import diagnose, error, print_json
from .options.programs import Check


def check(options: Check) -> None:
    """Check each file, whatever is wrong with the others; exits with 1 when one has errors."""
    failed = False
    report: list[dict[str, Any]] = []
    for file in options.files:
        diagnostics, message = _check_file(file)
        failed = failed or message is not None
        entries = [_as_dict(d) for d in diagnostics]
        if message is not None and not entries:
            entries = [{"severity": "error", "message": message}]
        report.append({"file": str(file), "ok": message is None, "diagnostics": entries})
        if not options.json:
            if message is not None:
                error("triton", message)
            else:
                print(f"{file}: no errors")
    if options.json:
        print_json(report)
    if failed:
        raise typer.Exit(1)


def _check_file(file: Path) -> tuple[list[Diagnostic], str | None]:
    if file.suffix != ".tri":
        from ...lowering.models import import_model

        try:
            import_model(file)
        except TritonError as error:
            return [], str(error)
        return [], None
    try:
        source = read_source(file)
        typed = TypeChecker().check_source(source, file)
    except CompilationError as wrong:
        return [d for d in wrong.diagnostics if isinstance(d, Diagnostic)], str(wrong)
    except TritonError as wrong:
        return [], str(wrong)
    for warning in typed.warnings:
        diagnose(render(warning, {str(file): source}))
    return list(typed.warnings), None


def _as_dict(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "suggestion": diagnostic.suggestion,
        "fix": [{**_place(edit.span), "text": edit.text} for edit in diagnostic.fix],
        "notes": [{**_place(where), "message": text} for text, where in diagnostic.notes],
        **_place(diagnostic.span),
    }


def _place(span: Span | None) -> dict[str, Any]:
    """Lines and columns begin at 1, and the end column is behind the text."""
    keys = ("file", "line", "column", "end_line", "end_column")
    return {key: getattr(span, key, None) for key in keys}
