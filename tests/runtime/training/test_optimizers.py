"""Optimizers and learning rates by name, against PyTorch's own."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.training.config import OPTIMIZERS, SCHEDULES, TrainingConfig
from triton_dsl.runtime.training.optimizers import (
    clip_gradients,
    make_optimizer,
    make_scheduler,
    rate_factor,
)


def rates_of(scheduler: Any, optimizer: Any, steps: int) -> list[float]:
    found: list[float] = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def torch_rates(make: Any, steps: int, rate: float = 0.5) -> list[float]:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], rate)
    return rates_of(make(optimizer), optimizer, steps)


def ours(schedule: str, steps: int, warmup: float = 0.0, rate: float = 0.5) -> list[float]:
    config = TrainingConfig(schedule=schedule, warmup=warmup, learning_rate=rate)
    optimizer = make_optimizer(config, nn.Linear(2, 2))
    return rates_of(make_scheduler(config, optimizer, steps), optimizer, steps)


@pytest.mark.parametrize("steps", [10, 47, 100])
def test_schedules_are_those_of_pytorch(steps: int) -> None:
    library: Any = torch.optim.lr_scheduler
    for schedule, make in (
        ("constant", lambda o: library.ConstantLR(o, 1.0)),
        ("linear", lambda o: library.LinearLR(o, 1.0, 0.0, steps)),
        ("cosine", lambda o: library.CosineAnnealingLR(o, steps)),
        ("exponential", lambda o: library.ExponentialLR(o, 0.01 ** (1 / steps))),
        ("one_cycle", lambda o: library.OneCycleLR(o, 0.5, total_steps=steps + 1)),
        (
            "step",
            lambda o: library.MultiStepLR(o, [math.ceil(steps / 2), math.ceil(steps * 3 / 4)]),
        ),
    ):
        # One step more, since OneCycleLR refuses to be told of its last step.
        total = steps + 1 if schedule == "one_cycle" else steps
        config = TrainingConfig(schedule=schedule, learning_rate=0.5)
        found = [0.5 * rate_factor(schedule, step, total) for step in range(steps)]
        assert found == pytest.approx(torch_rates(make, steps), rel=1e-9, abs=1e-12), schedule
        assert config.schedule in SCHEDULES


@given(
    schedule=st.sampled_from(SCHEDULES),
    total=st.integers(1, 300),
    part=st.floats(0, 1),
    warmup=st.floats(0, 0.9),
)
def test_rates_stay_within_the_highest(
    schedule: str, total: int, part: float, warmup: float
) -> None:
    step = int(part * total)
    factor = rate_factor(schedule, step, total, 0.0 if schedule == "one_cycle" else warmup)
    assert 0 <= factor <= 1 and (factor > 0 or step == total)


def test_warm_up() -> None:
    found = ours("linear", 20, warmup=0.25)
    assert found[:5] == pytest.approx([0.5 * k / 6 for k in range(1, 6)])
    assert found[5:] == pytest.approx([0.5 * (1 - k / 15) for k in range(15)])
    assert ours("constant", 3) == [0.5] * 3


def test_refusals() -> None:
    with pytest.raises(OptionError, match="warmup: the schedule 'one_cycle' has its own"):
        rate_factor("one_cycle", 0, 10, 0.1)
    with pytest.raises(OptionError, match="schedule: expected one of"):
        rate_factor("plateau", 0, 10)
    with pytest.raises(OptionError, match="no parameters that require gradients"):
        make_optimizer(TrainingConfig(), nn.ReLU())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    """A step is that of PyTorch's optimizer with the same settings."""
    kinds: dict[str, Any] = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "sgd": torch.optim.SGD,
        "rmsprop": torch.optim.RMSprop,
    }
    config = TrainingConfig(optimizer=name, learning_rate=0.1, weight_decay=0.25, momentum=0.5)
    torch.manual_seed(0)
    layer, twin = nn.Linear(3, 2), nn.Linear(3, 2)
    twin.load_state_dict(layer.state_dict())
    options = {"momentum": 0.5} if name in ("sgd", "rmsprop") else {}
    expected = [
        kinds[name]([twin.weight], lr=0.1, weight_decay=0.25, **options),
        kinds[name]([twin.bias], lr=0.1, weight_decay=0.0, **options),
    ]
    made = make_optimizer(config, layer)
    for _ in range(3):
        for module, optimizers in ((layer, [made]), (twin, expected)):
            module.zero_grad()
            module(torch.ones(4, 3)).square().sum().backward()
            for optimizer in optimizers:
                optimizer.step()
    assert torch.equal(layer.weight, twin.weight) and torch.equal(layer.bias, twin.bias)


def test_clipping() -> None:
    layer = nn.Linear(2, 1)
    layer(torch.full((1, 2), 30.0)).sum().backward()
    clip_gradients(layer.parameters(), None)
    assert layer.weight.grad is not None and layer.bias.grad is not None
    assert layer.weight.grad.tolist() == [[30.0, 30.0]]
    clip_gradients(layer.parameters(), 2.0)
    length = math.hypot(*layer.weight.grad.flatten().tolist(), layer.bias.grad.item())
    assert length == pytest.approx(2.0, rel=1e-4)
