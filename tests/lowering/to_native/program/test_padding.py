"""What is filled around tensors, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.to_native.callables import traced_program
from triton_dsl.lowering.to_native.target import NativeOptions

PADDED = """
func.func @forward(%x: tensor<?x3x5x7xf32>) -> tensor<?x{sizes}xf32> {{
  %a = tensor.abs %x : (tensor<?x3x5x7xf32>) -> tensor<?x3x5x7xf32>
  %y = tensor.pad_to %a {{low = array<i64: 0, {low}>, high = array<i64: 0, {high}>,
       value = -2.5 : f64}} : (tensor<?x3x5x7xf32>) -> tensor<?x{sizes}xf32>
  func.return %y : tensor<?x{sizes}xf32>
}}
"""


def padded(low: tuple[int, ...], high: tuple[int, ...]) -> str:
    """A program that pads channels, rows and columns."""
    sizes = [n + a + b for n, a, b in zip((3, 5, 7), low, high, strict=True)]
    words = (", ".join(map(str, side)) for side in (low, high))
    return PADDED.format(sizes="x".join(map(str, sizes)), low=next(words), high=next(words))


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ((0, 1, 1), (0, 1, 1)),
        ((0, 2, 3), (0, 1, 4)),
        ((1, 1, 1), (2, 1, 1)),
        ((0, 0, 1), (0, 1, 1)),
        ((0, 1, 1), (0, 0, 1)),
        ((0, 1, 0), (0, 1, 2)),
        ((1, 0, 2), (1, 0, 1)),
    ],
)
def test_all_around_is_filled(
    compile_module: Callable[..., Any], recipe: str, low: tuple[int, ...], high: tuple[int, ...]
) -> None:
    program = compile_module(parse_module(padded(low, high)), recipe)
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 7)).astype(np.float32)
    (y,) = program.check([x], 2)
    widths = [(0, 0), *zip(low, high, strict=True)]
    np.testing.assert_array_equal(y, np.pad(np.abs(x), widths, constant_values=-2.5))


def test_between_rows_is_filled_at_once() -> None:
    _, trace = traced_program(parse_module(padded((0, 1, 1), (0, 1, 1))), NativeOptions(), 1)
    # The inside, and what is above, below and between rows.
    assert len(trace.steps) == 4
