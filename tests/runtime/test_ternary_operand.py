"""Products with one ternary matrix: right for all shapes and types, and never of old bytes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.runtime import TernaryTensor, ternary_matmul
from triton_dsl.runtime.ternary_operand import TernaryOperand

sizes = st.integers(1, 40)


def matrix(seed: int, rows: int, columns: int, zero_rows: float) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    trits = rng.integers(-1, 2, (rows, columns))
    trits[rng.random(rows) < zero_rows] = 0
    return torch.from_numpy(trits).to(torch.int8)


@given(
    st.integers(0, 2**32),
    st.lists(st.integers(0, 4), max_size=3),
    sizes,
    sizes,
    st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int8]),
    st.booleans(),
)
def test_products_are_those_of_numpy(
    seed: int,
    leading: list[int],
    steps: int,
    outs: int,
    zero_rows: float,
    dtype: torch.dtype,
    promised: bool,
) -> None:
    trits = matrix(seed, steps, outs, zero_rows)
    numbers = np.random.default_rng(seed).integers(-8, 9, (*leading, steps))
    x = torch.from_numpy(numbers).to(dtype)
    right = trits.to(torch.float32) if promised else TernaryTensor(trits)
    product = ternary_matmul(x, right, b_ternary=True)
    is_float = dtype.is_floating_point
    wide = torch.promote_types(dtype, torch.float32) if promised else dtype
    assert product.dtype == (wide if is_float else torch.float32)
    np.testing.assert_array_equal(product.double().numpy(), (numbers @ trits.numpy()))


@given(st.integers(0, 2**32), sizes, sizes, st.integers(1, 5), st.booleans())
def test_the_ternary_side_may_be_the_left(
    seed: int, outs: int, steps: int, columns: int, is_vector: bool
) -> None:
    trits = matrix(seed, outs, steps, 0.3)
    numbers = np.random.default_rng(seed).integers(-8, 9, (2, steps, columns)).astype(np.float32)
    right = numbers[0, :, 0] if is_vector else numbers
    product = TernaryTensor(trits) @ torch.from_numpy(right)
    np.testing.assert_array_equal(product.numpy(), trits.numpy() @ right)


def test_zero_rows_are_left_out() -> None:
    trits = matrix(0, 64, 8, 0.0)
    trits[10:60] = 0
    operand = TernaryOperand.of(trits)
    assert operand.steps is not None and operand.steps.tolist() == [*range(10), *range(60, 64)]
    assert operand.packed.numel() == 14 * 8 // 4
    assert TernaryOperand.of(matrix(0, 64, 8, 0.0)).steps is None


@pytest.mark.parametrize("way", ["in place", "data", "numpy"])
def test_a_promised_matrix_that_changed_is_read_anew(way: str) -> None:
    values = matrix(1, 16, 8, 0.0).to(torch.float32)
    x = torch.arange(16, dtype=torch.float32)
    first = ternary_matmul(x, values, b_ternary=True)
    torch.testing.assert_close(first, x @ values)
    if way == "in place":
        values.neg_()
    elif way == "data":
        values.data = -values.data
    else:
        values.numpy()[:] *= -1
    torch.testing.assert_close(ternary_matmul(x, values, b_ternary=True), -first)


def test_gradients_reach_the_other_side() -> None:
    trits, x = matrix(2, 12, 5, 0.9), torch.randn(3, 12, requires_grad=True)
    (x @ TernaryTensor(trits)).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, trits.float().sum(1).expand(3, 12))
    values = trits.float().requires_grad_()
    ternary_matmul(x.detach(), values, b_ternary=True).sum().backward()
    assert values.grad is not None
    torch.testing.assert_close(values.grad, x.detach().sum(0)[:, None].expand(12, 5))


def test_a_scale_is_applied() -> None:
    tensor = TernaryTensor(torch.tensor([[0.5, -0.5], [0.0, 0.5]]), scaled=True)
    x = torch.tensor([[2.0, 4.0]])
    torch.testing.assert_close(x @ tensor, x @ tensor.to_float())
    torch.testing.assert_close(tensor @ x.T, tensor.to_float() @ x.T)


def test_products_go_through_torch_export() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trits = TernaryTensor(matrix(3, 8, 4, 0.9))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.trits @ (x @ self.trits).T

    model, x = Model(), torch.randn(4, 8)
    program = torch.export.export(model, (x,))
    torch.testing.assert_close(program.module()(x), model(x))


def test_shapes_that_do_not_fit_are_refused_by_pytorch() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        _ = torch.zeros(2, 7) @ TernaryTensor(matrix(4, 8, 4, 0.0))
