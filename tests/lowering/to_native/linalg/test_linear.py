"""Products, convolution and attention, lowered and run by LLVM, against the interpreter."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects import tensor


def conv(
    strides: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
) -> Callable[..., Any]:
    """A builder of `tensor.conv`."""
    return lambda *operands: tensor.ConvOp(
        *operands, strides=strides, padding=padding, dilation=dilation, groups=groups
    )


def einsum(equation: str) -> Callable[..., Any]:
    """A builder of `tensor.einsum`."""
    return lambda *operands: tensor.EinsumOp(operands, equation)


def attention(**options: Any) -> Callable[..., Any]:
    """A builder of `tensor.scaled_dot_product_attention`."""
    return lambda *operands: tensor.ScaledDotProductAttentionOp(*operands, **options)


QKV = "tensor<?x2x4x8xf32>; tensor<?x2x5x8xf32>; tensor<?x2x5x6xf32>"

CASES = {
    "matmul": (tensor.MatmulOp, "tensor<?x8xf32>; tensor<8x4xf32>"),
    "matmul_f64": (tensor.MatmulOp, "tensor<3x8xf64>; tensor<8x4xf64>"),
    "matmul_i8": (tensor.MatmulOp, "tensor<?x8xi8>; tensor<8x4xi8>"),
    "matmul_i32": (tensor.MatmulOp, "tensor<?x8xi32>; tensor<8x4xi32>"),
    "matmul_f16": (tensor.MatmulOp, "tensor<?x8xf16>; tensor<8x4xf16>"),
    "matmul_vectors": (tensor.MatmulOp, "tensor<8xf32>; tensor<8xf32>"),
    "matmul_vector_matrix": (tensor.MatmulOp, "tensor<8xf32>; tensor<2x8x3xf32>"),
    "matmul_matrix_vector": (tensor.MatmulOp, "tensor<?x4x8xf32>; tensor<8xf32>"),
    "matmul_batched": (tensor.MatmulOp, "tensor<?x1x4x8xf32>; tensor<5x8x3xf32>"),
    "matmul_both_batched": (tensor.MatmulOp, "tensor<?x4x8xf32>; tensor<?x8x3xf32>"),
    "matmul_all_free": (tensor.MatmulOp, "tensor<?x?xf32>; tensor<?x?xf32>"),
    "linear": (tensor.LinearOp, "tensor<?x8xf32>; tensor<8x4xf32>"),
    "linear_bias": (tensor.LinearOp, "tensor<?x8xf32>; tensor<8x4xf32>; tensor<4xf32>"),
    "linear_deep": (tensor.LinearOp, "tensor<?x3x8xf32>; tensor<8x4xf32>; tensor<4xf32>"),
    "linear_i32": (tensor.LinearOp, "tensor<?x8xi32>; tensor<8x4xi32>; tensor<4xi32>"),
    "conv": (conv(), "tensor<?x3x6x5xf32>; tensor<4x3x3x2xf32>"),
    "conv_bias": (conv(), "tensor<?x3x6x5xf32>; tensor<4x3x3x2xf32>; tensor<4xf32>"),
    "conv_window": (
        conv((2, 1), (1, 0, 2, 1), (1, 2)),
        "tensor<?x3x9x8xf32>; tensor<4x3x3x2xf32>",
    ),
    "conv_free_image": (
        conv((2, 2), (1, 1, 1, 1)),
        "tensor<?x3x?x?xf32>; tensor<4x3x2x3xf32>; tensor<4xf32>",
    ),
    "conv_groups": (
        conv(padding=(1, 1, 1, 1), groups=2),
        "tensor<?x4x5x5xf32>; tensor<6x2x3x3xf32>; tensor<6xf32>",
    ),
    "conv_depthwise": (
        conv((2, 2), (1, 1, 1, 1), groups=4),
        "tensor<?x4x6x6xf32>; tensor<4x1x3x3xf32>",
    ),
    "conv_multiplied": (conv(groups=2), "tensor<2x2x4x4xf32>; tensor<6x1x2x2xf32>"),
    "conv_1d": (
        conv((2,), (1, 2), (2,)),
        "tensor<?x3x12xf32>; tensor<4x3x3xf32>; tensor<4xf32>",
    ),
    "conv_1d_groups": (conv((1,), (1, 1), (1,), 3), "tensor<?x6x7xf32>; tensor<3x2x3xf32>"),
    "conv_i8": (conv(), "tensor<?x3x6x5xi8>; tensor<4x3x3x2xi8>"),
    "conv_f16": (conv(), "tensor<?x3x6x5xf16>; tensor<4x3x3x2xf16>"),
    "einsum_batched": (einsum("bij,bjk->bik"), "tensor<?x3x4xf32>; tensor<?x4x5xf32>"),
    "einsum_sum": (einsum("ij->"), "tensor<?x4xf32>"),
    "einsum_diagonal": (einsum("ii->i"), "tensor<4x4xf32>"),
    "einsum_outer": (einsum("i,j->ji"), "tensor<?xf32>; tensor<4xf32>"),
    "einsum_three": (einsum("ij,jk,kl->il"), "tensor<2x3xf64>; tensor<3x4xf64>; tensor<4x2xf64>"),
    "einsum_integers": (einsum("ij,jk->ki"), "tensor<?x3xi32>; tensor<3x4xi32>"),
    "attention": (attention(), QKV),
    "attention_scaled": (attention(scale=0.5), QKV),
    "attention_causal": (attention(is_causal=True), QKV),
    "attention_mask": (attention(), f"{QKV}; tensor<4x5xf32>"),
    "attention_shared": (attention(), "tensor<?x4x8xf32>; tensor<5x8xf32>; tensor<5x6xf32>"),
    "attention_free": (
        attention(is_causal=True),
        "tensor<?x?x?xf32>; tensor<?x?x?xf32>; tensor<?x?x?xf32>",
    ),
    "attention_f16": (attention(), "tensor<2x4x8xf16>; tensor<2x4x8xf16>; tensor<2x4x8xf16>"),
    "attention_truth": (attention(is_causal=True), f"{QKV}; tensor<?x1x1x5xi1>"),
}


@pytest.mark.parametrize("name", CASES)
def test_products(compiled: Any, name: str) -> None:
    inputs = compiled.inputs(name)
    if name == "attention_truth":
        inputs[-1][..., 0] = True  # every position sees one
    compiled.check(name, inputs, rtol=2e-5 if inputs[0].itemsize > 2 else 2e-2, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 8])
def test_any_batch(compiled: Any, batch: int) -> None:
    for name in ("linear_bias", "conv_groups", "conv_window", "attention"):
        compiled.check(name, compiled.inputs(name, batch=batch), atol=1e-4)


def test_integer_sums_wrap_around(compiled: Any) -> None:
    x = np.full((2, 8), 127, np.int8)
    w = np.full((8, 4), 127, np.int8)
    (sums,) = compiled.check("matmul_i8", [x, w])
    assert sums[0, 0] == np.array(8 * 127 * 127).astype(np.int8)
