"""Measurements: what must hold of times, and counts by hand."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.layers import TernaryConv2d, TernaryLinear
from triton_dsl.runtime.models.bert import TernaryBertTiny
from triton_dsl.runtime.packed import pack_model
from triton_dsl.runtime.profiler import profile_model


class Sleep(nn.Module):
    """A layer that takes ten milliseconds."""

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(0.01)
        return x


def test_times_are_consistent() -> None:
    model = nn.Sequential(nn.Linear(4, 4), Sleep(), nn.ReLU())
    profile = profile_model(model.train(), torch.randn(8, 4), num_iterations=5, warmup=1)
    assert model.training
    assert profile["min_time_ms"] <= profile["avg_time_ms"] <= profile["max_time_ms"]
    assert 10 <= profile["min_time_ms"] < 5000
    assert list(profile["percentiles_ms"]) == ["p50", "p90", "p95", "p99"]
    percentiles = list(profile["percentiles_ms"].values())
    assert percentiles == sorted(percentiles)
    assert profile["throughput_fps"] == pytest.approx(8000 / profile["avg_time_ms"])
    assert list(profile["layer_times"]) == ["0", "1", "2"]
    assert profile["layer_times"]["1"]["time_ms"] >= 10
    assert profile["layer_times"]["1"]["share"] > 0.5
    assert sum(row["share"] for row in profile["layer_times"].values()) == pytest.approx(1)
    assert (profile["device"], profile["num_iterations"]) == ("cpu", 5)


@pytest.mark.parametrize("scale", ["none", "channel"])
@pytest.mark.parametrize("packed", [False, True])
def test_operations_are_those_by_hand(scale: str, packed: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        TernaryConv2d(4, 6, 3, stride=2, padding=1, groups=2, scale=scale),
        nn.Flatten(),
        TernaryLinear(96, 5, scale=scale),
        nn.Linear(5, 2),
    )
    layers: list[Any] = [model[1], model[3]]
    nonzero = [int(layer.get_ternary_weights().count_nonzero()) for layer in layers]
    profile = profile_model(
        pack_model(model) if packed else model, torch.randn(3, 1, 8, 8), 1, warmup=0
    )
    rows = profile["layer_times"]
    macs = [3 * 64 * 4 * 9, 3 * 16 * 6 * 18, 0, 3 * 96 * 5, 3 * 10]
    assert [row["macs"] for row in rows.values()] == macs
    scales = [3 * 16 * 6, 3 * 5] if scale == "channel" else [0, 0]
    assert [row["flops"] for row in rows.values()] == [2 * macs[0], scales[0], 0, scales[1], 60]
    additions = [3 * 16 * nonzero[0], 3 * nonzero[1]]
    assert [row["additions"] for row in rows.values()] == [0, additions[0], 0, additions[1], 0]
    assert profile["dense_flops"] == 2 * sum(macs)
    assert profile["flops"] == 2 * (macs[0] + macs[4]) + sum(scales)
    assert profile["additions"] == sum(additions)
    assert rows["1"]["output_shape"] == [3, 6, 4, 4] and rows["1"]["ternary"]
    assert [row["params"] for row in rows.values()] == [40, 114, 0, 485, 12]


def test_layers_that_run_twice_and_attention_are_counted() -> None:
    shared = nn.Linear(4, 4)
    profile = profile_model(nn.Sequential(shared, shared), torch.randn(1, 4), 3, warmup=0)
    assert profile["layer_times"]["0"]["calls"] == 2
    assert profile["layer_times"]["0"]["macs"] == 32

    tokens = torch.randint(1, 9, (2, 16))
    mask = torch.ones_like(tokens)
    bert = profile_model(TernaryBertTiny(2, 10), (tokens, mask), 1, warmup=0)
    per_token = 2 * (4 * 128 * 128 + 2 * 128 * 512)
    attention = 2 * 2 * 2 * 2 * 2 * 16 * 16 * 64
    assert bert["dense_flops"] == 2 * 32 * per_token + attention + 2 * 2 * (128 * 128 + 128 * 2)


def test_memory_is_weights_and_live_activations() -> None:
    class Doubling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.zeros(256, 1024))

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(4):
                x = x * 2
            return x.T[:1]

    profile = profile_model(Doubling(), torch.randn(256, 1024), 1, warmup=0)
    assert profile["weights_mb"] == 1.0
    # One product is made while the one before is still there.
    assert profile["activations_mb"] == 2.0
    assert profile["memory_mb"] == 3.0


def test_wrong_arguments_are_refused() -> None:
    for inputs, runs in ((torch.ones(1), 0), ((), 1)):
        with pytest.raises(OptionError, match="expected an input and at least one timed run"):
            profile_model(nn.ReLU(), inputs, runs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_models_on_a_gpu_are_measured() -> None:
    model = nn.Sequential(TernaryLinear(64, 64), nn.ReLU()).cuda()
    profile = profile_model(model, torch.randn(8, 64, device="cuda"), 3)
    assert profile["device"].startswith("cuda") and profile["avg_time_ms"] > 0
