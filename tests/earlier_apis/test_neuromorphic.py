"""The interface of neuromorphic machines as an earlier design draws it."""

from inspect import signature
from typing import get_type_hints

import pytest

from triton_dsl.spiking import (
    DeployedModel,
    EdgeBackend,
    EnergyMetrics,
    Loihi2Backend,
    NeuromorphicBackend,
    Results,
    SpiNNakerBackend,
)
from triton_dsl.targets import CompiledModel


@pytest.mark.parametrize("kind", [Loihi2Backend, SpiNNakerBackend, EdgeBackend])
def test_machines_have_one_interface(kind: type[NeuromorphicBackend]) -> None:
    drawn = {
        "compile": (["model"], CompiledModel),
        "deploy": (["compiled_model"], DeployedModel),
        "execute": (["deployed_model", "input_data"], Results),
        "profile": (["execution_context"], EnergyMetrics),
    }
    for name, (parameters, result) in drawn.items():
        method = getattr(kind, name)
        assert list(signature(method).parameters)[1:] == parameters
        assert signature(method).return_annotation == result.__name__
    assert issubclass(kind, NeuromorphicBackend) and get_type_hints(Results)["lost"] is int
