"""The conversion that is found is the cheapest of those that are accurate enough."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.neuromorphic.optimization import OptimizationEngine
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.runtime.random_values import fill_parameters

SOURCE = """layer Net {
    let one = Linear(8, 40)
    let two = Linear(40, 3)
    fn forward(x: Tensor[N, 8]) -> Tensor[N, 3] { return two(relu(one(x))) }
}"""


def images(seed: int) -> NDArray[Any]:
    return np.random.default_rng(seed).random((120, 8)).astype(np.float32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timesteps": ()}, "timesteps needs one at least"),
        ({"prices": ()}, "prices needs one at least"),
        ({"shares": ()}, "parts above 0 up to 1"),
        ({"shares": (0.0,)}, "parts above 0 up to 1"),
        ({"shares": (2.0,)}, "parts above 0 up to 1"),
    ],
)
def test_nothing_to_try(options: dict[str, Any], message: str) -> None:
    program = fill_parameters(import_tri(SOURCE), 2)
    with pytest.raises(OptionError, match=message):
        OptimizationEngine("loihi2", **options).optimize(
            program, images(0), images(1), accuracy=0.5
        )


def test_inputs_and_labels_that_do_not_fit() -> None:
    program, engine = fill_parameters(import_tri(SOURCE), 2), OptimizationEngine("loihi2")
    for inputs, labels in ((images(1)[:0], None), (images(1), np.zeros(3))):
        with pytest.raises(OptionError, match="a label for each, got"):
            engine.optimize(program, images(0), inputs, accuracy=0.5, labels=labels)


def test_for_spinnaker_neurons_start_again_at_a_value() -> None:
    """As its target takes them, so that what is found is what the files have."""
    program = fill_parameters(import_tri(SOURCE), 2)
    engine = OptimizationEngine("spinnaker1", timesteps=(4,), prices=(0.001,), shares=(1.0,))
    found = engine.optimize(program, images(0), images(1), accuracy=0.1).best
    assert found.energy.refused == "" and "to_value" in str(found.module)
    artifact = compile_to_target(found.module, "spinnaker")
    placed = json.loads(artifact.text("placement.json"))
    assert placed["cores"] == found.energy.placement.cores


def test_the_cheapest_of_those_that_are_right() -> None:
    program = fill_parameters(import_tri(SOURCE), 2)
    engine = OptimizationEngine("loihi2", timesteps=(1, 4), prices=(0.001, 0.1))
    found = engine.optimize(program, images(0), images(1), accuracy=0.5)
    assert len(found.tried) == 2 * 2 * 3
    costs = [float(one.energy.total[1]) for one in found.tried if one.accuracy >= 0.5]
    assert float(found.best.energy.total[1]) == min(costs) < max(costs)
    by_steps = {one.timesteps: float(one.energy.total[1]) for one in found.tried}
    assert by_steps[1] < by_steps[4]
    strict = engine.optimize(
        program, images(0), images(1), accuracy=max(one.accuracy for one in found.tried)
    )
    assert float(strict.best.energy.total[1]) >= float(found.best.energy.total[1])
    with pytest.raises(
        OptionError, match=r"no conversion has an accuracy of 1\.1; the best has [01]"
    ):
        engine.optimize(program, images(0), images(1), accuracy=1.1)
