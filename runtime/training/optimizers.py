"""Optimizers and learning rates by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from ...ir.errors import check_choice, refuse
from .config import SCHEDULES, TrainingConfig


def make_optimizer(config: TrainingConfig, module: nn.Module) -> torch.optim.Optimizer:
    """The optimizer that `config` names, for what of `module` is trained.

    Weights decay where they are matrices or kernels; biases, scales of normalisation, thresholds
    and decays, with fewer than two axes, do not.

    Raises:
        OptionError: nothing of `module` is trained.
    """
    trained = [p for p in module.parameters() if p.requires_grad]
    refuse(not trained, "the module has no parameters that require gradients")
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    make: Callable[..., torch.optim.Optimizer]
    options: dict[str, Any] = {}
    if config.optimizer in ("sgd", "rmsprop"):
        make = torch.optim.SGD if config.optimizer == "sgd" else torch.optim.RMSprop
        options["momentum"] = config.momentum
    else:
        make = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return make(groups, lr=config.learning_rate, **options)


def rate_factor(schedule: str, step: int, total: int, warmup: float = 0.0) -> float:
    """What the learning rate is multiplied by in step `step` of `total`, from 0 to 1.

    In the first w = ⌊`warmup`·`total`⌋ steps it rises in a line, (step + 1)/(w + 1). After them, x
    being the part of the rest that is over, it is

    - `constant`: 1.
    - `linear`: 1 - x.
    - `cosine`: (1 + cos πx)/2 (Loshchilov & Hutter 2017, SGDR, without restarts).
    - `step`: 1, a tenth of it after half of the rest and a hundredth after three quarters.
    - `exponential`: 0.01^x.
    - `one_cycle`: rises from 1/25 to 1 in the first three tenths of all, then falls to 10⁻⁴/25,
      along cosines (Smith & Topin 2018; PyTorch's `OneCycleLR`); without a warm-up of its own.

    Raises:
        OptionError: an unknown schedule, or `one_cycle` with a warm-up.
    """
    check_choice("schedule", schedule, SCHEDULES)
    if schedule == "one_cycle":
        refuse(warmup, "warmup: the schedule 'one_cycle' has its own")
        return _one_cycle(step, total)
    rising = math.floor(warmup * total)
    if step < rising:
        return (step + 1) / (rising + 1)
    x = min(1.0, (step - rising) / max(1, total - rising))
    if schedule == "linear":
        return 1 - x
    if schedule == "cosine":
        return (1 + math.cos(math.pi * x)) / 2
    if schedule == "step":
        return 1.0 if x < 0.5 else 0.1 if x < 0.75 else 0.01
    return 1.0 if schedule == "constant" else 0.01**x


def make_scheduler(
    config: TrainingConfig, optimizer: torch.optim.Optimizer, steps: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """The learning rates of `config` over `steps` steps of `optimizer`; see `rate_factor`."""
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate_factor(config.schedule, step, steps, config.warmup)
    )


def clip_gradients(parameters: Iterable[nn.Parameter], longest: float | None) -> None:
    """Shorten all gradients together to the length `longest`, where they are longer."""
    if longest is not None:
        library: Any = nn.utils
        library.clip_grad_norm_(parameters, longest)


def _one_cycle(step: int, total: int) -> float:
    start, end = 1 / 25, 1e-4 / 25
    top = 0.3 * total - 1
    if step <= top:
        return start + (1 - start) * (1 - math.cos(math.pi * step / max(top, 1e-9))) / 2
    x = min(1.0, (step - top) / max(1e-9, total - 1 - top))
    return end + (1 - end) * (1 + math.cos(math.pi * x)) / 2
