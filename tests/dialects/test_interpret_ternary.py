"""The `ternary` dialect against PyTorch, its papers' formulas in float64, and exact integers."""

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

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.ternary.sparsity import measure_sparsity, reduction_matrix
from triton_dsl.ir.errors import TritonError, VerifyError
from triton_dsl.ir.trits import pack_trits

Array = NDArray[Any]
RunOp = Callable[..., tuple[Array, ...]]

RNG = np.random.default_rng(4)


def trits(*shape: int) -> NDArray[np.int8]:
    return RNG.integers(-1, 2, shape).astype(np.int8)


def floats(*shape: int) -> NDArray[np.float32]:
    return RNG.standard_normal(shape).astype(np.float32)


def ternarize64(x: Array, rule: str, threshold: float | None) -> Array:
    """The rules of the papers, in double precision."""
    x = x.astype(np.float64)
    if rule == "absmean":
        return np.clip(np.round(x / np.mean(np.abs(x))), -1, 1)
    delta = threshold if threshold is not None else 0.7 * np.mean(np.abs(x))
    return np.sign(x) * (np.abs(x) > delta)


@pytest.mark.parametrize(("rule", "threshold"), [("fixed", 0.4), ("twn", None), ("absmean", None)])
def test_ternarize_per_tensor(rule: str, threshold: float | None, run_op: RunOp) -> None:
    x = floats(40, 30)
    found, scale = run_op(
        lambda v: ternary.TernarizeOp(v, rule=rule, threshold=threshold, scale="tensor"), x
    )
    expected = ternarize64(x, rule, threshold)
    np.testing.assert_array_equal(found, expected)
    # Least squares: argmin over s of |x - s·t|².
    best = np.sum(x.astype(np.float64) * expected) / np.sum(expected * expected)
    np.testing.assert_allclose(scale, best, rtol=1e-6)
    assert scale.shape == () and found.dtype == np.int8


