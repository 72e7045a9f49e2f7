"""Running spiking networks on batches: coding, parts of batches, chunks, and their memory."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.spiking.coding import encode
from triton_dsl.runtime.spiking.config import SpikingConfig
from triton_dsl.runtime.training.config import TrainingConfig
from triton_dsl.runtime.training.spiking_run import SpikingRun
from triton_dsl.runtime.training.trainer import Trainer

from .tasks import WIDTH, halves, spiking

X, Y = halves(12)
LATENCY = {"period": 7, "threshold": 0.2}


def as_given(train: Tensor) -> dict[str, Tensor]:
    return {
        "rate": train.sum(0) / len(train),
        "mean": train.mean(0),
        "max": train.amax(0),
        "last": train[-1],
    }


@pytest.mark.parametrize("decoding", ["rate", "mean", "max", "last"])
@pytest.mark.parametrize(
    ("encoding", "options"),
    [("rate", {}), ("regular", {}), ("latency", LATENCY), ("phase", {"period": 5}), ("direct", {})],
)
def test_what_a_network_gives(encoding: str, options: dict[str, Any], decoding: str) -> None:
    network = spiking()
    seed = {"seed": 3} if encoding == "rate" else {}
    train = encode(X, encoding, 9, **seed, **options)
    expected = as_given(network(train)[0])[decoding]
    run = SpikingRun(9, encoding, decoding, **options)
    torch.testing.assert_close(run(network, X, 3), expected)
    if decoding != "max":
        for chunk in ("auto", 2, 9, 20):
            chunked = dataclasses.replace(run, chunk=chunk)
            torch.testing.assert_close(chunked(network, X, 3), expected)


def test_trains_of_truth_values_are_numbers() -> None:
    batch = torch.rand(12, 7, WIDTH) < 0.5
    network, run = spiking(), SpikingRun(encoding="recorded", decoding="mean")
    torch.testing.assert_close(run(network, batch, 0), run(network, batch.float(), 0))


def test_a_config_of_changes_takes_their_threshold() -> None:
    run = SpikingRun.of(SpikingConfig(spike_encoding="delta"), "mean", threshold=0.25)
    assert run(spiking(), torch.rand(12, 7, WIDTH), 0).shape == (12, 2)


@pytest.mark.parametrize("chunk", [None, 4])
def test_recorded_trains(chunk: int | None) -> None:
    network, train = spiking(), encode(X, "regular", 10)
    batch = train.transpose(0, 1)
    recorded = SpikingRun(encoding="recorded", decoding="mean", chunk=chunk)
    torch.testing.assert_close(recorded(network, batch, 0), network(train)[0].mean(0))
    changes = SpikingRun(encoding="delta", decoding="last", threshold=0.1, chunk=chunk)
    noise = torch.rand(4, 10, WIDTH, generator=torch.Generator().manual_seed(0))
    expected = network(encode(noise.transpose(0, 1), "delta", threshold=0.1))[0][-1]
    torch.testing.assert_close(changes(network, noise, 0), expected)


def test_a_part_of_a_batch_is_coded_as_in_the_whole() -> None:
    network, run = spiking(), SpikingRun(6, "rate", "mean")
    whole = run(network, X, 5)
    parts = [run(network, X[first : first + 5], 5, first) for first in (0, 5, 10)]
    torch.testing.assert_close(torch.cat(parts), whole)
    assert not torch.allclose(run(network, X[5:10], 5), whole[5:10])
    assert run(network, X[:0], 5, 12).shape == (0, 2)


def test_settings_of_a_network() -> None:
    config = SpikingConfig(12, spike_encoding="phase")
    assert SpikingRun.of(config, "last", 3) == SpikingRun(12, "phase", "last", 3)
    changes = SpikingConfig(spike_encoding="delta")
    assert SpikingRun.of(changes, threshold=0.5).timesteps is None


def kept_bytes(steps: int, chunk: int | str | None) -> int:
    """The most that autograd keeps in a step of training, in bytes of different storages."""
    network, kept = spiking("spikes"), dict[int, int]()

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    config = TrainingConfig(epochs=1, batch_size=12, device="cpu", keep_best=False)
    trainer = Trainer(network, config, spiking=SpikingRun(steps, "rate", "rate", chunk=chunk))
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        trainer.fit((X, Y))
    return sum(kept.values())


def test_memory_of_training_does_not_grow_with_the_steps() -> None:
    """Sixteen times the steps keep about four times as much in chunks, sixteen times without."""
    chunked = kept_bytes(256, "auto") / kept_bytes(16, "auto")
    whole = kept_bytes(256, None) / kept_bytes(16, None)
    assert chunked < 6 and whole > 12


def test_chunks_train_alike() -> None:
    found: list[nn.Module] = []
    for chunk in (None, 3):
        network = spiking().double()
        trainer = Trainer(
            network,
            TrainingConfig(epochs=2, batch_size=6, device="cpu", optimizer="sgd"),
            spiking=SpikingRun(8, "rate", "mean", chunk=chunk),
        )
        trainer.fit((X.double(), Y))
        found.append(network)
    for mine, theirs in zip(found[0].parameters(), found[1].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "timesteps: expected a whole number from 1, got None"),
        ({"timesteps": 0}, "timesteps: expected a whole number from 1, got 0"),
        ({"timesteps": 4, "encoding": "recorded"}, "the inputs of 'recorded' have their own steps"),
        ({"timesteps": 4, "encoding": "morse"}, "encoding: expected one of rate"),
        ({"timesteps": 4, "decoding": "first_spike"}, "decoding: expected one of rate, last"),
        ({"timesteps": 4, "chunk": 0}, "chunk: expected a number of steps or 'auto', got 0"),
        ({"timesteps": 4, "chunk": "sqrt"}, "chunk: expected"),
        ({"timesteps": 4, "chunk": 2, "decoding": "max"}, "the decoding 'max' looks at all steps"),
        ({"timesteps": 4, "encoding": "rate", "period": 4}, "period belongs to latency and phase"),
        ({"timesteps": 4, "encoding": "phase", "threshold": 0.5}, "threshold belongs to latency"),
        ({"timesteps": 4, "encoding": "phase", "period": 0}, "period: expected a whole number"),
        ({"timesteps": 4, "encoding": "latency", "threshold": "a"}, "threshold: expected a finite"),
        ({"timesteps": 4, "encoding": "latency", "threshold": math.nan}, "threshold: expected"),
        ({"encoding": "delta"}, "threshold: 'delta' needs one"),
    ],
)
def test_refusals(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SpikingRun(**fields)


def test_networks_that_give_no_train() -> None:
    for network in (nn.Identity(), nn.GRU(WIDTH, 3, 1), nn.Flatten()):
        run = SpikingRun(4)
        if isinstance(network, nn.GRU):
            assert run(network, X, 0).shape == (12, 3)
            continue
        with pytest.raises(OptionError, match=r"gives its outputs .* states, got Tensor"):
            run(network, X, 0)
    with pytest.raises(OptionError, match=r"expected trains \[N, T, …\], got \[12\]"):
        SpikingRun(encoding="recorded")(nn.Identity(), Y, 0)
