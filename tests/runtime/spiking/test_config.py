"""`SpikingConfig`: fields, defaults, checks, dictionaries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.spiking.config import (
    ENCODINGS,
    NEURON_MODELS,
    SURROGATES,
    SpikingConfig,
)


def test_defaults() -> None:
    assert SpikingConfig().to_dict() == {
        "timesteps": 32,
        "threshold": 1.0,
        "neuron_model": "LIF",
        "spike_encoding": "rate",
        "surrogate_gradient": "fast_sigmoid",
        "hardware_constraints": None,
    }


@given(
    timesteps=st.integers(1, 10**6),
    threshold=st.floats(0, 1e6, exclude_min=True),
    neuron_model=st.sampled_from(NEURON_MODELS),
    spike_encoding=st.sampled_from(ENCODINGS),
    surrogate_gradient=st.sampled_from(SURROGATES),
    hardware_constraints=st.none() | st.dictionaries(st.text(), st.integers() | st.text()),
)
def test_round_trip_by_way_of_json(**fields: Any) -> None:
    config = SpikingConfig(**fields)
    again = SpikingConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config and hash(again) == hash(config)


def test_limits_are_copied() -> None:
    limits: dict[str, Any] = {"cores": [1, 2]}
    config = SpikingConfig(hardware_constraints=limits)
    limits["cores"].append(3)
    config.to_dict()["hardware_constraints"]["cores"].append(4)
    assert config.hardware_constraints == {"cores": [1, 2]}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"timesteps": 0}, "timesteps: expected a whole number from 1, got 0"),
        ({"timesteps": 2.0}, "timesteps: expected a whole number"),
        ({"timesteps": True}, "timesteps: expected a whole number"),
        ({"threshold": 0}, "threshold: expected a finite number above 0, got 0"),
        ({"threshold": float("inf")}, "threshold: expected a finite number"),
        ({"threshold": "1"}, "threshold: expected a finite number above 0, got '1'"),
        (
            {"neuron_model": "lif"},
            "neuron_model: expected one of LIF, IF, CubaLIF, Ada",
        ),
        ({"spike_encoding": "burst"}, "spike_encoding: expected one of rate, regular"),
        ({"surrogate_gradient": "relu"}, "surrogate_gradient: expected one of fast_sigmoid"),
        ({"hardware_constraints": [1]}, "hardware_constraints: expected a dictionary"),
        ({"hardware_constraints": {"a": {1}}}, "hardware_constraints: expected a dictionary"),
        ({"hardware_constraints": {1: 2}}, "hardware_constraints: expected a dictionary"),
        ({"steps": 3}, r"unknown field\(s\) steps; expected some of timesteps, threshold"),
    ],
)
def test_refusals(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SpikingConfig.from_dict(fields)
