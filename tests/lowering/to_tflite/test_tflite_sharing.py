"""Tensors that LiteRT's planner of memory would write over while they are still read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from triton_dsl.dialects import tensor

STEPS: dict[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "add": tensor.AddOp, "sub": tensor.SubOp, "mul": tensor.MulOp,
    "softmax": lambda x, _: tensor.SoftmaxOp(x, 0),
}  # fmt: skip


@pytest.mark.parametrize("delegates", [True, False])
@pytest.mark.parametrize(
    ("element", "step"), [(i32, "add"), (i32, "sub"), (i32, "mul"), (f32, "add"), (f32, "softmax")]
)
def test_views_of_what_is_read_later_stay(
    bench: Any, element: Attribute, step: str, delegates: bool
) -> None:
    def body(add: Any, x: SSAValue, two: SSAValue) -> Any:
        less = add(tensor.SubOp(add(tensor.CumsumOp(x, 0)), two))  # over the sum
        changed = add(STEPS[step](add(tensor.UnsqueezeOp(less, [1])), two))
        return add(tensor.AddOp(less, changed))

    module = bench.build([TensorType(element, [4]), TensorType(element, [1])], body)
    x = np.array([1, 3, 2, 5], np.int32 if element == i32 else np.float32)
    two = np.array([2], x.dtype)
    less = np.cumsum(x) - 2
    column = less[:, None]
    exponentials = np.exp(column - column.max())
    changed = {
        "add": column + 2, "sub": column - 2, "mul": column * 2,
        "softmax": exponentials / exponentials.sum(),
    }[step]  # fmt: skip
    (found,) = bench.run(bench.bytes_of(module), [x, two], delegates=delegates)
    np.testing.assert_allclose(found, less + changed, rtol=1e-6)


def test_what_nobody_else_reads_is_not_copied(bench: Any) -> None:
    def body(add: Any, x: SSAValue, two: SSAValue) -> Any:
        column = add(tensor.UnsqueezeOp(add(tensor.CumsumOp(x, 0)), [1]))
        return add(tensor.AddOp(add(tensor.MulOp(column, two)), two))

    module = bench.build([TensorType(i32, [4]), TensorType(i32, [1])], body)
    assert bench.kinds(bench.bytes_of(module)) == ["CUMSUM", "RESHAPE", "MUL", "ADD"]
