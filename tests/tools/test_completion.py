"""A shell that asks what may follow gets what the tools take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triton_dsl.tools.completion import pipelines, specs, targets

KNOWN = {"cse": lambda: [], "canonicalize": lambda: ["max-iterations", "top_down"]}


@pytest.mark.parametrize(
    "text, found",
    [
        ("", ["canonicalize", "cse"]),
        ("cs", ["cse"]),
        ("cse,c", ["cse,canonicalize", "cse,cse"]),
        ("builtin.module(cs", ["builtin.module(cse"]),
        ("cse,canonicalize{", ["cse,canonicalize{max-iterations=", "cse,canonicalize{top-down="]),
        ("canonicalize{top-down=1 ", ["canonicalize{top-down=1 max-iterations="]),
        ("canonicalize{top-down=", []),
        ("canonicalize{max-iterations=3},cs", ["canonicalize{max-iterations=3},cse"]),
        ("none{", []),
    ],
)
def test_one_word_more(text: str, found: list[str]) -> None:
    assert specs(text, KNOWN) == found


def test_passes_and_targets_with_their_options() -> None:
    assert pipelines("cse,fuse-lin") == ["cse,fuse-linear"]
    assert "ternarize{rule=" in pipelines("ternarize{r")
    assert targets("onn") == ["onnx"] and "onnx{opset=" in targets("onnx{op")


@pytest.mark.parametrize(
    "tool, line, word",
    [
        ("opt", "triton-opt m.mlir -p dce,fuse-lin", "dce,fuse-linear"),
        ("opt", "triton-opt m.mlir --mlir-print-ir-tr", "--mlir-print-ir-tree-dir"),
        ("translate", "triton-translate m.mlir --target nat", "native"),
        ("reduce", "triton-reduce m.mlir --verify-s", "--verify-semantics"),
    ],
)
def test_the_tools_answer_a_shell(tool: str, line: str, word: str, tmp_path: Path) -> None:
    pytest.importorskip("argcomplete", reason="pip install argcomplete")
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "words"),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    run = subprocess.run(
        [sys.executable, "-m", f"triton_dsl.tools.{tool}"],
        env=os.environ | asked,
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    words = (tmp_path / "words").read_text(encoding="utf-8").split("\n")
    assert [each.strip() for each in words] == [word]
    assert (run.stdout, run.stderr) == (b"", b"")
