"""How much is said: JSON for programs when a command fails, -v and -q, and what no library adds."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from triton_dsl.tools import console, opt
from triton_dsl.tools.cli import main

PROGRAM = """layer Net {
    param w: TernaryTensor[16, 4]
    fn forward(x: Tensor[N, 16]) -> Tensor[N, 4] { return x @ w }
}
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "net.tri"
    path.write_text(PROGRAM, encoding="utf-8")
    return str(path)


def test_a_failure_is_json_too(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "none.tri", "--json"]) == 1
    captured = capsys.readouterr()
    error = json.loads(captured.out)["error"]
    assert error == {"kind": "SourceError", "message": "none.tri: no such file", "exit_code": 1}
    assert captured.err == "triton: error: none.tri: no such file\n"
    assert main(["verify", program, "--random-weights", "--json", "-t", "nothing"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "OptionError"
    assert opt.main(["--describe-pass", "nothing", "--json"]) == 2
    assert "unknown pass" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_several_targets_in_one(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", program, "--random-weights", "-t", "onnx,native"]) == 2
    assert "repeat the option: -t onnx -t native" in capsys.readouterr().err


def test_quiet_and_verbose(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    pytest.importorskip("onnx")
    logger = logging.getLogger("triton_dsl")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", False)
    arguments = ["verify", program, "--random-weights", "-t", "onnx"]
    try:
        assert main(arguments) == 0
        assert "note: source" in capsys.readouterr().err
        assert main(["-q", *arguments]) == 0
        captured = capsys.readouterr()
        assert captured.err == "" and "agrees" in captured.out
        assert main(["-v", *arguments]) == 0
        told = capsys.readouterr().err
        assert "stage " in told and " ms  " in told
    finally:
        console.speak(quiet=False, verbose=False)
        logger.setLevel(logging.NOTSET)


def test_litert_says_nothing_of_itself(program: str) -> None:
    """Its own remark is left out; what else goes to the descriptor meanwhile is not."""
    pytest.importorskip("ai_edge_litert")
    code = (
        "import os\n"
        "from triton_dsl.lowering.to_tflite.first_remark import without_first_remark\n"
        "with without_first_remark():\n    os.write(2, b'other\\n')\n"
        "from triton_dsl.tools.cli import main\n"
        f"raise SystemExit(main(['verify', {program!r}, '--random-weights', '-t', 'tflite']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "litert" in done.stdout
    assert "INFO" not in done.stderr and done.stderr.startswith("other\n")


def test_without_pytorch_the_other_engines_verify(program: str) -> None:
    pytest.importorskip("onnxruntime")
    code = (
        "import importlib.util, sys\n"
        "sys.modules['torch'] = None\n"
        "from triton_dsl.tools import verify\n"
        "find = verify.find_spec\n"
        "verify.find_spec = lambda name: None if name == 'torch' else find(name)\n"
        "from triton_dsl.tools.cli import main\n"
        f"raise SystemExit(main(['verify', {program!r}, '--random-weights']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "onnx" in done.stdout and "│ pytorch" not in done.stdout
