"""Depthwise kernels where they differ from others: narrow sums, and floats that stay floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.lowering.to_native.kernels.epilogue import Epilogue
from triton_dsl.runtime.native.abi.conv import ConvGeometry
from triton_dsl.runtime.native.abi.linear import KINDS

pytest.importorskip("torch")
pytest.importorskip("llvmlite")

Array = NDArray[Any]
RunConvs = Callable[[str, Sequence[Any]], list[Array]]
KIND = {kind.activations: kind for kind in KINDS}
INTEGERS: dict[str, tuple[type[np.integer[Any]], int]] = {
    "i8": (np.int8, -128),
    "u8": (np.uint8, 255),
}


@pytest.mark.parametrize("kernel", [(15, 17), (16, 16)], ids=str)
def test_sums_that_just_fit_16_bits_and_that_do_not(
    width_recipe: str, run_convs: RunConvs, conv_problem: Any, kernel: tuple[int, int]
) -> None:
    g = ConvGeometry(2, 17, 20, 2, kernel, groups=2)
    trits = np.ones((2, 1, *kernel), np.int8)
    trits[1] = -1
    problems: list[Any] = []
    for name, (dtype, extreme) in INTEGERS.items():
        x = np.full((1, 2, 17, 20), extreme, dtype)
        bias = np.zeros(2, np.int32)
        tables = (None, bias, None, None)
        problems.append(conv_problem(g, KIND[name], x, trits, Epilogue(bias=True), tables))
    for problem, result in zip(problems, run_convs(width_recipe, problems), strict=True):
        assert np.array_equal(result, problem.convolved())


@pytest.mark.parametrize("name", ["f32", "f32x3"])
def test_floats_are_not_rounded_to_digits(
    width_recipe: str, run_convs: RunConvs, conv_problem: Any, name: str
) -> None:
    """So a huge value, infinity or NaN is seen by its own windows only, as PyTorch has it."""
    rng = np.random.default_rng(7)
    g = ConvGeometry(3, 12, 14, 6, (3, 3), (1, 2), (1, 1), (1, 1), groups=3)
    x = rng.standard_normal((2, 3, 12, 14)).astype(np.float32)
    x[0, 0, 2, 3], x[0, 1, 0, 0], x[1, 2, 11, 13] = 3e38, np.inf, np.nan
    trits = rng.integers(-1, 2, (6, 1, 3, 3)).astype(np.int8)
    problem = conv_problem(g, KIND[name], x, trits)
    (result,) = run_convs(width_recipe, [problem])
    expected = problem.convolved()
    assert np.array_equal(np.isnan(result), np.isnan(expected))
    assert np.array_equal(np.isinf(result), np.isinf(expected))
    finite = np.isfinite(expected)
    size = conv_problem(g, KIND[name], np.abs(x), np.abs(trits)).convolved()
    # Nine values are added in float32.
    error = np.abs(result[finite] - expected[finite])
    assert np.all(error <= 9 * 2.0**-24 * size[finite])
