"""Integer arithmetic where weights are next to nothing and biases are not: no bias overflows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32

from triton_dsl.dialects import tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.lowering.engine import run_artifact
from triton_dsl.lowering.integer_weights import symmetric
from triton_dsl.lowering.targets import compile_to_target


def test_no_scale_is_below_the_least() -> None:
    values = np.array([[1e-9, 0.0, 127.0], [-2e-9, 0.0, 1.0]])
    levels, scale = symmetric(values, 1, least=np.array([1e-8, 0.0, 0.5], np.float32))
    np.testing.assert_allclose(scale, [1e-8, 1.0, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(levels, [[0, 0, 127], [0, 0, 1]])


@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_biases_fit_beside_small_weights(
    target: str, build_module: Callable[..., ModuleOp], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    store = {
        "w": (1e-9 * rng.standard_normal((8, 6))).astype(np.float32),
        "b": rng.standard_normal(6).astype(np.float32),
        "v": rng.standard_normal((6, 3)).astype(np.float32),
    }

    def body(add: Any, x: Any) -> Any:
        w, b, v = (
            add(tensor.ParameterOp(key, TensorType(f32, array.shape)))
            for key, array in store.items()
        )
        return add(tensor.MatmulOp(add(tensor.ReluOp(add(tensor.LinearOp(x, w, b)))), v))

    module = build_module([TensorType(f32, [DYNAMIC, 8])], body, store)
    x = rng.standard_normal((32, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    spec = f'{target}{{precision=int8 calibration="{tmp_path / "x.npy"}"}}'
    (want,) = run_module(module, [x])
    (got,) = run_artifact(target, compile_to_target(module, spec), [x])[1]
    np.testing.assert_allclose(got, want, atol=0.02 * np.abs(want).max())
