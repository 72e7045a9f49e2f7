"""Attacks on floats, trits and spikes, beside gradients and bounds written down here."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.layers import TernaryLinear
from triton_dsl.runtime.spiking.config import SpikingConfig
from triton_dsl.runtime.spiking.mlp import SpikingMLP
from triton_dsl.runtime.training.adversarial import Attack, robustness
from triton_dsl.runtime.training.config import TrainingConfig
from triton_dsl.runtime.training.spiking_run import SpikingRun
from triton_dsl.runtime.training.trainer import Trainer

from .tasks import bits, halves, perceptron, spiking

pytest.importorskip("torchattacks")

CONFIG = TrainingConfig(epochs=6, batch_size=20, learning_rate=0.02, progress=False)
FGSM = Attack("FGSM", {"eps": 0.1})
PGD = Attack("PGD", {"eps": 0.1, "alpha": 0.03, "steps": 5})


def ternary() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(TernaryLinear(8, 12), nn.ReLU(), TernaryLinear(12, 2))


CASES: dict[str, tuple[Any, SpikingRun | None]] = {
    "ternary": (ternary, None),
    "spiking": (spiking, SpikingRun(6, "direct", "mean")),
}


@pytest.mark.parametrize("name", CASES)
def test_fgsm_is_a_step_along_the_sign_of_the_gradient(name: str) -> None:
    """Goodfellow et al. 2015: x + ε·sign(∂loss/∂x), within the range of inputs."""
    make, run = CASES[name]
    module, (x, y) = make(), halves(40)

    def forward(rows: Tensor) -> Tensor:
        return module(rows) if run is None else run(module, rows, 0)

    varied = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(functional.cross_entropy(forward(varied), y), varied)
    assert (gradient != 0).double().mean() > 0.5
    expected = (x + 0.1 * gradient.sign()).clamp(0, 1)
    torch.testing.assert_close(FGSM.examples(forward, x, y), expected)


@pytest.mark.parametrize("name", CASES)
def test_a_trained_network_loses_what_the_report_says(name: str) -> None:
    make, run = CASES[name]
    module, data = make(), halves(60, 1)
    Trainer(module, CONFIG, spiking=run).fit(halves(120))
    module.train()
    before = bits(module)
    wide = Attack("PGD", {"eps": 0.3, "alpha": 0.1, "steps": 5})
    noise = Attack("GN", {"std": 0.05})
    report = robustness(module, data, [FGSM, wide, noise], spiking=run, batch_size=32)
    assert report.rows == 60 and list(report.attacked) == [str(FGSM), str(wide), str(noise)]
    assert module.training and bits(module) == before
    assert report.clean > 0.95
    assert report.attacked[str(wide)] < 0.5 < report.clean
    assert report.attacked[str(wide)] <= report.attacked[str(FGSM)] <= report.clean
    assert report.attacked[str(noise)] > report.attacked[str(wide)]
    lines = dict(line.rsplit(maxsplit=1) for line in str(report).splitlines())
    assert lines.pop("as they are") == f"{report.clean:.2%}"
    assert lines == {name: f"{part:.2%}" for name, part in report.attacked.items()}
    again = robustness(module, data, [FGSM, wide, noise], spiking=run, batch_size=32)
    assert again == report


def test_examples_stay_within_their_bounds() -> None:
    module, (x, y) = ternary(), halves(30)
    changed = PGD.examples(module, x, y)
    assert (changed - x).abs().max() <= 0.1 + 1e-6 and changed.min() >= 0 and changed.max() <= 1
    assert not changed.requires_grad and not torch.equal(changed, x)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ternary", "spiking"])
def test_training_with_an_adversary_withstands_more(name: str) -> None:
    """On scikit-learn's digits; `Square` looks at answers alone, so no gradient misleads it."""
    datasets: Any = pytest.importorskip("sklearn.datasets")
    found: Any = datasets.load_digits()
    x = torch.tensor(found.images / 16, dtype=torch.float32)[:, None]
    y = torch.tensor(found.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, test = ((x[rows], y[rows]) for rows in (order[:1437], order[1437:]))
    attacks = [
        Attack("GN", {"std": 0.1}),
        Attack("FGSM", {"eps": 0.1}),
        Attack("PGD", {"eps": 0.1, "alpha": 0.03, "steps": 7}),
        Attack("Square", {"eps": 0.1, "n_queries": 100}),
    ]
    reports: list[dict[str, float]] = []
    for adversary in (None, attacks[2]):
        torch.manual_seed(0)
        network, run = digits_network(name)
        config = TrainingConfig(epochs=25, batch_size=64, learning_rate=0.01, progress=False)
        Trainer(network, config, spiking=run, adversary=adversary).fit(train)
        report = robustness(network, test, attacks, spiking=run)
        print(f"{name}, trained {'plainly' if adversary is None else 'with PGD'}\n{report}")
        reports.append({"clean": report.clean, **report.attacked})
    plain, hardened = reports
    assert plain["clean"] > 0.9 and hardened["clean"] > 0.8
    for attack, gain in zip(attacks[1:], (0.1, 0.1, 0.02), strict=True):
        assert hardened[str(attack)] > plain[str(attack)] + gain


def digits_network(name: str) -> tuple[nn.Module, SpikingRun | None]:
    if name == "ternary":
        layers = (nn.Flatten(), TernaryLinear(64, 128), nn.ReLU(), TernaryLinear(128, 10))
        return nn.Sequential(*layers), None
    config = SpikingConfig(threshold=0.5, surrogate_gradient="arctan")
    network = SpikingMLP([64, 128, 10], config, readout="membrane", layer=TernaryLinear)
    return Flat(network), SpikingRun(4, "direct", "mean")


class Flat(nn.Module):
    """A network over time whose inputs are images."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, state: Any = None) -> Any:
        return self.network(x.flatten(2), state)


def test_training_with_an_adversary_is_resumed_bit_for_bit(tmp_path: Any) -> None:
    config = dataclasses.replace(CONFIG, epochs=2, checkpoint_folder=str(tmp_path))
    straight, resumed, data = perceptron(0.2), perceptron(0.2), halves(60)
    Trainer(straight, config, adversary=PGD).fit(data)
    Trainer(perceptron(0.2), config, adversary=PGD).fit(data, max_steps=2)
    file = tmp_path / "last.safetensors"
    with pytest.raises(OptionError, match="other adversary"):
        Trainer(perceptron(0.2), config).fit(data, resume=file)
    Trainer(resumed, config, adversary=PGD).fit(data, resume=file)
    assert bits(straight) == bits(resumed)


def test_what_is_refused() -> None:
    with pytest.raises(OptionError, match="torchattacks has no attack 'Nonsense'"):
        Attack("Nonsense")
    with pytest.raises(OptionError, match="FGSM has no epsilon; it has eps"):
        Attack("FGSM", {"epsilon": 0.1})
    with pytest.raises(OptionError, match="from 0 to 1; scale the data first"):
        FGSM.examples(ternary(), torch.full((2, 8), 2.0), torch.tensor([0, 1]))
