"""`SpikingConfig`: what a spiking network is built with, as a checked record without PyTorch."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...ir.errors import OptionError, check_choice, check_fields

NEURON_MODELS = ("LIF", "IF", "CubaLIF", "AdaptiveLIF")
ENCODINGS = ("rate", "regular", "latency", "direct", "delta", "phase")
SURROGATES = ("fast_sigmoid", "arctan", "triangle", "boxcar", "straight_through")


@dataclass(frozen=True)
class SpikingConfig:
    """The settings of a spiking network.

    Attributes:
        timesteps: steps for each input, at least 1.
        threshold: potential at which neurons fire, above 0.
        neuron_model: `LIF`, `IF`, `CubaLIF` or `AdaptiveLIF`, see `runtime.spiking.neurons`.
        spike_encoding: how inputs become spikes, see `runtime.spiking.coding.encode`.
        surrogate_gradient: see `runtime.spiking.surrogate`.
        hardware_constraints: limits of a chip by name, as JSON has them; copied. They are kept for
            `lowering.placement.place`, and change nothing here.

    Raises:
        OptionError: a value that is not allowed.
    """

    timesteps: int = 32
    threshold: float = 1.0
    neuron_model: str = "LIF"
    spike_encoding: str = "rate"
    surrogate_gradient: str = "fast_sigmoid"
    hardware_constraints: dict[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if type(self.timesteps) is not int or self.timesteps < 1:
            raise OptionError(f"timesteps: expected a whole number from 1, got {self.timesteps!r}")
        threshold: Any = self.threshold
        is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
        if not is_number or not 0 < threshold < math.inf:
            raise OptionError(f"threshold: expected a finite number above 0, got {threshold!r}")
        object.__setattr__(self, "threshold", float(threshold))
        for name, allowed in (
            ("neuron_model", NEURON_MODELS),
            ("spike_encoding", ENCODINGS),
            ("surrogate_gradient", SURROGATES),
        ):
            check_choice(name, getattr(self, name), allowed)
        limits = copy.deepcopy(self.hardware_constraints)
        if limits is not None:
            _check_limits(limits)
        object.__setattr__(self, "hardware_constraints", limits)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as JSON has them."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> SpikingConfig:
        """The settings in `fields`; what is missing has its default.

        Raises:
            OptionError: an unknown field, or a value that is not allowed.
        """
        check_fields(fields, [entry.name for entry in dataclasses.fields(cls)])
        return cls(**fields)


def _check_limits(limits: object) -> None:
    try:
        is_kept = isinstance(limits, dict) and json.loads(json.dumps(limits)) == limits
    except (TypeError, ValueError):
        is_kept = False
    if not is_kept:
        raise OptionError(
            "hardware_constraints: expected a dictionary of what JSON has (names, numbers, texts, "
            f"lists), got {limits!r}"
        )
