"""What command lines print: tables, JSON, and one line for whatever goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from xdsl.utils.exceptions import VerifyException

from triton_dsl.ir.errors import OptionError, ParameterError
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.tools.console import guarded, print_json, progress, show, table, visible


def raiser(error: BaseException) -> Callable[[], int]:
    def run() -> NoReturn:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ParameterError("no weights"), 1, "t: error: no weights"),
        (OptionError("bad option"), 2, "t: error: bad option"),
        (ParameterError("a.tri:1:2: error: bad"), 1, "a.tri:1:2: error: bad"),
        (VerifyException("broken\n  IR"), 1, "t: error: broken IR"),
        (PermissionError(13, "Permission denied", "x"), 1, "t: error: x: Permission denied"),
        (KeyboardInterrupt(), 130, "t: error: interrupted"),
        (ZeroDivisionError("oh"), 1, "t: error: internal error: ZeroDivisionError: oh"),
    ],
)
def test_every_failure_is_one_line(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded("t", raiser(error)) == code
    shown = capsys.readouterr().err
    assert shown.startswith(message) and shown.count("\n") == 1


def test_a_defect_can_be_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded("t", raiser(ZeroDivisionError()), debug=True) == 1
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("TRITON_DEBUG", "1")
    assert guarded("t", raiser(ZeroDivisionError())) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown and "t: error: internal error: ZeroDivisionError" in shown


@pytest.mark.parametrize("tool", ["opt", "translate", "cli"])
def test_a_reader_that_goes_away_is_no_error(tool: str, tmp_path: Path) -> None:
    arguments = {"opt": ["--list-passes"], "translate": ["--list-targets"], "cli": ["doctor"]}
    code = f"import sys; from triton_dsl.tools.{tool} import main; sys.exit(main(sys.argv[1:]))"
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments[tool]], stdout=writer, stderr=subprocess.PIPE,
            cwd=tmp_path, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 1


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"b": [float("nan"), 1.5], "a": (float("inf"), "é")})
    text = capsys.readouterr().out
    assert json.loads(text) == {"a": [None, "é"], "b": [None, 1.5]}
    assert "é" in text and text.index('"a"') < text.index('"b"')


def test_numbers_stand_to_the_right() -> None:
    made = table(
        "t", ["name", "count", "share", "note"], [("a", 1234567, 0.5, "x"), ("b", 2, None, "")]
    )
    assert [column.justify for column in made.columns] == ["left", "right", "right", "left"]
    assert "1,234,567" in str(next(iter(made.columns[1].cells)))


def test_a_title_wider_than_its_table_stays_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(table("a title of more words than the table is wide", ["a"], [("b",)]))
    first = capsys.readouterr().out.splitlines()[0]
    assert first.rstrip() == "a title of more words than the table is wide"


def test_a_compilation_tells_stages_and_passes_within_what_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rich.progress import Progress

    told: list[tuple[str, float, float | None]] = []
    update = Progress.update

    def note(bars: Progress, task: Any, **values: Any) -> None:
        update(bars, task, **values)
        now = next(each for each in bars.tasks if each.id == task)
        told.append((now.description, now.completed, now.total))

    monkeypatch.setattr(Progress, "update", note)
    source = "layer Net { fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] { return relu(x) } }"
    stages = (Stage("tidy", "canonicalize,cse"), Stage("end", "dce"))
    with progress() as bars:
        bars.add_task("Compiling net.tri", total=None)
        run_stages(import_tri(source), stages)
        assert [task.description for task in bars.tasks] == ["Compiling net.tri"]
    assert told == [
        ("Stage tidy", 0, 2),
        ("Pass canonicalize", 0, 2),
        ("Pass cse", 1, 2),
        ("Stage end", 1, 2),
        ("Pass dce", 0, 1),
    ]


def test_a_terminal_obeys_no_file() -> None:
    assert visible("a\x1b[2Jb\u202ec\n") == "a\\x1b[2Jb\\u202ec\n"
    # As Python reads the name of a file in a locale of ASCII; then what is no UTF-8, and no text.
    assert visible("d\udcc3\udca9") == "dé"
    assert visible("\udcff") == "\\udcff"
    assert visible("\ud800") == "\\ud800"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_an_error_that_no_output_takes_is_said_once() -> None:
    code = (
        "import sys\n"
        "from triton_dsl.ir.errors import OptionError\n"
        "from triton_dsl.tools.console import guarded\n"
        "def run():\n    raise OptionError('wrong')\n"
        "sys.exit(guarded('t', run, as_json=True))\n"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (2, "t: error: wrong\n")
