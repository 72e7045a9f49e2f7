"""Names in circuits come from those of the model."""

from __future__ import annotations

import pytest

from triton_dsl.lowering.to_verilog.circuit.evaluation import layer_identifier


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


def test_long_names_of_layers_are_cut() -> None:
    long = "block/" * 40 + "conv.weight"
    name, other = layer_identifier(long), layer_identifier("x" + long)
    assert len(name) == len(other) == 64 and name != other
    assert layer_identifier("fc1.weight.integers") == "fc1"
