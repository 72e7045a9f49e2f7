"""Backends and optimizers by name, and which of them this machine can use."""

from __future__ import annotations

from typing import Any, ClassVar

from .base import BaseBackend
from .optimizers import BaseOptimizer
from .options import BackendType, KernelPyTorchConfig
from .processors import AMDBackend, CPUBackend, IntelBackend, NVIDIABackend, TPUBackend


class BackendFactory:
    """Makes backends.

    Attributes:
        CLASSES: by type, in the order in which `AUTO` tries them.
    """

    CLASSES: ClassVar[dict[BackendType, type[BaseBackend]]] = {
        BackendType.NVIDIA: NVIDIABackend,
        BackendType.AMD: AMDBackend,
        BackendType.TPU: TPUBackend,
        BackendType.INTEL: IntelBackend,
        BackendType.CPU: CPUBackend,
    }

    @classmethod
    def create(
        cls,
        backend_type: BackendType | str = BackendType.AUTO,
        config: KernelPyTorchConfig | None = None,
    ) -> BaseBackend:
        """A backend of this type, also where its device is absent: ask `is_available`.

        Raises:
            BackendError: there is no such type.
        """
        kind = BackendType.of(backend_type)
        if kind is BackendType.AUTO:
            kind = BackendType(cls.detect_best_backend())
        return cls.CLASSES[kind](config)

    @classmethod
    def is_available(cls, backend_type: BackendType | str) -> bool:
        """Whether this machine has such a device; `AUTO` is always there.

        Raises:
            BackendError: there is no such type.
        """
        return cls.create(backend_type).is_available

    @classmethod
    def list_available_backends(cls) -> list[str]:
        """The names of the backends that can be used, the processor first."""
        return [kind.value for kind in reversed(cls.CLASSES) if cls.is_available(kind)]

    @classmethod
    def detect_best_backend(cls) -> str:
        """The first of NVIDIA, AMD, TPU, Intel and the processor that can be used."""
        return next(kind.value for kind in cls.CLASSES if cls.is_available(kind))

    @classmethod
    def get_all_backend_info(cls) -> dict[str, dict[str, Any]]:
        """Of each backend `available`, `class`, `device_count`, `reason` and `devices`."""
        report: dict[str, dict[str, Any]] = {}
        for kind in cls.CLASSES:
            backend = cls.create(kind)
            report[kind.value] = {
                "available": backend.is_available,
                "class": type(backend).__name__,
                "device_count": backend.device_count,
                "reason": backend.missing,
                "devices": [
                    backend.get_device_info_dict(index) for index in range(backend.device_count)
                ],
            }
        return report


def get_backend(
    name: BackendType | str = BackendType.AUTO, config: KernelPyTorchConfig | None = None
) -> BaseBackend:
    """`BackendFactory.create`."""
    return BackendFactory.create(name, config)


def get_optimizer(
    name: BackendType | str = BackendType.AUTO, config: KernelPyTorchConfig | None = None
) -> BaseOptimizer:
    """The optimizer of a backend, also where its device is absent.

    Raises:
        BackendError: there is no such type.
    """
    return BackendFactory.create(name, config).optimizer


def detect_best_backend() -> str:
    """`BackendFactory.detect_best_backend`."""
    return BackendFactory.detect_best_backend()


def list_available_backends() -> list[str]:
    """`BackendFactory.list_available_backends`."""
    return BackendFactory.list_available_backends()


def get_all_backend_info() -> dict[str, dict[str, Any]]:
    """`BackendFactory.get_all_backend_info`."""
    return BackendFactory.get_all_backend_info()
