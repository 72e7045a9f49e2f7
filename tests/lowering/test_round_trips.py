"""One network through several formats, one after the other: its predictions stay.

PyTorch → IR → ONNX → IR → TFLite, on MNIST and the network trained for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import ternary
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_tflite.engine import run_tflite
from triton_dsl.runtime.engines import run_onnx
from triton_dsl.runtime.random_values import fill_parameters

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).resolve().parents[2]


def file_of(program: ModuleOp, target: str) -> bytes:
    return next(iter(compile_to_target(program, target).files.values()))


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_pytorch_to_onnx_to_tflite(count: int, shared_data: Any) -> None:
    model, x = shared_data.network("cnn"), shared_data.digits("t10k")[:count]
    onnx_file = file_of(from_torch(model, (torch.zeros(2, 1, 28, 28),)), "onnx")
    tflite_file = file_of(from_onnx(onnx_file), "tflite")
    with torch.no_grad():
        want = model(torch.from_numpy(x)).numpy()
    made = [run_onnx(onnx_file, [x])[0], run_tflite(tflite_file, [x])[0]]
    for got in made:
        assert np.abs(got - want).max() < 1e-5 * np.abs(want).max()
        np.testing.assert_array_equal(got.argmax(-1), want.argmax(-1))


def test_trits_stay_trits_through_onnx() -> None:
    """The ternary example: packed weights are packed again behind the second import."""
    program = fill_parameters(import_tri(ROOT / "examples" / "models" / "mnist.tri"), 3)
    x = np.random.default_rng(0).random((100, 1, 28, 28), np.float32)
    again = from_onnx(file_of(program, "onnx"))
    files = [file_of(p, "tflite{storage=2bit}") for p in (program, again)]
    want, got = (run_tflite(data, [x])[0] for data in files)
    np.testing.assert_allclose(got, want, 1e-4, 1e-4)
    np.testing.assert_array_equal(got.argmax(-1), want.argmax(-1))
    assert abs(len(files[0]) - len(files[1])) < 2000
    assert any(isinstance(op, ternary.ParameterOp) for op in again.walk())
