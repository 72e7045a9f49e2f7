"""Integer products that are rescaled: every bit beside ONNX Runtime, and the reference but at ties.

ONNX Runtime takes sums to the steps of the result by one factor in float32, rounds halves to even,
and adds the zero point then, as `QuantizeLinear` of the standard does. The reference evaluator
multiplies by the same factor in float64, and adds the zero point before it rounds: at halves the
two differ, beside odd zero points and where float32 rounds a product to a half. What is within
some units in the last place of a half is compared with ONNX Runtime alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.from_onnx import from_onnx

NAMES = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
UNITS = 4 * 2.0**-24
"""How far, relatively, the product by a factor in float32 may be from that in float64."""

SCALES = [0.05, 0.1, 0.25, 0.3, 0.5, 0.7, 1.1, 2.0]
KINDS = [(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)]


def integers(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> Any:
    """None so large that ONNX Runtime's products of UINT8 and INT8 saturate."""
    most = int(rng.choice([3, 20, 63]))
    return rng.integers(-most if dtype == np.int8 else 0, most + 1, shape).astype(dtype)


def constants(rng: np.random.Generator, kinds: Any, channels: int) -> dict[str, Any]:
    """Random scales and zero points, and a weight [4, 5]; its scales are one for each channel."""
    xs, ws, ys = (np.float32(scale) for scale in rng.choice(SCALES, 3))
    if channels:
        ws = (ws * np.arange(1, channels + 1) / np.float32(2)).astype(np.float32)
    weight_zero = np.full(channels, rng.integers(4)) if channels else rng.integers(4)
    stored = {
        "xs": xs,
        "xz": rng.integers(6).astype(kinds[0]),
        "w": integers(rng, kinds[1], (4, 5)),
    }
    stored |= {"ws": ws, "wz": weight_zero.astype(kinds[1])}
    stored |= {"ys": ys, "yz": rng.integers(6).astype(kinds[0])}
    return {name: np.asarray(value) for name, value in stored.items()}


def check(bench: Any, source: Any, x: Any, sums: Any, factor: Any) -> int:
    """Compare the results; the number of those beside a half."""
    (got,) = run_module(from_onnx(source), [x])
    (runtime,), (standard,) = bench.run(source, {"x": x}), bench.run_standard(source, {"x": x})
    assert got.dtype == runtime.dtype == standard.dtype
    np.testing.assert_array_equal(got, runtime)
    steps = sums * factor.astype(np.float64)
    near = np.abs(np.abs(steps - np.rint(steps)) - 0.5) <= UNITS * (1 + np.abs(steps))
    np.testing.assert_array_equal(got[~near], standard[~near])
    return int(near.sum())


@pytest.mark.parametrize("channels", [0, 5])
@pytest.mark.parametrize("kinds", KINDS, ids=lambda kinds: "-".join(k.__name__ for k in kinds))
def test_products_of_matrices(bench: Any, kinds: Any, channels: int) -> None:
    halves = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        stored, x = constants(rng, kinds, channels), integers(rng, kinds[0], (32, 4))
        node = helper.make_node("QLinearMatMul", NAMES, ["y"])
        source = bench.model([node], {"x": (kinds[0], ["N", 4])}, ["y"], stored)
        wide = stored["w"].astype(np.int64) - stored["wz"]
        sums = (x.astype(np.int64) - stored["xz"]) @ wide
        halves += check(bench, source, x, sums, stored["xs"] * stored["ws"] / stored["ys"])
    assert halves > 100


@pytest.mark.parametrize("channels", [0, 5])
@pytest.mark.parametrize("kinds", KINDS, ids=lambda kinds: "-".join(k.__name__ for k in kinds))
def test_convolutions(bench: Any, kinds: Any, channels: int) -> None:
    """With windows of one pixel, so that the sums are those of matrices."""
    halves = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        stored, x = constants(rng, kinds, channels), integers(rng, kinds[0], (3, 4, 3, 3))
        wide = stored["w"].astype(np.int64).T - stored["wz"].reshape(-1, 1)
        stored["w"] = np.ascontiguousarray(stored["w"].T).reshape(5, 4, 1, 1)
        stored["b"] = rng.integers(-50, 51, 5).astype(np.int32)
        node = helper.make_node("QLinearConv", [*NAMES, "b"], ["y"])
        source = bench.model([node], {"x": (kinds[0], ["N", 4, 3, 3])}, ["y"], stored)
        sums = np.einsum("oi,nihw->nohw", wide, x.astype(np.int64) - stored["xz"])
        sums = sums + stored["b"].reshape(-1, 1, 1)
        factor = stored["xs"] * stored["ws"] / stored["ys"]
        halves += check(bench, source, x, sums, factor.reshape(-1, 1, 1))
    assert halves > 100