@pytest.mark.parametrize(("rule", "threshold"), [("fixed", 0.4), ("twn", None), ("absmean", None)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_ternarize_per_channel(
    rule: str, threshold: float | None, axis: int, run_op: RunOp
) -> None:
    x = floats(6, 5, 7)
    found, scale = run_op(
        lambda v: ternary.TernarizeOp(
            v, rule=rule, threshold=threshold, scale="channel", axis=axis
        ),
        x,
    )
    for c in range(x.shape[axis]):
        part = np.asarray(x.take(c, axis))
        expected = ternarize64(part, rule, threshold)
        np.testing.assert_array_equal(found.take(c, axis), expected)
        best = np.sum(part.astype(np.float64) * expected) / np.sum(expected * expected)
        np.testing.assert_allclose(scale[c], best, rtol=1e-6)


@pytest.mark.parametrize("rule", ["twn", "absmean"])
def test_a_zero_channel_has_scale_zero(rule: str, run_op: RunOp) -> None:
    x = np.stack([np.zeros(4), np.ones(4)]).astype(np.float32)
    found, scale = run_op(lambda v: ternary.TernarizeOp(v, rule=rule, scale="channel", axis=0), x)
    assert found.tolist() == [[0] * 4, [1] * 4]
    assert scale.tolist() == [0.0, 1.0]


def test_the_threshold_itself_gives_zero(run_op: RunOp) -> None:
    x = np.array([0.5, -0.5, 0.500001, -0.6, 0.0], np.float32)
    (found,) = run_op(lambda v: ternary.TernarizeOp(v, rule="fixed", threshold=0.5), x)
    assert found.tolist() == [0, 0, 1, -1, 0]


def test_stochastic_ternarisation_keeps_the_mean_and_repeats(run_op: RunOp) -> None:
    x = np.array([0.0, 0.25, -0.5, 1.0], np.float32).repeat(20000)

    def build(seed: int) -> Callable[..., ternary.TernarizeOp]:
        return lambda v: ternary.TernarizeOp(v, mode="stochastic", seed=seed)

    (found,) = run_op(build(7), x)
    np.testing.assert_array_equal(found, run_op(build(7), x)[0])
    assert (found != run_op(build(8), x)[0]).any()
    np.testing.assert_allclose(
        found.reshape(4, -1).mean(axis=1), [0.0, 0.25, -0.5, 1.0], atol=0.015
    )
    draws = np.random.Generator(np.random.Philox(7)).random(x.shape)
    np.testing.assert_array_equal(found != 0, draws < np.abs(x))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_ternarize_other_floats(dtype: type[Any], run_op: RunOp) -> None:
    x = floats(8, 8).astype(dtype)
    found, scale = run_op(lambda v: ternary.TernarizeOp(v, scale="tensor"), x)
    assert scale.dtype == dtype
    np.testing.assert_array_equal(found, ternarize64(x, "twn", None))


def test_pack_and_unpack(run_op: RunOp) -> None:
    values = trits(784, 10)
    (packed,) = run_op(ternary.PackOp, values, trits=(0,), dynamic=False)
    assert packed.dtype == np.uint8 and packed.shape == (1960,)
    # The definition, bit by bit.
    codes = {0: 0, 1: 1, -1: 2}
    number = sum(codes[t] << (2 * i) for i, t in enumerate(values.reshape(-1).tolist()))
    assert packed.tobytes() == number.to_bytes(1960, "little")
    (again,) = run_op(lambda v: ternary.UnpackOp(v, (784, 10)), packed)
    np.testing.assert_array_equal(again, values)


def test_unpack_refuses_the_reserved_code(run_op: RunOp) -> None:
    with pytest.raises(TritonError, match="reserved trit code 0b11 at element 1"):
        run_op(lambda v: ternary.UnpackOp(v, (4,)), np.array([0b1100], np.uint8))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_dequantize(axis: int, run_op: RunOp) -> None:
    values = trits(3, 3)
    assert run_op(ternary.DequantizeOp, values, trits=(0,))[0].dtype == np.float32
    scale = floats(3)
    (result,) = run_op(lambda *v: ternary.DequantizeOp(*v, axis=axis), values, scale, trits=(0,))
    expected = values * (scale[:, None] if axis == 0 else scale)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("x", [floats(5, 20), floats(20), floats(2, 3, 20)], ids=["2", "1", "3"])
@pytest.mark.parametrize("scale", ["none", "tensor", "channel"])
def test_float_matmul(x: Array, scale: str, run_op: RunOp) -> None:
    w = trits(20, 6)
    given = {"none": [], "tensor": [floats()], "channel": [floats(6)]}[scale]
    (result,) = run_op(ternary.MatmulOp, x, w, *given, trits=(1,))
    expected = x.astype(np.float64) @ w
    if given:
        expected = expected * given[0]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_integer_matmul_is_exact_in_i32(dtype: type[Any], run_op: RunOp) -> None:
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, (3, 50), dtype, endpoint=True)
    w = trits(50, 4)
    (result,) = run_op(ternary.MatmulOp, x, w, trits=(1,))
    exact = x.astype(object) @ w.astype(object)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, (exact + 2**31) % 2**32 - 2**31)


def test_ternary_times_ternary(run_op: RunOp) -> None:
    x, w = trits(2, 3, 50), trits(2, 50, 4)
    (result,) = run_op(ternary.MatmulOp, x, w, trits=(0, 1))
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, x.astype(object) @ w.astype(object))


@pytest.mark.parametrize("activation", ["none", "relu", "relu6"])
def test_fused_float_linear(activation: str, run_op: RunOp) -> None:
    x, w, scale, bias = floats(4, 20), trits(20, 6), floats(6), floats(6)
    (result,) = run_op(
        lambda a, b, s, c: ternary.LinearOp(a, b, scale=s, bias=c, activation=activation),
        x,
        w,
        scale,
        bias,
        trits=(1,),
    )
    t = torch.from_numpy(x.astype(np.float64) @ w * scale + bias)
    expected = {"none": t, "relu": F.relu(t), "relu6": F.relu6(t)}[activation].numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("ending", ["accumulator", "thresholds", "requantize"])
