"""The main job, from `.tri` source to both engines, on real digits."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from triton_dsl.dialects.interpret import run_module
from triton_dsl.tools.verify import is_integer_program, verify_module

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def example() -> Any:
    """The modules `digits` and `classification` of the examples, imported as scripts do."""
    pytest.importorskip("sklearn", reason="pip install scikit-learn")
    sys.path.insert(0, str(EXAMPLES))
    try:
        import classification  # pyright: ignore
        import digits  # pyright: ignore

        yield classification, digits
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.mark.parametrize("network", ["MLP", "CNN"])
def test_every_engine_gives_the_same_predictions(
    example: Any, network: str, tmp_path: Path
) -> None:
    classification, digits = example
    data = digits.load_data()
    with Progress(disable=True) as progress:
        state = classification.train(
            digits.SOURCE,
            f"Ternary{network}",
            data,
            classification.Schedule(epochs=4),
            progress,
        )
    ternary = classification.deploy(digits.SOURCE, f"Ternary{network}", state)
    rows = verify_module(ternary, [data.test_images])
    assert [row.target for row in rows] == ["pytorch", "onnx", "native", "tflite"]
    assert all(row.agrees and row.argmax_agreement == 1.0 for row in rows)
    integer = classification.quantize(ternary, data.train_images[:128], tmp_path)
    assert is_integer_program(integer)
    assert all(row.bit_exact for row in verify_module(integer, [data.test_images]))
    (logits,) = run_module(integer, [data.test_images])
    assert classification.accuracy(logits, data.test_labels) > 0.9


@pytest.mark.slow
def test_the_demo_reaches_its_accuracy(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "digits.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "DIFFERS" not in done.stdout and f"files: {tmp_path.resolve()}" in done.stdout
    assert (tmp_path / "mlp-integer.onnx").is_file()


Ended = Callable[[str, str], str | int | None]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ended:
    """With what an example ends in an empty folder: `ended(program, argument)`."""
    pytest.importorskip("sklearn", reason="pip install scikit-learn")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)

    def run(program: str, argument: str) -> str | int | None:
        monkeypatch.setattr(sys, "argv", [program, argument])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(EXAMPLES / program), run_name="__main__")
        assert list(tmp_path.iterdir()) == []
        return end.value.code

    return run


def test_mnist_says_what_is_missing(ended: Ended, tmp_path: Path) -> None:
    assert f"MNIST is not in '{tmp_path}'" in str(ended("mnist.py", str(tmp_path)))


@pytest.mark.parametrize("program", ["digits.py", "mnist.py"])
def test_help_runs_nothing(program: str, ended: Ended, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(program, "--help") == 0
    assert capsys.readouterr().out.startswith("usage:")
