"""`triton explain`, fixes in JSON, and messages in colours."""

import io
import json
from pathlib import Path

import pytest

from triton_dsl.ir.language.codes import explanations
from triton_dsl.tools import console
from triton_dsl.tools.cli import main


def test_a_code_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "e0501"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("E0501: the inner sizes of a product differ\n")
    assert "Wrong:" in text and "    param w: Tensor[4, 8]" in text and "Right:" in text


def test_the_list_of_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json"]) == 0
    assert [row["code"] for row in json.loads(capsys.readouterr().out)] == list(explanations())
    assert main(["explain", "E9999"]) == 2
    assert "there is no code 'E9999'" in capsys.readouterr().err


def test_fixes_are_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.tri"
    path.write_text("fn f(x: Tensor[N]) -> Tensor[N] { return rellu(x) }\n", encoding="utf-8")
    assert main(["check", "--json", str(path)]) == 1
    (diagnostic,) = json.loads(capsys.readouterr().out)[0]["diagnostics"]
    assert diagnostic["code"] == "E0201"
    (edit,) = diagnostic["fix"]
    assert (edit["line"], edit["column"], edit["end_column"], edit["text"]) == (1, 42, 47, "relu")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colours(
    variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm-256color", "COLORTERM": "", **variables}.items():
        monkeypatch.setenv(name, value)
    text = "m.tri:1:2: error: no [b] here [E0201]\n    1 | x [/b]\n      |  ^\nhelp: write y"
    for stream, expected in ((Terminal(), coloured), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        console.diagnose(text)
        assert ("\x1b[" in stream.getvalue()) == expected
        plain = stream.getvalue() if not expected else _plain(stream.getvalue())
        assert plain == text + "\n"


def _plain(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text)
