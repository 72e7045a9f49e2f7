"""Convolution kernels on floats: rounded to int8 as stated, or as accurate as float32.

Every call has its buffers between forbidden pages, see the conftest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.lowering.to_native.kernels.epilogue import Epilogue, Thresholds
from triton_dsl.runtime.native.abi.conv import ConvGeometry
from triton_dsl.runtime.native.abi.linear import KINDS
from triton_dsl.runtime.native.abi.tables import threshold_table

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

Array = NDArray[Any]
RunConvs = Callable[[str, Sequence[Any]], list[Array]]
KIND = {kind.activations: kind for kind in KINDS}
SQUARE = ConvGeometry(20, 9, 9, 70, (3, 3), before=(1, 1), after=(1, 1))
DEPTHWISE = ConvGeometry(5, 9, 20, 10, (3, 3), before=(1, 1), after=(1, 1), groups=5)


def random_trits(rng: np.random.Generator, g: ConvGeometry) -> NDArray[np.int8]:
    return rng.integers(-1, 2, (g.outs, g.group_channels, *g.kernel)).astype(np.int8)


def test_dynamic_int8(width_recipe: str, run_convs: RunConvs, conv_problem: Any) -> None:
    """Each image is rounded with its own scale, then sums are exact."""
    rng = np.random.default_rng(1)
    g = ConvGeometry(6, 10, 11, 14, (3, 3), (2, 1), (1, 0), (0, 1), groups=2)
    x = rng.standard_normal((3, 6, 10, 11)).astype(np.float32)
    x[1] *= 100
    trits = random_trits(rng, g)
    scale = rng.uniform(0.5, 2, g.outs).astype(np.float32)
    bias = rng.standard_normal(g.outs).astype(np.float32)
    epilogue = Epilogue(scale="channel", bias=True)
    tables = (scale, bias, None, None)
    (result,) = run_convs(width_recipe, [conv_problem(g, KIND["f32"], x, trits, epilogue, tables)])
    largest = np.abs(x).max(axis=(1, 2, 3), keepdims=True)
    codes = np.rint(x * (np.float32(127) / largest))
    scaled = (
        conv_problem(g, KIND["f32"], codes, trits).convolved()
        * (largest / np.float32(127))
        * scale[:, None, None]
    )
    expected = scaled + bias[:, None, None]
    bound = 4e-7 * (np.abs(scaled) + np.abs(bias[:, None, None]))
    assert np.all(np.abs(result - expected) <= bound)


def test_float32_precision(width_recipe: str, run_convs: RunConvs, conv_problem: Any) -> None:
    rng = np.random.default_rng(2)
    others = [
        ConvGeometry(3, 12, 40, 5, (5, 5), (2, 2), (2, 2), (2, 2)),
        ConvGeometry(40, 6, 6, 40, (1, 1)),
        DEPTHWISE,
    ]
    problems: list[Any] = []
    for g in [SQUARE, *others]:
        x = rng.standard_normal((2, g.channels, g.height, g.width)).astype(np.float32)
        problems.append(conv_problem(g, KIND["f32x3"], x, random_trits(rng, g)))
    for problem, result in zip(problems, run_convs(width_recipe, problems), strict=True):
        g, x = problem.geometry, problem.x
        expected = problem.convolved()
        # With a scale between max / 127 and max / 63.5, the last of three digits in base 254 is
        # rounded by at most scale / 2 / 254^2; then digits are joined, and scaled, in float32.
        bound = g.ins * np.abs(x).max() / 63.5 / 2 / 254**2 + 4e-7 * np.abs(expected)
        assert np.all(np.abs(result - expected) <= bound)
        theirs = torch.nn.functional.conv2d(
            torch.from_numpy(x),
            torch.from_numpy(problem.trits.astype(np.float32)),
            stride=g.strides,
            padding=g.before,
            groups=g.groups,
        ).numpy()
        # For sums of few values both are at the last digit of the result.
        least = 2.0**-23 * np.abs(expected).max()
        assert np.abs(result - expected).max() <= max(np.abs(theirs - expected).max(), least) * 1.5


def test_small_integers_are_exact(
    width_recipe: str, run_convs: RunConvs, conv_problem: Any
) -> None:
    """So are spikes."""
    rng = np.random.default_rng(6)
    spikes = rng.integers(0, 2, (2, 20, 9, 9)).astype(np.float32)
    bytes_ = rng.integers(-127, 128, (2, 20, 9, 9)).astype(np.float32)
    trits = random_trits(rng, SQUARE)
    problems = [conv_problem(SQUARE, KIND["f32x3"], x, trits) for x in (spikes, bytes_)]
    for problem, result in zip(problems, run_convs(width_recipe, problems), strict=True):
        assert np.array_equal(result, problem.convolved())


@pytest.mark.parametrize("name", ["f32", "f32x3"])
def test_images_without_a_scale(
    width_recipe: str, run_convs: RunConvs, conv_problem: Any, name: str
) -> None:
    g = ConvGeometry(2, 5, 7, 3, (1, 2))
    x = np.zeros((6, 2, 5, 7), np.float32)
    for image, value in enumerate([0, np.inf, np.nan, 1e-45, 2.0**-118, 3e38]):
        x[image, 1, 4, 6] = value
    trits = np.ones((3, 2, 1, 2), np.int8)
    (result,) = run_convs(width_recipe, [conv_problem(g, KIND[name], x, trits)])
    assert np.array_equal(result[0], np.zeros((3, 5, 6)))
    assert np.isnan(result[1:3]).all()
    assert np.array_equal(result[3], np.zeros((3, 5, 6)))
    assert np.allclose(result[4, :, 4, 5], 2.0**-118, rtol=1e-6, atol=0)
    assert np.allclose(result[5, :, 4, 5], 3e38, rtol=1e-6)


def test_steps_after_float_products(
    width_recipe: str, run_convs: RunConvs, conv_problem: Any
) -> None:
    """Products are whole numbers here, so that results are exact."""
    rng = np.random.default_rng(3)
    problems: list[Any] = []
    expected: list[Array] = []
    for g in (SQUARE, DEPTHWISE):
        x = rng.integers(-127, 128, (2, g.channels, g.height, g.width)).astype(np.float32)
        x[:, 0, 0, 0] = 127
        trits = random_trits(rng, g)
        scale = np.array([0.5], np.float32)
        bias = rng.integers(-9, 9, g.outs).astype(np.float32)
        value = conv_problem(g, KIND["f32"], x, trits).convolved() * 0.5 + bias[:, None, None]
        steps = Epilogue(scale="all", bias=True, activation="relu6")
        tables = (scale, bias, None, None)
        problems.append(conv_problem(g, KIND["f32"], x, trits, steps, tables))
        expected.append(np.clip(value, 0, 6))
        limits = np.sort(rng.normal(0, 100, (g.outs, 7)).astype(np.float32), axis=1)
        steps = Epilogue(scale="all", bias=True, then=Thresholds(7, "channel", 8))
        tables = (scale, bias, threshold_table(limits), None)
        problems.append(conv_problem(g, KIND["f32"], x, trits, steps, tables))
        expected.append((limits[:, None, None, :] <= value[..., None]).sum(-1))
    for wanted, result in zip(expected, run_convs(width_recipe, problems), strict=True):
        assert np.allclose(result, wanted, rtol=4e-7, atol=1e-4)
