"""A published network, in floats and integers: as LiteRT computes it, and out through targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.targets import compile_to_target

INTEGERS, FLOATS = "kws_ref_model.tflite", "kws_ref_model_float32.tflite"
STEPS = "tensor.requantize"


def spectrograms(integers: bool, count: int = 8) -> Any:
    """Inputs of keyword spotting: smooth in time, as those of speech are."""
    random = np.random.default_rng(5)
    noise = random.standard_normal((count, 49, 10, 1)).astype(np.float32)
    smooth = np.cumsum(noise, axis=1) / 3
    return np.clip(np.rint(20 * smooth), -128, 127).astype(np.int8) if integers else smooth


def test_integers_are_bit_for_bit_those_of_litert(bench: Any, shared_data: Any) -> None:
    path = shared_data.path("models", "tflite", INTEGERS)
    x = spectrograms(True, 32)
    module = from_tflite(path)
    (got,), (want,) = run_module(module, [x]), bench.litert(path.read_bytes(), [x])
    assert got.dtype == want.dtype == np.int8
    np.testing.assert_array_equal(got, want)
    assert "tensor.permute" in str(module) and str(module).count("tensor.permute") == 1


def test_integers_rounded_once_predict_the_same(bench: Any, shared_data: Any) -> None:
    path = shared_data.path("models", "tflite", INTEGERS)
    x = spectrograms(True, 32)
    module = from_tflite(path, rounding="once")
    # One for each of ten products, and one for the pool.
    assert str(module).count(STEPS) == 11
    (got,), (want,) = run_module(module, [x]), bench.litert(path.read_bytes(), [x], reference=False)
    assert (got.argmax(1) == want.argmax(1)).mean() >= 0.9
    assert np.abs(got.astype(int) - want).mean() < 1


def test_floats_by_stored_integers_are_those_of_litert(bench: Any, shared_data: Any) -> None:
    """Sums of floats in another order now and then round an activation to another step."""
    path = shared_data.path("models", "tflite", FLOATS)
    x = spectrograms(False)
    (got,) = run_module(from_tflite(path), [x])
    (want,) = bench.litert(path.read_bytes(), [x])
    off = np.abs(got - want).max(axis=1) / np.abs(want).max(axis=1)
    assert np.median(off) <= 1e-5
    assert off.max() <= 1e-3
    assert (got.argmax(1) == want.argmax(1)).all()


@pytest.mark.parametrize("name", [INTEGERS, FLOATS])
@pytest.mark.parametrize(
    "target", ["onnx", "pytorch", "tflite", pytest.param("native", marks=pytest.mark.slow)]
)
def test_out_through_targets(shared_data: Any, name: str, target: str) -> None:
    x = spectrograms(name == INTEGERS)
    module = from_tflite(shared_data.path("models", "tflite", name))
    (want,) = run_module(module, [x])
    _, (got,), _ = run_target(module, target, [x])
    assert got.dtype == want.dtype
    assert (got.argmax(1) == want.argmax(1)).all()
    if name == INTEGERS:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, atol=1e-3)


def test_a_graph_of_neurons_is_refused_clearly(shared_data: Any) -> None:
    module = from_tflite(shared_data.path("models", "tflite", INTEGERS))
    with pytest.raises(UnsupportedError, match=r"target 'nir' cannot express \d+ operation\(s\)"):
        compile_to_target(module, "nir", {})
