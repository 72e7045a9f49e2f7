"""The kinds of devices: how each is found, set up and described."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch

from ...ir.extras import install
from ..device_choice import configure_torch_backend
from ..devices import DeviceInfo, cuda_device, processor, xla_device, xpu_device
from .base import BaseBackend
from .optimizers import (
    AMDOptimizer,
    CPUOptimizer,
    IntelOptimizer,
    NVIDIAOptimizer,
    TPUOptimizer,
)


class CPUBackend(BaseBackend):
    """The processor: always there."""

    BACKEND_NAME = "cpu"
    OPTIMIZER = CPUOptimizer

    def _setup_environment(self) -> None:
        """A processor keeps what is set."""
        configure_torch_backend("cpu", torch.device("cpu"), verbose=False)

    def _get_device_info(self, device_id: int = 0) -> DeviceInfo:
        return processor()


class _CudaBackend(BaseBackend):
    """GPUs that PyTorch calls `cuda`: NVIDIA's, or AMD's in a build for ROCm."""

    DEVICE_TYPE = "cuda"

    def _setup_environment(self) -> None:
        name = "cuda" if torch.version.hip is None else "rocm"
        configure_torch_backend(name, self.device, verbose=False)

    def _get_device_info(self, device_id: int = 0) -> DeviceInfo:
        return cuda_device(device_id)


class NVIDIABackend(_CudaBackend):
    """NVIDIA's GPUs, through CUDA."""

    BACKEND_NAME = "nvidia"
    OPTIMIZER = NVIDIAOptimizer

    def _missing(self) -> str | None:
        if torch.version.cuda is None:
            return "this PyTorch is built without CUDA; see https://pytorch.org/get-started"
        return None if torch.cuda.is_available() else "PyTorch finds no NVIDIA GPU"


class AMDBackend(_CudaBackend):
    """AMD's GPUs, through ROCm."""

    BACKEND_NAME = "amd"
    OPTIMIZER = AMDOptimizer

    def _missing(self) -> str | None:
        if torch.version.hip is None:
            return "this PyTorch is built without ROCm; see https://pytorch.org/get-started"
        return None if torch.cuda.is_available() else "PyTorch finds no AMD GPU"


class IntelBackend(BaseBackend):
    """Intel's GPUs, which PyTorch calls `xpu`."""

    BACKEND_NAME = "intel"
    DEVICE_TYPE = "xpu"
    OPTIMIZER = IntelOptimizer

    def _setup_environment(self) -> None:
        torch.set_float32_matmul_precision("high")

    def _missing(self) -> str | None:
        if torch.xpu.is_available():
            return None
        return "PyTorch finds no Intel GPU; its build for XPU: https://pytorch.org/get-started"

    def _get_device_info(self, device_id: int = 0) -> DeviceInfo:
        return xpu_device(device_id)


class TPUBackend(BaseBackend):
    """TPUs, through PyTorch/XLA."""

    BACKEND_NAME = "tpu"
    DEVICE_TYPE = "xla"
    OPTIMIZER = TPUOptimizer

    def _setup_environment(self) -> None:
        """PyTorch/XLA sets itself up when it is imported."""
        import_module("torch_xla")

    def _missing(self) -> str | None:
        if find_spec("torch_xla") is None:
            return f"PyTorch/XLA is missing: {install('tpu')}"
        try:
            kind = import_module("torch_xla.runtime").device_type()
        except Exception as error:
            # Any failure of the driver means that there is no TPU.
            return f"PyTorch/XLA finds no device: {error}"
        return None if kind == "TPU" else f"PyTorch/XLA runs on {kind}, not on a TPU"

    def _get_device_info(self, device_id: int = 0) -> DeviceInfo:
        return xla_device(device_id)

    def _module(self) -> ModuleType:
        return _Xla("xla")


class _Xla(ModuleType):
    """PyTorch/XLA under the names of PyTorch's device modules."""

    def device_count(self) -> int:
        return int(import_module("torch_xla.runtime").global_runtime_device_count())

    def synchronize(self) -> None:
        library: Any = import_module("torch_xla")
        library.sync(wait=True)

    def set_device(self, device: int | str) -> None:
        """Each process of PyTorch/XLA has one device."""
