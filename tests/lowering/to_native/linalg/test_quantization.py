"""Quantisation, lowered and run by LLVM: exactly what the reference interpreter computes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

from triton_dsl.dialects import tensor

X = "tensor<?x3x4xf32>"


def requantize(**options: int) -> Callable[..., Operation]:
    """A builder of `tensor.requantize`."""
    return lambda *operands: tensor.RequantizeOp(*operands, **options)


CASES: dict[str, tuple[Callable[..., Operation], str]] = {
    "quantize": (tensor.QuantizeOp, f"{X}; tensor<f32>; tensor<i8>"),
    "quantize_channels": (tensor.QuantizeOp, f"{X}; tensor<3xf32>; tensor<3xi8>"),
    "quantize_last": (
        lambda x, s, z: tensor.QuantizeOp(x, s, z, axis=-1, low=-7, high=7),
        f"{X}; tensor<4xf32>; tensor<i8>",
    ),
    "quantize_i32": (
        lambda x, s, z: tensor.QuantizeOp(x, s, z, low=-(2**31), high=2**31 - 1),
        f"{X}; tensor<f32>; tensor<i32>",
    ),
    "dequantize": (tensor.DequantizeOp, "tensor<?x3x4xi8>; tensor<f32>; tensor<i8>"),
    "dequantize_channels": (
        tensor.DequantizeOp,
        "tensor<?x3x4xi32>; tensor<3xf32>; tensor<3xi32>",
    ),
    "requantize": (requantize(), "tensor<?x3xi32>; tensor<i32>; tensor<i32>; tensor<i8>"),
    "requantize_channels": (
        requantize(low=-100, high=90),
        "tensor<?x3x50xi32>; tensor<3xi32>; tensor<3xi32>; tensor<i8>",
    ),
    "requantize_last": (
        requantize(axis=-1),
        "tensor<?x2x3xi32>; tensor<3xi32>; tensor<i32>; tensor<i16>",
    ),
    "thresholds": (tensor.MultiThresholdOp, "tensor<?x3x50xi32>; tensor<3x15xi32>"),
    "thresholds_shared": (tensor.MultiThresholdOp, "tensor<?x3xi8>; tensor<1x7xi8>"),
    "thresholds_many": (tensor.MultiThresholdOp, "tensor<?x3xf32>; tensor<3x200xf32>"),
    "thresholds_last": (
        lambda x, t: tensor.MultiThresholdOp(x, t, axis=-1),
        "tensor<?x2x3xi32>; tensor<3x5xi32>",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_quantization(compiled: Any, name: str, seed: int) -> None:
    inputs = compiled.inputs(name, seed)
    rng = np.random.default_rng(seed + 100)
    if name.startswith(("quantize", "dequantize")):
        inputs[1] = (np.abs(inputs[1]) / 50 + 1e-3).astype(np.float32)
    elif name.startswith("requantize"):
        inputs[0] = rng.integers(-(2**31), 2**31, inputs[0].shape).astype(np.int32)
        inputs[1] = rng.integers(-(2**31) + 1, 2**31, inputs[1].shape).astype(np.int32)
        inputs[2] = rng.integers(1, 63, inputs[2].shape).astype(np.int32)
    else:
        inputs[1].sort(axis=1)
    compiled.check(name, inputs, rtol=0, atol=0)


def test_quantize_saturates_and_takes_nan_for_zero(compiled: Any) -> None:
    numbers = [np.nan, np.inf, -np.inf, 3e38, -3e38, 0.5, 1.5, 2.5, -0.5, -1.5, 127.5, -128.5]
    x = np.array(numbers, np.float32).reshape(1, 3, 4)
    for name, dtype in (("quantize", np.int8), ("quantize_i32", np.int32)):
        for start in (0, -128, 127):
            zero = np.array(start, dtype)
            (q,) = compiled.check(name, [x, np.array(1, np.float32), zero])
            assert q.reshape(-1)[0] == 0
            if not start:
                assert q.reshape(-1)[5:10].tolist() == [0, 2, 2, 0, -2]


def test_requantize_rounds_halves_up(compiled: Any) -> None:
    x = np.array([[-3, -1, 1], [3, 5, -5]], np.int32)
    (q,) = compiled.check("requantize", [x, *(np.array(n, np.int32) for n in (1, 1)), np.int8(0)])
    assert q.tolist() == [[-1, 0, 1], [2, 3, -2]]
