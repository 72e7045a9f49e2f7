"""Differentially private training: each row's gradient clipped, noise added, ε accounted for.

The method is DP-SGD (Abadi et al. 2016, "Deep learning with differential privacy"). Clipping and
accounting are those of Opacus; what is here gives it the gradient of each row, for any module and
for whole spiking runs, whose layers see time before rows and so have no place in its hooks. Not
here: drawing the rows (`data`), taking steps (`run`).

PyTorch's generators are made for statistics: who sees enough of their numbers knows the next. The
bits of the noise are those of AES-256 in counter mode, and each number is half the sum of four, so
that the gaps between floats, too, tell nothing of what it was added to (Holohan and Braghin 2021,
"Secure random sampling in differential privacy", section 5.1, n = 2, as Opacus' `secure_mode`).
"""

from __future__ import annotations

import hashlib
import math
import secrets
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...ir.errors import check_choice, refuse
from ...ir.extras import needed
from ..fake_quantize import FakeQuantize
from .data import Batch, Batches
from .engine import Engine
from .global_batch_norm import has_batch_norm

Stream = Callable[[int], bytes]
"""The next bytes, so many."""
ACCOUNTANTS = ("prv", "rdp", "gdp")
_HIGHEST = {"delta": 1.0, "epsilon": math.inf, "noise": 1e6, "clip": math.inf}


@dataclass(frozen=True)
class Privacy:
    """How much of one row of the training data may show in the weights: (ε, δ).

    Attributes:
        delta: δ, the chance that ε does not hold; below 1 / rows.
        epsilon: ε that all epochs together shall spend, from which the noise follows; or
        noise: the noise itself, its deviation a unit of `clip`.
        clip: the longest gradient of a row.
        accountant: of Opacus: `prv` (Gopi et al. 2021), `rdp` (Mironov 2017) or `gdp`.
        seed: of the noise and of which rows are drawn. By default the system draws one that nobody
            knows. Whoever knows it can take the noise off again: give one for tests alone.

    Raises:
        OptionError: a value that is not allowed.
    """

    delta: float
    epsilon: float | None = None
    noise: float | None = None
    clip: float = 1.0
    accountant: str = "prv"
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_choice("accountant", self.accountant, ACCOUNTANTS)
        has_both_or_none = (self.epsilon is None) == (self.noise is None)
        refuse(has_both_or_none, "privacy needs either an epsilon or a noise")
        for name, high in _HIGHEST.items():
            value: Any = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            is_right = value is None or (is_number and 0 < value < high)
            said = f"{name}: expected a number above 0 and below {high:g}, got {value!r}"
            refuse(not is_right, said)
        if self.seed is None:
            object.__setattr__(self, "seed", secrets.randbits(256))


