"""Several neurons a value: staircases of finer steps, and conversions for one and two steps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import verify_module
from triton_dsl.lowering.conversion import run_spiking
from triton_dsl.lowering.engine import run_target
from triton_dsl.passes.convert_ann_to_snn import (
    ArchitectureValidator,
    ConvertAnnToSnnPass,
    convert,
)
from triton_dsl.passes.convert_ann_to_snn.population import Population
from triton_dsl.passes.convert_ann_to_snn.search import simulate
from triton_dsl.passes.convert_ann_to_snn.signed import simulate_signed

Filled = Callable[..., ModuleOp]
Array = NDArray[Any]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_neurons_of_a_value_are_a_staircase(copies: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers, theta = np.array(copies), rng.uniform(0.5, 2, len(copies))
    x = rng.normal(0, 2, (50, len(copies)))
    population = Population(theta, numbers, 1e6)
    half = np.array(0.5)
    counts = sum(simulate(x[None], level, start) for level, start in population.members(half))
    # The staircase of Bu et al. 2022 with as many levels as neurons.
    expected = np.clip(np.floor(x * numbers / theta + 0.5), 0, numbers)
    edge = np.abs(x * numbers / theta + 0.5 - np.round(x * numbers / theta + 0.5)) < 1e-9
    np.testing.assert_array_equal(np.where(edge, 0, counts), np.where(edge, 0, expected))
    np.testing.assert_allclose(population.worth * numbers, theta)


def test_signed_neurons_of_a_value_are_nearer_to_it() -> None:
    x = np.linspace(0, 1.4, 400)
    current = np.stack([2 * x, 0 * x])
    errors: list[float] = []
    for number in (1, 2, 4, 8):
        population = Population(np.array(1.0), np.array(number), 1e6)
        members = list(population.members(np.array(0.5)))
        told = sum(simulate_signed(current, level, float(start))[0] for level, start in members)
        # In first spikes, of which those of two steps are worth 4/3 of the threshold in current.
        errors.append(float(np.abs(told * population.worth * 4 / 3 / 2 - x)[x < 1].max()))
    assert all(b < 0.6 * a for a, b in pairwise(errors))


LAYERS = """
func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x4xf32> {
  %w = tensor.parameter "w" : tensor<6x16xf32>
  %v = tensor.parameter "v" : tensor<16x16xf32>
  %u = tensor.parameter "u" : tensor<16x4xf32>
  %a = tensor.matmul %x, %w : (tensor<?x6xf32>, tensor<6x16xf32>) -> tensor<?x16xf32>
  %b = tensor.relu %a : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %c = tensor.matmul %b, %v : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %d = tensor.relu %c : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %y = tensor.matmul %d, %u : (tensor<?x16xf32>, tensor<16x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
"""


def converted(filled: Filled, **options: Any) -> tuple[ModuleOp, float, float, Array]:
    """A program, its error on fresh samples, its spikes of a sample, and those samples."""
    rng = np.random.default_rng(0)
    shapes = {"w": (6, 16), "v": (16, 16), "u": (16, 4)}
    values = {
        key: (4 * rng.normal(size=shape) / shape[0] ** 0.5).astype(np.float32)
        for key, shape in shapes.items()
    }
    x, fresh = (rng.normal(size=(400, 6)).astype(np.float32) for _ in range(2))
    before = filled(LAYERS, values=values)
    (wanted,) = run_module(before, [fresh])
    module = before.clone()
    convert(module, ConvertAnnToSnnPass(**options), [(x,)])
    verify_module(module)
    findings = ArchitectureValidator().compare(before, module)
    assert [f.ok for f in findings if f.subject == "populations of neurons"] == [True]
    run = run_spiking(module, [fresh])
    error = float(((run.results[0] - wanted) ** 2).mean() / wanted.var())
    return module, error, float(run.total.mean()), fresh


@pytest.mark.parametrize(
    ("timesteps", "signed", "reset"),
    [
        (1, False, "subtract"),
        (2, False, "subtract"),
        (2, False, "to_value"),
        (2, True, "subtract"),
        (3, True, "subtract"),
        (4, True, "subtract"),
    ],
)
def test_values_that_matter_get_several_neurons(
    filled: Filled, timesteps: int, signed: bool, reset: str
) -> None:
    given: dict[str, Any] = {"timesteps": timesteps, "signed": signed, "price": 0, "reset": reset}
    _, one, _, _ = converted(filled, pools="before", **given)
    module, several, spikes, x = converted(filled, **given)
    assert several < 0.3 * one
    resets = {op.reset.data for op in module.walk() if isinstance(op, spike.IntegrateFireOp)}
    assert resets == {reset}
    given["price"] = 3
    _, _, fewer, _ = converted(filled, **given)
    assert fewer < 0.8 * spikes
    # Other engines hold them.
    (wanted,) = run_module(module, [x])
    _, (found,), _ = run_target(module, "onnx", [x])
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_more_steps_are_nearer(filled: Filled) -> None:
    """Where spikes cost nothing, no number of steps is worse than half as many."""
    errors = [converted(filled, timesteps=t, signed=True, price=0)[1] for t in (2, 4, 8)]
    assert errors[1] < errors[0] and errors[2] < errors[1]


@pytest.mark.parametrize("options", [{"timesteps": 4}, {"timesteps": 1, "pools": "before"}])
def test_one_neuron_says_a_value_elsewhere(filled: Filled, options: dict[str, Any]) -> None:
    module, _, _, _ = converted(filled, price=0, **options)
    assert sum(isinstance(op, spike.IntegrateFireOp) for op in module.walk()) == 2