@pytest.mark.parametrize("is_conv", [False, True])
def test_fused_integer_ops_equal_their_parts(
    activation: str, ending: str, is_conv: bool, run_op: RunOp
) -> None:
    """The fused op against exact products followed by the separate `tensor` ops."""
    if is_conv:
        x, w = RNG.integers(-128, 128, (2, 4, 6, 5)).astype(np.int8), trits(6, 2, 3, 3)
        exact = F.conv2d(
            torch.from_numpy(x).double(), torch.from_numpy(w).double(), padding=1, groups=2
        )
        exact = exact.numpy().astype(np.int32)
        shape = (1, -1, 1, 1)
    else:
        x, w = RNG.integers(-128, 128, (4, 20)).astype(np.int8), trits(20, 6)
        exact = (x.astype(object) @ w.astype(object)).astype(np.int32)
        shape = (1, -1)
    bias = RNG.integers(-100, 100, 6).astype(np.int32)
    expected = exact + bias.reshape(shape)
    expected = np.maximum(expected, 0) if activation == "relu" else expected

    extra: dict[str, Array] = {"bias": bias}
    bounds: dict[str, Any] = {}
    if ending == "thresholds":
        extra["thresholds"] = np.sort(RNG.integers(-200, 200, (6, 7)).astype(np.int32))
        (expected,) = run_op(tensor.MultiThresholdOp, expected, extra["thresholds"], dynamic=False)
    elif ending == "requantize":
        extra["multiplier"] = RNG.integers(2**29, 2**31, 6).astype(np.int32)
        extra["shift"] = RNG.integers(32, 34, 6).astype(np.int32)
        extra["zero_point"] = np.array(-3, np.int8)
        bounds = dict(low=-100, high=100)
        rescaling = (extra[name] for name in ("multiplier", "shift", "zero_point"))
        (expected,) = run_op(lambda *v: tensor.RequantizeOp(*v, **bounds), expected, *rescaling)

    def build(a: Any, b: Any, *rest: Any) -> ternary.FusedOp:
        options = dict(zip(extra, rest, strict=True))
        if is_conv:
            return ternary.ConvOp(
                a, b, padding=(1, 1, 1, 1), groups=2, activation=activation, **options, **bounds
            )
        return ternary.LinearOp(a, b, activation=activation, **options, **bounds)

    (result,) = run_op(build, x, w, *extra.values(), trits=(1,), dynamic=ending != "thresholds")
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_fused_float_conv(run_op: RunOp) -> None:
    x, w, scale, bias = floats(2, 3, 7, 7), trits(4, 3, 3, 3), floats(4), floats(4)
    (result,) = run_op(
        lambda a, b, s, c: ternary.ConvOp(a, b, scale=s, bias=c, strides=(2, 2), activation="relu"),
        x,
        w,
        scale,
        bias,
        trits=(1,),
    )
    product = F.conv2d(torch.from_numpy(x).double(), torch.from_numpy(w).double(), stride=2)
    expected = product.numpy() * scale[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(result, np.maximum(expected, 0), rtol=1e-4, atol=1e-5)


def test_float_thresholds(run_op: RunOp) -> None:
    x, w = floats(4, 20), trits(20, 6)
    thresholds = np.sort(floats(1, 3))
    (result,) = run_op(
        lambda a, b, t: ternary.LinearOp(a, b, thresholds=t),
        x,
        w,
        thresholds,
        trits=(1,),
        dynamic=False,
    )
    expected = ((x @ w.astype(np.float32))[..., None] >= thresholds[0]).sum(axis=-1)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("is_conv", [False, True])
def test_sparsity_facts_are_checked(is_conv: bool, run_op: RunOp) -> None:
    w = trits(6, 3, 2, 2) if is_conv else trits(12, 6)
    x = floats(1, 3, 4, 4) if is_conv else floats(2, 12)
    kind = ternary.ConvOp if is_conv else ternary.LinearOp
    facts = measure_sparsity(reduction_matrix(w, conv=is_conv), (4, 2))
    run_op(lambda a, b: kind(a, b, sparsity=facts), x, w, trits=(1,))
    w.reshape(-1)[0] = 0 if w.reshape(-1)[0] else 1
    with pytest.raises(VerifyError, match=f"'{kind.name}' sparsity fact nnz is"):
        run_op(lambda a, b: kind(a, b, sparsity=facts), x, w, trits=(1,))


@given(st.integers(0, 2**32))
def test_sparsity_facts_against_their_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = (rng.random(rng.integers(1, 9, 2)) < 0.3).astype(np.int8)
    rows, columns = (int(n) for n in rng.integers(1, 4, 2))
    facts = measure_sparsity(matrix, (rows, columns))
    assert facts.nnz.value.data == np.count_nonzero(matrix)
    for found, lines in ((facts.dead_rows, matrix), (facts.dead_columns, matrix.T)):
        assert [i for i, line in enumerate(lines) if not line.any()] == list(found.get_values())
    mask, bit = 0, 0
    for r in range(0, matrix.shape[0], rows):
        for c in range(0, matrix.shape[1], columns):
            mask |= int(not matrix[r : r + rows, c : c + columns].any()) << bit
            bit += 1
    assert int(facts.zero_blocks.data, 16) == mask


@given(st.integers(0, 2**32), st.sampled_from([np.int8, np.int32, np.float64]))
def test_an_adder_graph_multiplies_with_its_matrix(
    run_op: RunOp, seed: int, dtype: type[Any]
) -> None:
    rng = np.random.default_rng(seed)
    inputs = int(rng.integers(1, 5))
    nodes = [
        (
            int(rng.integers(0, inputs + i)),
            int(rng.integers(0, inputs + i)),
            int(rng.choice([-1, 1])),
            int(rng.integers(0, 4)),
        )
        for i in range(int(rng.integers(0, 6)))
    ]
    outputs = [
        (int(rng.integers(0, inputs + len(nodes))), int(rng.integers(-1, 2)))
        for _ in range(int(rng.integers(1, 4)))
    ]
    # The matrix, column by column, from unit vectors pushed through the definition.
    values = [[int(i == j) for j in range(inputs)] for i in range(inputs)]
    for a, b, sign, shift in nodes:
        values.append([p + sign * q * 2**shift for p, q in zip(values[a], values[b], strict=True)])
    matrix = np.array([[s * v for v in values[i]] for i, s in outputs], dtype=object).T

    x = rng.integers(-100, 100, (3, inputs)).astype(dtype)
    built: list[ternary.AdderGraphOp] = []

    def build(operand: Any) -> ternary.AdderGraphOp:
        built.append(ternary.AdderGraphOp(operand, inputs, nodes, outputs))
        return built[-1]

    (result,) = run_op(build, x)
    np.testing.assert_array_equal(built[0].matrix(), matrix)
    exact = x.astype(object) @ matrix
    if dtype != np.float64:
        exact = (exact + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(result, exact)


def test_constants(run_op: RunOp) -> None:
    values = [1, 0, -1, -1, 1, 0]
    (result,) = run_op(lambda: ternary.ConstantOp(values, (2, 3)))
    assert result.dtype == np.int8
    assert result.tolist() == [values[:3], values[3:]]
    assert pack_trits(result).tolist() == [0b10_10_00_01, 0b00_01]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32])
def test_integer_convolution_is_exact_in_i32(dtype: type[Any], run_op: RunOp) -> None:
    info = np.iinfo(dtype)
    x = RNG.integers(max(info.min, -1000), min(info.max, 1000), (2, 3, 6, 6), endpoint=True)
    w = trits(4, 3, 3, 3)
    (found,) = run_op(ternary.ConvOp, x.astype(dtype), w, trits=(1,))
    expected = F.conv2d(torch.from_numpy(x), torch.from_numpy(w.astype(np.int64)))
    np.testing.assert_array_equal(found, expected.numpy())
    assert found.dtype == np.int32


def test_facts_of_a_large_weight_take_little_time() -> None:
    weight = np.zeros((1024, 1024), np.int8)
    facts = measure_sparsity(weight, (1, 1))
    assert int(facts.zero_blocks.data, 16) == (1 << weight.size) - 1
