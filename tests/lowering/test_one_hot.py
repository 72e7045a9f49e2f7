"""One-hot codes on every engine, and as front ends read them, against NumPy and other engines."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from xdsl.context import Context

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.passes.decompose import DecomposePass

TARGETS = ("pytorch", "onnx", "tflite", "native")


NUMBERS = {"f": ("2.5", "-1.0"), "i": ("7", "-3"), "i1": ("true", "false")}
"""What is chosen from, by the type or its first letter."""


def module_of(
    indices: str, element: str, result: str, depth: int, axis: int, ends: Sequence[str] = ()
) -> Any:
    on, off = ends or NUMBERS.get(element, NUMBERS[element[0]])
    return parse_module(
        f"""
        func.func @forward(%i: tensor<{indices}>) -> tensor<{result}> {{
          %on = tensor.constant dense<{on}> : tensor<{element}>
          %off = tensor.constant dense<{off}> : tensor<{element}>
          %y = tensor.one_hot %i, %on, %off {{depth = {depth} : i64, axis = {axis} : i64}}
            : (tensor<{indices}>, tensor<{element}>, tensor<{element}>) -> tensor<{result}>
          func.return %y : tensor<{result}>
        }}
        """
    )


def expected(indices: NDArray[Any], depth: int, axis: int, on: Any, off: Any) -> NDArray[Any]:
    """Element by element, in Python's own integers."""
    rows = [[on if k == int(i) else off for k in range(depth)] for i in indices.reshape(-1)]
    return np.moveaxis(np.array(rows).reshape(*indices.shape, depth), -1, axis)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("indices", "element", "result", "depth", "axis"),
    [
        ("2x3xi64", "f32", "2x3x4xf32", 4, -1),
        ("?x3xi64", "f32", "4x?x3xf32", 4, 0),
        ("?x3xi32", "f32", "?x4x3xf32", 4, -2),
        ("?x3xi8", "i64", "?x3x300xi64", 300, 2),  # more classes than the type has numbers
        ("?x3xi16", "i32", "?x1x3xi32", 1, 1),
        ("?x3xi64", "i8", "?x3x4xi8", 4, -1),
        ("2x3xi64", "i1", "2x3x4xi1", 4, -1),
        ("2x3xi64", "f16", "2x3x4xf16", 4, -1),
        ("2x3xui8", "f32", "2x3x300xf32", 300, -1),
    ],
)
def test_an_index_outside_has_no_place(
    target: str, indices: str, element: str, result: str, depth: int, axis: int
) -> None:
    dtype = np.dtype(indices.rpartition("x")[2].replace("i", "int"))
    given = np.array([[0, 3, -1], [4, -4, 2]]).astype(dtype)
    module = module_of(indices, element, result, depth, axis)
    on, off = {"i1": (True, False)}.get(element, (2.5, -1.0) if element[0] == "f" else (7, -3))
    wanted = expected(given, depth, axis, on, off)
    for (value,) in (run_module(module, [given]), run_target(module, target, [given])[1]):
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_of_one_index_and_of_far_ones(target: str) -> None:
    single = module_of("i64", "f32", "3xf32", 3, 0)
    far = module_of("?xi64", "f32", "?x3xf32", 3, 1)
    ends = np.array([2**32, 2**32 + 1, -(2**63), 2**63 - 1, 1])
    for index in (np.array(2), np.array(-1)):
        wanted = expected(index, 3, 0, 2.5, -1.0)
        for (value,) in (run_module(single, [index]), run_target(single, target, [index])[1]):
            np.testing.assert_array_equal(value, wanted)
    wanted = expected(ends, 3, 1, 2.5, -1.0)
    for (value,) in (run_module(far, [ends]), run_target(far, target, [ends])[1]):
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize(
    ("element", "on", "off"),
    [
        *(("f32", *ends) for ends in (("1.0", "0.0"), ("0.0", "1.0"), ("1.0", "-0.0"))),
        *(("f64", "1.0", "0.0"), ("i8", "1", "0"), ("i64", "0", "1"), ("i1", "true", "false")),
        ("i1", "false", "true"),
    ],
)
def test_of_ones_and_zeros(element: str, on: str, off: str) -> None:
    module = module_of("?xi64", element, f"?x3x{element}", 3, -1, (on, off))
    given = np.array([0, -1, 2])
    values = [{"true": True, "false": False}.get(end) for end in (on, off)]
    if None in values:
        values = [float(end) for end in (on, off)]
    wanted = expected(given, 3, -1, *values)
    DecomposePass().apply(Context(), copy := module.clone())
    assert "tensor.one_hot" not in str(copy)
    for (value,) in (run_module(module, [given]), run_module(copy, [given])):
        np.testing.assert_array_equal(value, wanted)
        np.testing.assert_array_equal(np.signbit(value.astype(float)), np.signbit(wanted * 1.0))


class Codes(torch.nn.Module):
    """Classes as truth values, and as floats."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.nn.functional.one_hot(x, 5), torch.nn.functional.one_hot(x[:, 0], 9).float()


@pytest.mark.parametrize("target", TARGETS)
def test_of_pytorch(target: str) -> None:
    x = torch.tensor([[0, 4], [3, 1], [2, 2]])
    module = from_torch(Codes(), (x,))
    assert str(module).count("tensor.one_hot") == 2
    for result, value in zip(run_target(module, target, [x.numpy()])[1], Codes()(x), strict=True):
        np.testing.assert_array_equal(result, value.numpy())
        assert result.dtype == value.numpy().dtype


@pytest.mark.parametrize("axis", [-1, 0, 1, -3])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32])
def test_negative_indices_of_onnx_count_from_the_end(axis: int, dtype: Any) -> None:
    value, elements = helper.make_tensor_value_info, helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [helper.make_node("OneHot", ["i", "depth", "values"], ["y"], axis=axis)],
        "g",
        [value("i", elements(np.dtype(dtype)), ["N", 3])],
        [value("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.array(4), "depth"),
            numpy_helper.from_array(np.array([-1, 2.5], np.float32), "values"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    given = np.array([[0, 3, -1], [-4, 1, 2]]).astype(dtype)
    wanted: Any = ReferenceEvaluator(model).run(None, {"i": given})
    module = from_onnx(model)
    assert str(module).count("tensor.one_hot") == 1
    np.testing.assert_array_equal(run_module(module, [given])[0], wanted[0])
    np.testing.assert_array_equal(run_target(module, "onnx", [given])[1][0], wanted[0])
    outside = np.array([[4, -5, 9]]).astype(dtype)
    assert (run_module(module, [outside])[0] == -1).all()
