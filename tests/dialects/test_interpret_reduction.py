"""Pooling, reductions and normalisation against PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from triton_dsl.dialects import tensor

RunOp = Callable[..., tuple[NDArray[Any], ...]]

RNG = np.random.default_rng(2)
IMAGE = RNG.standard_normal((2, 3, 9, 8)).astype(np.float32)
SIGNAL = RNG.standard_normal((2, 3, 11)).astype(np.float32)

WINDOWS = [
    (IMAGE, (2, 2), (2, 2), (0, 0)),
    (IMAGE, (3, 2), (2, 1), (1, 1)),
    (IMAGE, (3, 3), (1, 3), (1, 0)),
    (SIGNAL, (3,), (2,), (1,)),
]


@pytest.mark.parametrize("case", range(len(WINDOWS)))
def test_max_pool(case: int, run_op: RunOp) -> None:
    x, kernel, strides, padding = WINDOWS[case]
    (result,) = run_op(lambda v: tensor.MaxPoolOp(v, kernel, strides, (*padding, *padding)), x)
    function = F.max_pool1d if x.ndim == 3 else F.max_pool2d
    expected = function(torch.from_numpy(x), kernel, strides, padding).numpy()
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("case", range(len(WINDOWS)))
@pytest.mark.parametrize("include", [True, False])
def test_avg_pool(case: int, include: bool, run_op: RunOp) -> None:
    x, kernel, strides, padding = WINDOWS[case]
    (result,) = run_op(
        lambda v: tensor.AvgPoolOp(
            v, kernel, strides, (*padding, *padding), count_include_pad=include
        ),
        x,
    )
    function = F.avg_pool1d if x.ndim == 3 else F.avg_pool2d
    expected = function(
        torch.from_numpy(x.astype(np.float64)), kernel, strides, padding, False, include
    ).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_max_pool_of_integers_ignores_pads(run_op: RunOp) -> None:
    x = np.full((1, 1, 2, 2), -7, np.int8)
    (result,) = run_op(lambda v: tensor.MaxPoolOp(v, (2, 2), (1, 1), (1, 1, 1, 1)), x)
    assert (result == -7).all()


def test_global_avg_pool(run_op: RunOp) -> None:
    expected = F.adaptive_avg_pool2d(torch.from_numpy(IMAGE), 1).numpy()
    (result,) = run_op(tensor.GlobalAvgPoolOp, IMAGE)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


REDUCTIONS: list[tuple[Any, Callable[..., torch.Tensor]]] = [
    (tensor.ReduceSumOp, torch.sum),
    (tensor.ReduceMeanOp, torch.mean),
    (tensor.ReduceMaxOp, torch.amax),
    (tensor.ReduceMinOp, torch.amin),
]


@pytest.mark.parametrize("case", range(len(REDUCTIONS)))
@pytest.mark.parametrize("axes", [(0,), (-1,), (1, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(case: int, axes: tuple[int, ...], keepdims: bool, run_op: RunOp) -> None:
    kind, reference = REDUCTIONS[case]
    (result,) = run_op(lambda v: kind(v, axes, keepdims=keepdims), IMAGE)
    expected = reference(torch.from_numpy(IMAGE.astype(np.float64)), dim=axes, keepdim=keepdims)
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [tensor.ReduceSumOp, tensor.ReduceMeanOp, tensor.ReduceMaxOp])
def test_reducing_no_axis_changes_nothing(kind: Any, run_op: RunOp) -> None:
    np.testing.assert_array_equal(run_op(lambda v: kind(v, ()), IMAGE)[0], IMAGE)


def test_integer_sums_wrap_around(run_op: RunOp) -> None:
    x = np.array([[100, 100], [-100, -29]], np.int8)
    (result,) = run_op(lambda v: tensor.ReduceSumOp(v, (1,)), x)
    assert result.dtype == np.int8 and result.tolist() == [-56, 127]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_argmax_takes_the_first_maximum(axis: int, keepdims: bool, run_op: RunOp) -> None:
    x = RNG.integers(0, 3, (4, 5, 6)).astype(np.int32)
    (result,) = run_op(lambda v: tensor.ArgmaxOp(v, axis, keepdims=keepdims), x)
    assert result.dtype == np.int64
    lists = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis]).tolist()
    assert result.reshape(-1).tolist() == [row.index(max(row)) for row in lists]


@pytest.mark.parametrize("x", [IMAGE, SIGNAL, SIGNAL[:, :, 0]], ids=["2-d", "1-d", "0-d"])
def test_batch_norm(x: NDArray[np.float32], run_op: RunOp) -> None:
    scale, bias, mean = (RNG.standard_normal(3).astype(np.float32) for _ in range(3))
    variance = RNG.random(3).astype(np.float32)
    (result,) = run_op(
        lambda *v: tensor.BatchNormOp(*v, epsilon=1e-3), x, scale, bias, mean, variance
    )
    t, m, v, s, b = (
        torch.from_numpy(a.astype(np.float64)) for a in (x, mean, variance, scale, bias)
    )
    expected = F.batch_norm(t, m, v, s, b, eps=1e-3).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(8,), (9, 8)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_layer_norm(shape: tuple[int, ...], with_bias: bool, run_op: RunOp) -> None:
    scale = RNG.standard_normal(shape).astype(np.float32)
    bias = [RNG.standard_normal(shape).astype(np.float32)] if with_bias else []
    (result,) = run_op(tensor.LayerNormOp, IMAGE, scale, *bias)
    x, s, *b = (torch.from_numpy(a.astype(np.float64)) for a in (IMAGE, scale, *bias))
    expected = F.layer_norm(x, shape, s, b[0] if b else None).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(8,), (9, 8)])
def test_rms_norm(shape: tuple[int, ...], run_op: RunOp) -> None:
    scale = RNG.standard_normal(shape).astype(np.float32)
    (result,) = run_op(tensor.RmsNormOp, IMAGE, scale)
    x, s = (torch.from_numpy(a.astype(np.float64)) for a in (IMAGE, scale))
    expected = F.rms_norm(x, shape, s, eps=1e-5).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
