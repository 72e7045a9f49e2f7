"""What the oracles allow: the error of digits and of folded constants, and no more than these."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor
from torch.nn import functional as F

from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_tri import import_tri

from . import digits, onnx_oracle, oracle
from .cases import Expected, difference
from .promises import promised

SMALL = np.array([[-1e-4, 0.4, 0.64], [3.0, 1.0, -2.0]], np.float32)
"""A row whose small number has the error of the largest, and one whose digits are exact."""
TRITS = np.array([[-1, 1], [0, 1], [0, 0]], np.float32)
FLOATS = np.array([[-1, 1], [0, 0.5], [0, 0]], np.float32)


def in_torch(run: Callable[..., Tensor], *arrays: np.ndarray) -> Expected:
    """The oracle of PyTorch for a float32 program."""
    wide = [torch.tensor(a.astype(np.float64)) for a in arrays]
    return oracle.bounded(lambda: [run(*wide)], ["float32"], ["float32"], 0)


def in_onnx(kind: str, x: np.ndarray, weights: np.ndarray) -> Expected:
    """The oracle of ONNX for one node."""
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", "w"], ["y"])],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["?"] * x.ndim)],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9)
    onnx.checker.check_model(model)
    return onnx_oracle.bounded(model, 21, {"w": weights}, {"x": x}, ["y"], 0)


def products(weights: np.ndarray) -> Sequence[Expected]:
    """The product of `SMALL` with weights, by each oracle, as a matrix and as a convolution."""
    images, kernels = SMALL[:, :, None], weights.T[:, :, None]
    expected = [
        in_torch(torch.matmul, SMALL, weights),
        in_torch(torch.nn.functional.linear, SMALL, weights.T),
        in_torch(torch.nn.functional.conv1d, images, kernels),
        in_onnx("MatMul", SMALL, weights),
        in_onnx("Conv", images, kernels),
    ]
    return [Expected(e.values, (e.bounds[0].reshape(2, 2),)) for e in expected]


def test_a_row_times_trits_has_the_error_of_its_largest_number() -> None:
    for expected in products(TRITS):
        (bound,) = expected.bounds
        assert 0.64 * 2.0**-23 < bound[0, 0] < 8 * 0.64 * 2.0**-23
    errors = digits.of_matrices(SMALL, TRITS)
    assert errors is not None
    assert (errors[0] > 0).all() and not errors[1].any()  # digits of small integers are exact


def test_other_products_keep_the_error_of_their_terms() -> None:
    for expected in products(FLOATS):
        (bound,) = expected.bounds
        assert bound[0, 0] < 1e-4 * 100 * 2.0**-23


def test_an_exact_product_of_small_integers_stays_exact() -> None:
    expected = in_torch(lambda x, w: torch.floor(x @ w), np.round(SMALL), TRITS)
    assert np.isfinite(expected.bounds[0]).all()


def test_native_products_are_as_exact_as_allowed() -> None:
    rng = np.random.default_rng(0)
    source = "layer R { param w: TernaryTensor[7, 9]\n"
    source += "fn forward(x: Tensor<float32>[N, 7]) { let v = x @ w\n return v } }"
    weights = rng.integers(-1, 2, (7, 9)).astype(np.int8)
    x = (rng.standard_normal((500, 7)) * np.exp(3 * rng.standard_normal((500, 7)))).astype("f4")
    _, (found,), _ = run_target(import_tri(source, weights={"w": weights}), "native", [x])
    allowed = digits.of_matrices(x, weights)
    assert allowed is not None
    exact = x.astype(np.float64) @ weights
    assert (np.abs(found - exact) <= allowed + 2.0**-23 * np.abs(exact)).all()


def test_a_transposed_convolution_has_the_errors_of_all_terms_of_an_output() -> None:
    weights = np.random.default_rng(0).integers(-1, 2, (6, 2, 3)).astype(np.float32)
    x = np.full((1, 6, 9), 0.1, np.float32)
    errors = digits.of_transposed_convolution(x, weights, 3)
    assert errors is not None
    terms = F.conv_transpose1d(
        torch.ones(1, 6, 9), torch.from_numpy(np.abs(weights)), stride=1, groups=3
    )
    one = digits.row_errors(x.reshape(1, -1))[0]
    np.testing.assert_allclose(errors[0, :, 0], one * terms.amax(2)[0].numpy(), rtol=1e-6)


PRODUCT = np.array([[0.75, 0.0], [0.5, 0.0], [-1.5, 0.0], [0.875, 0.0]], np.float32)
ONES = np.ones((2, 1), np.float32)


@pytest.mark.parametrize(
    ("run", "hangs"),
    [
        (lambda x, w: (x @ w) // 0.75, [True, False, True, False]),
        (lambda x, w: ((x @ w).T + 0.25).reshape(-1) // 0.75, [False, True, False, False]),
        (lambda x, w: (x @ w) // 0.5, [False] * 4),
        (lambda x, w: torch.floor(2 * (x @ w)) // 3.0, [False] * 4),
        (lambda x, w: x[:, :1] // 0.75, [False] * 4),
    ],
    ids=["product", "sum", "power of two", "whole", "argument"],
)
def test_a_quotient_at_a_jump_hangs_on_folding_into_a_product(
    run: Callable[..., Tensor], hangs: list[bool]
) -> None:
    expected = in_torch(run, PRODUCT, ONES)
    np.testing.assert_array_equal(np.isinf(expected.bounds[0]).ravel(), np.ravel(hangs))


def test_a_wrong_rounding_of_a_quotient_is_found_beside_its_jumps() -> None:
    x = np.array([[-1.0, 0.0], [0.75, 0.0]], np.float32)
    expected = in_torch(lambda x, w: (x @ w) // 0.75, x, ONES)
    assert difference(expected, [np.array([[-2.0], [0.0]], np.float32)]) is None
    assert difference(expected, [np.array([[-1.0], [1.0]], np.float32)]) is not None


def test_every_comparison_at_its_jump_hangs_on_rounding() -> None:
    x = np.full(400, 0.1, np.float32)
    jump = float(x[0]) * 0.3
    for compare in (torch.gt, torch.ge):
        expected = oracle.bounded(
            lambda compare=compare: [compare(torch.tensor(x.astype(np.float64)) * 0.3, jump)],
            ["bool"],
            ["float32"],
            0,
        )
        assert np.isinf(expected.bounds[0]).all()
    np.testing.assert_array_equal(
        onnx_oracle.noise_of(7, 2)((9,)), -onnx_oracle.noise_of(7, 3)((9,))
    )


@pytest.mark.parametrize(("element", "wider"), [("float64", True), ("float32", False)])
def test_float64_products_have_the_accuracy_of_float32_in_onnx_runtime(
    element: str, wider: bool
) -> None:
    source = f"layer R {{ param p: Tensor<{element}>[7, 5]\n"
    source += f"fn forward(x: Tensor<{element}>[N, 7]) {{ let v = x * 1.5539195016975031 @ p\n"
    source += "return v } }"
    rng = np.random.default_rng(0)
    weights, x = (rng.standard_normal(s).astype(element) for s in ((7, 5), (4, 7)))
    module = import_tri(source, weights={"p": weights})
    value = x * 1.5539195016975031 @ weights
    bounds = [np.full(value.shape, 1e-13)]
    assert promised("native", module, [value], bounds)[0].max() == 1e-13
    (bound,) = promised("onnx", module, [value], bounds)
    assert (bound > 1e-13).all() == wider
    if wider:
        expected = Expected((value,), (bound,))
        _, found, _ = run_target(module, "onnx", [x])
        assert difference(expected, found) is None
        assert difference(expected, [found[0] * (1 + 1e-5)]) is not None
