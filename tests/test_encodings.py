"""Text is UTF-8 whatever the locale: no call leaves the encoding to Python, and no command fails.

Not for what command lines print; `tests/tools/` has that.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("ir", "dialects", "passes", "lowering", "runtime", "tools", "benchmarks", "examples")
FILES = sorted(
    path
    for part in PARTS
    for path in (ROOT / part).rglob("*.py")
    if "__pycache__" not in path.parts
)

_SUSPICIOUS = re.compile(r"open\(|read_text\(|write_text\(|text=|universal_newlines=")
"""What stands in a file that may have such a call: parsing all would take seconds."""

MODEL = """\
# Größe × π: 日本
layer Linear {
    param w: TernaryTensor[4, 4]
    param b: Tensor[4]

    fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] {
        return relu(x @ w + b)
    }
}
"""


def _modes(call: ast.Call, position: int) -> str | None:
    """The mode that a call of `open` asks for; `None` where it is no literal."""
    given = [k.value for k in call.keywords if k.arg == "mode"] or call.args[
        position : position + 1
    ]
    if not given:
        return "r"
    mode = given[0]
    return mode.value if isinstance(mode, ast.Constant) and isinstance(mode.value, str) else None


def _leaves_the_encoding_open(call: ast.Call) -> bool:
    """Whether a call reads or writes text in the encoding of the locale."""
    keywords = {keyword.arg for keyword in call.keywords}
    if "encoding" in keywords or None in keywords:
        return False
    match call.func:
        case ast.Attribute(attr="read_text"):
            return not call.args
        case ast.Attribute(attr="write_text"):
            return len(call.args) < 2
        case ast.Name(id="open"):
            mode = _modes(call, 1)
        case ast.Attribute(attr="fdopen"):
            mode = _modes(call, 1)
        case ast.Attribute(value=ast.Name(id="os" | "gzip" | "ParameterStore"), attr="open"):
            return False
        case ast.Attribute(attr="open"):
            mode = _modes(call, 0)
        case _:
            return bool(keywords & {"text", "universal_newlines"} and "capture_output" in keywords)
    return mode is None or "b" not in mode


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("Path(p).with_name(n).read_text()", True),
        ("path.write_text(text)", True),
        ("path.open('a')", True),
        ("open(path)", True),
        ("run(command, capture_output=True, text=True)", True),
        ("path.read_text('utf-8')", False),
        ("path.write_text(text, encoding='utf-8')", False),
        ("path.open('rb')", False),
        ("open(handle, 'wb', closefd=False)", False),
        ("run(command, capture_output=True, encoding='utf-8')", False),
    ],
)
def test_a_call_without_an_encoding_is_found(code: str, found: bool) -> None:
    call = ast.parse(code, mode="eval").body
    assert isinstance(call, ast.Call)
    assert _leaves_the_encoding_open(call) is found


def test_every_call_names_its_encoding() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in FILES}
    suspects = {path: text for path, text in texts.items() if _SUSPICIOUS.search(text)}
    assert suspects
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, text in suspects.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and _leaves_the_encoding_open(node)
    ]
    assert not found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `dé/é.tri` and its weights."""
    folder = tmp_path_factory.mktemp("locale")
    (folder / "dé").mkdir()
    (folder / "dé" / "é.tri").write_text(MODEL, encoding="utf-8")
    np.savez(folder / "w.npz", w=np.eye(4, dtype=np.int8), b=np.ones(4, np.float32))
    return folder


def _run(folder: Path, tool: str, *arguments: str) -> bytes:
    """What a command of ours prints where the locale is ASCII."""
    return _python(folder, "-m", f"triton_dsl.tools.{tool}", *arguments)


def _python(folder: Path, *arguments: str) -> bytes:
    """What Python prints there."""
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment.pop("PYTHONIOENCODING", None)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return done.stdout


MADE = {"pytorch": "é.py", "onnx": "é.onnx", "native": "é.so", "tflite": "é.tflite"}
COMPILE = """
import sys
from triton_dsl.tools.cli import main

source, folder, *names = sys.argv[1:]
for name in names:
    target, _, file = name.partition(":")
    files = ["-w", "w.npz", "-o", f"{folder}/{file}", "--dump-stages", f"{folder}/{target}"]
    assert main(["compile", source, "-t", target, *files]) == 0
"""


def test_targets_are_made_in_an_ascii_locale(folder: Path) -> None:
    (folder / "compile_all.py").write_text(COMPILE, encoding="utf-8")
    names = [f"{target}:{name}" for target, name in MADE.items()]
    printed = _python(folder, "compile_all.py", "dé/é.tri", "dé", *names).decode("utf-8")
    for target, name in MADE.items():
        assert (folder / "dé" / name).stat().st_size > 0
        assert f"dé/{name}" in printed
        dumped = sorted((folder / "dé" / target).glob("*.mlir"))
        assert r"d\C3\A9/\C3\A9.tri" in dumped[0].read_text(encoding="utf-8")


def test_text_on_the_standard_output_is_utf_8_in_an_ascii_locale(folder: Path) -> None:
    printed = _run(folder, "translate", "dé/é.tri", "--import", "--print-debuginfo")
    assert rb"d\C3\A9/\C3\A9.tri" in printed


def test_a_name_that_is_no_utf_8_is_no_defect(folder: Path) -> None:
    source = os.fsdecode(b"\xff.tri")
    (folder / source).write_text(MODEL, encoding="utf-8")
    _run(folder, "cli", "compile", source, "-t", "pytorch", "-o", "plain.py")
    assert "class Linear" in (folder / "plain.py").read_text(encoding="utf-8")
