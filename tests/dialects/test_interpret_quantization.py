"""Quantisation against PyTorch's quantisers and exact Python integers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_dsl.dialects import tensor
from triton_dsl.dialects.tensor.quantization import rescale
from triton_dsl.ir.errors import TritonError

RunOp = Callable[..., tuple[NDArray[Any], ...]]

RNG = np.random.default_rng(3)


def test_quantize_per_tensor(run_op: RunOp) -> None:
    x = (RNG.standard_normal((4, 50)) * 10).astype(np.float32)
    scale, zero = np.float32(0.0625), np.int8(3)
    (result,) = run_op(tensor.QuantizeOp, x, scale, zero)
    expected = torch.fake_quantize_per_tensor_affine(torch.from_numpy(x), 0.0625, 3, -128, 127)
    np.testing.assert_array_equal((result.astype(np.float32) - 3) * scale, expected.numpy())
    (again,) = run_op(tensor.DequantizeOp, result, scale, zero)
    np.testing.assert_array_equal(again, expected.numpy())


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_quantize_per_channel(axis: int, run_op: RunOp) -> None:
    x = (RNG.standard_normal((4, 5, 6)) * 10).astype(np.float32)
    size = x.shape[axis]
    scale = (2.0 ** RNG.integers(-6, 1, size)).astype(np.float32)
    zero = RNG.integers(-5, 5, size).astype(np.int8)
    (result,) = run_op(lambda *v: tensor.QuantizeOp(*v, axis=axis, low=-8, high=7), x, scale, zero)
    expected = torch.fake_quantize_per_channel_affine(
        torch.from_numpy(x),
        torch.from_numpy(scale),
        torch.from_numpy(zero.astype(np.int32)),
        axis % 3,
        -8,
        7,
    )
    (values,) = run_op(lambda *v: tensor.DequantizeOp(*v, axis=axis), result, scale, zero)
    np.testing.assert_array_equal(values, expected.numpy())


def test_quantize_rounds_halves_to_even_and_saturates(run_op: RunOp) -> None:
    x = np.array([0.5, 1.5, -0.5, -2.5, 1e9, -1e9, np.inf, -np.inf, np.nan], np.float32)
    (result,) = run_op(lambda *v: tensor.QuantizeOp(*v, axis=0), x, np.float32(1), np.int8(0))
    assert result.tolist() == [0, 2, 0, -2, 127, -128, 127, -128, 0]
    bounds = dict(low=-(2**31), high=2**31 - 1)
    (wide,) = run_op(
        lambda *v: tensor.QuantizeOp(*v, axis=0, **bounds),
        np.array([1e12, -1e12, 7.0], np.float32),
        np.float32(1),
        np.int32(0),
    )
    assert wide.tolist() == [2**31 - 1, -(2**31), 7]


I32 = st.integers(-(2**31), 2**31 - 1)


@given(I32, I32, st.integers(1, 62), st.integers(-128, 127))
def test_requantize_is_exact(x: int, multiplier: int, shift: int, zero: int) -> None:
    exact = ((x * multiplier + (1 << (shift - 1))) >> shift) + zero
    result = rescale(
        np.array([x], np.int32),
        np.array(multiplier, np.int32),
        np.array(shift, np.int32),
        np.array(zero, np.int8),
        -128,
        127,
        0,
    )
    assert result.dtype == np.int8
    assert result.tolist() == [min(max(exact, -128), 127)]


def test_requantize_per_channel(run_op: RunOp) -> None:
    x = RNG.integers(-(2**31), 2**31, (3, 4, 5)).astype(np.int32)
    multiplier = RNG.integers(1, 2**31, 4).astype(np.int32)
    shift = RNG.integers(30, 50, 4).astype(np.int32)
    (result,) = run_op(
        lambda *v: tensor.RequantizeOp(*v, low=-100, high=90), x, multiplier, shift, np.int8(-7)
    )
    for n, c, i in np.ndindex(x.shape):
        product = int(x[n, c, i]) * int(multiplier[c]) + (1 << (int(shift[c]) - 1))
        assert result[n, c, i] == min(max((product >> int(shift[c])) - 7, -100), 90)


@pytest.mark.parametrize("shift", [0, 63, -1])
def test_requantize_refuses_a_shift_out_of_range(shift: int, run_op: RunOp) -> None:
    x = np.zeros((1, 1), np.int32)
    with pytest.raises(TritonError, match="expects shifts of 1 to 62"):
        run_op(tensor.RequantizeOp, x, np.int32(1), np.int32(shift), np.int8(0))


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.int8])
@pytest.mark.parametrize("count", [0, 1, 15, 127, 128])
@pytest.mark.parametrize("channels", [1, 6])
def test_multi_threshold(dtype: type[Any], count: int, channels: int, run_op: RunOp) -> None:
    x = RNG.integers(-20, 20, (3, 6, 4)).astype(dtype)
    thresholds = RNG.integers(-20, 20, (channels, count)).astype(dtype)
    (result,) = run_op(tensor.MultiThresholdOp, x, thresholds, dynamic=False)
    assert result.dtype == (np.int8 if count <= 127 else np.int32)
    rows = np.broadcast_to(thresholds, (6, count))
    for c in range(6):
        ordered = np.sort(rows[c])
        expected = np.searchsorted(ordered, x[:, c], side="right")
        np.testing.assert_array_equal(result[:, c], expected)
