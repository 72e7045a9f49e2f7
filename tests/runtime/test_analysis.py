"""Counts of parameters, by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_pytorch.load import load_module
from triton_dsl.runtime.analysis import analyze_model_size
from triton_dsl.runtime.layers import TernaryConv2d, TernaryLinear
from triton_dsl.runtime.packed import pack_model


def test_counts_are_those_by_hand() -> None:
    model = nn.Sequential(
        TernaryConv2d(1, 4, 3, bias=False, scale="none"),
        nn.BatchNorm2d(4),
        nn.Flatten(),
        TernaryLinear(144, 10),
    )
    layers: list[Any] = [model[0], model[3]]
    zeros = sum(int((layer.get_ternary_weights() == 0).sum()) for layer in layers)
    for form in (model, pack_model(model)):
        size = analyze_model_size(form)
        assert size["total_params"] == 36 + 8 + 1440 + 10
        assert size["ternary_params"] == 36 + 1440
        assert size["float_params"] == 18
        assert size["zero_params"] == zeros
        assert size["size_float32_mb"] == 4 * 1494 / 2**20
        packed = 9 + 32 + 360 + 40 + 40
        assert size["size_ternary_mb"] == packed / 2**20
        assert size["compression_ratio"] == pytest.approx(4 * 1494 / packed)
        assert {name: layer.params for name, layer in size["layers"].items()} == {
            "0": 36,
            "1": 8,
            "3": 1450,
        }
        assert size["layers"]["0"].bytes == 9 and size["layers"]["3"].ternary_params == 1440


def test_shared_and_missing_parameters() -> None:
    linear = nn.Linear(4, 4, bias=False)
    tied = nn.Sequential(linear, nn.ReLU(), nn.Linear(4, 4, bias=False))
    tied[2].weight = linear.weight
    assert analyze_model_size(tied)["total_params"] == 16
    empty = analyze_model_size(nn.ReLU())
    assert empty["total_params"] == 0 and empty["compression_ratio"] == 1.0


def test_generated_modules_are_counted() -> None:
    source = """
    layer M {
        let fc = TernaryLinear(6, 3, with_scale=true)
        fn forward(x: Tensor[N, 6]) -> Tensor[N, 3] { return fc(x) }
    }
    """
    weights = {
        "fc.weight": torch.tensor([[1, 0, -1]] * 6),
        "fc.scale": torch.ones(3),
        "fc.bias": torch.zeros(3),
    }
    module = load_module(compile_to_target(import_tri(source, weights=weights), "pytorch"))
    size = analyze_model_size(module)
    assert size["ternary_params"] == 18 and size["zero_params"] == 6
    assert size["total_params"] == 18 + 6
    assert size["size_ternary_mb"] == (5 + 24) / 2**20
