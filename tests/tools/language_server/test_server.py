"""The language server, asked by pygls' own client over the protocol, as an editor asks it.

Types and shapes are compared with what PyTorch's meta device computes of the same layers.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.workspace import PositionCodec

from triton_dsl.ir.language.checker import TypeChecker
from triton_dsl.ir.language.parser import TritonParser
from triton_dsl.tools.language_server import textmate
from triton_dsl.tools.language_server.__main__ import main
from triton_dsl.tools.language_server.messages import messages
from triton_dsl.tools.language_server.text import Text

FOLDER = Path(textmate.__file__).parent

NET = """\
# Twice as wide as it is high.
layer Block(width: int, bias: bool = true) {
    param weights: TernaryTensor[width, width]
    if bias { param shift: Tensor[width] }
    let norm = LayerNorm(width)

    fn forward(x: Tensor[N, width]) -> Tensor[N, width] {
        let y = x @ weights
        if bias { y = y + shift }
        return norm(relu(y))
    }
}

layer Net {
    let conv = Conv2d(3, 8, 3, stride=2)
    let block = Block(width=16)
    let head = Linear(16, 10)

    fn forward(x: Tensor[N, 16], image: Tensor[N, 3, 32, 32]) -> Tensor[N, 10] {
        let maps = conv(image)
        let pooled = max_pool2d(maps, 3)
        let _wide = flatten(pooled, 1)
        return head(block(x))
    }
}
"""


class Editor:
    """A client with what the server told it, and positions by what stands there."""

    def __init__(self) -> None:
        self.client = LanguageClient("editor", "1")
        self.told: dict[str, list[types.Diagnostic]] = {}
        self.news = asyncio.Event()
        self.texts: dict[str, str] = {}

        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.told[params.uri] = list(params.diagnostics)
            self.news.set()

        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(publish)

    async def open(self, path: Path, text: str) -> str:
        """Write and open a file; its URI."""
        path.write_text(text, encoding="utf-8")
        uri = path.as_uri()
        self.texts[uri] = text
        item = types.TextDocumentItem(uri, path.suffix[1:], 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        await self.hear()
        return uri

    async def write(self, uri: str, text: str, number: int) -> list[types.Diagnostic]:
        """Put a whole text in the place of another; what the server says of it."""
        self.texts[uri] = text
        document = types.VersionedTextDocumentIdentifier(number, uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        await self.hear()
        return self.told[uri]

    async def hear(self) -> None:
        """Wait for messages."""
        await asyncio.wait_for(self.news.wait(), 30)
        self.news.clear()

    def at(self, uri: str, marked: str) -> dict[str, Any]:
        """The document and the position of `|` in a piece of its text."""
        before, _, after = marked.partition("|")
        text = self.texts[uri]
        start = text.index(before + after) + len(before)
        line = text.count("\n", 0, start)
        column = start - (text.rfind("\n", 0, start) + 1)
        units = len(text[start - column : start].encode("utf-16-le")) // 2
        return {
            "text_document": types.TextDocumentIdentifier(uri),
            "position": types.Position(line, units),
        }

    def here(self, uri: str, found: types.Range) -> str:
        """What stands in a range of a text."""
        row = self.texts[uri].split("\n")[found.start.line].encode("utf-16-le")
        return row[2 * found.start.character : 2 * found.end.character].decode("utf-16-le")


def applied(text: str, edits: Any) -> str:
    """A text after edits, as editors apply them."""
    rows = text.split("\n")
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row) + 1)
    for edit in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character))[::-1]:
        start = starts[edit.range.start.line] + edit.range.start.character
        stop = starts[edit.range.end.line] + edit.range.end.character
        text = text[:start] + edit.new_text + text[stop:]
    return text


def in_editor(session: Callable[[Editor], Awaitable[None]]) -> None:
    """Run a session with a server of its own."""

    async def run() -> None:
        editor = Editor()
        client = editor.client
        await client.start_io(sys.executable, "-m", "triton_dsl.tools.language_server")
        try:
            capabilities = types.ClientCapabilities()
            asked = types.InitializeParams(capabilities=capabilities, root_uri=None)
            result = await asyncio.wait_for(client.initialize_async(asked), 60)
            assert result.server_info is not None
            assert result.server_info.version == version("triton-dsl")
            client.initialized(types.InitializedParams())
            await asyncio.wait_for(session(editor), 100)
            await asyncio.wait_for(client.shutdown_async(None), 20)
        finally:
            client.exit(None)  # which ends the server whatever happened
            await asyncio.wait_for(client.stop(), 20)

    asyncio.run(run())


def shown(hover: types.Hover | None) -> str:
    """The text of a hover."""
    assert hover is not None and isinstance(hover.contents, types.MarkupContent)
    return hover.contents.value


def test_names_types_and_documentation(tmp_path: Path) -> None:
    conv = torch.nn.Conv2d(3, 8, 3, stride=2, device="meta")
    maps = conv(torch.empty(5, 3, 32, 32, device="meta"))
    pooled = torch.nn.functional.max_pool2d(maps, 3)
    expected = [list(t.shape[1:]) for t in (maps, pooled, pooled.flatten(1))]

    async def session(editor: Editor) -> None:
        client = editor.client
        uri = await editor.open(tmp_path / "net.tri", NET)
        assert editor.told[uri] == []

        def place(marked: str) -> Any:
            return types.HoverParams(**editor.at(uri, marked))

        for marked, words in (
            ("let ma|ps", "maps: Tensor[N, 8, 15, 15]"),
            ("head(block(x|))", "x: Tensor[N, 16]"),
            ("re|lu(y)", "relu(x)"),
            ("x @ wei|ghts", "weights: TernaryTensor[width, width]"),
            ("let block = Blo|ck", "Twice as wide as it is high."),
            ("head(blo|ck(x))", "block = Block(width=16, bias=true)"),
            ("let norm = Layer|Norm", "layer LayerNorm("),
        ):
            assert words in shown(await client.text_document_hover_async(place(marked)))
        nothing = await client.text_document_hover_async(place("# Twice as wi|de"))
        assert nothing is None

        whole = types.Range(types.Position(0, 0), types.Position(99, 0))
        document = types.TextDocumentIdentifier(uri)
        hints = await client.text_document_inlay_hint_async(types.InlayHintParams(document, whole))
        assert hints is not None
        rows = NET.split("\n")
        labels = {
            match[0]: str(h.label)
            for h in hints
            if (match := re.search(r"\w+$", rows[h.position.line][: h.position.character]))
        }
        found = [labels[name] for name in ("maps", "pooled", "_wide")]
        assert found == [f": Tensor[N, {', '.join(map(str, shape))}]" for shape in expected]

        # Where names lead, and all places of one.
        for marked, declaration in (
            ("x @ wei|ghts", "param |weights"),
            ("y = y + shi|ft", "param |shift"),
            ("Block(wid|th=16)", "Block(|width: int"),
            ("head(blo|ck(x))", "let |block"),
            ("Conv2d(3, 8, 3, |stride=2)", "stride: int = 1"),
            ("norm(relu(|y))", "let |y = x"),
            ("-> Tensor[|N, width]", "x: Tensor[|N, width]"),
        ):
            params = types.DefinitionParams(**editor.at(uri, marked))
            where = await client.text_document_definition_async(params)
            assert isinstance(where, types.Location)
            if "|" in declaration:
                assert where.range.start == editor.at(uri, declaration)["position"], marked
            else:
                file = Path(where.uri.removeprefix("file://"))
                assert file.name == "prelude.tri"
                row = file.read_text("utf-8").split("\n")[where.range.start.line]
                assert row[where.range.start.character :].startswith(declaration)
        params = types.ReferenceParams(types.ReferenceContext(True), **editor.at(uri, "let y| = x"))
        places = await client.text_document_references_async(params)
        assert places is not None
        assert [editor.here(uri, p.range) for p in places] == ["y"] * 4

        tree = await client.text_document_document_symbol_async(
            types.DocumentSymbolParams(document)
        )
        assert tree is not None and isinstance(tree[0], types.DocumentSymbol)
        assert [s.name for s in tree] == ["Block", "Net"]
        assert [s.name for s in tree[0].children or []] == ["weights", "norm", "forward"]

    in_editor(session)


def test_renaming_changes_no_meaning(tmp_path: Path) -> None:
    net = NET.replace("let pooled", "let _same = relu(x)\n        let pooled")

    async def session(editor: Editor) -> None:
        client = editor.client
        uri = await editor.open(tmp_path / "net.tri", net)

        async def rename(marked: str, name: str) -> str:
            params = types.RenameParams(new_name=name, **editor.at(uri, marked))
            edit = await client.text_document_rename_async(params)
            assert edit is not None and edit.changes is not None
            return applied(net, edit.changes[uri])

        renamed = await rename("param |weights", "trits")
        assert renamed == net.replace("weights", "trits")
        renamed = await rename("let |maps", "channels")
        assert renamed == net.replace("maps", "channels")
        renamed = await rename("Block(|width: int", "size")
        assert renamed == re.sub(r"\bwidth\b", "size", net)
        TypeChecker().check_source(renamed, tmp_path / "net.tri")
        for marked, name in (
            ("let |_wide", "x"),  # a shape would differ
            ("let |_same", "x"),  # nothing but the meaning would
            ("let |block", "head"),
            ("let |maps", "2nd"),
            ("let norm = |LayerNorm", "Norm"),
            ("re|lu(y)", "rectify"),
        ):
            with pytest.raises(Exception, match=r"means something else|no name|keep|nothing"):
                await rename(marked, name)

    in_editor(session)


def test_errors_and_their_fixes(tmp_path: Path) -> None:
    wrong = NET.replace("max_pool2d(maps, 3)", "maps.relu()").replace("x @ weights", "x @ wieghts")
    wrong = "# ∀𝛽: beyond the first plane\n" + wrong

    async def session(editor: Editor) -> None:
        client = editor.client
        uri = await editor.open(tmp_path / "net.tri", wrong)
        found = editor.told[uri]
        assert len(found) == 2 and found[0].code == "E0201"
        assert editor.here(uri, found[0].range) == "wieghts"
        document = types.TextDocumentIdentifier(uri)

        async def actions(span: types.Range) -> list[types.CodeAction]:
            params = types.CodeActionParams(document, span, types.CodeActionContext(found))
            answer = await client.text_document_code_action_async(params)
            return [a for a in answer or [] if isinstance(a, types.CodeAction)]

        first, everything = await actions(found[0].range)
        assert first.title == "Write 'weights'"
        assert first.edit is not None and first.edit.changes is not None
        assert "x @ weights" in applied(wrong, first.edit.changes[uri])
        assert everything.edit is not None and everything.edit.changes is not None
        mended = applied(wrong, everything.edit.changes[uri])
        TypeChecker().check_source(mended, tmp_path / "net.tri")
        assert await editor.write(uri, mended, 2) == []

        # A broken line keeps the rest of the file known.
        told = await editor.write(uri, mended.replace("let maps = conv(", "let maps = = conv(("), 3)
        assert len(told) == 1
        hover = types.HoverParams(**editor.at(uri, "x @ wei|ghts"))
        assert "TernaryTensor" in shown(await client.text_document_hover_async(hover))

        ugly = mended.replace("    let y = x @ weights", "  let   y=x@weights")
        await editor.write(uri, ugly, 4)
        options = types.FormattingOptions(4, True)
        edits = await client.text_document_formatting_async(
            types.DocumentFormattingParams(document, options)
        )
        assert edits is not None
        assert "        let y = x @ weights\n" in applied(ugly, edits)

    in_editor(session)


def test_completion_and_signatures(tmp_path: Path) -> None:
    typed = NET.replace("let maps = conv(image)", "let maps = conv(image)\n        let t = block.")
    typed = typed.replace("let pooled = max_pool2d(maps, 3)", 'let s = encode(x, scheme="")')

    async def session(editor: Editor) -> None:
        client = editor.client
        uri = await editor.open(tmp_path / "net.tri", typed)

        async def offered(marked: str) -> list[str]:
            params = types.CompletionParams(**editor.at(uri, marked))
            answer = await client.text_document_completion_async(params)
            return [item.label for item in answer or []]  # pyright: ignore

        assert {"weights", "shift", "norm", "forward"} == set(await offered("let t = block.|"))
        assert {"rate", "latency"} <= set(await offered('scheme="|"'))
        names = await offered("return head(|block")
        assert names[0] == "x="
        assert {"maps", "image", "conv", "Linear", "relu", "Tensor", "let"} <= set(names)
        assert "weights" not in names
        assert "stride=" in await offered("Conv2d(3, 8, 3, |stride=2)")

        params = types.SignatureHelpParams(**editor.at(uri, "Conv2d(3, |8"))
        help = await client.text_document_signature_help_async(params)
        assert help is not None and help.active_parameter == 1
        assert help.signatures[0].label.startswith("Conv2d(in_channels: int, out_channels: int")

    in_editor(session)


IR = """\
func.func @forward(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %sum = tensor.add %x, %y : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %out = tensor.relu %sum : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %out : tensor<?x4xf32>
}
// -----
func.func @twice(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %out = func.call @helper(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %out : tensor<?x4xf32>
}
func.func private @helper(%z: tensor<?x4xf32>) -> tensor<?x4xf32> {
  func.return %z : tensor<?x4xf32>
}
"""


def test_ir(tmp_path: Path) -> None:
    async def session(editor: Editor) -> None:
        client = editor.client
        uri = await editor.open(tmp_path / "net.mlir", IR)
        assert editor.told[uri] == []
        said = shown(
            await client.text_document_hover_async(
                types.HoverParams(**editor.at(uri, "tensor.re|lu"))
            )
        )
        assert "max(x, 0)" in said
        said = shown(
            await client.text_document_hover_async(
                types.HoverParams(**editor.at(uri, "tensor.relu %su|m"))
            )
        )
        assert "%sum : tensor<?x4xf32>" in said and "tensor.add" in said
        for marked, declaration in (
            ("tensor.relu %s|um", "|%sum = tensor.add"),
            ("tensor.add %x, |%y", "tensor<?x4xf32>, |%y"),
            ("func.call @hel|per", "private |@helper"),
            ("func.call @helper(|%x)", "@twice(|%x"),
        ):
            params = types.DefinitionParams(**editor.at(uri, marked))
            where = await client.text_document_definition_async(params)
            assert isinstance(where, types.Location)
            assert where.range.start == editor.at(uri, declaration)["position"], marked
        params = types.RenameParams(new_name="total", **editor.at(uri, "|%sum = "))
        edit = await client.text_document_rename_async(params)
        assert edit is not None and edit.changes is not None
        assert applied(IR, edit.changes[uri]) == IR.replace("%sum", "%total")

        told = await editor.write(uri, IR.replace("tensor.relu", "tensor.relo"), 2)
        assert [editor.here(uri, d.range) for d in told] == ["tensor.relo"]
        told = await editor.write(uri, IR.replace("return %z", "return %w"), 3)
        assert len(told) == 1 and told[0].range.start.line > 9

    in_editor(session)


def long_program(blocks: int = 40) -> str:
    """A program of 13 lines a layer, in which each layer is another."""
    layers = [
        NET.partition("layer Net")[0].replace("layer Block", f"layer Block{n}")
        for n in range(blocks)
    ]
    made = "\n".join(f"    let b{n} = Block{n}(width={16 + n})" for n in range(blocks))
    fns = "\n".join(
        f"    fn f{n}(x: Tensor[N, {16 + n}]) -> Tensor[N, {16 + n}] {{ return b{n}(x) }}"
        for n in range(blocks)
    )
    return "\n".join([*layers, "layer All {", made, fns, "}", ""])


def test_messages_after_any_edits_are_those_of_the_whole_text(tmp_path: Path) -> None:
    """Pieces of text put in and taken out, as editors send them, beside a check of the result."""
    pieces = ["", "", "\n", "(", "}", "x", " + 𝛽", "let z = y\n", "# ∀\n", "norm(", ", 3", '"']
    random = Random(7)
    path = tmp_path / "net.tri"

    def expected(text: str) -> list[tuple[str, int]]:
        program, wrong = TritonParser().parse_with_recovery(text, path)
        bag = TypeChecker().inspect(program, wrong).bag
        found = bag.errors if bag.has_errors else bag.diagnostics
        return sorted((d.code, d.span.line) for d in found if d.span is not None)

    def position(text: str, offset: int) -> types.Position:
        rows = text[:offset].split("\n")
        return types.Position(len(rows) - 1, len(rows[-1].encode("utf-16-le")) // 2)

    async def session(editor: Editor) -> None:
        text, faulty = NET, 0
        uri = await editor.open(path, text)
        for number in range(2, 62):
            changes: list[Any] = []
            for _ in range(random.randint(1, 2)):
                start = random.randrange(len(text))
                end = min(len(text), start + random.choice([0, 0, 1, 5]))
                place = types.Range(position(text, start), position(text, end))
                piece = random.choice(pieces)
                changes.append(types.TextDocumentContentChangePartial(place, piece))
                text = text[:start] + piece + text[end:]
            document = types.VersionedTextDocumentIdentifier(number, uri)
            editor.client.text_document_did_change(
                types.DidChangeTextDocumentParams(document, changes)
            )
            await editor.hear()
            told = [(str(d.code or ""), d.range.start.line + 1) for d in editor.told[uri]]
            assert sorted(told) == expected(text), text
            faulty += bool(told)
            if number % 6 == 0:  # more wrong pieces than that hide each other
                text = NET
                await editor.write(uri, text, number * 1000)
        assert faulty > 20

    in_editor(session)


def test_the_work_for_a_key_grows_with_the_program(
    tmp_path: Path, count_calls: Callable[[Callable[[], object]], int]
) -> None:
    """In calls of functions, for a text with a wrong name, in place of seconds."""

    def answer(text: str) -> None:
        known = Text("file:///long.tri", text, tmp_path / "long.tri", PositionCodec())
        assert len(messages(known)) == 1

    wrong = [
        long_program(blocks).replace("let y = x @ weights", "let y = x @ weightss", 1)
        for blocks in (1, 20, 40)
    ]
    assert wrong[2].count("\n") >= 500
    answer(wrong[0])  # the standard library is read once
    short, long = (count_calls(lambda text=text: answer(text)) for text in wrong[1:])
    assert short < long < 2.4 * short


def test_the_grammar_of_editors_is_up_to_date() -> None:
    assert textmate.SAVED.read_text("utf-8") == textmate.grammar()


def test_the_grammar_of_editors_colours_programs() -> None:
    grammar: dict[str, Any] = json.loads(textmate.SAVED.read_text("utf-8"))
    rules = {p["name"]: re.compile(p["match"]) for p in grammar["patterns"] if "match" in p}

    def scope(text: str) -> str:
        return next(name for name, rule in rules.items() if rule.match(text)).removesuffix(".tri")

    for text, expected in (
        ("layer Net", "storage.type"),
        ("return x", "keyword.control"),
        ("TernaryTensor[2]", "support.type"),
        ("relu(x)", "entity.name.function"),
        ("Linear(2, 3)", "entity.name.type"),
        ("1e-3", "constant.numeric.float"),
        ("0x1F", "constant.numeric.integer"),
        ("true", "constant.language"),
        ("# why", "comment.line"),
        ("// why", "comment.line"),
        ('"rate"', "string.quoted.double"),
        ("@ w", "keyword.operator"),
    ):
        assert scope(text) == expected


def test_the_extension_names_files_that_exist() -> None:
    package: dict[str, Any] = json.loads((FOLDER / "vscode/package.json").read_text("utf-8"))
    contributes = package["contributes"]
    named = [package["main"], contributes["grammars"][0]["path"]]
    named += [x["configuration"] for x in contributes["languages"] if "configuration" in x]
    assert all((FOLDER / "vscode" / name).is_file() for name in named)
    assert package["version"] == version("triton-dsl")


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "docs/editors.md" in capsys.readouterr().out
    assert main(["--port", "1"]) == 2
    assert "takes none" in capsys.readouterr().err
    done = subprocess.run(
        [sys.executable, "-m", "triton_dsl.tools.language_server"],
        input="",
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
