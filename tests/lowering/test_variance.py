"""The variance on every engine, and as front ends read it, against NumPy and PyTorch in float64."""

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.from_torch import from_torch

Array = NDArray[Any]
TARGETS = ("pytorch", "onnx", "tflite", "native")
X = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)


def module_of(type: str, axes: str, result: str, correction: float, keepdims: bool) -> Any:
    properties = f"axes = array<i64{axes}>, correction = {correction:e} : f64"
    if keepdims:
        properties += ", keepdims = true"
    return parse_module(
        f"""
        func.func @forward(%x: tensor<{type}>) -> tensor<{result}> {{
          %y = tensor.reduce_variance %x {{{properties}}} : (tensor<{type}>) -> tensor<{result}>
          func.return %y : tensor<{result}>
        }}
        """
    )


@pytest.mark.filterwarnings("ignore:var..*degrees of freedom")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("type", "axes", "result", "correction", "keepdims"),
    [
        ("3x4x5xf32", ": 1", "3x5xf32", 0, False),
        ("?x4x5xf32", ": -1, 1", "?x1x1xf32", 1, True),
        ("?x4x5xf32", ": 0", "4x5xf32", 1, False),
        ("?x4x5xf32", ": 0, 2", "1x4x1xf32", 0.5, True),
        ("?x4x5xf32", ": 0, 1, 2", "f32", 3, False),
        ("3x4x5xf32", ": 0", "4x5xf32", 3, False),  # x/0 is infinite
        ("?x4x5xf32", ": 0", "4x5xf32", 7, False),
        ("?x4x5xf32", "", "?x4x5xf32", 0, False),  # 0 of one element
    ],
)
def test_it_is_that_of_numpy(
    target: str, type: str, axes: str, result: str, correction: float, keepdims: bool
) -> None:
    module = module_of(type, axes, result, correction, keepdims)
    numbers = tuple(map(int, axes.removeprefix(": ").split(","))) if axes else ()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = np.var(X, numbers, np.float64, ddof=correction, keepdims=keepdims)
    np.testing.assert_allclose(run_module(module, [X])[0], expected.astype(np.float32), rtol=1e-6)
    _, (value,), _ = run_target(module, target, [X])
    np.testing.assert_allclose(value, expected, rtol=2e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore:var..*degrees of freedom")
@pytest.mark.parametrize("target", TARGETS)
def test_of_one_element_and_of_what_is_not_finite(target: str) -> None:
    x = np.array([[2], [np.inf], [np.nan]], np.float32)
    for type, axis, result in (("?x1xf32", ": 1", "?xf32"), ("3x?xf32", ": -1", "3xf32")):
        unbiased = module_of(type, axis, result, 1, keepdims=False)
        assert np.isnan(run_target(unbiased, target, [x])[1][0]).all()
        assert np.isnan(run_module(unbiased, [x])[0]).all()
        biased = module_of(type, axis, result, 0, keepdims=False)
        for (value,) in (run_target(biased, target, [x])[1], run_module(biased, [x])):
            np.testing.assert_array_equal(value, np.array([0, np.nan, np.nan], np.float32))


@pytest.mark.parametrize("correction", [0, 1])
def test_over_nothing_it_is_no_number(correction: float) -> None:
    module = module_of("?x4xf32", ": 0", "4xf32", correction, keepdims=False)
    assert np.isnan(run_module(module, [np.zeros((0, 4), np.float32)])[0]).all()


@pytest.mark.parametrize("target", TARGETS)
def test_beside_a_large_mean(target: str) -> None:
    x = (X.reshape(3, 20) + np.float32(1e6)).astype(np.float32)
    module = module_of("?x20xf32", ": 1", "?xf32", 1, keepdims=False)
    expected = np.var(x, 1, np.float64, ddof=1)
    np.testing.assert_allclose(run_module(module, [x])[0], expected, rtol=1e-7)
    # Elsewhere the mean itself is rounded to f32.
    lost = 0 if target == "pytorch" else 0.02
    (result,) = run_target(module, target, [x])[1]
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=lost)


@pytest.mark.parametrize("target", ["pytorch", "onnx", "native"])
def test_in_other_types(target: str) -> None:
    for dtype, name, tolerance in ((np.float64, "f64", 1e-14), (np.float16, "f16", 1e-3)):
        x = (X + 300).astype(dtype)  # whose squares f16 has not
        module = module_of(f"?x4x5x{name}", ": 1, 2", f"?x{name}", 1, keepdims=False)
        expected = np.var(x, (1, 2), np.float64, ddof=1)
        for (value,) in (run_module(module, [x]), run_target(module, target, [x])[1]):
            assert value.dtype == dtype
            np.testing.assert_allclose(value, expected, rtol=tolerance)


class Spread(torch.nn.Module):
    """Every way in which PyTorch says it."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        one = torch.var_mean(x, 1, keepdim=True)
        return (
            x.var(), x.var(0), x.var((1, 2), unbiased=False), x.std(-1, correction=2),
            *torch.var_mean(x, (0, 2)), *one, *torch.std_mean(x, 2), x.amax().var(correction=0),
        )  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_of_pytorch(target: str) -> None:
    x = torch.from_numpy(X)
    module = from_torch(Spread(), (x,))
    assert str(module).count("tensor.reduce_variance") == 8
    expected = Spread()(x.double())
    for results in (run_target(module, target, [X])[1], run_module(module, [X])):
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, value.numpy(), rtol=2e-6, atol=1e-7)


def test_of_a_single_number_of_pytorch() -> None:
    class Single(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x.var(1), *torch.var_mean(x, 1, correction=0)

    x = torch.tensor([[3.0], [-1.0]])
    for result, value in zip(run_module(from_torch(Single(), (x,)), [x.numpy()]),
                             ([np.nan, np.nan], [0, 0], [3, -1]), strict=True):  # fmt: skip
        np.testing.assert_array_equal(result, value)


@pytest.mark.parametrize("axes", [[0, 2], [-1], [0, 1, 2]])
def test_of_onnx(axes: list[int]) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MeanVarianceNormalization", ["x"], ["y"], axes=axes)],
        "g",
        [value("x", TensorProto.FLOAT, ["N", 4, 5])],
        [value("y", TensorProto.FLOAT, ["N", 4, 5])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    onnx.checker.check_model(model)
    expected: Any = ReferenceEvaluator(model).run(None, {"x": X})
    module = from_onnx(model)
    assert str(module).count("tensor.reduce_variance") == 1
    np.testing.assert_allclose(run_module(module, [X])[0], expected[0], rtol=1e-4, atol=1e-6)
