"""The server: requests of the protocol, answered from `program` for `.tri` files and `ir` for IR.

pygls speaks the protocol and keeps the texts. A text is read once a version; its messages are sent
shortly after the last key. Not here: anything about the language.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from ...ir.errors import TritonError
from ...ir.language.format import format_source
from ...ir.language.nodes import FunctionDef, LayerDef, Let, ParamDef, Span
from .completion import offers, open_call
from .described import header, hover, parameters, shape
from .ir import IrText
from .messages import fixes, messages
from .program import TriProgram
from .text import Text

DELAY = 0.002
"""Seconds without a key before messages are sent: a burst of keys is checked once."""

_NAME = "triton-lsp"
_KINDS = {
    "argument": types.CompletionItemKind.Field,
    "function": types.CompletionItemKind.Function,
    "keyword": types.CompletionItemKind.Keyword,
    "layer": types.CompletionItemKind.Class,
    "member": types.CompletionItemKind.Property,
    "type": types.CompletionItemKind.TypeParameter,
    "value": types.CompletionItemKind.EnumMember,
    "variable": types.CompletionItemKind.Variable,
}
R = TypeVar("R")


class TritonServer(LanguageServer):
    """The server with the texts that it has read."""

    def __init__(self) -> None:
        super().__init__(_NAME, version("triton-dsl"))
        self._texts: dict[str, tuple[int | None, Text]] = {}
        self._waiting: dict[str, asyncio.TimerHandle] = {}

    def text(self, uri: str) -> Text:
        """What is known of an open text, in its newest version."""
        document = self.workspace.get_text_document(uri)
        held = self._texts.get(uri)
        if held is None or held[0] != document.version:
            codec = self.workspace.position_codec
            held = document.version, Text(uri, document.source, Path(document.path), codec)
            self._texts[uri] = held
        return held[1]

    def changed(self, uri: str) -> None:
        """Send the messages of a text once it rests."""
        if uri in self._waiting:
            self._waiting[uri].cancel()
        self._waiting[uri] = asyncio.get_running_loop().call_later(DELAY, self._publish, uri)

    def forget(self, uri: str, *, closed: bool) -> None:
        """Read a text anew when it is asked for; nothing more of one that is closed."""
        self._texts.pop(uri, None)
        if closed:
            waiting = self._waiting.pop(uri, None)
            if waiting is not None:
                waiting.cancel()
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def open_texts(self) -> list[str]:
        """The texts that are open."""
        return list(self._texts)

    def _publish(self, uri: str) -> None:
        self._waiting.pop(uri, None)
        document = self.workspace.get_text_document(uri)
        found = messages(self.text(uri))
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, found, document.version)
        )


server = TritonServer()


def answers(
    feature: str, options: object | None = None
) -> Callable[[Callable[[Text, Any], R]], Callable[[Text, Any], R]]:
    """Answers requests of one kind from the text that they are about, in its newest version."""

    def register(answer: Callable[[Text, Any], R]) -> Callable[[Text, Any], R]:
        def handler(ls: TritonServer, params: Any) -> R:
            return answer(ls.text(params.text_document.uri), params)

        server.feature(feature, options)(handler)
        return answer

    return register


# Texts


@server.feature(types.TEXT_DOCUMENT_DID_OPEN)
def did_open(ls: TritonServer, params: types.DidOpenTextDocumentParams) -> None:
    """A text is opened."""
    ls.changed(params.text_document.uri)


@server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
def did_change(ls: TritonServer, params: types.DidChangeTextDocumentParams) -> None:
    """A key was pressed."""
    ls.changed(params.text_document.uri)


@server.feature(types.TEXT_DOCUMENT_DID_SAVE)
def did_save(ls: TritonServer, params: types.DidSaveTextDocumentParams) -> None:
    """A file was written: texts that import it are read anew."""
    for uri in ls.open_texts():
        ls.forget(uri, closed=False)
        ls.changed(uri)


@server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
def did_close(ls: TritonServer, params: types.DidCloseTextDocumentParams) -> None:
    """A text is closed."""
    ls.forget(params.text_document.uri, closed=True)


# Names


@answers(types.TEXT_DOCUMENT_HOVER)
def hovered(text: Text, params: types.HoverParams) -> types.Hover | None:
    """What stands under the pointer."""
    line, column = text.place(params.position)
    if isinstance(text.known, IrText):
        said, place = text.known.hover(line, column), None
    else:
        place = text.known.name_at(line, column)
        said = None if place is None else hover(text.known, place)
    if said is None:
        return None
    content = types.MarkupContent(types.MarkupKind.Markdown, said)
    return types.Hover(content, None if place is None else text.range(place))


def _declared(text: Text, position: types.Position) -> Span | None:
    line, column = text.place(position)
    if isinstance(text.known, IrText):
        return text.known.declaration(line, column)
    name = text.known.name_at(line, column)
    return None if name is None else text.known.declaration(name)


@answers(types.TEXT_DOCUMENT_DEFINITION)
def definition(text: Text, params: types.DefinitionParams) -> types.Location | None:
    """Where the name under the cursor is declared."""
    where = _declared(text, params.position)
    return None if where is None else text.location(where)


@answers(types.TEXT_DOCUMENT_REFERENCES)
def references(text: Text, params: types.ReferenceParams) -> list[types.Location]:
    """Every place of the name under the cursor."""
    where = _declared(text, params.position)
    if where is None:
        return []
    found = text.known.occurrences(where)
    if not params.context.include_declaration:
        found.discard(where)
    return [text.location(span) for span in sorted(found)]


@answers(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
def highlight(text: Text, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
    """The places of the name under the cursor in this text."""
    where = _declared(text, params.position)
    spans = set[Span]() if where is None else text.known.occurrences(where)
    own = [span for span in sorted(spans) if where and span.file == _file(text)]
    return [types.DocumentHighlight(text.range(span)) for span in own]


def _file(text: Text) -> str:
    return text.known.file if isinstance(text.known, TriProgram) else str(text.known.path)


@answers(types.TEXT_DOCUMENT_RENAME)
def rename(text: Text, params: types.RenameParams) -> types.WorkspaceEdit:
    """Another name for what stands under the cursor."""
    where = _declared(text, params.position)
    if where is None:
        raise JsonRpcInvalidParams("nothing here has a name of its own")
    try:
        edits = text.known.renamed(where, params.new_name)
    except ValueError as wrong:
        raise JsonRpcInvalidParams(str(wrong)) from None
    return types.WorkspaceEdit(changes={text.uri: text.edits(edits)})


@answers(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
def symbols(text: Text, _: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    """What a text declares."""
    known = text.known
    if isinstance(known, IrText):
        kind = types.SymbolKind.Function
        return [
            types.DocumentSymbol(s.name, kind, text.range(s.span), text.range(s.span), s.operation)
            for s in known.symbols
        ]
    declared = [
        d for d in known.program.declarations if isinstance(d, LayerDef | FunctionDef | Let)
    ]
    return [_symbol(text, known, item) for item in declared]


def _symbol(
    text: Text, program: TriProgram, item: LayerDef | FunctionDef | Let | ParamDef
) -> types.DocumentSymbol:
    kinds: dict[type, types.SymbolKind] = {
        LayerDef: types.SymbolKind.Class,
        FunctionDef: types.SymbolKind.Function,
        ParamDef: types.SymbolKind.Field,
    }
    detail = shape(program.value_at(item.name_span)) or ""
    children: list[types.DocumentSymbol] = []
    if isinstance(item, LayerDef):
        wanted = (FunctionDef, Let, ParamDef)
        children = [_symbol(text, program, m) for m in item.members if isinstance(m, wanted)]
    return types.DocumentSymbol(
        item.name,
        kinds.get(type(item), types.SymbolKind.Constant),
        text.range(item.span),
        text.range(item.name_span),
        header(item, program.lines) if isinstance(item, FunctionDef) else detail,
        children=children,
    )


# Writing


@answers(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", '"']))
def completion(text: Text, params: types.CompletionParams) -> list[types.CompletionItem]:
    """What may stand at the cursor."""
    if not isinstance(text.known, TriProgram):
        return []
    line, column = text.place(params.position)
    return [
        types.CompletionItem(
            item.text,
            kind=_KINDS[item.kind],
            detail=item.detail or None,
            sort_text=f"{order:04}",
        )
        for order, item in enumerate(offers(text.known, line, column))
    ]


@answers(
    types.TEXT_DOCUMENT_SIGNATURE_HELP, types.SignatureHelpOptions(trigger_characters=["(", ","])
)
def signature(text: Text, params: types.SignatureHelpParams) -> types.SignatureHelp | None:
    """The arguments of the call around the cursor."""
    program = text.known
    if not isinstance(program, TriProgram):
        return None
    call = open_call(program, *text.place(params.position))
    wanted = [] if call is None else parameters(program, call.callee)
    if call is None or not wanted:
        return None
    shown = types.SignatureInformation(
        f"{program.text_at(call.callee)}({', '.join(wanted)})",
        parameters=[types.ParameterInformation(parameter) for parameter in wanted],
    )
    return types.SignatureHelp([shown], 0, min(call.position, len(wanted) - 1))


@answers(types.TEXT_DOCUMENT_FORMATTING)
def formatting(text: Text, _: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
    """The text in its one layout."""
    program = text.known
    if not isinstance(program, TriProgram):
        return None
    try:
        formatted = format_source(program.text, program.path)
    except TritonError:  # its errors are shown already
        return None
    end = types.Position(len(text.lines) - 1, text.codec.client_num_units(text.lines[-1]))
    whole = types.TextEdit(types.Range(types.Position(0, 0), end), formatted)
    return [] if formatted == program.text else [whole]


@answers(types.TEXT_DOCUMENT_INLAY_HINT)
def inlay_hints(text: Text, params: types.InlayHintParams) -> list[types.InlayHint] | None:
    """Types and shapes behind the names that a program binds without a type."""
    program, wanted = text.known, params.range
    if not isinstance(program, TriProgram):
        return None
    hints: list[types.InlayHint] = []
    for name, typed in program.bound():
        said = shape(program.value_at(name))
        if typed or said is None:
            continue
        end = text.range(name).end
        if wanted.start.line <= end.line <= wanted.end.line:
            hints.append(types.InlayHint(end, said, types.InlayHintKind.Type))
    return hints


@answers(
    types.TEXT_DOCUMENT_CODE_ACTION,
    types.CodeActionOptions(
        code_action_kinds=[types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll]
    ),
)
def code_actions(text: Text, params: types.CodeActionParams) -> list[types.CodeAction] | None:
    """The fixes of the messages in a range, and all fixes at once."""
    return fixes(text, text.known, params) if isinstance(text.known, TriProgram) else None
