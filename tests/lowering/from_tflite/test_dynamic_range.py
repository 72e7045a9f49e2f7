"""Floats by stored integers: as LiteRT's reference kernels round activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.to_tflite.graph import Element

ONE, SAME, VARIED = [0.005], [0.005] * 6, [0.001, 0.002, 0.003, 0.004, 0.005, 0.006]
WINDOW = {"padding": 0, "strideW": 2, "strideH": 2, "dilationWFactor": 1, "dilationHFactor": 1}


def floats(count: int) -> Any:
    return np.random.default_rng(1).standard_normal(count).astype(np.float32)


def integers(*shape: int) -> Any:
    return np.random.default_rng(2).integers(-127, 128, shape).astype(np.int8)


@pytest.mark.parametrize("scale", [ONE, SAME, VARIED])
def test_convolutions(bench: Any, scale: list[float]) -> None:
    w = bench.constant(integers(6, 3, 3, 4), how=bench.grid(scale))
    x, y = bench.tensor("x", (3, 5, 5, 4)), bench.tensor("y", (3, 3, 3, 6))
    bench.check("CONV_2D", [x, w, bench.constant(floats(6))], y, **WINDOW,
                fusedActivationFunction=1)  # fmt: skip


@pytest.mark.parametrize("scale", [SAME, VARIED])
def test_depthwise_convolutions(bench: Any, scale: list[float]) -> None:
    w = bench.constant(integers(1, 3, 3, 6), how=bench.grid(scale, 0, 3))
    x, y = bench.tensor("x", (3, 5, 5, 6)), bench.tensor("y", (3, 3, 3, 6))
    bench.check("DEPTHWISE_CONV_2D", [x, w, bench.constant(floats(6))], y, **WINDOW,
                depthMultiplier=1)  # fmt: skip


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("scale", [ONE, VARIED])
@pytest.mark.parametrize("element", [Element.INT8, Element.INT4, Element.INT2])
def test_fully_connected_layers(
    bench: Any, element: Element, scale: list[float], asymmetric: bool
) -> None:
    most = {Element.INT8: 127, Element.INT4: 7, Element.INT2: 1}[element]
    w = bench.constant(np.clip(integers(6, 64), -most, most), element, bench.grid(scale))
    x, y = bench.tensor("x", (5, 64)), bench.tensor("y", (5, 6))
    bench.check("FULLY_CONNECTED", [x, w, bench.constant(floats(6))], y, keepNumDims=False,
                asymmetricQuantizeInputs=asymmetric)  # fmt: skip


def test_rows_of_zeros_stay_zeros(bench: Any) -> None:
    w = bench.constant(integers(6, 64), how=bench.grid(ONE))
    x = np.zeros((2, 64), np.float32)
    x[1, 3] = 1.5
    bench.check("FULLY_CONNECTED", [bench.tensor("x", (2, 64)), w, None],
                bench.tensor("y", (2, 6)), given=[x], keepNumDims=False)  # fmt: skip


def test_floats_are_products_by_the_real_weights(bench: Any) -> None:
    stored = integers(6, 64)
    w = bench.constant(stored, how=bench.grid(VARIED))
    data = bench.one_operator("FULLY_CONNECTED", [bench.tensor("x", (5, 64)), w, None],
                              [bench.tensor("y", (5, 6))], {"keepNumDims": False})  # fmt: skip
    x = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    (got,) = run_module(from_tflite(data, dynamic_range="floats"), [x])
    real = stored.astype(np.float64) * np.array(VARIED)[:, None]
    np.testing.assert_allclose(got, x.astype(np.float64) @ real.T, rtol=1e-4, atol=1e-5)


def test_an_unknown_choice_is_refused(rich: bytes) -> None:
    with pytest.raises(OptionError, match="dynamic_range 'integers' or 'floats'"):
        from_tflite(rich, dynamic_range="both")  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError, match="rounding 'reference' or 'xnnpack' or 'once'"):
        from_tflite(rich, rounding="twice")  # pyright: ignore[reportArgumentType]
