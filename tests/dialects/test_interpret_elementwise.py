"""Element-wise ops and activations against PyTorch and NumPy."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i8, i16, i32, i64

from triton_dsl.dialects import tensor
from triton_dsl.dialects.tensor.elementwise import quotient, saturate

RunOp = Callable[..., tuple[NDArray[Any], ...]]

RNG = np.random.default_rng(0)
X = (RNG.standard_normal((5, 7)) * 3).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 80.0, -80.0], np.float32)


UNARY: list[tuple[Any, Callable[[torch.Tensor], torch.Tensor], NDArray[Any]]] = [
    (tensor.NegOp, torch.neg, X),
    (tensor.AbsOp, torch.abs, X),
    (tensor.SignOp, torch.sign, X),
    (tensor.ExpOp, torch.exp, X),
    (tensor.LogOp, torch.log, POSITIVE),
    (tensor.SqrtOp, torch.sqrt, POSITIVE),
    (tensor.RsqrtOp, torch.rsqrt, POSITIVE),
    (tensor.RoundOp, torch.round, np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.2], np.float32)),
    (tensor.FloorOp, torch.floor, X),
    (tensor.ErfOp, torch.erf, X),
    (tensor.ReluOp, F.relu, X),
    (tensor.Relu6Op, F.relu6, X * 3),
    (tensor.LeakyReluOp, F.leaky_relu, X),
    (lambda x: tensor.LeakyReluOp(x, 0.2), lambda x: F.leaky_relu(x, 0.2), X),
    (tensor.GeluOp, F.gelu, X),
    (lambda x: tensor.GeluOp(x, "tanh"), lambda x: F.gelu(x, approximate="tanh"), X),
    (tensor.SiluOp, F.silu, X),
    (tensor.SigmoidOp, torch.sigmoid, X),
    (tensor.TanhOp, torch.tanh, X),
    (tensor.HardSwishOp, F.hardswish, X),
    (tensor.HardTanhOp, F.hardtanh, X),
    (tensor.SoftmaxOp, lambda x: torch.softmax(x, -1), X),
    (lambda x: tensor.SoftmaxOp(x, 0), lambda x: torch.softmax(x, 0), X * 100),
    (tensor.LogSoftmaxOp, lambda x: torch.log_softmax(x, -1), X),
    (lambda x: tensor.LogSoftmaxOp(x, 0), lambda x: torch.log_softmax(x, 0), X * 100),
    (lambda x: tensor.ClampOp(x, min=-1.0), lambda x: torch.clamp(x, min=-1.0), X),
    (lambda x: tensor.ClampOp(x, max=0.1), lambda x: torch.clamp(x, max=0.1), X),
    (lambda x: tensor.ClampOp(x, min=-1, max=2), lambda x: torch.clamp(x, -1, 2), X),
]


@pytest.mark.parametrize("case", range(len(UNARY)))
def test_unary_ops_agree_with_torch(case: int, run_op: RunOp) -> None:
    build, reference, x = UNARY[case]
    for values in (x, x.astype(np.float64)):
        (result,) = run_op(build, values)
        expected = reference(torch.from_numpy(values.astype(np.float64))).numpy()
        assert result.dtype == values.dtype
        tolerance = 2e-6 if values.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", [tensor.SigmoidOp, tensor.TanhOp, tensor.GeluOp, tensor.ErfOp])
def test_saturating_functions_reach_their_limits(kind: Any, run_op: RunOp) -> None:
    reference = {
        tensor.SigmoidOp: torch.sigmoid,
        tensor.TanhOp: torch.tanh,
        tensor.GeluOp: F.gelu,
        tensor.ErfOp: torch.erf,
    }[kind]
    (result,) = run_op(kind, SPECIAL)
    np.testing.assert_allclose(
        result, reference(torch.from_numpy(SPECIAL.astype(np.float64))).numpy(), atol=1e-6
    )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kind", [tensor.ExpOp, tensor.GeluOp, tensor.SoftmaxOp, tensor.ReluOp])
def test_half_floats_compute_in_f32_and_round_once(
    kind: Any, dtype: type[Any], run_op: RunOp
) -> None:
    x = X.astype(dtype)
    (half,) = run_op(kind, x)
    (single,) = run_op(kind, x.astype(np.float32))
    assert half.dtype == dtype
    np.testing.assert_array_equal(half, single.astype(dtype))


BINARY: list[tuple[Any, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = [
    (tensor.AddOp, torch.add),
    (tensor.SubOp, torch.sub),
    (tensor.MulOp, torch.mul),
    (tensor.DivOp, torch.div),
    (tensor.ModOp, torch.remainder),
    (tensor.MaximumOp, torch.maximum),
    (tensor.MinimumOp, torch.minimum),
]


@pytest.mark.parametrize("case", range(len(BINARY)))
@pytest.mark.parametrize("shapes", [((4, 5), (4, 5)), ((4, 5), (5,)), ((4, 1), (1, 5)), ((3,), ())])
def test_binary_ops_agree_with_torch(
    case: int, shapes: tuple[tuple[int, ...], ...], run_op: RunOp
) -> None:
    kind, reference = BINARY[case]
    x, y = (RNG.standard_normal(s).astype(np.float32) for s in shapes)
    (result,) = run_op(kind, x, y)
    np.testing.assert_array_equal(
        result, reference(torch.from_numpy(x), torch.from_numpy(np.asarray(y))).numpy()
    )


def test_pow(run_op: RunOp) -> None:
    (result,) = run_op(tensor.PowOp, POSITIVE, np.float32(1.7))
    np.testing.assert_allclose(result, POSITIVE.astype(np.float64) ** np.float32(1.7), rtol=1e-6)


@pytest.mark.parametrize("kind", [tensor.MaximumOp, tensor.MinimumOp])
def test_nan_spreads(kind: Any, run_op: RunOp) -> None:
    x = np.array([np.nan, 1.0, np.nan], np.float32)
    y = np.array([1.0, np.nan, np.nan], np.float32)
    assert np.isnan(run_op(kind, x, y)[0]).all()


@pytest.mark.parametrize("kind", [tensor.AddOp, tensor.SubOp, tensor.MulOp])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_integers_wrap_around(kind: Any, dtype: type[Any], run_op: RunOp) -> None:
    info = np.iinfo(dtype)
    x = np.array([info.max, info.min, info.max, -1], dtype)
    y = np.array([1, 1, info.max, info.min], dtype)
    function = {
        tensor.AddOp: lambda a, b: a + b,
        tensor.SubOp: lambda a, b: a - b,
        tensor.MulOp: lambda a, b: a * b,
    }[kind]
    bits = info.bits
    exact = [function(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    wrapped = [(v + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for v in exact]
    np.testing.assert_array_equal(run_op(kind, x, y)[0], wrapped)


SMALL = st.integers(-128, 127)


@given(SMALL, SMALL.filter(bool))
def test_integer_division_truncates(a: int, b: int) -> None:
    expected = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    result = quotient(np.array(a, np.int32), np.array(b, np.int32))
    assert result.dtype == np.int32 and int(result) == expected


def test_integer_remainder_has_the_sign_of_the_divisor(run_op: RunOp) -> None:
    x, y = np.array([7, -7, 7, -7], np.int32), np.array([3, 3, -3, -3], np.int32)
    assert run_op(tensor.ModOp, x, y)[0].tolist() == [7 % 3, -7 % 3, 7 % -3, -7 % -3]


def test_integer_activations(run_op: RunOp) -> None:
    x = np.array([-128, -1, 0, 3, 100], np.int8)
    assert run_op(tensor.ReluOp, x)[0].tolist() == [0, 0, 0, 3, 100]
    assert run_op(tensor.Relu6Op, x)[0].tolist() == [0, 0, 0, 3, 6]
    clamped = run_op(lambda v: tensor.ClampOp(v, min=-1000.0, max=50.0), x)[0]
    assert clamped.dtype == np.int8 and clamped.tolist() == [-128, -1, 0, 3, 50]


@pytest.mark.parametrize("predicate", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_compare(predicate: str, run_op: RunOp) -> None:
    x, y = np.array([1, 2, 3, np.nan], np.float32), np.array([2, 2, 2, 2], np.float32)
    (result,) = run_op(lambda a, b: tensor.CompareOp(a, b, predicate), x, y)
    expected = getattr(torch, predicate)(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    assert result.dtype == np.bool_
    np.testing.assert_array_equal(result, expected)


def test_logic_and_where(run_op: RunOp) -> None:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert run_op(tensor.AndOp, a, b)[0].tolist() == [True, False, False, False]
    assert run_op(tensor.OrOp, a, b)[0].tolist() == [True, True, True, False]
    assert run_op(tensor.NotOp, a)[0].tolist() == [False, False, True, True]
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    (result,) = run_op(tensor.WhereOp, a, x, np.float32(9))
    np.testing.assert_array_equal(result, np.where(a, x, np.float32(9)))


def test_convert_to_integers_saturates(run_op: RunOp) -> None:
    x = np.array([1.9, -1.9, 300.0, -300.0, np.nan, np.inf, -np.inf, 127.5], np.float32)
    (result,) = run_op(lambda v: tensor.ConvertOp(v, i8), x)
    assert result.dtype == np.int8
    assert result.tolist() == [1, -1, 127, -128, 0, 127, -128, 127]
    big = np.array([1e19, -1e19, 2.0**62, -(2.0**63)], np.float64)
    (wide,) = run_op(lambda v: tensor.ConvertOp(v, i64), big)
    assert wide.tolist() == [2**63 - 1, -(2**63), 2**62, -(2**63)]


@given(st.floats(width=64), st.sampled_from([np.int8, np.int16, np.int32, np.int64, np.uint8]))
def test_saturation_is_that_of_exact_integers(x: float, dtype: type[Any]) -> None:
    info = np.iinfo(dtype)
    if np.isnan(x):
        expected = 0
    elif np.isinf(x):
        expected = info.max if x > 0 else info.min
    else:
        expected = min(max(int(x), int(info.min)), int(info.max))
    assert int(saturate(np.array(x), np.dtype(dtype))) == expected


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (i1, [True, False, True]),
        (i8, [44, 0, -1]),
        (i16, [300, 0, -1]),
        (i32, [300, 0, -1]),
        (f16, [300.0, 0.0, -1.0]),
        (bf16, [300.0, 0.0, -1.0]),
        (f32, [300.0, 0.0, -1.0]),
        (f64, [300.0, 0.0, -1.0]),
    ],
)
def test_convert_integers(element: Any, expected: list[Any], run_op: RunOp) -> None:
    (result,) = run_op(lambda v: tensor.ConvertOp(v, element), np.array([300, 0, -1], np.int32))
    assert result.tolist() == expected


def test_convert_floats_truth_values_and_trits(run_op: RunOp) -> None:
    x = np.array([0.1, np.nan, 0.0, 1e-40], np.float64)
    np.testing.assert_array_equal(
        run_op(lambda v: tensor.ConvertOp(v, f16), x)[0], x.astype(np.float16)
    )
    assert run_op(lambda v: tensor.ConvertOp(v, i1), x)[0].tolist() == [True, True, False, True]
    truth = np.array([True, False])
    assert run_op(lambda v: tensor.ConvertOp(v, f32), truth)[0].tolist() == [1.0, 0.0]
    trits = np.array([1, -1, 0], np.int8)
    (floats,) = run_op(lambda v: tensor.ConvertOp(v, f32), trits, trits=(0,))
    assert floats.tolist() == [1.0, -1.0, 0.0]
