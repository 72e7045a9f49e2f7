"""More axes than LiteRT's kernels take: the interpreter beside LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32, i32

from triton_dsl.dialects import tensor
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import UnsupportedError

SIZES = (2, 1, 3, 2, 2, 2, 1)
"""Behind the batch, so that there are eight axes."""

KERNELS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: tensor.ReduceSumOp(x, [1, 2, 5], keepdims=True),
    "maximum": lambda x: tensor.ReduceMaxOp(x, [3, 6], keepdims=False),
    "joint": lambda x: tensor.ConcatenateOp([x, x], 3),
    "pads": lambda x: tensor.PadToOp(x, [0, 0, 0, 2, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0], 3.0),
}


@pytest.mark.parametrize("element", [f32, i32], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_eight_axes(bench: Any, name: str, element: Any) -> None:
    type = TensorType(element, [DYNAMIC, *SIZES])
    module = bench.build([type], lambda add, x: add(KERNELS[name](x)))
    numbers = np.random.default_rng(1).integers(-9, 10, (3, *SIZES))
    bench.check(module, [numbers.astype(np.float32 if element == f32 else np.int32)])


def test_softmax_of_eight_axes(bench: Any) -> None:
    type = TensorType(f32, [DYNAMIC, *SIZES])
    module = bench.build([type], lambda add, x: add(tensor.SoftmaxOp(x, -2)))
    bench.check(module, [np.random.default_rng(2).normal(size=(3, *SIZES)).astype(np.float32)])


def test_what_stays_too_much_is_refused(bench: Any) -> None:
    type = TensorType(f32, [DYNAMIC, *SIZES])
    kernel = tensor.ReduceSumOp
    module = bench.build([type], lambda add, x: add(kernel(x, [1, 3, 5], keepdims=True)))
    with pytest.raises(UnsupportedError, match="no kernel for 8 axes"):
        bench.check(module, [np.ones((3, *SIZES), np.float32)])
