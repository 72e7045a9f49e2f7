"""The backend a user asks for: PyTorch's device, its settings, mixed precision, ONNX providers.

ROCm devices are called `cuda` by PyTorch; a build of it is for one of the two. Not here: what this
machine has (`devices`).
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from ..ir.errors import BackendError
from ..ir.extras import install

if TYPE_CHECKING:
    import torch

BACKENDS = ("auto", "cpu", "cuda", "rocm")


class AmpConfig(TypedDict):
    """The policy of automatic mixed precision on a device.

    Attributes:
        enabled: whether products run in `dtype`, by `torch.autocast`.
        dtype: `torch.float16`, or `None` where not enabled.
        use_grad_scaler: whether losses are scaled, so that small gradients stay above zero.
    """

    enabled: bool
    dtype: torch.dtype | None
    use_grad_scaler: bool


def resolve_torch_device(backend: str = "auto") -> torch.device:
    """The device of PyTorch for `backend`.

    Args:
        backend: `auto` (a CUDA or ROCm device, else Apple's `mps`, else the processor), `cpu`,
            `cuda` or `rocm`.

    Raises:
        BackendError: an unknown backend, PyTorch is missing or cannot be loaded, it is built for
            the other of CUDA and ROCm, or there is no such device.
    """
    _check_name(backend)
    torch = _torch()
    if backend == "cpu":
        return torch.device("cpu")
    has_gpu = bool(torch.cuda.is_available())
    if backend == "auto":
        if has_gpu:
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    available = "cuda" if torch.version.hip is None else "rocm"
    if torch.version.cuda is None and torch.version.hip is None:
        raise BackendError(f"this PyTorch has no {backend}: it is built for the processor alone")
    if available != backend:
        raise BackendError(f"this PyTorch is built for {available}, not for {backend}")
    if not has_gpu:
        raise BackendError(f"no device for {backend}: PyTorch finds none; see `triton devices`")
    return torch.device("cuda")


def configure_torch_backend(backend: str, device: torch.device, verbose: bool = True) -> None:
    """Set PyTorch up for `device`, for the whole process.

    On CUDA cuDNN measures its algorithms (`cudnn.benchmark`) and float32 products may use TF32; on
    ROCm TF32 stays off. On all GPUs the precision of float32 products is `high`. A processor keeps
    what is set. Results of float32 products change in their last bits.

    Args:
        backend: as given to `resolve_torch_device`, for the report.
        device: the device that was resolved.
        verbose: report versions, the device and these settings on stderr.

    Raises:
        BackendError: an unknown backend, or PyTorch is missing.
    """
    _check_name(backend)
    torch = _torch()
    settings: dict[str, object] = {}
    if device.type == "cuda" and torch.version.hip is None:
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
        settings |= {"cudnn.benchmark": True, "TF32": True}
    elif device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        settings["TF32"] = False
    if device.type in ("cuda", "mps"):
        # `high` would turn TF32 on again in products.
        precision = "highest" if settings.get("TF32") is False else "high"
        torch.set_float32_matmul_precision(precision)
        settings["float32 products"] = precision
    if verbose:
        for name, value in {**_facts(torch, backend, device), **settings}.items():
            print(f"{name}: {value}", file=sys.stderr)


def resolve_amp_config(device: torch.device) -> AmpConfig:
    """The policy of mixed precision on `device`: float16 on GPUs, none on processors.

    Losses are scaled on CUDA and ROCm alone.

    Raises:
        BackendError: PyTorch is missing.
    """
    torch = _torch()
    enabled = device.type in ("cuda", "mps")
    return {
        "enabled": enabled,
        "dtype": torch.float16 if enabled else None,
        "use_grad_scaler": device.type == "cuda",
    }


def resolve_ort_providers(backend: str, available: Sequence[str]) -> list[str]:
    """The execution providers of ONNX Runtime for `backend`, the processor last.

    Args:
        backend: `auto` is CUDA, else ROCm, else CoreML, else the processor.
        available: what `onnxruntime.get_available_providers()` gives.

    Raises:
        BackendError: an unknown backend, or its provider is not available.
    """
    _check_name(backend)
    if backend == "auto":
        order = [_PROVIDERS["cuda"], _PROVIDERS["rocm"], "CoreMLExecutionProvider"]
        return [*[name for name in order if name in available][:1], _PROVIDERS["cpu"]]
    wanted = _PROVIDERS[backend]
    if wanted not in available:
        raise BackendError(_no_provider(wanted, available))
    return [wanted] if backend == "cpu" else [wanted, _PROVIDERS["cpu"]]


@contextmanager
def use_device(backend: str, provider: str | None = None, *, tuned: bool = True) -> Generator[None]:
    """Let engines run on a device in a `with` block; without one they take the processor.

    Args:
        backend: as for `resolve_torch_device`; also of ONNX Runtime, by `resolve_ort_providers`.
        provider: the execution provider of ONNX Runtime instead, such as
            `TensorrtExecutionProvider`; with the processor for what it cannot run.
        tuned: whether PyTorch is set up by `configure_torch_backend`, which gives up bits of
            float32 products.

    Raises:
        BackendError: an unknown backend.
    """
    _check_name(backend)
    token = _CHOSEN.set(_Choice(backend, provider, tuned))
    try:
        yield
    finally:
        _CHOSEN.reset(token)


class _Choice(NamedTuple):
    """What `use_device` was told."""

    backend: str
    provider: str | None
    tuned: bool


_PROCESSOR = _Choice("cpu", None, tuned=False)
_CHOSEN: ContextVar[_Choice] = ContextVar("device", default=_PROCESSOR)


def chosen_device() -> torch.device:
    """The device of PyTorch that `use_device` chose; see there."""
    choice = _CHOSEN.get()
    device = resolve_torch_device(choice.backend)
    if choice.tuned:
        configure_torch_backend(choice.backend, device, verbose=False)
    return device


def chosen_providers(available: Sequence[str]) -> list[str]:
    """The execution providers of ONNX Runtime that `use_device` chose; see there."""
    backend, provider, _ = _CHOSEN.get()
    if provider is None:
        return resolve_ort_providers(backend, available)
    if provider not in available:
        raise BackendError(_no_provider(provider, available))
    return list(dict.fromkeys((provider, _PROVIDERS["cpu"])))


def _no_provider(wanted: str, available: Sequence[str]) -> str:
    return f"ONNX Runtime has no {wanted}; it has {', '.join(available) or 'no provider'}"


_PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "rocm": "ROCMExecutionProvider",
}


def _check_name(backend: str) -> None:
    if backend not in BACKENDS:
        raise BackendError(f"expected a backend of {', '.join(BACKENDS)}, got {backend!r}")


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError:
        raise BackendError(f"PyTorch is missing: {install('torch')}") from None
    except (ImportError, OSError) as error:
        raise BackendError(f"PyTorch cannot be loaded: {error}") from error
    return torch


def _facts(torch: Any, backend: str, device: torch.device) -> dict[str, object]:
    """What `configure_torch_backend` reports besides its settings."""
    facts: dict[str, object] = {
        "backend": backend,
        "device": device,
        "PyTorch": torch.__version__,
    }
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        facts |= {
            "CUDA": torch.version.cuda,
            "ROCm": torch.version.hip,
            "name": torch.cuda.get_device_name(device),
            "memory": f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free",
        }
    return {name: value for name, value in facts.items() if value is not None}
