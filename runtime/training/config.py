"""`TrainingConfig`: how a module is trained, as a checked record without PyTorch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...ir.errors import OptionError, check_choice, check_fields, refuse
from ..compression import check_bits, final_sparsity
from ..device_choice import BACKENDS

OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop")
SCHEDULES = ("constant", "linear", "cosine", "one_cycle", "step", "exponential")
PRECISIONS = ("auto", "float32", "float16", "bfloat16")
LOGGERS = ("tensorboard", "mlflow", "prometheus")

NOT_OF_THE_RUN = frozenset(
    ("epochs", "device", "patience", "min_delta", "checkpoint_folder", "checkpoint_steps",
     "log_to", "log_folder", "progress")
)  # fmt: skip
"""Fields that may change between a checkpoint and the run that resumes it."""


@dataclass(frozen=True)
class TrainingConfig:
    """The settings of a training run.

    Attributes:
        epochs: passes over the training data, at least 1.
        batch_size: rows in a batch, over all processes together; a `DataLoader` has its own.
        shuffle: put the rows of arrays and datasets in a new order in each epoch.
        drop_last: leave out a last batch that is smaller than the others.
        optimizer: `adam`, `adamw`, `sgd` or `rmsprop`.
        learning_rate: the rate at its highest, above 0.
        weight_decay: from 0.
        momentum: of `sgd` and `rmsprop`, from 0, below 1.
        schedule: how the rate goes on after its warm-up, see `optimizers.rate_factor`.
        warmup: the part of all steps in which the rate rises from near 0, from 0, below 1.
        clip_norm: the longest gradient, over all parameters together; `None` for any.
        label_smoothing: of cross-entropy, from 0, below 1.
        weight_bits: train for weights of so many bits, 2 to 8 (2 are trits), and
        activation_bits: for activations, see `fake_quantize.quantize_aware`; `None` leaves floats.
        sparsity: prune so that this part of the weights is zero in the end, from 0, below 1.
        pruning: by `magnitude` or by `sensitivity`, see `pruning.set_masks`.
        pruning_pattern: prune to a pattern `N:M`, as `2:4`, in the place of a sparsity.
        precision: `auto` is the policy of `backend.resolve_amp_config`; `float32`, or products in
            `float16` (with scaled losses) or `bfloat16` (without).
        device: a backend of `backend.resolve_torch_device`.
        seed: of the order of the data, of PyTorch's random numbers and of rate coding, from 0.
        monitor: what decides which epoch is best, a name in the history; by default `val_loss`, or
            `loss` without validation. What ends with `loss` shall be low, all else high.
        patience: epochs without a better one after which training ends; `None` never ends it.
        min_delta: how much better a better one has to be, from 0.
        keep_best: give the module the weights of the best epoch in the end.
        checkpoint_folder: where `last.safetensors` is written after each epoch, a text or path.
        checkpoint_steps: write it after every so many steps as well.
        log_to: where metrics are sent besides the history: `tensorboard`, `mlflow`, `prometheus`.
        log_folder: where these keep them.
        progress: show a bar on stderr, where that is a terminal.

    Raises:
        OptionError: a value that is not allowed.
    """

    epochs: int = 10
    batch_size: int = 64
    shuffle: bool = True
    drop_last: bool = False
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    schedule: str = "constant"
    warmup: float = 0.0
    clip_norm: float | None = None
    label_smoothing: float = 0.0
    weight_bits: int | None = None
    activation_bits: int | None = None
    sparsity: float = 0.0
    pruning: str = "magnitude"
    pruning_pattern: str | None = None
    precision: str = "auto"
    device: str = "auto"
    seed: int = 0
    monitor: str | None = None
    patience: int | None = None
    min_delta: float = 0.0
    keep_best: bool = True
    checkpoint_folder: str | None = None
    checkpoint_steps: int | None = None
    log_to: tuple[str, ...] = ()
    log_folder: str = "runs"
    progress: bool = True

    def __post_init__(self) -> None:
        for name, allowed in (
            ("optimizer", OPTIMIZERS),
            ("schedule", SCHEDULES),
            ("precision", PRECISIONS),
            ("device", BACKENDS),
        ):
            check_choice(name, getattr(self, name), allowed)
        for name, low in (("epochs", 1), ("batch_size", 1), ("seed", 0)):
            _check_whole(name, getattr(self, name), low)
        for name in ("patience", "checkpoint_steps"):
            if getattr(self, name) is not None:
                _check_whole(name, getattr(self, name), 1)
        for name in ("weight_bits", "activation_bits"):
            if getattr(self, name) is not None:
                check_bits(name, getattr(self, name))
        final_sparsity(self.sparsity, self.pruning_pattern, self.pruning)
        refuse(self.seed >= 2**63, f"seed: expected a number below 2^63, got {self.seed}")
        for name, low, high, is_open in (
            ("learning_rate", 0.0, math.inf, True),
            ("weight_decay", 0.0, math.inf, False),
            ("momentum", 0.0, 1.0, False),
            ("warmup", 0.0, 1.0, False),
            ("label_smoothing", 0.0, 1.0, False),
            ("min_delta", 0.0, math.inf, False),
            ("clip_norm", 0.0, math.inf, True),
        ):
            if name != "clip_norm" or self.clip_norm is not None:
                _check_real(name, getattr(self, name), low, high, is_open)
        for name in ("shuffle", "drop_last", "keep_best", "progress"):
            if type(getattr(self, name)) is not bool:
                raise OptionError(f"{name}: expected true or false, got {getattr(self, name)!r}")
        for name in ("monitor", "checkpoint_folder", "log_folder"):
            object.__setattr__(self, name, _text(name, getattr(self, name)))
        if self.checkpoint_steps is not None and self.checkpoint_folder is None:
            raise OptionError("checkpoint_steps needs a checkpoint_folder")
        _check_loggers(self.log_to)
        object.__setattr__(self, "log_to", tuple(self.log_to))

    @property
    def final_sparsity(self) -> float:
        """The part of the weights that are zero in the end."""
        return final_sparsity(self.sparsity, self.pruning_pattern, self.pruning)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as JSON has them."""
        return {**dataclasses.asdict(self), "log_to": list(self.log_to)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TrainingConfig:
        """The settings in `fields`; what is missing has its default.

        Raises:
            OptionError: an unknown field, or a value that is not allowed.
        """
        check_fields(fields, [entry.name for entry in dataclasses.fields(cls)])
        return cls(**fields)

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """The fields, of those that decide a run's numbers, whose values `other` has not."""
        mine = self.to_dict()
        return [
            name
            for name, value in mine.items()
            if name not in NOT_OF_THE_RUN and other.get(name) != value
        ]


def _text(name: str, value: Any) -> str | None:
    """A text as it is, and a path as one."""
    if value is None and name != "log_folder":
        return None
    text: Any = str(value) if isinstance(value, Path) and name != "monitor" else value
    if not isinstance(text, str):
        raise OptionError(f"{name}: expected a text, got {value!r}")
    return text


def _check_whole(name: str, value: Any, low: int) -> None:
    if type(value) is not int or value < low:
        raise OptionError(f"{name}: expected a whole number from {low}, got {value!r}")


def _check_real(name: str, value: Any, low: float, high: float, is_open: bool) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (low < value if is_open else low <= value) or not value < high:
        below = "" if math.isinf(high) else f" and below {high:g}"
        start = "above" if is_open else "from"
        raise OptionError(f"{name}: expected a finite number {start} {low:g}{below}, got {value!r}")


def _check_loggers(loggers: Any) -> None:
    is_list = isinstance(loggers, tuple | list)
    names: list[Any] = list(loggers) if is_list else []  # pyright: ignore[reportUnknownArgumentType]
    if not is_list or len(set(map(str, names))) != len(names) or set(names) - set(LOGGERS):
        raise OptionError(f"log_to: expected some of {', '.join(LOGGERS)}, got {loggers!r}")
