"""Private training: gradients row by row, clipping, noise and ε beside autograd and Opacus."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.ir.extras import needed
from triton_dsl.runtime.layers import TernaryConv2d, TernaryLinear
from triton_dsl.runtime.spiking.config import SpikingConfig
from triton_dsl.runtime.spiking.mlp import SpikingMLP
from triton_dsl.runtime.training.config import TrainingConfig
from triton_dsl.runtime.training.data import Batch, Batches
from triton_dsl.runtime.training.privacy import Privacy, PrivateRun
from triton_dsl.runtime.training.run import CHECKPOINT
from triton_dsl.runtime.training.spiking_run import SpikingRun
from triton_dsl.runtime.training.trainer import Trainer

from .tasks import bits, halves, perceptron

opacus: Any = pytest.importorskip("opacus")

CONFIG = TrainingConfig(epochs=3, batch_size=12, learning_rate=0.05, progress=False)
PRIVACY = Privacy(1e-3, noise=1.1, accountant="rdp", seed=5)


def convolutions() -> nn.Module:
    return nn.Sequential(
        TernaryConv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        TernaryConv2d(4, 4, 3, stride=2, groups=2, scale="tensor"),
        nn.Flatten(),
        TernaryLinear(4 * 3 * 3, 2, fan_in=5),
    )


def spiking() -> nn.Module:
    beta = nn.Parameter(torch.tensor(0.8))
    config = SpikingConfig(threshold=0.5, surrogate_gradient="arctan")
    return SpikingMLP([8, 12, 2], config, layer=TernaryLinear, neuron={"beta": beta})


Case = tuple[Callable[[], nn.Module], tuple[int, ...], SpikingRun | None]
CASES: dict[str, Case] = {
    "convolutions": (convolutions, (1, 8, 8), None),
    "direct": (spiking, (8,), SpikingRun(6)),
    "rate": (spiking, (8,), SpikingRun(6, "rate")),
}


def private_run(trainer: Trainer, data: tuple[Tensor, Tensor], privacy: Privacy) -> PrivateRun:
    engine = trainer._engine  # pyright: ignore[reportPrivateUsage]
    return PrivateRun(privacy, engine, Batches(data, 12, poisson=True), 3)


@pytest.mark.parametrize("name", CASES)
def test_each_row_has_the_gradient_that_it_has_alone(name: str) -> None:
    make, shape, run = CASES[name]
    torch.manual_seed(0)
    module, x, y = make(), torch.rand(7, *shape), torch.arange(7) % 2
    trainer = Trainer(module, CONFIG, spiking=run)
    private = private_run(trainer, (x, y), dataclasses.replace(PRIVACY, delta=0.1))
    optimizer = private.optimizer(torch.optim.SGD(module.parameters(), 0.1))
    loss, outputs = private.differentiate(optimizer, Batch(x, y, 0, 7), 3, 0)
    expected = module(x) if run is None else run(module, x, 3)
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(loss, functional.cross_entropy(expected, y))
    seen = 0.0
    for index in range(7):
        row = slice(index, index + 1)
        logits = module(x[row]) if run is None else run(module, x[row], 3, index)
        module.zero_grad()
        functional.cross_entropy(logits, y[row]).backward()
        for parameter in module.parameters():
            assert parameter.grad is not None
            found: Any = vars(parameter)["grad_sample"][index]
            torch.testing.assert_close(found, parameter.grad, rtol=1e-4, atol=1e-6)
            seen += float(parameter.grad.abs().sum())
    assert seen > 0


def test_opacus_own_hooks_agree_on_ternary_layers() -> None:
    torch.manual_seed(0)
    module, x, y = convolutions(), torch.rand(5, 1, 8, 8), torch.arange(5) % 2
    trainer = Trainer(module, CONFIG)
    private = private_run(trainer, (x, y), dataclasses.replace(PRIVACY, delta=0.1))
    optimizer = private.optimizer(torch.optim.SGD(module.parameters(), 0.1))
    private.differentiate(optimizer, Batch(x, y, 0, 5), 3, 0)
    ours = [vars(parameter)["grad_sample"].clone() for parameter in module.parameters()]
    optimizer.zero_grad()
    hooked = opacus.GradSampleModule(module, loss_reduction="sum")
    functional.cross_entropy(hooked(x.requires_grad_()), y, reduction="sum").backward()
    for parameter, own in zip(module.parameters(), ours, strict=True):
        torch.testing.assert_close(vars(parameter)["grad_sample"], own, rtol=1e-4, atol=1e-6)
    hooked.remove_hooks()


def test_a_step_is_the_sum_of_clipped_gradients_and_noise() -> None:
    data, clip = halves(30), 0.2
    module = perceptron()
    before = [p.detach().clone() for p in module.parameters()]
    privacy = Privacy(1e-3, noise=1e-9, clip=clip, accountant="rdp", seed=3)
    config = dataclasses.replace(CONFIG, optimizer="sgd", momentum=0.0, learning_rate=1.0)
    Trainer(module, config, privacy=privacy).fit(data, max_steps=1)
    rows = next(Batches(data, 12, poisson=True, seed=3).epoch(0))
    total = [np.zeros(p.shape) for p in before]
    shortened = 0
    for x, y in zip(rows.inputs, rows.targets, strict=True):
        alone = perceptron()
        functional.cross_entropy(alone(x[None]), y[None]).backward()
        gradients = [np.asarray(p.grad, np.float64) for p in alone.parameters()]
        norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
        shortened += norm > clip
        for sum_, gradient in zip(total, gradients, strict=True):
            sum_ += gradient * min(1, clip / norm)
    assert shortened > 3
    # 30 rows in three batches: ten on average, whatever was drawn.
    for was, now, sum_ in zip(before, module.parameters(), total, strict=True):
        np.testing.assert_allclose((was - now).detach().numpy(), sum_ / 10, atol=2e-6)


def noise_of(privacy: Privacy) -> Tensor:
    """What one step of rate 1 does where no row has a gradient."""
    layer = nn.Linear(100, 100, bias=False)
    nn.init.zeros_(layer.weight)
    before = layer.weight.detach().clone()
    config = dataclasses.replace(CONFIG, optimizer="sgd", momentum=0.0, learning_rate=1.0)
    trainer = Trainer(layer, config, loss=lambda outputs, _: outputs.sum() * 0, privacy=privacy)
    trainer.fit((torch.zeros(24, 100), torch.zeros(24)), max_steps=1)
    return (before - layer.weight).detach() * 12


def test_the_noise_is_normal_of_the_deviation_that_was_said() -> None:
    privacy = Privacy(1e-3, noise=1.5, clip=0.5, accountant="rdp", seed=3)
    noise = noise_of(privacy)
    deviation = 1.5 * 0.5
    assert abs(float(noise.mean())) < 4 * deviation / 100
    assert float(noise.std()) == pytest.approx(deviation, rel=0.03)
    inside = float((noise.abs() < deviation).double().mean())
    assert inside == pytest.approx(math.erf(1 / math.sqrt(2)), abs=0.02)
    assert torch.equal(noise_of(privacy), noise)
    secret = dataclasses.replace(privacy, seed=None)
    assert secret.seed != privacy.seed and not torch.equal(noise_of(secret), noise)
    assert "seed" not in repr(secret)


@pytest.mark.parametrize("accountant", [pytest.param("prv", marks=pytest.mark.slow), "rdp"])
def test_epsilon_is_that_of_the_accountant_step_by_step(accountant: str) -> None:
    privacy = dataclasses.replace(PRIVACY, accountant=accountant)
    history = Trainer(perceptron(), CONFIG, privacy=privacy).fit(halves(48))
    reference = opacus.accountants.create_accountant(accountant)
    expected: list[float] = []
    for _ in range(3):
        for _ in range(4):
            reference.step(noise_multiplier=1.1, sample_rate=12 / 48)
        expected.append(reference.get_epsilon(1e-3))
    assert history["epsilon"] == pytest.approx(expected, rel=1e-12)
    assert expected[0] < expected[1] < expected[2]


def test_a_wanted_epsilon_is_spent_and_not_more() -> None:
    privacy = Privacy(1e-3, epsilon=2.0, accountant="rdp", seed=1)
    history = Trainer(perceptron(), CONFIG, privacy=privacy).fit(halves(48))
    assert 1.9 < history["epsilon"][-1] <= 2.0


def test_resuming_bit_for_bit(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, checkpoint_folder=str(tmp_path))
    data, straight, resumed = halves(30), perceptron(0.3), perceptron(0.3)
    Trainer(straight, CONFIG, privacy=PRIVACY).fit(data)
    Trainer(perceptron(0.3), config, privacy=PRIVACY).fit(data, max_steps=4)
    Trainer(resumed, config, privacy=PRIVACY).fit(data, resume=tmp_path / CHECKPOINT)
    assert bits(straight) == bits(resumed)
    other = dataclasses.replace(PRIVACY, noise=2.0)
    with pytest.raises(OptionError, match="other privacy"):
        Trainer(resumed, config, privacy=other).fit(data, resume=tmp_path / CHECKPOINT)


def test_rows_are_drawn_by_chance() -> None:
    """Each is in a batch with the same chance, whatever the others do; some batches are empty."""
    data = (torch.arange(20.0)[:, None], torch.arange(20))
    batches = Batches(data, 2, poisson=True, seed=1)
    drawn = [batch.targets.tolist() for epoch in range(300) for batch in batches.epoch(epoch)]
    sizes = np.array([len(rows) for rows in drawn])
    counts = np.bincount(np.concatenate([np.array(rows, int) for rows in drawn]), minlength=20)
    # A binomial number: of 20 rows with the chance 1/10 in a batch, of 3000 batches for a row.
    assert sizes.mean() == pytest.approx(2, abs=0.1) and sizes.var() == pytest.approx(1.8, abs=0.2)
    assert (sizes == 0).mean() == pytest.approx(0.9**20, abs=0.025)
    assert np.abs(counts - 300).max() < 5 * math.sqrt(3000 * 0.1 * 0.9)


def test_batches_without_rows_take_a_step_of_noise() -> None:
    config = dataclasses.replace(CONFIG, batch_size=1)
    history = Trainer(perceptron(), config, privacy=PRIVACY).fit(halves(12))
    assert all(math.isfinite(loss) for loss in history["loss"])


def test_rows_do_not_choose_the_best_epoch() -> None:
    trainer = Trainer(perceptron(), CONFIG, privacy=PRIVACY)
    trainer.fit(halves(30))
    assert trainer.best_epoch is None
    trainer.fit(halves(30), halves(30, 1))
    assert trainer.best_epoch is not None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"noise": None}, "either an epsilon or a noise"),
        ({"epsilon": 1.0}, "either an epsilon or a noise"),
        ({"noise": 0.0}, "noise: expected a number above 0"),
        ({"noise": math.nan}, "noise: expected a number above 0"),
        ({"delta": 1.0}, "delta: expected a number above 0 and below 1, got 1.0"),
        ({"clip": True}, "clip: expected a number"),
        ({"accountant": "moments"}, "accountant: expected one of prv, rdp, gdp, got 'moments'"),
    ],
)
def test_settings_that_are_wrong(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        dataclasses.replace(PRIVACY, **fields)


@pytest.mark.parametrize(
    ("make", "fields", "privacy", "message"),
    [
        (lambda: perceptron(norm=True), {}, {}, "batch normalisation mixes the rows"),
        (perceptron, {"clip_norm": 1.0}, {}, "clip_norm does not go with privacy"),
        (perceptron, {"patience": 2}, {}, "patience does not go with privacy"),
        (perceptron, {"activation_bits": 4}, {}, "activation_bits: grids are fitted"),
        (perceptron, {"precision": "float16"}, {}, "use the precision float32"),
        (perceptron, {}, {"delta": 0.05}, r"less than 1 / rows = 0\.033, got 0\.05"),
    ],
)
def test_what_does_not_go_with_it(
    make: Callable[[], nn.Module], fields: Any, privacy: Any, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        Trainer(
            make(),
            dataclasses.replace(CONFIG, **fields),
            privacy=dataclasses.replace(PRIVACY, **privacy),
        ).fit(halves(30))


def test_a_loader_draws_by_itself() -> None:
    loader: Any = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*halves(30)))
    with pytest.raises(OptionError, match="give the dataset, not a DataLoader"):
        Trainer(perceptron(), CONFIG, privacy=PRIVACY).fit(loader)
    dataset = torch.utils.data.TensorDataset(*halves(12))
    one, two = perceptron(), perceptron()
    config = dataclasses.replace(CONFIG, batch_size=2, epochs=1)
    Trainer(one, config, privacy=PRIVACY).fit(dataset)
    Trainer(two, config, privacy=PRIVACY).fit(halves(12))
    assert bits(one) == bits(two)


def test_a_package_that_is_missing() -> None:
    with pytest.raises(BackendError, match=r"Some thing is missing: pip install '\.\[privacy\]'"):
        needed("triton_dsl_has_no_such.package", "Some thing", "privacy")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ternary", "spiking"])
def test_digits_in_private(kind: str) -> None:
    datasets: Any = pytest.importorskip("sklearn.datasets")
    found: Any = datasets.load_digits()
    x = torch.tensor(found.images / 16, dtype=torch.float32).flatten(1)
    y = torch.tensor(found.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, test = ((x[rows], y[rows]) for rows in (order[:1437], order[1437:]))
    torch.manual_seed(0)
    config = TrainingConfig(epochs=20, batch_size=128, learning_rate=0.01, progress=False)
    if kind == "ternary":
        run = None
        module = nn.Sequential(TernaryLinear(64, 64), nn.ReLU(), TernaryLinear(64, 10))
    else:
        run = SpikingRun(4, "direct", "mean")
        settings = SpikingConfig(threshold=0.5, surrogate_gradient="arctan")
        module = SpikingMLP([64, 64, 10], settings, readout="membrane", layer=TernaryLinear)
    privacy = Privacy(1e-4, epsilon=8.0, accountant="rdp", seed=1)
    trainer = Trainer(module, config, spiking=run, privacy=privacy)
    history = trainer.fit(train)
    accuracy = trainer.evaluate(test)["accuracy"]
    print(f"{kind}: {accuracy:.2%} at epsilon {history['epsilon'][-1]:.3f}, delta 1e-4")
    assert history["epsilon"][-1] <= 8.0
    assert accuracy > 0.85
