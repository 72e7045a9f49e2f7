"""Surrogate gradients against closed forms in NumPy and finite differences of their primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.spiking.config import SURROGATES
from triton_dsl.runtime.spiking.surrogate import SurrogateGradient

Array = NDArray[np.float64]

CLOSED: dict[str, Callable[[Array, float], Any]] = {
    "fast_sigmoid": lambda u, k: (1 + k * np.abs(u)) ** -2.0,
    "arctan": lambda u, k: (k / 2) / (1 + np.square(np.pi * k * u / 2)),
    "triangle": lambda u, k: np.where(np.abs(u) < 1 / k, k - k * k * np.abs(u), 0.0),
    "boxcar": lambda u, k: np.where((-0.5 / k < u) & (u < 0.5 / k), k, 0.0),
    "straight_through": lambda u, k: np.ones_like(u),
}
DEFAULTS = {"fast_sigmoid": 25.0, "arctan": 2.0, "triangle": 1.0, "boxcar": 1.0}
SLOPED = [(name, slope) for name in DEFAULTS for slope in (None, 0.5, 4.0)]
ALL = [*SLOPED, ("straight_through", None)]


def points() -> Tensor:
    return torch.linspace(-3, 3, 601, dtype=torch.float64) + 1e-3 / 3


def test_every_name_is_tested() -> None:
    assert set(SURROGATES) == set(CLOSED) == {name for name, _ in ALL}


@pytest.mark.parametrize(("name", "slope"), ALL)
def test_derivatives_are_the_closed_forms(name: str, slope: float | None) -> None:
    u, k = points(), slope or DEFAULTS.get(name, 1.0)
    found = SurrogateGradient(name, slope).derivative(u).numpy()
    np.testing.assert_allclose(found, CLOSED[name](u.numpy(), k), rtol=1e-12)


@pytest.mark.parametrize(("name", "slope"), ALL)
def test_primitives_have_these_derivatives(name: str, slope: float | None) -> None:
    surrogate, u, h = SurrogateGradient(name, slope), points(), 1e-6
    difference = (surrogate.primitive(u + h) - surrogate.primitive(u - h)) / (2 * h)
    torch.testing.assert_close(difference, surrogate.derivative(u), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["arctan", "triangle", "boxcar"])
def test_some_primitives_are_distributions(name: str) -> None:
    ends = SurrogateGradient(name).primitive(torch.tensor([-1e9, 0.0, 1e9], dtype=torch.float64))
    torch.testing.assert_close(ends, torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64))


@pytest.mark.parametrize("compare", ["gt", "ge"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_spikes_are_a_step(compare: str, dtype: torch.dtype) -> None:
    tiny = torch.finfo(dtype).eps
    v = torch.tensor([-1.0, 1 - tiny, 1.0, 1 + tiny, torch.inf, torch.nan], dtype=dtype)
    expected = [0, 0, int(compare == "ge"), 1, 1, 0]
    for potential in (v, v.clone().requires_grad_()):
        spikes = SurrogateGradient()(potential, torch.ones((), dtype=dtype), compare)
        assert spikes.tolist() == expected and spikes.dtype == dtype
    with torch.no_grad():
        assert not SurrogateGradient()(v.requires_grad_(), torch.ones((), dtype=dtype)).grad_fn


@pytest.mark.parametrize(("name", "slope"), ALL)
def test_gradients_of_potential_and_threshold(name: str, slope: float | None) -> None:
    surrogate = SurrogateGradient(name, slope)
    v = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    threshold = torch.tensor([0.5, 1.0, -0.2], dtype=torch.float64, requires_grad=True)
    weights = torch.randn(7, 3, dtype=torch.float64)
    (surrogate(v, threshold) * weights).sum().backward()
    expected = weights * surrogate.derivative((v - threshold).detach())
    torch.testing.assert_close(v.grad, expected)
    torch.testing.assert_close(threshold.grad, -expected.sum(0))


def test_second_derivatives() -> None:
    surrogate = SurrogateGradient("arctan")
    v = torch.tensor([0.3, 1.4], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(
        surrogate(v, torch.ones(()).double()).sum(), v, create_graph=True
    )
    (second,) = torch.autograd.grad(first.sum(), v)
    u = (v - 1).detach().numpy()
    # d/du of 1/(1 + (πu)²).
    np.testing.assert_allclose(second, -2 * np.pi**2 * u / (1 + (np.pi * u) ** 2) ** 2)


def test_gradients_of_each_sample() -> None:
    surrogate, v = SurrogateGradient("triangle"), torch.randn(5, 4, dtype=torch.float64)

    def total(v: Tensor) -> Tensor:
        return surrogate(v, torch.zeros((), dtype=v.dtype)).sum()

    found = torch.func.vmap(torch.func.grad(total))(v)
    torch.testing.assert_close(found, surrogate.derivative(v))


def test_integers_have_no_gradient() -> None:
    v = torch.tensor([1, 2, 3], dtype=torch.int32)
    spikes = SurrogateGradient()(v, torch.tensor(2, dtype=torch.int32))
    assert spikes.tolist() == [0, 1, 1] and spikes.dtype == torch.int32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SurrogateGradient("sigmoid"), "expected one of fast_sigmoid, arctan"),
        (lambda: SurrogateGradient("straight_through", 1.0), "has no slope"),
        (lambda: SurrogateGradient("arctan", 0.0), "slope: expected a finite number above 0"),
        (lambda: SurrogateGradient()(torch.ones(1), torch.ones(1), "lt"), "compare: expected"),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()
