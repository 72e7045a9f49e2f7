"""What this machine offers to run a model on: processors, GPUs, ONNX Runtime providers."""

from __future__ import annotations

import os
import platform
import warnings
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class DeviceInfo:
    """One device, in the same form for every kind.

    Attributes:
        backend: `"cpu"`, `"nvidia"`, `"amd"`, `"intel"`, `"tpu"` or `"apple"`.
        device_type: as PyTorch writes it: `"cpu"`, `"cuda:0"`, `"xpu:0"`, `"xla:0"`, `"mps"`.
        device_id: index among the devices of this backend.
        device_name: the maker's name.
        compute_capability: such as `"9.0"`; `None` for processors.
        total_memory_bytes: memory of the device, 0 where unknown.
        driver_version: driver or runtime, `None` where unknown.
        is_available: whether it can be used now.
        properties: what only this backend has (`cores`, `features`, …).
    """

    backend: str
    device_type: str
    device_id: int
    device_name: str
    compute_capability: str | None
    total_memory_bytes: int
    driver_version: str | None
    is_available: bool
    properties: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def total_memory_gb(self) -> float:
        """Memory in GiB."""
        return self.total_memory_bytes / 1024**3

    @property
    def total_memory_mb(self) -> float:
        """Memory in MiB."""
        return self.total_memory_bytes / 1024**2

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dictionary."""
        return asdict(self)

    def __getitem__(self, name: str) -> Any:
        """A field by its name. Deprecated: the form of a time when this was a dictionary."""
        message = f"take DeviceInfo.{name}, or to_dict() for a dictionary"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.to_dict()[name]


KERNEL_FEATURES = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "gfni", "asimd", "asimddp", "sve")
"""Instruction sets that ternary kernels care about, as Linux names them."""


def list_devices() -> list[DeviceInfo]:
    """Every device, the processor first. PyTorch is asked for GPUs when it is installed."""
    return [processor(), *_gpus()]


def processor() -> DeviceInfo:
    """The processor and the memory of the machine."""
    fields = _cpuinfo()
    flags = fields.get("flags", fields.get("Features", "")).split()
    return DeviceInfo(
        backend="cpu",
        device_type="cpu",
        device_id=0,
        device_name=fields.get("model name") or platform.processor() or platform.machine(),
        compute_capability=None,
        total_memory_bytes=_memory(),
        driver_version=None,
        is_available=True,
        properties={
            "cores": os.cpu_count() or 1,
            "architecture": platform.machine(),
            "features": [name for name in KERNEL_FEATURES if name in flags],
        },
    )


def _cpuinfo() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return {}
    fields: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def _gpus() -> list[DeviceInfo]:
    if find_spec("torch") is None:
        return []
    import torch

    gpus = [cuda_device(index) for index in range(torch.cuda.device_count())]
    gpus += [xpu_device(index) for index in range(torch.xpu.device_count())]
    if torch.backends.mps.is_available():
        gpus.append(DeviceInfo("apple", "mps", 0, platform.machine(), None, _memory(), None, True))
    return gpus


def cuda_device(index: int) -> DeviceInfo:
    """A GPU that PyTorch calls `cuda`: NVIDIA's, or AMD's in a build for ROCm."""
    import torch as installed

    torch: Any = installed
    found: Any = torch.cuda.get_device_properties(index)
    rocm = torch.version.hip
    capability = (found.major, found.minor)
    # FP8 products: NVIDIA's from 8.9 on, AMD's from gfx942 on.
    fp8 = "gfx94" in found.gcnArchName if rocm else capability >= (8, 9)
    return DeviceInfo(
        backend="amd" if rocm else "nvidia",
        device_type=f"cuda:{index}",
        device_id=index,
        device_name=found.name,
        compute_capability=".".join(map(str, capability)),
        total_memory_bytes=found.total_memory,
        driver_version=rocm or torch.version.cuda,
        is_available=True,
        properties={"multiprocessors": found.multi_processor_count, "fp8_supported": fp8},
    )


def xpu_device(index: int) -> DeviceInfo:
    """A GPU of Intel's."""
    import torch as installed

    torch: Any = installed
    found: Any = torch.xpu.get_device_properties(index)
    return DeviceInfo(
        backend="intel",
        device_type=f"xpu:{index}",
        device_id=index,
        device_name=found.name,
        compute_capability=None,
        total_memory_bytes=found.total_memory,
        driver_version=found.driver_version,
        is_available=True,
        properties={"execution_units": found.max_compute_units, "fp8_supported": False},
    )


def xla_device(index: int) -> DeviceInfo:
    """A TPU, through PyTorch/XLA; what its driver does not say is `None`."""
    library: Any = import_module("torch_xla")
    runtime: Any = import_module("torch_xla.runtime")
    devices: list[dict[str, Any]] = runtime.global_runtime_device_attributes()
    facts = devices[index]
    return DeviceInfo(
        backend="tpu",
        device_type=f"xla:{index}",
        device_id=index,
        device_name=str(facts.get("name", "TPU")),
        compute_capability=None,
        total_memory_bytes=0,
        driver_version=library.__version__,
        is_available=True,
        properties={"version": facts.get("version"), "topology": facts.get("coords")},
    )


def onnx_providers() -> list[str]:
    """The execution providers of the installed ONNX Runtime; empty without one."""
    if find_spec("onnxruntime") is None:
        return []
    import onnxruntime as ort

    return list(ort.get_available_providers())  # pyright: ignore[reportUnknownArgumentType]
