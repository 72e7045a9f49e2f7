"""Converting a network and training it on."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.spiking.neurons import IntegrateFireNeuron
from triton_dsl.runtime.training.config import TrainingConfig
from triton_dsl.runtime.training.distillation import DistillationLoss
from triton_dsl.runtime.training.hybrid import HybridTrainer
from triton_dsl.runtime.training.spiking_run import SpikingRun
from triton_dsl.runtime.training.trainer import Trainer

from .tasks import bits

CONFIG = TrainingConfig(epochs=12, batch_size=50, learning_rate=0.01, device="cpu")
RUN = SpikingRun(1, "direct", "mean")


def clusters(rows: int = 500, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points [rows, 12] around eight places; too near for one or two steps of spikes."""
    places = 0.7 * torch.randn(8, 12, generator=torch.Generator().manual_seed(42))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 8, (rows,), generator=generator)
    return places[labels] + 0.5 * torch.randn(rows, 12, generator=generator), labels


def perceptron() -> nn.Sequential:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 8))


class Converted(nn.Module):
    """The layers of a perceptron with integrate-and-fire neurons in the place of ReLU.

    A neuron's threshold is the largest activation of the calibration, and its spikes are worth it.
    """

    def __init__(self, ann: Any, inputs: Tensor) -> None:
        super().__init__()
        hidden, activation, self.readout = ann[0], ann[1], ann[2]
        self.hidden, self.threshold = hidden, nn.Parameter(activation(hidden(inputs)).max())
        self.neuron = IntegrateFireNeuron(threshold=self.threshold, surrogate="boxcar")

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        current = self.hidden(x)
        if state is None:  # half of the threshold, so that rates are rounded and not cut
            state = (torch.zeros_like(current[0]) + self.threshold / 2,)
        spikes, state = self.neuron(current, state)
        return self.readout(spikes * self.threshold), state


def trained() -> nn.Sequential:
    ann = perceptron()
    Trainer(ann, CONFIG).fit(clusters())
    return ann


def test_many_steps_are_as_good_as_the_network() -> None:
    """Rates of 1024 steps are the activations to a 1024th of the threshold."""
    ann, x = trained(), clusters()[0][:50]
    converted = Converted(ann, clusters()[0])
    run = SpikingRun(1024, "direct", "mean")
    with torch.no_grad():
        torch.testing.assert_close(run(converted, x, 0), ann(x), rtol=0, atol=0.1)


@pytest.mark.parametrize("distillation", [None, DistillationLoss(2.0, 0.7, 0.5)])
def test_one_step_is_trained_on(distillation: DistillationLoss | None) -> None:
    ann = trained()
    before = bits(ann)
    trainer = HybridTrainer(
        ann,
        Converted,
        dataclasses.replace(CONFIG, learning_rate=0.005),
        spiking=RUN,
        distillation=distillation,
        features={"neuron": "1"} if distillation else None,
        calibration=64,
    )
    test = clusters(400, seed=1)
    report = trainer.fit(clusters(), test)
    assert report.ann == Trainer(ann, CONFIG).evaluate(test)
    assert report.converted["accuracy"] < report.ann["accuracy"] - 0.1
    assert report.tuned["accuracy"] > report.ann["accuracy"] - 0.03
    assert report.tuned["loss"] < report.converted["loss"]
    assert len(report.history) == 12 and bits(ann) == before
    assert isinstance(trainer.module, Converted)


class Whole(nn.Module):
    """A converted network that takes a batch and gives logits."""

    def __init__(self, ann: Any, inputs: Tensor) -> None:
        super().__init__()
        self.network = Converted(ann, inputs)

    def forward(self, x: Tensor) -> Tensor:
        return RUN(self.network, x, 0)


def test_networks_that_take_a_batch() -> None:
    """They are trained as those are whose steps the trainer makes, features included."""
    loss, features = DistillationLoss(2.0, 0.7, 0.5), {"neuron": "1"}
    ann, found = trained(), list[tuple[Any, list[bytes]]]()
    for convert, run, prefix in ((Converted, RUN, ""), (Whole, None, "network.")):
        names = {f"{prefix}{name}": theirs for name, theirs in features.items()}
        trainer = HybridTrainer(
            ann, convert, CONFIG, spiking=run, distillation=loss, features=names
        )
        report = trainer.fit(clusters(), clusters())
        assert trainer.module is not None
        found.append((report, bits(trainer.module)))
    assert found[0] == found[1]


def test_what_the_conversion_is_given() -> None:
    given: list[tuple[nn.Module, Tensor]] = []

    def convert(network: nn.Module, inputs: Tensor) -> nn.Module:
        given.append((network, inputs))
        return Converted(network, inputs)

    ann, train = perceptron(), clusters()
    config = dataclasses.replace(CONFIG, epochs=1)
    HybridTrainer(ann, convert, config, spiking=RUN, calibration=40).fit(train, train)
    ((network, inputs),) = given
    assert torch.equal(inputs, train[0][:40]) and network is not ann and not network.training
    shared = {p.data_ptr() for p in ann.parameters()} & {p.data_ptr() for p in network.parameters()}
    assert not shared


def test_refusals() -> None:
    ann = perceptron()
    with pytest.raises(OptionError, match="calibration: expected at least 1 row"):
        HybridTrainer(ann, lambda network, inputs: network, calibration=0)
    with pytest.raises(OptionError, match="features belong to a distillation"):
        HybridTrainer(ann, lambda network, inputs: network, features={"neuron": "1"})
    empty = HybridTrainer(ann, lambda network, inputs: nn.ReLU(), CONFIG)
    with pytest.raises(OptionError, match="converted network has no parameters"):
        empty.fit(clusters(), clusters())


def test_a_network_is_converted_without_a_class() -> None:
    ann, train, test = trained(), clusters(), clusters(200, 1)
    state = {key: value.clone() for key, value in ann.state_dict().items()}
    config = dataclasses.replace(CONFIG, epochs=4, learning_rate=1e-3)
    hybrid = HybridTrainer(ann, config=config, timesteps=2)
    report = hybrid.fit(train, test)
    assert report.converted["accuracy"] > 0.5
    assert report.converted["accuracy"] <= report.tuned["accuracy"]
    assert all(torch.equal(state[key], value) for key, value in ann.state_dict().items())
    assert hybrid.module is not None
    assert sum(p.dim() == 2 for p in hybrid.module.parameters()) == 2
    logits = hybrid.module(test[0])
    accuracy = float((logits.argmax(1) == test[1]).float().mean())
    assert accuracy == pytest.approx(report.tuned["accuracy"], abs=0.02)


def test_what_training_made_worse_stays_as_it_was_converted() -> None:
    wild = dataclasses.replace(CONFIG, epochs=1, learning_rate=30.0, keep_best=False)
    train, test = clusters(), clusters(200, 1)
    hybrid = HybridTrainer(trained(), config=wild, timesteps=4)
    report = hybrid.fit(train, test)
    assert report.tuned == report.converted and report.tuned["accuracy"] > 0.5
    assert hybrid.module is not None
    found = hybrid.module(test[0]).argmax(1)
    assert float((found == test[1]).float().mean()) == pytest.approx(report.tuned["accuracy"])
