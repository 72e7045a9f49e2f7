"""The ternary dialect, lowered and run by LLVM, against the reference interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

from triton_dsl.dialects import ternary
from triton_dsl.ir.trits import pack_trits

TRITS = "!ternary.trit"


def linear(*names: str, **options: Any) -> Callable[..., Operation]:
    """A builder of `ternary.linear` with the optional operands that are named."""
    return lambda x, w, *rest: ternary.LinearOp(
        x, w, **dict(zip(names, rest, strict=True)), **options
    )


def conv(*names: str, **options: Any) -> Callable[..., Operation]:
    """A builder of `ternary.conv` with the optional operands that are named."""
    return lambda x, w, *rest: ternary.ConvOp(
        x, w, **dict(zip(names, rest, strict=True)), **options
    )


def ternarize(**options: Any) -> Callable[..., Operation]:
    """A builder of `ternary.ternarize`."""
    return lambda x: ternary.TernarizeOp(x, **options)


GRAPH: dict[str, Any] = {
    "inputs": 3,
    "nodes": [(0, 1, -1, 0), (3, 2, 1, 4), (4, 3, -1, 1)],
    "outputs": [(3, 1), (5, -1), (0, 0), (2, 1)],
}
RESCALING = ("multiplier", "shift", "zero_point")
WINDOW: dict[str, Any] = {"strides": (2, 1), "padding": (1, 0, 1, 1), "dilation": (1, 2)}

CASES: dict[str, tuple[Callable[..., Operation], str]] = {
    **{
        f"matmul_{kind}": (ternary.MatmulOp, f"tensor<?x8x{kind}>; tensor<8x4x{TRITS}>")
        for kind in ("f32", "f64", "f16", "i8", "i32", "i64")
    },
    "matmul_trits": (ternary.MatmulOp, f"tensor<?x8x{TRITS}>; tensor<8x4x{TRITS}>"),
    "matmul_scale": (
        ternary.MatmulOp,
        f"tensor<?x8xf32>; tensor<8x4x{TRITS}>; tensor<4xf32>",
    ),
    "matmul_batched": (ternary.MatmulOp, f"tensor<?x2x3xf32>; tensor<?x3x4x{TRITS}>"),
    "linear": (linear(), f"tensor<?x2x8xf32>; tensor<8x4x{TRITS}>"),
    "linear_all": (
        linear("scale", "bias", activation="relu6"),
        f"tensor<?x8xf32>; tensor<8x4x{TRITS}>; tensor<4xf32>; tensor<4xf32>",
    ),
    "linear_thresholds": (
        linear("bias", "thresholds", activation="relu"),
        f"tensor<?x8xi8>; tensor<8x4x{TRITS}>; tensor<4xi32>; tensor<4x9xi32>",
    ),
    "linear_rescaled": (
        linear("bias", *RESCALING, activation="relu", low=-100, high=100),
        f"tensor<?x8xi8>; tensor<8x4x{TRITS}>; tensor<4xi32>; tensor<4xi32>; tensor<4xi32>; "
        "tensor<i8>",
    ),
    "conv": (conv(**WINDOW), f"tensor<?x3x7x8xf32>; tensor<4x3x3x2x{TRITS}>"),
    "conv_integers": (
        conv("bias", **WINDOW),
        f"tensor<?x3x7x8xi8>; tensor<4x3x3x2x{TRITS}>; tensor<4xi32>",
    ),
    "conv_groups": (
        conv("scale", "bias", groups=2, activation="relu"),
        f"tensor<?x4x5x5xf32>; tensor<6x2x3x3x{TRITS}>; tensor<6xf32>; tensor<6xf32>",
    ),
    "conv_thresholds": (
        conv("thresholds"),
        f"tensor<?x3x5x5xi8>; tensor<4x3x3x3x{TRITS}>; tensor<1x9xi32>",
    ),
    "conv_rescaled": (
        conv(*RESCALING, low=0, high=100),
        f"tensor<?x3x5x5xi8>; tensor<4x3x3x3x{TRITS}>; tensor<4xi32>; tensor<i32>; tensor<i8>",
    ),
    "conv_1d": (
        conv(strides=(2,), padding=(1, 1), dilation=(1,)),
        f"tensor<?x3x9xi8>; tensor<4x3x3x{TRITS}>",
    ),
    "graph": (lambda x: ternary.AdderGraphOp(x, **GRAPH), "tensor<?x3xi8>"),
    "graph_floats": (lambda x: ternary.AdderGraphOp(x, **GRAPH), "tensor<?x2x3xf32>"),
    "graph_trits": (lambda x: ternary.AdderGraphOp(x, **GRAPH), f"tensor<?x3x{TRITS}>"),
    "dequantize": (ternary.DequantizeOp, f"tensor<?x4x{TRITS}>"),
    "dequantize_channels": (ternary.DequantizeOp, f"tensor<?x4x{TRITS}>; tensor<4xf64>"),
    "dequantize_scalar": (ternary.DequantizeOp, f"tensor<?x4x{TRITS}>; tensor<f32>"),
    "ternarize": (ternarize(), "tensor<?x40xf32>"),
    "ternarize_fixed": (ternarize(rule="fixed", threshold=0.5, scale="tensor"), "tensor<?x40xf64>"),
    "ternarize_channels": (ternarize(scale="channel", axis=0), "tensor<?x40xf32>"),
    "ternarize_absmean": (ternarize(rule="absmean", scale="tensor"), "tensor<?x40xf32>"),
    "ternarize_absmean_channels": (
        ternarize(rule="absmean", scale="channel", axis=1),
        "tensor<?x4x9xf64>",
    ),
    "ternarize_f16": (ternarize(rule="fixed", threshold=0.25), "tensor<?x40xf16>"),
    **{f"pack_{n}": (ternary.PackOp, f"tensor<{n}x{TRITS}>") for n in (1, 4, 7)},
    "pack_matrix": (ternary.PackOp, f"tensor<3x5x{TRITS}>"),
    "unpack": (lambda b: ternary.UnpackOp(b, (3, 5)), "tensor<4xui8>"),
    "unpack_whole": (lambda b: ternary.UnpackOp(b, (8,)), "tensor<2xui8>"),
}


@pytest.mark.parametrize("name", CASES)
def test_ternary(compiled: Any, name: str) -> None:
    inputs = compiled.inputs(name)
    rng = np.random.default_rng(7)
    if "thresholds" in name:
        inputs[-1] = np.sort(inputs[-1], axis=1)
    if "rescaled" in name:
        inputs[-3] = rng.integers(-(2**20), 2**20, inputs[-3].shape).astype(np.int32)
        inputs[-2] = rng.integers(15, 25, inputs[-2].shape).astype(np.int32)
    if name.startswith("unpack"):
        count = 15 if name == "unpack" else 8
        inputs = [pack_trits(rng.integers(-1, 2, count))]
    compiled.check(name, inputs)


def test_absmean_of_zeros_is_zero(compiled: Any) -> None:
    trits, scale = compiled.check("ternarize_absmean", [np.zeros((2, 40), np.float32)])
    assert not trits.any() and scale == 0


@pytest.mark.parametrize("name", ["ternarize", "ternarize_fixed", "ternarize_absmean"])
def test_nan_becomes_0(compiled: Any, name: str) -> None:
    (x,) = compiled.inputs(name)
    x[:, ::3] = np.nan
    trits, *_ = compiled.check(name, [x])
    assert not trits[:, ::3].any()


def test_trits_accumulate_beyond_8_bits(compiled: Any) -> None:
    x, w = np.full((1, 8), 127, np.int8), np.ones((8, 4), np.int8)
    (sums,) = compiled.check("matmul_i8", [x, w])
    assert sums.tolist() == [[8 * 127] * 4]
