"""Defaults of the commands from the files of a project."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from triton_dsl.tools.cli import main

PROGRAM = """
layer Net {
    param weights: TernaryTensor[4, 3]
    fn forward(x: Tensor[N, 4]) -> Tensor[N, 3] { return x @ weights }
}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a program, in a folder below of which the commands run."""
    (tmp_path / "net.tri").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path


def engines(capsys: pytest.CaptureFixture[str], *more: str) -> set[str]:
    """The targets that `triton verify` compared."""
    assert main(["verify", "../net.tri", "--json", *more]) == 0
    report = json.loads(capsys.readouterr().out)
    return {row["target"] for row in report} - {"source"}


@pytest.mark.parametrize(
    ("file", "table"),
    [("pyproject.toml", "tool.triton.verify"), ("triton.toml", "verify")],
)
def test_a_project_sets_defaults_and_the_command_line_wins(
    project: Path, capsys: pytest.CaptureFixture[str], file: str, table: str
) -> None:
    text = f'[{table}]\ntarget = ["native"]\nrandom-weights = true\nsamples = 2\n'
    (project / file).write_text(text, encoding="utf-8")
    assert engines(capsys) == {"native"}
    assert engines(capsys, "-t", "onnx") == {"onnx"}


def test_a_pyproject_of_others_says_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text("[tool.ruff]\nline-length = 1\n", encoding="utf-8")
    assert main(["check", "../net.tri"]) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[verify]\ntargets = 1\n", "did you mean 'target'?"),
        ("[verifi]\ntarget = 1\n", "did you mean 'verify'?"),
        ("[verify]\nsamples = {}\n", "is a number, text or list"),
        ("[compile]\noutput = '/tmp/x'\n", "that a project may set"),
        ("[run]\nraster = 'x.png'\n", "that a project may set"),
        ("[verify]\nfile = 'other.tri'\n", "that a project may set"),
        ("verify = 3\n", "there is no command"),
        ("[verify\n", "cannot be read"),
    ],
)
def test_a_wrong_setting_is_one_message(
    project: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    (project / "triton.toml").write_text(text, encoding="utf-8")
    assert main(["check", "../net.tri"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("triton: error: ") and "triton.toml" in error and said in error


def test_looking_for_settings_loads_no_compiler(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.triton.check]\njson = true\n", encoding="utf-8")
    (project / "triton.toml").unlink(missing_ok=True)
    program = (
        "import sys; from triton_dsl.tools.cli import main\n"
        "code = main(['check', 'net.tri'])\n"
        "print(code, {'xdsl.ir', 'numpy', 'torch'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=project
    )
    assert done.stderr.splitlines()[-1] == "0 set()", done.stderr
    assert json.loads(done.stdout)[0]["ok"]
