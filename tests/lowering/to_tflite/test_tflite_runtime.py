"""Files in the last TensorFlow Lite of its own, tflite-runtime 2.14: the results are LiteRT's.

It needs NumPy 1 and Python 3.11 at most, so it gets a virtual environment of its own, made once in
the folder `build`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_tflite.engine import run_tflite
from triton_dsl.runtime.random_values import fill_parameters

pytestmark = pytest.mark.slow

Array = np.ndarray[Any, Any]
Run = Callable[[bytes, Sequence[Array]], list[Array]]

ROOT = Path(__file__).resolve().parents[3]
VERSION = "2.14.0"
SCRIPT = """
import sys
import numpy as np
import tflite_runtime.interpreter as tflite

interpreter = tflite.Interpreter(model_path=sys.argv[1])
given = np.load(sys.argv[2])
ports = interpreter.get_input_details()
for i, port in enumerate(ports):
    interpreter.resize_tensor_input(port["index"], given[f"arr_{i}"].shape)
interpreter.allocate_tensors()
for i, port in enumerate(ports):
    interpreter.set_tensor(port["index"], given[f"arr_{i}"])
interpreter.invoke()
made = [interpreter.get_tensor(port["index"]) for port in interpreter.get_output_details()]
np.savez(sys.argv[3], *made)
"""


@pytest.fixture(scope="module")
def python(require_tool: Callable[[str, str], str]) -> Path:
    """The interpreter of an environment with tflite-runtime, made where it is not there yet."""
    place = ROOT / "build" / f"tflite-runtime-{VERSION}"
    made = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    works = [str(made), "-c", "import tflite_runtime.interpreter"]
    if made.exists() and subprocess.run(works, capture_output=True, check=False).returncode == 0:
        return made
    old = sys.version_info < (3, 12)
    base = sys.executable if old else require_tool("python3.11", "tflite-runtime has no newer one")
    wanted = [f"tflite-runtime=={VERSION}", "numpy<2"]
    for command in (
        [base, "-m", "venv", "--clear", str(place)],
        [str(made), "-m", "pip", "install", "-q", "--only-binary=:all:", *wanted],
        works,
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            pytest.skip(f"tflite-runtime {VERSION} cannot be installed here: {last}")
    return made


@pytest.fixture
def run(python: Path, tmp_path: Path) -> Run:
    """Run a file in tflite-runtime."""

    def run(model: bytes, inputs: Sequence[Array]) -> list[Array]:
        files = [tmp_path / name for name in ("model.tflite", "inputs.npz", "outputs.npz")]
        files[0].write_bytes(model)
        np.savez(files[1], *inputs)
        command = [str(python), "-c", SCRIPT, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
        with np.load(files[2]) as results:
            return [results[name] for name in results.files]

    return run


@pytest.mark.parametrize("precision", ["float32", "float16", "int8", "int16"])
def test_a_network_of_convolutions(
    precision: str, run: Run, real_models: ModuleType, tmp_path: Path
) -> None:
    program = from_torch(real_models.build("keyword"), (real_models.inputs("keyword", 2),))
    x = real_models.inputs("keyword", 16).numpy()
    options: dict[str, object] = {"precision": precision}
    if precision.startswith("int"):
        np.savez(tmp_path / "samples.npz", x=x)
        options["calibration"] = str(tmp_path / "samples.npz")
    data = next(iter(compile_to_target(program, "tflite", options).files.values()))
    (want,), (got,) = run_tflite(data, [x]), run(data, [x])
    # Kernels of integers round one step differently here and there.
    limit = 1e-5 if precision.startswith("float") else 0.03
    assert np.abs(got - want).max() <= limit * np.abs(want).max()
    assert (got.argmax(-1) == want.argmax(-1)).mean() >= (1 if limit < 0.01 else 0.9)


@pytest.mark.parametrize("name", ["mnist", "digits"])
def test_ternary_networks(name: str, run: Run) -> None:
    program = fill_parameters(import_tri(ROOT / "examples" / "models" / f"{name}.tri"), 3)
    x = np.random.default_rng(0).random((5, 1, *((28, 28) if name == "mnist" else (8, 8))))
    data = next(iter(compile_to_target(program, "tflite").files.values()))
    (want,), (got,) = run_tflite(data, [x.astype(np.float32)]), run(data, [x.astype(np.float32)])
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


def test_attention(run: Run, real_models: ModuleType) -> None:
    model = real_models.ViT(size=32, patch=8, width=24, layers=2, heads=3, classes=10).eval()
    x = real_models.inputs("vit_tiny", 3)[..., :32, :32]
    program = from_torch(model, (x,))
    data = next(iter(compile_to_target(program, "tflite").files.values()))
    (want,), (got,) = run_tflite(data, [x.numpy()]), run(data, [x.numpy()])
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()
