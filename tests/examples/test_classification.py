"""The main job, from `.tri` source to both engines, on real digits."""

from __future__ import annotations

import subprocess
import sys
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


def test_mnist_says_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "mnist.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"MNIST is not in '{tmp_path}'" in done.stderr


@pytest.mark.parametrize("program", ["digits.py", "mnist.py"])
def test_help_runs_nothing(program: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / program), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("usage:")
    assert list(tmp_path.iterdir()) == []
