"""The custom operator against a float64 product, and under PyTorch's own checks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.library import opcheck

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.operators import ternary_linear
from triton_dsl.runtime.packing import pack

OP: Any = torch.ops.triton_dsl.ternary_linear.default
GENERATOR = torch.Generator().manual_seed(7)


def random_trits(*shape: int) -> torch.Tensor:
    return torch.randint(-1, 2, shape, generator=GENERATOR)


def random_floats(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR, dtype=dtype)


@pytest.mark.parametrize("leading", [(), (4,), (0,), (2, 3), (2, 0, 3)])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (7, 5), (64, 33), (8, 0)])
@pytest.mark.parametrize("with_scale", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_products_are_right(
    leading: tuple[int, ...], k: int, n: int, with_scale: bool, with_bias: bool
) -> None:
    trits, x = random_trits(k, n), random_floats(*leading, k)
    scale = random_floats(n) if with_scale else None
    bias = random_floats(n) if with_bias else None
    expected = x.double() @ trits.double()
    expected = expected if scale is None else expected * scale.double()
    expected = expected if bias is None else expected + bias.double()
    result = ternary_linear(x, pack(trits), n, scale, bias)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_results_have_the_type_of_the_input(dtype: torch.dtype) -> None:
    trits, x = random_trits(16, 4), random_floats(3, 16).to(dtype)
    result = ternary_linear(x, pack(trits), 4, torch.ones(4), torch.zeros(4))
    assert result.dtype == dtype
    expected = (x.double() @ trits.double()).to(dtype)
    torch.testing.assert_close(result, expected)


def test_autocast_decides_the_type() -> None:
    x, weight = random_floats(3, 16), pack(random_trits(16, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ternary_linear(x, weight, 4).dtype == torch.bfloat16


def test_gradients_are_right() -> None:
    trits = random_trits(6, 4)
    inputs = [
        random_floats(2, 3, 6, dtype=torch.float64),
        random_floats(4, dtype=torch.float64),
        random_floats(4, dtype=torch.float64),
    ]
    for tensor in inputs:
        tensor.requires_grad_()

    def product(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return ternary_linear(x, pack(trits), 4, scale, bias)

    assert torch.autograd.gradcheck(product, inputs)
    assert torch.autograd.gradgradcheck(product, inputs)
    x = inputs[0].detach()[0, 0].requires_grad_()
    assert torch.autograd.gradcheck(product, [x, *inputs[1:]])


@pytest.mark.parametrize("leading", [(5,), (2, 3)])
@pytest.mark.parametrize("is_trained", [False, True])
@pytest.mark.parametrize("is_whole", [False, True])
def test_opcheck_is_clean(leading: tuple[int, ...], is_trained: bool, is_whole: bool) -> None:
    x = random_floats(*leading, 6).requires_grad_(is_trained)
    scale = random_floats(4).requires_grad_(is_trained) if is_whole else None
    bias = random_floats(4).requires_grad_(is_trained) if is_whole else None
    checks = opcheck(OP, (x, pack(random_trits(6, 4)), 4, scale, bias))
    assert set(checks.values()) == {"SUCCESS"}


@pytest.mark.parametrize(
    ("x", "weight", "scale"),
    [
        (torch.ones(2, 6), torch.zeros(5, dtype=torch.uint8), None),
        (torch.ones(2, 6), torch.zeros(6, dtype=torch.int8), None),
        (torch.ones(2, 6, dtype=torch.int32), torch.zeros(6, dtype=torch.uint8), None),
        (torch.tensor(1.0), torch.zeros(6, dtype=torch.uint8), None),
        (torch.ones(2, 6), torch.zeros(6, dtype=torch.uint8), torch.ones(3)),
    ],
)
def test_what_does_not_go_together_is_refused(x: Any, weight: Any, scale: Any) -> None:
    with pytest.raises(OptionError, match="ternary_linear: expected"):
        ternary_linear(x, weight, 4, scale)
