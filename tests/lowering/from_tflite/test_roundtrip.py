"""What the TFLite target writes comes back: the same values, and trits as trits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8
from xdsl.ir import SSAValue

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store, store_of
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits, unpack_trits
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.targets import compile_to_target

RANDOM = np.random.default_rng(1)
TRITS = RANDOM.integers(-1, 2, (32, 10)).astype(np.int8)
FILTERS = RANDOM.integers(-1, 2, (8, 2, 3, 3)).astype(np.int8)
SCALE = (RANDOM.random(10) + 0.5).astype(np.float32)
SCALES = (RANDOM.random(8) - 0.5).astype(np.float32)
DENSE = RANDOM.standard_normal((32, 10)).astype(np.float32)
STORE = {
    "fc": pack_trits(TRITS), "conv": pack_trits(FILTERS), "scale": SCALE, "scales": SCALES,
    "dense": DENSE,
}  # fmt: skip


def there(module: ModuleOp, **options: Any) -> bytes:
    """The file that the target writes."""
    artifact = compile_to_target(module.clone(), "tflite", options)
    assert artifact.primary is not None
    return artifact.files[artifact.primary]


def parameter(add: Any, key: str, *shape: int) -> SSAValue:
    return add(tensor.ParameterOp(key, TensorType(f32, shape)))


def trits_of(module: ModuleOp) -> list[Any]:
    """The trits of the program's ternary parameters."""
    found: list[Any] = []
    for op in module.walk():
        if isinstance(op, ternary.ParameterOp):
            shape = tuple(op.result.type.get_shape())  # pyright: ignore[reportAttributeAccessIssue]
            packed = store_of(module).read(op.key.data)
            found.append(np.asarray(unpack_trits(packed, shape)))
    return found


Build = Callable[..., ModuleOp]


@pytest.mark.parametrize("storage", ["auto", "2bit", "int8"])
def test_ternary_layers_come_back_as_trits(build_module: Build, storage: str) -> None:
    def body(add: Any, x: Any) -> Any:
        w = add(ternary.ParameterOp("fc", (32, 10)))
        return add(ternary.LinearOp(x, w, scale=parameter(add, "scale", 10), activation="relu"))

    module = build_module([TensorType(f32, [DYNAMIC, 32])], body, STORE)
    back = from_tflite(there(module, storage=storage))
    assert "ternary.linear" in str(back) and "tensor.linear" not in str(back)
    np.testing.assert_array_equal(trits_of(back)[0], TRITS)
    x = RANDOM.standard_normal((5, 32)).astype(np.float32)
    (want,), (got,) = run_module(module, [x]), run_module(back, [x])
    np.testing.assert_allclose(got, want, 1e-6, 1e-6)


def test_ternary_convolutions_come_back_as_trits(build_module: Build) -> None:
    """Scales below zero go into the trits: s·t = (-s)·(-t)."""

    def body(add: Any, x: Any) -> Any:
        w = add(ternary.ParameterOp("conv", (8, 2, 3, 3)))
        scale = parameter(add, "scales", 8)
        return add(ternary.ConvOp(x, w, scale=scale, padding=(1, 1, 1, 1), strides=(1, 1)))

    module = build_module([TensorType(f32, [DYNAMIC, 2, 6, 6])], body, STORE)
    back = from_tflite(there(module))
    assert "ternary.conv" in str(back)
    signs = np.sign(SCALES)[:, None, None, None].astype(np.int8)
    np.testing.assert_array_equal(trits_of(back)[0], FILTERS * signs)
    x = RANDOM.standard_normal((3, 2, 6, 6)).astype(np.float32)
    (want,), (got,) = run_module(module, [x]), run_module(back, [x])
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)


@pytest.mark.parametrize("precision", ["float32", "float16", "dynamic-int8"])
def test_dense_layers(build_module: Build, bench: Any, precision: str) -> None:
    def body(add: Any, x: Any) -> Any:
        return add(tensor.LinearOp(x, parameter(add, "dense", 32, 10)))

    module = build_module([TensorType(f32, [DYNAMIC, 32])], body, STORE)
    data = there(module, precision=precision)
    x = RANDOM.standard_normal((5, 32)).astype(np.float32)
    (want,), (got,) = bench.litert(data, [x]), run_module(from_tflite(data), [x])
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_whole_numbers_stay_exact(build_module: Build) -> None:
    """Integers by trits go through LiteRT's floats, and come back bit for bit."""

    def body(add: Any, x: Any) -> Any:
        return add(ternary.LinearOp(x, add(ternary.ParameterOp("fc", (32, 10)))))

    module = build_module([TensorType(i8, [DYNAMIC, 32])], body, STORE)
    back = from_tflite(there(module))
    x = RANDOM.integers(-128, 128, (5, 32)).astype(np.int8)
    (want,), (got,) = run_module(module, [x]), run_module(back, [x])
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_calibrated_integers(build_module: Build, bench: Any, tmp_path: Any) -> None:
    def body(add: Any, x: Any) -> Any:
        w = add(ternary.ParameterOp("conv", (8, 2, 3, 3)))
        y = add(ternary.ConvOp(x, w, scale=parameter(add, "scales", 8), activation="relu"))
        return add(tensor.AddOp(add(tensor.GlobalAvgPoolOp(y)), add(tensor.GlobalAvgPoolOp(y))))

    module = build_module([TensorType(f32, [DYNAMIC, 2, 6, 6])], body, STORE)
    x = RANDOM.standard_normal((16, 2, 6, 6)).astype(np.float32)
    path = tmp_path / "samples.npy"
    np.save(path, x)
    data = there(module, precision="int8", calibration=str(path))
    back = from_tflite(data)
    assert "ternary.conv" in str(back) and "tensor.requantize" in str(back)
    (want,), (got,) = bench.litert(data, [x]), run_module(back, [x])
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_spiking_programs_come_back_unrolled() -> None:
    text = """
func.func @forward(%x: tensor<6x?x32xf32>) -> tensor<6x?x10xi32> {
  %w = ternary.parameter "fc" : tensor<32x10x!ternary.trit>
  %s = spike.lif %x {beta = 0.875 : f64, threshold = 0.75 : f64}
       : (tensor<6x?x32xf32>) -> !spike.train<6x?x32>
  %c = spike.linear %s, %w : !spike.train<6x?x32>, tensor<32x10x!ternary.trit>
       -> tensor<6x?x10xi32>
  func.return %c : tensor<6x?x10xi32>
}"""
    module = parse_module(text, "model.mlir")
    attach_store(module, ParameterStore.of({"fc": pack_trits(TRITS)}))
    back = from_tflite(there(module))
    x = (RANDOM.integers(-32, 32, (6, 3, 32)) / 16).astype(np.float32)
    (want,), (got,) = run_module(module, [x]), run_module(back, [x])
    np.testing.assert_array_equal(got, want)
