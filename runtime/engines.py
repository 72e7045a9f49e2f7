"""The real engines that run compiled models: PyTorch and ONNX Runtime.

Each function takes a compiled model and NumPy arrays and gives NumPy arrays, so that results can be
compared with the reference interpreter. Nothing here compiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..ir.arrays import Array
from ..ir.errors import BackendError, first_line
from ..ir.extras import install
from .device_choice import chosen_device, chosen_providers


def run_torch(module: Any, inputs: Sequence[Array]) -> list[Array]:
    """Run an `nn.Module` in evaluation mode without gradients, on the device of `use_device`.

    The module moves there, and stays.

    Raises:
        BackendError: torch is missing, or the module fails.
    """
    try:
        import torch as installed
    except ImportError:
        raise BackendError(f"PyTorch is missing: {install('torch')}") from None
    torch: Any = installed
    device = chosen_device()
    module.eval().to(device)
    try:
        with torch.inference_mode():
            result: Any = module(*(from_array(x).to(device) for x in inputs))
    except (RuntimeError, ValueError, TypeError) as error:
        raise BackendError(f"PyTorch refuses to run the model: {first_line(error)}") from error
    several = isinstance(result, tuple | list)
    values = cast("Sequence[Any]", result) if several else [result]
    return [to_array(value) for value in values]


def from_array(array: Array) -> Any:
    """A tensor with a copy of `array`; NumPy's bfloat16 is a type PyTorch does not know."""
    import torch

    copy: Any = np.array(array)
    if copy.dtype.name == "bfloat16":
        return torch.from_numpy(copy.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(copy)


def to_array(tensor: Any) -> Array:
    """The values of a tensor; the inverse of `from_array`."""
    import torch

    value = tensor.detach().cpu()
    if value.dtype == torch.bfloat16:
        import ml_dtypes

        return value.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy()


def require_runtime() -> Any:
    """The `onnxruntime` package.

    Raises:
        BackendError: it is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        raise BackendError(f"ONNX Runtime is missing: {install('onnx')}") from None
    return onnxruntime


def open_session(
    model: bytes | Path,
    *,
    configure: Mapping[str, Any] | None = None,
    entries: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    providers: Sequence[str] = ("CPUExecutionProvider",),
) -> Any:
    """An `onnxruntime.InferenceSession`.

    Args:
        model: the bytes of a model, or its file.
        configure: attributes of the session options.
        entries: further session options, by their names in text.
        without: optimisations that are left out.
        providers: what runs it, the first that can.

    Raises:
        BackendError: onnxruntime is missing, or refuses the model.
    """
    onnxruntime = require_runtime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    for name, value in (configure or {}).items():
        setattr(options, name, value)
    for name, value in (entries or {}).items():
        options.add_session_config_entry(name, value)
    source = str(model) if isinstance(model, Path) else model
    try:
        return onnxruntime.InferenceSession(
            source,
            options,
            providers=list(providers),
            disabled_optimizers=list(without) or None,
        )
    except Exception as error:
        # onnxruntime's exceptions share no base class but Exception.
        raise BackendError(f"ONNX Runtime refuses the model: {first_line(error)}") from error


def run_session(session: Any, inputs: Sequence[Array]) -> list[Array]:
    """The results of a session; inputs and outputs in the order of the graph.

    Raises:
        BackendError: onnxruntime refuses the inputs.
    """
    names = [port.name for port in session.get_inputs()]
    if len(names) != len(inputs):
        raise BackendError(f"the model takes {len(names)} inputs, got {len(inputs)}")
    feed = dict(zip(names, inputs, strict=True))
    kinds = {port.type for port in (*session.get_inputs(), *session.get_outputs())}
    try:
        if "tensor(bfloat16)" in kinds:
            return _run_without_numpy(session, feed)
        return list(session.run(None, feed))
    except Exception as error:
        # onnxruntime's exceptions share no base class but Exception.
        raise BackendError(f"ONNX Runtime refuses to run: {first_line(error)}") from error


_BFLOAT16 = 16
"""Of `TensorProto.DataType`."""


def _run_without_numpy(session: Any, feed: Mapping[str, Array]) -> list[Array]:
    """`run_session` by values of the runtime: it knows no bfloat16 of NumPy."""
    import ml_dtypes

    make = require_runtime().OrtValue
    values: dict[str, Any] = {}
    for name, array in feed.items():
        whole = np.ascontiguousarray(array)
        if whole.dtype == ml_dtypes.bfloat16:
            bits = whole.view(np.uint16)
            values[name] = make.ortvalue_from_numpy_with_onnx_type(bits, _BFLOAT16)
        else:
            values[name] = make.ortvalue_from_numpy(whole)
    return [_array_of(value) for value in session.run_with_ort_values(None, values)]


def _array_of(value: Any) -> Array:
    """A value of the runtime, also where NumPy has no such type."""
    import ctypes

    import ml_dtypes

    if value.data_type() != "tensor(bfloat16)":
        return value.numpy()
    shape: list[int] = value.shape()
    data = ctypes.string_at(value.data_ptr(), 2 * prod(shape)) if prod(shape) else b""
    return np.frombuffer(bytearray(data), ml_dtypes.bfloat16).reshape(shape)


def run_onnx(
    model: bytes | Path, inputs: Sequence[Array], *, providers: Sequence[str] | None = None
) -> list[Array]:
    """Run an ONNX model in ONNX Runtime; inputs in the order of the graph.

    Args:
        model: the bytes of a model, or its file.
        inputs: in the order of the graph.
        providers: what runs it, the first that can; by default those of `use_device`.

    Raises:
        BackendError: onnxruntime is missing, or it refuses the model or the inputs.
    """
    return run_session(open_session(model, providers=providers or device_providers()), inputs)


def device_providers() -> tuple[str, ...]:
    """The execution providers of ONNX Runtime that `device_choice.use_device` chose.

    Raises:
        BackendError: onnxruntime is missing, or lacks them.
    """
    return tuple(chosen_providers(require_runtime().get_available_providers()))
