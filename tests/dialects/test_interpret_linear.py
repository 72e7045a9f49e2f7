"""Products, convolution and attention of `tensor` against PyTorch and exact integers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_dsl.dialects import tensor
from triton_dsl.dialects.tensor.interpret_linear import convolve, integer_matmul

RunOp = Callable[..., tuple[NDArray[Any], ...]]

RNG = np.random.default_rng(1)


def floats(*shape: int) -> NDArray[np.float32]:
    return RNG.standard_normal(shape).astype(np.float32)


def torch64(*arrays: NDArray[Any]) -> list[torch.Tensor]:
    return [torch.from_numpy(a.astype(np.float64)) for a in arrays]


@pytest.mark.parametrize(
    "shapes",
    [((4,), (4,)), ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 1, 3, 4), (6, 4, 5))],
)
def test_matmul(shapes: tuple[tuple[int, ...], ...], run_op: RunOp) -> None:
    x, y = (floats(*s) for s in shapes)
    (result,) = run_op(tensor.MatmulOp, x, y)
    np.testing.assert_allclose(result, torch.matmul(*torch64(x, y)).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_integer_matmul_wraps_in_its_own_type(dtype: type[Any], run_op: RunOp) -> None:
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, (3, 5), dtype, endpoint=True)
    y = RNG.integers(info.min, info.max, (5, 2), dtype, endpoint=True)
    exact = x.astype(object) @ y.astype(object)
    bits = info.bits
    expected = (exact + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    (result,) = run_op(tensor.MatmulOp, x, y)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, expected.astype(dtype))


@given(st.integers(0, 2**32), st.sampled_from([2**7, 2**25, 2**31 - 1]), st.integers(1, 40))
def test_integer_products_are_exact(seed: int, size: int, terms: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-size, size, (2, terms), endpoint=True)
    y = rng.integers(-size, size, (terms, 3), endpoint=True)
    exact = (x.astype(object) @ y.astype(object) + 2**63) % 2**64 - 2**63
    np.testing.assert_array_equal(integer_matmul(x, y), exact.astype(np.int64))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear(rank: int, with_bias: bool, run_op: RunOp) -> None:
    x, w = floats(*(2, 3, 8)[-rank:]), floats(8, 4)
    bias = [floats(4)] if with_bias else []
    (result,) = run_op(tensor.LinearOp, x, w, *bias)
    expected = F.linear(torch64(x)[0], torch64(w)[0].T, *torch64(*bias)).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


CONVOLUTIONS = [
    dict(x=(2, 3, 9, 8), w=(4, 3, 3, 2)),
    dict(x=(2, 4, 9, 8), w=(6, 2, 3, 3), groups=2, padding=(1, 1, 1, 1)),
    dict(x=(1, 4, 7, 7), w=(4, 1, 3, 3), groups=4, strides=(2, 2), padding=(1, 0, 1, 0)),
    dict(x=(2, 2, 9, 9), w=(3, 2, 2, 3), dilation=(2, 3), strides=(1, 2)),
    dict(x=(2, 2, 5, 6), w=(3, 2, 1, 1), padding=(0, 2, 1, 3)),
    dict(x=(3, 2, 11), w=(4, 2, 3), strides=(2,), padding=(1, 2), dilation=(2,)),
    dict(x=(0, 3, 5, 5), w=(2, 3, 3, 3)),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("with_bias", [False, True])
def test_conv(case: dict[str, Any], with_bias: bool, run_op: RunOp) -> None:
    x, w = floats(*case["x"]), floats(*case["w"])
    spatial = x.ndim - 2
    strides = case.get("strides", (1,) * spatial)
    dilation = case.get("dilation", (1,) * spatial)
    padding = case.get("padding", (0,) * (2 * spatial))
    groups = case.get("groups", 1)
    bias = [floats(w.shape[0])] if with_bias else []
    (result,) = run_op(
        lambda *v: tensor.ConvOp(
            *v, strides=strides, padding=padding, dilation=dilation, groups=groups
        ),
        x,
        w,
        *bias,
    )
    padded = F.pad(
        torch64(x)[0],
        [p for a in reversed(range(spatial)) for p in (padding[a], padding[spatial + a])],
    )
    function = F.conv1d if spatial == 1 else F.conv2d
    expected = function(
        padded, *torch64(w, *bias), stride=strides, dilation=dilation, groups=groups
    ).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_integer_conv_is_exact_and_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.integers(-128, 128, (5, 4, 6, 6)).astype(np.int8)
    w = RNG.integers(-1, 2, (6, 2, 3, 3)).astype(np.int8)
    image, kernel = torch64(x, w)
    expected = F.conv2d(image, kernel, groups=2, padding=1).numpy()
    arguments = (x, w, (1, 1), (1, 1, 1, 1), (1, 1), 2)
    np.testing.assert_array_equal(convolve(*arguments), expected)
    monkeypatch.setattr("triton_dsl.dialects.tensor.interpret_linear.COLUMN_BYTES", 1)
    np.testing.assert_array_equal(convolve(*arguments), expected)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))),
        ("ij->ji", ((2, 3),)),
        ("ii->i", ((3, 3),)),
        ("ij->", ((2, 3),)),
        ("i,j,k->ijk", ((2,), (3,), (4,))),
    ],
)
def test_einsum(equation: str, shapes: tuple[tuple[int, ...], ...], run_op: RunOp) -> None:
    arrays = [floats(*s) for s in shapes]
    (result,) = run_op(lambda *v: tensor.EinsumOp(v, equation), *arrays)
    expected = torch.einsum(equation, *torch64(*arrays)).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("mask", ["none", "causal", "float", "truth"])
def test_attention(batch: tuple[int, ...], scale: float | None, mask: str, run_op: RunOp) -> None:
    q, k, v = floats(*batch, 4, 8), floats(*batch, 5, 8), floats(*batch, 5, 6)
    given: list[NDArray[Any]] = []
    if mask == "float":
        given = [floats(4, 5)]
    elif mask == "truth":
        given = [RNG.random((4, 5)) < 0.7]
        given[0][:, 0] = True
    causal = mask == "causal"
    (result,) = run_op(
        lambda *values: tensor.ScaledDotProductAttentionOp(*values, scale=scale, is_causal=causal),
        q,
        k,
        v,
        *given,
    )
    attn_mask = None
    if given:
        attn_mask = torch.from_numpy(given[0])
        attn_mask = attn_mask if mask == "truth" else attn_mask.double()
    expected = F.scaled_dot_product_attention(
        *torch64(q, k, v), attn_mask=attn_mask, is_causal=causal, scale=scale
    )
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-5, atol=1e-6)
