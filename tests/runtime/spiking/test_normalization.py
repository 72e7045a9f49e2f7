"""`TemporalBatchNorm` against the reference interpreter and PyTorch's own batch normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from triton_dsl.dialects import spike
from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.spiking.normalization import TemporalBatchNorm

RunOp = Callable[..., tuple[Tensor, ...]]


def currents(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(shape, generator=generator) * 2 + 0.5


def filled(norm: TemporalBatchNorm) -> TemporalBatchNorm:
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for value in (norm.weight, norm.bias, norm.running_mean):
            value.copy_(torch.randn(norm.channels, generator=generator))
        norm.running_var.copy_(torch.rand(norm.channels, generator=generator) + 0.1)
    return norm


SHAPES = [((4, 3, 6), 2), ((4, 3, 6, 5, 5), 2), ((4, 3, 5, 6), -1), ((4, 6), 1)]


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("kind", ["tdbn", "shared"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_in_use(
    shape: tuple[int, ...], axis: int, kind: str, dtype: torch.dtype, run_op: RunOp
) -> None:
    options: dict[str, Any] = {"alpha": 0.7, "threshold": 0.45} if kind == "tdbn" else {}
    norm = filled(TemporalBatchNorm(6, kind, axis=axis, **options)).eval().to(dtype)
    x = currents(*shape).to(dtype)
    values = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
    (expected,) = run_op(
        lambda *v: spike.BatchNormOp(*v, kind=kind, axis=axis, **options), x, *values
    )
    found = norm(x)
    assert found.dtype == dtype and torch.equal(found, expected)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_in_training(shape: tuple[int, ...], axis: int) -> None:
    """tdBN is batch normalisation over batch and time, its weight times α·θ (eq. 9-11)."""
    norm = filled(TemporalBatchNorm(6, alpha=0.7, threshold=0.45, axis=axis))
    other = nn.BatchNorm1d(6)
    other.load_state_dict(norm.state_dict())
    with torch.no_grad():
        other.weight.mul_(0.7 * 0.45)
    x = currents(*shape)
    for _ in range(2):
        flat = other(x.movedim(axis, -1).reshape(-1, 6))
        expected = flat.reshape(x.movedim(axis, -1).shape).movedim(-1, axis)
        torch.testing.assert_close(norm(x), expected)
    for name, value in norm.named_buffers():
        torch.testing.assert_close(value, other.get_buffer(name))


def test_currents_stand_right_to_the_threshold() -> None:
    norm = TemporalBatchNorm(6, alpha=0.5, threshold=3.0)
    y = norm(currents(50, 40, 6))
    torch.testing.assert_close(y.mean((0, 1)), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.std((0, 1)), torch.full((6,), 1.5), rtol=1e-3, atol=0)


@pytest.mark.parametrize("training", [True, False])
def test_gradients(training: bool) -> None:
    norm = filled(TemporalBatchNorm(3, alpha=0.7, threshold=0.45)).double().train(training)
    x = currents(3, 2, 3).double().requires_grad_()
    assert torch.autograd.gradcheck(norm, (x,))
    norm(x).square().sum().backward()
    assert norm.weight.grad is not None and norm.weight.grad.any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TemporalBatchNorm(3, "bntt"), "kind: expected one of shared, tdbn"),
        (lambda: TemporalBatchNorm(3, "shared", alpha=2.0), "belong to the kind 'tdbn'"),
        (lambda: TemporalBatchNorm(0), "at least one channel"),
        (lambda: TemporalBatchNorm(3, axis=0), "an axis other than 0"),
        (lambda: TemporalBatchNorm(3, epsilon=0), "epsilon above 0"),
        (lambda: TemporalBatchNorm(3, threshold=float("nan")), "expected finite alpha"),
        (lambda: TemporalBatchNorm(3)(torch.ones(2, 2, 4)), "expected 3 channels on axis 2"),
        (lambda: TemporalBatchNorm(3)(torch.ones(2, 3)), "channels on axis 2"),
        (lambda: TemporalBatchNorm(3, axis=-2)(torch.ones(3, 2)), "channels on axis -2"),
        (lambda: TemporalBatchNorm(3)(torch.ones(2, 2, 3).int()), "expected floats"),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()
