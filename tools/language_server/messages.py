"""The compiler's messages as the editor shows them, and their fixes as actions.

A fix is data that the message carries; `ir.language.diagnostics` says how it is applied.
"""

from __future__ import annotations

from lsprotocol import types

from ...ir.language.diagnostics import Diagnostic, Edit
from ...ir.language.nodes import Span
from .ir import IrText
from .program import TriProgram
from .text import Text

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}


def messages(text: Text) -> list[types.Diagnostic]:
    """What is wrong with a text."""
    if isinstance(text.known, IrText):
        return [
            types.Diagnostic(text.range(p.span), p.message, _SEVERITIES["error"], source="triton")
            for p in text.known.problems
        ]
    return [_message(text, text.known, found) for found in text.known.diagnostics]


def _message(text: Text, program: TriProgram, found: Diagnostic) -> types.Diagnostic:
    span, said = found.span, found.message
    if span is None or span.file != program.file:
        said = said if span is None else f"{span}: {said}"
        span = next((d.span for d in program.program.declarations), Span(program.file, 1, 1, 1, 1))
    if found.suggestion is not None:
        said += f"\nhelp: {found.suggestion}"
    return types.Diagnostic(
        text.range(span),
        said,
        _SEVERITIES[found.severity],
        found.code or None,
        source="triton",
        tags=[types.DiagnosticTag.Unnecessary] if "never used" in found.message else None,
        related_information=[
            types.DiagnosticRelatedInformation(text.location(where), note)
            for note, where in found.notes
            if where is not None
        ],
    )


def fixes(
    text: Text, program: TriProgram, params: types.CodeActionParams
) -> list[types.CodeAction]:
    """What mends the messages in a range, one action each, and one for all of the text."""
    actions: list[types.CodeAction] = []
    every: list[Edit] = []
    first, last = params.range.start.line + 1, params.range.end.line + 1
    for found in program.diagnostics:
        if (
            found.span is None
            or not found.fix
            or any(edit.span.file != program.file for edit in found.fix)
        ):
            continue
        if not any(_overlap(edit.span, other.span) for edit in found.fix for other in every):
            every += found.fix
        if found.span.line <= last and first <= found.span.end_line:
            actions.append(
                types.CodeAction(
                    _title(found),
                    types.CodeActionKind.QuickFix,
                    [_message(text, program, found)],
                    is_preferred=True,
                    edit=types.WorkspaceEdit(changes={text.uri: text.edits(found.fix)}),
                )
            )
    only = params.context.only
    if every and (only is None or types.CodeActionKind.SourceFixAll in only):
        edit = types.WorkspaceEdit(changes={text.uri: text.edits(every)})
        kind = types.CodeActionKind.SourceFixAll
        actions.append(types.CodeAction("Apply all fixes", kind, edit=edit))
    return actions


def _title(found: Diagnostic) -> str:
    return (found.suggestion or found.message).replace("did you mean ", "Write ").rstrip("?")


def _overlap(a: Span, b: Span) -> bool:
    return a[1:3] <= b[3:] and b[1:3] <= a[3:]  # starts and ends, each by line and column