class PrivateRun:
    """What makes the steps of one run over so many epochs private, and what they have spent.

    Raises:
        BackendError: Opacus is missing.
        OptionError: a module whose rows cannot be told apart, or data or settings that do not fit.
    """

    def __init__(self, privacy: Privacy, engine: Engine, batches: Batches, epochs: int) -> None:
        self._accountant = _opacus("accountants").create_accountant(privacy.accountant)
        _check(privacy, engine, batches)
        self.privacy, self._engine, self._batches = privacy, engine, batches
        self.rate = 1 / len(batches)
        self.noise = privacy.noise
        if self.noise is None:
            find = _opacus("accountants.utils").get_noise_multiplier
            # Opacus tells of each bound that could be tighter, of those that it starts from, too.
            with warnings.catch_warnings(action="ignore"):
                spent = {"target_epsilon": privacy.epsilon, "target_delta": privacy.delta}
                by = {"sample_rate": self.rate, "accountant": privacy.accountant}
                self.noise = float(find(**spent, **by, steps=epochs * len(batches)))

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """`optimizer` behind that of Opacus, which clips and adds noise before each step."""

        class Secret(_opacus("optimizers").DPOptimizer):
            """With noise that is no generator's of PyTorch."""

            params: list[Any]
            stream: Stream

            def add_noise(self) -> None:
                for parameter in self.params:
                    summed = parameter.summed_grad
                    noise = normal(self.stream, self.noise_multiplier * self.max_grad_norm, summed)
                    parameter.grad = (summed + noise).view_as(parameter)

        how = {"noise_multiplier": self.noise, "max_grad_norm": self.privacy.clip}
        return Secret(optimizer, expected_batch_size=self._batches.rows * self.rate, **how)

    def settings(self) -> dict[str, Any]:
        """What a run that goes on from a checkpoint has to have the same."""
        return {"delta": self.privacy.delta, "noise": self.noise, "clip": self.privacy.clip}

    def epsilon(self, steps: int) -> float:
        """ε that so many steps have spent, at the δ of the settings."""
        self._accountant.history = [(self.noise, self.rate, steps)]
        with warnings.catch_warnings(action="ignore"):  # see above
            return float(self._accountant.get_epsilon(delta=self.privacy.delta))

    def differentiate(
        self, optimizer: Any, batch: Batch, seed: int, step: int
    ) -> tuple[Tensor, Tensor]:
        """Give each parameter the gradients of the rows one by one; the mean loss, and outputs.

        The batch may have no rows; the seed is that of rate coding, `step` counts from the start.
        """
        module = self._engine.module
        optimizer.stream = key_stream(self.privacy.seed or 0, step)
        learned = {name: p for name, p in module.named_parameters() if p.requires_grad}
        x, y = self._engine.moved(batch)
        if not len(x):
            for parameter in learned.values():
                vars(parameter)["grad_sample"] = parameter.new_zeros((0, *parameter.shape))
            return x.new_zeros(()), x
        trains, spiking = x, self._engine.spiking
        if spiking is not None:
            trains, spiking = spiking.recorded(x, seed, batch.first)
        objective, transforms = self._engine.objective, torch.func

        def loss_of(
            values: dict[str, Tensor], train: Tensor, x: Tensor, y: Tensor
        ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            whole: Any = partial(transforms.functional_call, module, values)
            rows = train[None]
            outputs = whole(rows) if spiking is None else spiking(whole, rows, seed)
            loss = objective.training_loss(outputs, x[None], y[None])
            return loss, (loss, outputs[0])

        of_row = transforms.grad(loss_of, has_aux=True)
        of_rows = transforms.vmap(of_row, in_dims=(None, 0, 0, 0), randomness="different")
        values = {name: parameter.detach() for name, parameter in learned.items()}
        with self._engine.autocast():
            gradients, (losses, outputs) = of_rows(values, trains, x, y)
        for name, parameter in learned.items():
            vars(parameter)["grad_sample"] = gradients[name]
        return losses.mean(), outputs


def key_stream(seed: int, step: int) -> Stream:
    """The bits of a step: the same for the same seed, without which they look like chance.

    The key is the SHA-256 of the seed's decimal digits, the step the first half of the counter.

    Raises:
        BackendError: the package `cryptography` is missing.
    """
    ciphers = needed("cryptography.hazmat.primitives.ciphers", "cryptography", "privacy")
    key = hashlib.sha256(str(seed).encode()).digest()
    start = step.to_bytes(8, "big") + bytes(8)
    cipher = ciphers.Cipher(ciphers.algorithms.AES256(key), ciphers.modes.CTR(start)).encryptor()
    return lambda count: cipher.update(bytes(count))


def normal(stream: Stream, deviation: float, like: Tensor) -> Tensor:
    """Normal numbers around 0, of the shape, type and device of `like`."""
    total = np.zeros(like.numel())
    for _ in range(4):
        bits = np.frombuffer(stream(16 * like.numel()), np.dtype("<u8")).reshape(2, -1) >> 11
        # Box and Muller 1958; the first is above 0.
        radius, turn = (bits[0] + 1) * 2.0**-53, bits[1] * 2.0**-53
        total += np.sqrt(-2 * np.log(radius)) * np.cos(2 * np.pi * turn)
    return torch.from_numpy(total * (deviation / 2)).to(like).reshape(like.shape)


def _opacus(part: str) -> Any:
    return needed(f"opacus.{part}", "Opacus", "privacy")


def _check(privacy: Privacy, engine: Engine, batches: Batches) -> None:
    said = "privacy: batch normalisation mixes the rows of a batch; use GroupNorm or LayerNorm"
    refuse(has_batch_norm(engine.module), said)
    grids = [part for part in engine.module.modules() if isinstance(part, FakeQuantize)]
    said = "activation_bits: grids are fitted to the first batch, not in private"
    refuse(not all(grid.is_fitted for grid in grids), said)
    chunk = engine.spiking and engine.spiking.chunk
    refuse(chunk is not None, "chunk: privacy takes the gradients of all steps at once")
    said = "privacy: train in one process, its rows are drawn for one"
    refuse(engine.processes.world > 1, said)
    said = "privacy: gradients are clipped as they are; use the precision float32"
    refuse(engine.mixed_precision()[1], said)
    least, delta = 1 / max(batches.rows, 1), privacy.delta
    refuse(delta >= least, f"delta: expected less than 1 / rows = {least:.2g}, got {delta:g}")
