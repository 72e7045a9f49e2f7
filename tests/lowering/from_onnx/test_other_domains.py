"""Operators of other domains that are refused, each by its whole name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.from_onnx import from_onnx

TRAINING = "ai.onnx.preview.training"


@pytest.mark.parametrize(
    ("domain", "op"),
    [
        ("", "MaxRoiPool"),
        ("", "TfIdfVectorizer"),
        ("ai.onnx.ml", "TreeEnsemble"),
        (TRAINING, "Adam"),
        ("org.example", "Foo"),
    ],
)
def test_operators_without_a_rule_are_refused_by_name(bench: Any, domain: str, op: str) -> None:
    """All that stand in a model at once."""
    nodes = [helper.make_node(op, ["x"], [name], domain=domain) for name in "yz"]
    domains = [domain] if domain else []
    model = bench.model(nodes, {"x": (np.float32, (2,))}, ["y", "z"], domains=domains)
    with pytest.raises(UnsupportedError) as caught:
        from_onnx(model)
    reason = f"the operator {'.'.join(filter(None, (domain, op)))} is not known"
    problems = tuple((op, f"'{name}' of ONNX model", reason) for name in "yz")
    assert caught.value.problems == problems


def test_derivatives_of_a_graph_are_refused(bench: Any) -> None:
    node = helper.make_node("Gradient", ["x"], ["y"], domain=TRAINING, xs=["x"], y="x")
    model = bench.model([node], {"x": (np.float32, (2,))}, ["y"], domains=[TRAINING])
    with pytest.raises(UnsupportedError, match="it derives the graph around it; train in PyTorch"):
        from_onnx(model)
