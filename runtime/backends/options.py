"""What a backend is asked for and what it answers: kinds, levels, configuration, results."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from ...ir.errors import BackendError

if TYPE_CHECKING:
    from torch import nn


class BackendType(Enum):
    """The kinds of devices; `AUTO` is the first of them that this machine has."""

    AUTO = "auto"
    NVIDIA = "nvidia"
    AMD = "amd"
    TPU = "tpu"
    INTEL = "intel"
    CPU = "cpu"

    @classmethod
    def of(cls, value: BackendType | str) -> BackendType:
        """`value`, or the type of this name in any case.

        Raises:
            BackendError: there is no such type.
        """
        if isinstance(value, BackendType):
            return value
        try:
            return cls(value.lower())
        except (ValueError, AttributeError):
            names = ", ".join(member.value for member in cls)
            raise BackendError(f"expected a backend of {names}, got {value!r}") from None


class OptimizationLevel(Enum):
    """How much a model may be changed to run faster; each level does what those before it do."""

    O0 = "O0"
    """The model on the device, and nothing else."""
    O1 = "O1"
    """Mixed precision where the device gains by it, batch norms folded into convolutions."""
    O2 = "O2"
    """`torch.compile`, channels last, recomputed activations in training."""
    O3 = "O3"
    """Low precision: packed kernels for ternary layers, int8 or FP8 for others."""

    @property
    def rank(self) -> int:
        """0 to 3."""
        return int(self.value[1])

    @classmethod
    def from_string(cls, value: str) -> OptimizationLevel:
        """The level `O0` to `O3`, or `none`, `conservative`, `balanced`, `aggressive`, in any case.

        Raises:
            BackendError: there is no such level.
        """
        try:
            return cls(_ALIASES.get(value.lower(), value.upper()))
        except (ValueError, AttributeError):
            names = ", ".join((*(level.value for level in cls), *_ALIASES))
            raise BackendError(f"expected a level of {names}, got {value!r}") from None

    @classmethod
    def of(cls, value: OptimizationLevel | str) -> OptimizationLevel:
        """`value`, or the level of this name."""
        return value if isinstance(value, OptimizationLevel) else cls.from_string(value)


_ALIASES = {"none": "O0", "conservative": "O1", "balanced": "O2", "aggressive": "O3"}


@dataclass(frozen=True)
class KernelPyTorchConfig:
    """How a backend prepares models.

    Attributes:
        optimization_level: where none is given with a model.
        device_id: the device among those of the backend.
        without: names of strategies that are never applied, such as `("compile",)`.
    """

    optimization_level: OptimizationLevel | str = OptimizationLevel.O2
    device_id: int = 0
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class OptimizationResult:
    """What an optimizer did to a model.

    Attributes:
        success: whether no strategy gave a model that does not run; the model given back runs.
        model: the optimised model.
        level: what was asked for.
        optimizations_applied: names of strategies, in their order.
        warnings: what was left out, and why.
        metrics: `"seconds"` before and after where a sample was given, per strategy too.
    """

    success: bool
    model: nn.Module
    level: OptimizationLevel
    optimizations_applied: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])
    metrics: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values; of the model, the name of its class."""
        return {
            "success": self.success,
            "model": type(self.model).__name__,
            "level": self.level.value,
            "optimizations_applied": list(self.optimizations_applied),
            "warnings": list(self.warnings),
            "metrics": dict(self.metrics),
        }
