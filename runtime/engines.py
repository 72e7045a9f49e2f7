"""The real engines that run compiled models: PyTorch and ONNX Runtime.

Each function takes a compiled model and NumPy arrays and gives NumPy arrays, so that results can be
compared with the reference interpreter. Nothing here compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..ir.arrays import Array
from ..ir.errors import BackendError


def run_torch(module: Any, inputs: Sequence[Array]) -> list[Array]:
    """Run an `nn.Module` in evaluation mode without gradients.

    Raises:
        BackendError: torch is missing, or the module fails.
    """
    try:
        import torch as installed
    except ImportError:
        raise BackendError("PyTorch is missing: pip install 'triton-dsl[torch]'") from None
    torch: Any = installed
    module.eval()
    try:
        with torch.inference_mode():
            result: Any = module(*(from_array(x) for x in inputs))
    except (RuntimeError, ValueError, TypeError) as error:
        raise BackendError(f"PyTorch refuses to run the model: {_first_line(error)}") from error
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


def run_onnx(
    model: bytes | Path,
    inputs: Sequence[Array],
    *,
    providers: Sequence[str] = ("CPUExecutionProvider",),
) -> list[Array]:
    """Run an ONNX model in ONNX Runtime; inputs in the order of the graph.

    Raises:
        BackendError: onnxruntime is missing, or it refuses the model or the inputs.
    """
    try:
        import onnxruntime as installed
    except ImportError:
        raise BackendError("ONNX Runtime is missing: pip install 'triton-dsl[onnx]'") from None
    ort: Any = installed
    options = ort.SessionOptions()
    options.log_severity_level = 3
    source = str(model) if isinstance(model, Path) else model
    try:
        session: Any = ort.InferenceSession(source, options, providers=list(providers))
        names = [value.name for value in session.get_inputs()]
        if len(names) != len(inputs):
            raise BackendError(f"the model takes {len(names)} inputs, got {len(inputs)}")
        return list(session.run(None, dict(zip(names, inputs, strict=True))))
    except BackendError:
        raise
    except Exception as error:
        # onnxruntime's exceptions share no base class but Exception.
        raise BackendError(f"ONNX Runtime refuses the model: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
