"""Names in circuits come from those of the model."""

from __future__ import annotations

import pytest

from triton_dsl.passes.convert_ternary_to_hw.evaluation import layer_identifier


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("fc1.weight", "fc1"),
        ("fc1.weight.trits", "fc1"),
        ("blocks.0.fc.weights.signed", "blocks_0_fc"),
        ("weight", "weight"),
        ("module.weight", "module_"),
        ("1.weight", "_1"),
    ],
)
def test_a_layer_has_the_name_of_its_weights(key: str, name: str) -> None:
    assert layer_identifier(key) == name
