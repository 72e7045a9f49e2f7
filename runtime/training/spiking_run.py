"""`SpikingRun`: how a spiking network turns a batch into one output a class."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from ...ir.errors import OptionError, check_choice
from ..spiking.coding import READOUTS, encode
from ..spiking.coding import decode as decode_train
from ..spiking.config import ENCODINGS, SpikingConfig
from ..spiking.training import run_in_chunks

DECODINGS = ("rate", *READOUTS)
RECORDED = "recorded"


@dataclass(frozen=True)
class SpikingRun:
    """Encode a batch, run the network over time, decode what it gives.

    The network is called as the modules of `runtime.spiking` are: `network(train, state)` gives the
    outputs of all steps [T, N, …] and the states after them.

    Attributes:
        timesteps: T; `None` for recorded trains and `delta`, which have their own.
        encoding: of `runtime.spiking.coding.encode`; or `recorded`: the inputs are trains [N, T, …]
            with the batch first, as data comes.
        decoding: `rate`, the number of spikes / T; or of a membrane trace its `mean`, `max` or
            `last` step.
        chunk: steps at a time, so that the memory of training grows like √T (see `run_in_chunks`):
            a number, or `auto` for ⌈√T⌉; `None` runs all at once. Networks with batch normalisation
            train all at once, and so does the decoding `max`.
        period: of the encodings `latency` and `phase`, by default all steps.
        threshold: of the encodings `latency` and `delta`, which has no default.

    Raises:
        OptionError: a value that is not allowed.
    """

    timesteps: int | None = None
    encoding: str = "direct"
    decoding: str = "rate"
    chunk: int | str | None = None
    period: int | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        has_own = self.encoding in (RECORDED, "delta")
        check_choice("encoding", self.encoding, (*ENCODINGS, RECORDED))
        check_choice("decoding", self.decoding, DECODINGS)
        steps: Any = self.timesteps
        if has_own and steps is not None:
            raise OptionError(f"timesteps: the inputs of '{self.encoding}' have their own steps")
        if not has_own and (type(steps) is not int or steps < 1):
            raise OptionError(f"timesteps: expected a whole number from 1, got {steps!r}")
        chunk: Any = self.chunk
        if chunk not in (None, "auto") and (type(chunk) is not int or chunk < 1):
            raise OptionError(f"chunk: expected a number of steps or 'auto', got {chunk!r}")
        if chunk is not None and self.decoding == "max":
            raise OptionError("chunk: the decoding 'max' looks at all steps at once")

        for name, value, owners in (
            ("period", self.period, ("latency", "phase")),
            ("threshold", self.threshold, ("latency", "delta")),
        ):
            if value is not None and self.encoding not in owners:
                raise OptionError(f"{name} belongs to {' and '.join(owners)}")
        _check_numbers(self.period, self.threshold)
        if self.encoding == "delta" and self.threshold is None:
            raise OptionError("threshold: 'delta' needs one")

    @classmethod
    def of(
        cls,
        config: SpikingConfig,
        decoding: str = "rate",
        chunk: int | str | None = None,
        *,
        period: int | None = None,
        threshold: float | None = None,
    ) -> SpikingRun:
        """The steps and the encoding of `config`."""
        own = config.spike_encoding == "delta"
        steps = None if own else config.timesteps
        return cls(steps, config.spike_encoding, decoding, chunk, period, threshold)

    def __call__(self, network: nn.Module, x: Tensor, seed: int, first: int = 0) -> Tensor:
        """What `network` gives for the batch `x`, one value for each output: [N, …].

        Args:
            network: see above.
            x: numbers [N, …], or what the encoding takes.
            seed: of the encoding `rate`.
            first: the number of rows of the batch before these, so that `rate` draws for a part of
                a batch what it draws for the whole.

        Raises:
            OptionError: inputs that do not fit, or a network that gives no train.
        """
        if self.chunk is None:
            train = _outputs(network(self._encode(x, seed, first, 0, self.timesteps)))
            if self.decoding == "rate":
                return decode_train(train, "rate")
            return decode_train(train, "membrane", self.decoding)

        def steps_of(start: int, steps: int) -> Tensor:
            return self._encode(x, seed, first, start, steps)

        has_own = self.timesteps is None
        inputs = self._encode(x, seed, first, 0, None) if has_own else steps_of
        reduce = "last" if self.decoding == "last" else "mean"
        chunk = None if isinstance(self.chunk, str) else self.chunk
        return run_in_chunks(network, inputs, self.timesteps, chunk=chunk, reduce=reduce)[0]

    def recorded(self, x: Tensor, seed: int, first: int = 0) -> tuple[Tensor, SpikingRun]:
        """The trains [N, T, …] of a batch, and the run that takes them; arguments as in a call."""
        train = self._encode(x, seed, first, 0, self.timesteps)
        taken = {"timesteps": None, "encoding": RECORDED, "period": None, "threshold": None}
        return train.transpose(0, 1), dataclasses.replace(self, **taken)

    def _encode(self, x: Tensor, seed: int, first: int, start: int, steps: int | None) -> Tensor:
        if self.encoding == RECORDED:
            if x.dim() < 2:
                raise OptionError(f"expected trains [N, T, …], got {list(x.shape)}")
            return (x.to(torch.get_default_dtype()) if x.dtype == torch.bool else x).transpose(0, 1)
        if self.encoding == "delta":
            return encode(x.transpose(0, 1), "delta", threshold=self.threshold)
        options: dict[str, Any] = {}
        if self.encoding == "rate":
            width = x[0].numel() if len(x) else 0
            options = {"seed": seed, "first": first * width}
        elif self.encoding in ("latency", "phase"):
            # The period is that of the whole run, whatever part of it is asked for.
            period = self.timesteps if self.period is None else self.period
            options = {"period": period}
            if self.encoding == "latency":
                options["threshold"] = self.threshold
        return encode(x, self.encoding, steps, start=start, **options)


def _check_numbers(period: Any, threshold: Any) -> None:
    if period is not None and (type(period) is not int or period < 1):
        raise OptionError(f"period: expected a whole number from 1, got {period!r}")
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if threshold is not None and not (is_number and math.isfinite(threshold)):
        raise OptionError(f"threshold: expected a finite number, got {threshold!r}")


def _outputs(result: Any) -> Tensor:
    parts: Any = cast(Any, result) if isinstance(result, tuple) else ()
    train: Any = parts[0] if len(parts) == 2 else None
    if not isinstance(train, Tensor):
        raise OptionError(
            "expected a spiking network that gives its outputs [T, N, …] and its states, got "
            f"{type(cast(Any, result)).__name__}"
        )
    return train
