"""Synapses, pools, delays and batch normalisation against PyTorch, exact integers and loops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, f32, i32
from xdsl.ir import Block, SSAValue

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import evaluate

Array = NDArray[Any]
RunOp = Callable[..., tuple[Array, ...]]

RNG = np.random.default_rng(7)


def spikes(*shape: int, share: float = 0.3) -> NDArray[np.bool_]:
    return RNG.random(shape) < share


def floats(*shape: int) -> NDArray[np.float32]:
    return RNG.standard_normal(shape).astype(np.float32)


def torch64(*arrays: Array) -> list[torch.Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(a).astype(np.float64)) for a in arrays]


def weights_of(kind: str, *shape: int) -> Array:
    if kind == "trit":
        return RNG.integers(-1, 2, shape).astype(np.int8)
    if kind == "i8":
        return RNG.integers(-128, 128, shape).astype(np.int8)
    return RNG.standard_normal(shape).astype({"f32": np.float32, "f64": np.float64}[kind])


@pytest.mark.parametrize("kind", ["f32", "f64", "i8", "trit"])
@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_linear(kind: str, graded: bool, scaled: bool, run_op: RunOp) -> None:
    weight = weights_of(kind, 8, 5)
    exact = kind in ("i8", "trit")
    s: Array = spikes(6, 2, 8)
    if graded:
        s = RNG.integers(-9, 9, s.shape).astype(np.int32 if exact else weight.dtype)
    element = np.float32 if exact else weight.dtype
    extra = [RNG.random(5).astype(element) + 0.5] if scaled else []
    bias = RNG.integers(-9, 9, 5).astype(np.int32 if exact and not scaled else element)

    def build(x: SSAValue, w: SSAValue, *rest: SSAValue) -> spike.LinearOp:
        return spike.LinearOp(x, w, scale=rest[0] if scaled else None, bias=rest[-1])

    (result,) = run_op(
        build,
        s,
        weight,
        *extra,
        bias,
        trits=(1,) if kind == "trit" else (),
        trains=() if graded else (0,),
    )
    expected = F.linear(*torch64(s, weight.T)).numpy() * (extra[0] if scaled else 1) + bias
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)
    assert result.dtype == (np.int32 if exact and not scaled else element)
    if exact and not scaled:
        np.testing.assert_array_equal(result, expected)


def test_trits_on_graded_floats(run_op: RunOp) -> None:
    x, weight = floats(3, 2, 8), weights_of("trit", 8, 5)
    (result,) = run_op(spike.LinearOp, x, weight, trits=(1,))
    np.testing.assert_allclose(result, x @ weight.astype(np.float32), rtol=1e-5, atol=1e-5)
    assert result.dtype == np.float32


def test_integer_sums_wrap_around(run_op: RunOp) -> None:
    x = np.full((1, 4), 2**31 - 1, np.int32)
    weight = np.full((4, 1), 127, np.int8)
    (result,) = run_op(spike.LinearOp, x, weight)
    assert result[0, 0] == (4 * 127 * (2**31 - 1) + 2**31) % 2**32 - 2**31


CONVOLUTIONS: list[dict[str, Any]] = [
    dict(s=(3, 2, 4, 7, 6), w=(6, 4, 3, 3), padding=(1, 1, 1, 1)),
    dict(s=(3, 2, 4, 7, 6), w=(6, 2, 3, 3), groups=2, strides=(2, 1)),
    dict(s=(2, 2, 3, 11), w=(4, 3, 3), strides=(2,), padding=(1, 1), dilation=(2,)),
    dict(s=(0, 2, 3, 5, 5), w=(2, 3, 3, 3)),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("kind", ["f32", "trit"])
def test_conv(case: dict[str, Any], kind: str, run_op: RunOp) -> None:
    s, weight = spikes(*case["s"]), weights_of(kind, *case["w"])
    spatial = s.ndim - 3
    strides = case.get("strides", (1,) * spatial)
    padding = case.get("padding", (0,) * 2 * spatial)
    dilation = case.get("dilation", (1,) * spatial)
    groups = case.get("groups", 1)
    scale, bias = floats(weight.shape[0]), floats(weight.shape[0])
    (result,) = run_op(
        lambda x, w, a, b: spike.ConvOp(
            x,
            w,
            scale=a,
            bias=b,
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=groups,
        ),
        s,
        weight,
        scale,
        bias,
        trits=(1,) if kind == "trit" else (),
        trains=(0,),
    )
    function = F.conv1d if spatial == 1 else F.conv2d
    steps = [
        function(
            *torch64(step, weight),
            stride=strides,
            padding=padding[:spatial],
            dilation=dilation,
            groups=groups,
        ).numpy()
        for step in s
    ]
    along = (-1, *[1] * spatial)
    expected = np.array([step * scale.reshape(along) + bias.reshape(along) for step in steps])
    np.testing.assert_allclose(result, expected.reshape(result.shape), rtol=1e-5, atol=1e-4)


POOLS: list[dict[str, Any]] = [
    dict(s=(3, 2, 4, 6, 8), kernel=(2, 2)),
    dict(s=(3, 2, 4, 7, 6), kernel=(3, 2), strides=(2, 1), padding=(1, 1, 1, 1)),
    dict(s=(3, 2, 4, 9), kernel=(3,), strides=(2,), padding=(1, 1)),
]


@pytest.mark.parametrize("case", POOLS, ids=str)
@pytest.mark.parametrize("counted", [False, True])
def test_pools(case: dict[str, Any], counted: bool, run_op: RunOp) -> None:
    s = spikes(*case["s"])
    kernel = case["kernel"]
    spatial = len(kernel)
    strides, padding = case.get("strides", kernel), case.get("padding", (0,) * 2 * spatial)
    (mean,) = run_op(
        lambda v: spike.AvgPoolOp(v, kernel, strides, padding, count_include_pad=counted),
        s,
        trains=(0,),
    )
    (most,) = run_op(lambda v: spike.MaxPoolOp(v, kernel, strides, padding), s, trains=(0,))
    average = F.avg_pool1d if spatial == 1 else F.avg_pool2d
    largest = F.max_pool1d if spatial == 1 else F.max_pool2d
    low = padding[:spatial]
    for t, (image,) in enumerate(zip(torch64(*s), strict=True)):
        expected = average(image, kernel, strides, low, count_include_pad=counted).numpy()
        np.testing.assert_allclose(mean[t], expected, rtol=1e-6)
        np.testing.assert_array_equal(most[t], largest(image, kernel, strides, low).numpy() == 1)
    assert mean.dtype == np.float32


def test_average_of_graded_spikes(run_op: RunOp) -> None:
    x = RNG.standard_normal((2, 1, 1, 4, 4))
    (mean,) = run_op(lambda v: spike.AvgPoolOp(v, (2, 2)), x)  # strides are those of the kernel
    np.testing.assert_allclose(mean[0, 0, 0, 0, 0], x[0, 0, 0, :2, :2].mean(), rtol=1e-12)


@given(
    st.integers(0, 5),
    st.integers(0, 8),
    st.integers(0, 8),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_delays_and_their_buffers(
    steps: int, before: int, after: int, each: bool, graded: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x: Array = rng.random((before + after, 2, 3)) < 0.5
    x = x.astype(np.float32) * rng.random(x.shape, np.float32) if graded else x
    delays = rng.integers(0, steps + 1, 3).astype(np.int32)

    def run(part: Array, initial: Array | None) -> tuple[Array, ...]:
        def type_of(array: Array) -> Any:
            return TensorType(f32, array.shape) if graded else spike.train(*array.shape)

        arrays = [part, *([delays] if each else []), *([] if initial is None else [initial])]
        types = [type_of(part), *([TensorType(i32, [3])] if each else [])]
        types += [] if initial is None else [type_of(initial)]
        values = Block(arg_types=types).args
        op = spike.DelayOp(
            values[0],
            steps,
            delays=values[1] if each else None,
            initial=None if initial is None else values[-1],
            final=True,
        )
        op.verify()
        return evaluate(op, arrays)

    whole, held = run(x, None)
    for t, n, c in np.ndindex(*x.shape):
        source = t - (delays[c] if each else steps)
        assert whole[t, n, c] == (x[source, n, c] if source >= 0 else 0)
    first, buffer = run(x[:before], None)
    second, last = run(x[before:], buffer)
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)
    np.testing.assert_array_equal(last, held)


def test_delays_beyond_the_buffer_are_refused() -> None:
    values = Block(arg_types=[spike.train(4, 3), TensorType(i32, [3])]).args
    op = spike.DelayOp(values[0], 2, delays=values[1])
    with pytest.raises(ValueError, match="delays from 0 to 3, expected 0 to 2"):
        evaluate(op, [np.zeros((4, 3), bool), np.array([0, 1, 3], np.int32)])


@pytest.mark.parametrize("axis", [2, -1])
def test_batch_norm(axis: int, run_op: RunOp) -> None:
    x = RNG.standard_normal((4, 2, 6, 5, 6))
    scale, bias, mean = RNG.standard_normal((3, 6))
    variance = RNG.random(6) + 0.5
    vectors = [scale, bias, mean, variance]
    (shared,) = run_op(lambda *v: spike.BatchNormOp(*v, axis=axis), x, *vectors)
    (tdbn,) = run_op(
        lambda *v: spike.BatchNormOp(*v, axis=axis, kind="tdbn", alpha=0.5, threshold=0.6),
        x,
        *vectors,
    )
    moved = np.moveaxis(x, axis, 2)
    flat = torch.from_numpy(moved.reshape(8, 6, *moved.shape[3:]).copy())
    m, v, s, b = (torch.from_numpy(a) for a in (mean, variance, scale, bias))
    for result, factor in ((shared, 1.0), (tdbn, 0.3)):
        expected = F.batch_norm(flat, m, v, s * factor, b, eps=1e-5).numpy().reshape(moved.shape)
        np.testing.assert_allclose(np.moveaxis(result, axis, 2), expected, rtol=1e-10, atol=1e-12)


def test_threshold_dependent_normalisation_fills_the_threshold() -> None:
    """Zheng et al. 2021: what enters the neurons has the standard deviation α·V_th."""
    x = (RNG.standard_normal((50, 20, 3)) * 4 + 2).astype(np.float32)
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    mean, variance = x.mean((0, 1)), x.var((0, 1))
    types = [TensorType(f32, x.shape), *[TensorType(f32, [3])] * 4]
    op = spike.BatchNormOp(*Block(arg_types=types).args, kind="tdbn", threshold=0.5)
    (y,) = evaluate(op, [x, ones, zeros, mean, variance])
    np.testing.assert_allclose(y.std((0, 1)), 0.5, rtol=1e-4)
