"""A corpus of mistakes that people make: each is found once, at its place, with a fix that works.

`mistakes/` holds one program a mistake. Its first lines say what the compiler must report: code and
place, and `fix:` before a help that comes with edits of the source, `help:` before other help.
"""

import ast
import re
from pathlib import Path
from random import Random

import pytest

from triton_dsl.ir.errors import CompilationError
from triton_dsl.ir.language import codes
from triton_dsl.ir.language.checker import TypeChecker
from triton_dsl.ir.language.diagnostics import Diagnostic, apply_fix

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(__file__).with_name("mistakes")
FILES = sorted(FOLDER.glob("*.tri"))
HEADER = re.compile(r"# ([EW]\d{4}) (\d+):(\d+)(?: (fix|help): (.+))?\n")


def reported(source: str, path: Path | None = None) -> list[Diagnostic]:
    """Every error of a program, and the warnings of one without errors."""
    try:
        typed = TypeChecker().check_source(source, path)
    except CompilationError as error:
        return [d for d in error.diagnostics if isinstance(d, Diagnostic)]
    return list(typed.warnings)


def test_the_corpus_is_large_and_helps() -> None:
    headers = [HEADER.findall(path.read_text(encoding="utf-8")) for path in FILES]
    assert len(FILES) >= 100
    assert all(1 <= len(found) <= 2 for found in headers)
    without = [p.stem for p, found in zip(FILES, headers, strict=True) if not found[0][3]]
    assert len(FILES) - len(without) >= 0.95 * len(FILES), without


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_mistake(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    expected = [
        (code, int(line), int(column), kind, text)
        for code, line, column, kind, text in HEADER.findall(source)
    ]
    found = reported(source, path)
    told = [
        (
            d.code,
            d.span.line if d.span else 0,
            d.span.column if d.span else 0,
            "fix" if d.fix else "help" if d.suggestion else "",
            d.suggestion or "",
        )
        for d in found
    ]
    assert told == expected
    assert len({d.message for d in found}) == len(found)
    for diagnostic in found:
        if diagnostic.fix:
            fixed = reported(apply_fix(source, diagnostic.fix), path)
            same = [d for d in fixed if d.message == diagnostic.message]
            # What is right now may show the next error, but never an error of syntax.
            assert same == []
            assert not [d for d in fixed if d.code.startswith("E01") and d not in found]


_WORDS = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    ";",
    "=",
    "==",
    "**",
    "++",
    "+=",
    "?",
    ":=",
    "->",
    "=>",
    "self.",
    "torch.",
    "x.relu()",
    "if",
    "else",
    "elif",
    "for",
    "not",
    "and",
    "'",
    '"',
    "/*",
    "0..3",
    "8x4xf32>",
    "tensor<",
    "Tensor(",
    "Tensor<f32>",
    "True",
    "None",
    "print(x)",
    "return",
    "^",
    "<",
    ">",
    "let",
    "fn",
    "layer",
    "class",
    "import",
    "def",
    "lambda",
]
FRAGMENTS = [
    *_WORDS,
    "\n",
    "import torch\n",
    "class A(B):\n",
    "for (i=0;i<3;i++)",
    "return a, b",
    "(1, 2)",
]


@pytest.mark.parametrize("seed", range(8))
def test_mistakes_in_mistakes(seed: int) -> None:
    """Whatever is mixed up, reading ends, each message has a code, and each fix ends its error."""
    random = Random(seed)
    sources = [path.read_text(encoding="utf-8") for path in FILES]
    for _ in range(12):
        source = random.choice(sources)
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(source) + 1)
            gone = random.choice([0, 0, 1, 8])
            source = source[:at] + random.choice(["", *FRAGMENTS]) + source[at + gone :]
        for diagnostic in reported(source):
            assert diagnostic.code, diagnostic.message
            if diagnostic.fix:
                fixed = reported(apply_fix(source, diagnostic.fix))
                same = [(d.message, d.span) for d in fixed]
                assert (diagnostic.message, diagnostic.span) not in same, source


def test_a_class_within_brackets_ends() -> None:
    """A repair that took one brace of two away would leave the parser where it is."""
    source = (
        "layer Net {\n    param w: Tensfor (i=0;i<3;i++)or[\n\n"
        '    fn forward(x: Tensor[N, 8]) => Tensor["N, 4] {\n'
        "        return relclass A(B):\nu(x @ w + b)\n    }\n}\n"
    )
    assert 0 < len(reported(source)) <= 20


@pytest.mark.parametrize("code", codes.explanations())
def test_an_explanation_is_true(code: str) -> None:
    row = codes.explanations()[code]
    assert code in [d.code for d in reported(row.wrong)]
    assert reported(row.right) == []
    assert row.title[0].islower() and row.why.endswith(".")


CALLS = dict.fromkeys(("error", "warning", "_report", "stop", "exhaust", "fail"), 0) | {
    "Diagnostic": 1, "Repair": 0, "DimError": 0, "TypeMismatch": 0,
    "_UnusableImportError": 0,
}  # fmt: skip
SAMPLES = (
    "x1",
    "'x'",
    "+",
    ")",
    "'? :'",
    "while",
    "f(…)",
    "1",
    "int8",
    "Tensor[N]",
    "1 argument",
    "a trit is -1, 0 or 1",
)


def messages() -> list[tuple[str, str]]:
    """Where each message is written, and its text with `{}` for what varies."""
    found: list[tuple[str, str]] = []
    for path in sorted((ROOT / "ir" / "language").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            texts: list[ast.expr] = []
            prefix = ""
            match node:
                case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args) if (
                    name in CALLS and len(args) > CALLS[name]
                ):
                    texts = [args[CALLS[name]]]
                    prefix = "f(…) " if name == "fail" else ""
                case ast.Assign(targets=[ast.Name(id="message")], value=value):
                    texts = [value]
                case _:
                    continue
            for text in texts:
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found.append((f"{path.name}:{node.lineno}", prefix + text.value))
                elif isinstance(text, ast.JoinedStr):
                    parts = [v.value if isinstance(v, ast.Constant) else "{}" for v in text.values]
                    found.append((f"{path.name}:{node.lineno}", prefix + "".join(map(str, parts))))
    return found


def test_every_message_has_a_code() -> None:
    found = messages()
    assert len(found) > 200
    # What another message begins, or is drawn by the caller.
    inner = {"{} (axis {})", "in {}: {}", "{}, found {}", "in '{}': {}", "{}(…): {}", "'@' {}"}
    bare = [
        f"{place}: {text}"
        for place, text in found
        if text not in inner
        and not any(codes.code_of(text.replace("{}", sample)) for sample in SAMPLES)
    ]
    assert bare == []


def test_no_pattern_is_left_over() -> None:
    """Each pattern is the one that decides for some message."""
    texts = [text.replace("{}", sample) for _, text in messages() for sample in SAMPLES]
    texts += [
        "f(…) x",
        "sizes 1 and 2 differ",
        "only one dimension of a type",
        "1 is 2: '/' of ints is exact",
    ]
    unused = [
        f"{row.code}: {pattern.pattern}"
        for row in codes.explanations().values()
        for pattern in row.messages
        if not any(pattern.match(text) for text in texts)
    ]
    assert unused == []


def test_a_chain_of_powers_is_not_written_out_twice_for_each() -> None:
    """`y ** 2` is offered as y * y, which doubled what was written with every further `** 2`."""
    with pytest.raises(CompilationError, match="there is no operator") as caught:
        TypeChecker().check_source("const A = " + "**".join("2" * 40))
    assert len(str(caught.value)) < 5000
