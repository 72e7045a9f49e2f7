"""Generated modules as live objects, in the process that generated them.

Not for files from elsewhere: the source is executed.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from ...ir.errors import BackendError, LoweringError, ParameterError
from ...ir.extras import install
from ...ir.seal import is_whole
from ..artifact import Artifact
from ..weights import StateDict

if TYPE_CHECKING:
    from torch import nn


def load_module(source: str | Artifact, weights: StateDict | bytes | None = None) -> nn.Module:
    """Make an instance of the module in generated source.

    Args:
        source: an artefact of the target `pytorch`, or its Python text.
        weights: values by `state_dict` key (arrays or tensors), or the bytes of a safetensors
            file; by default those of the artefact.

    Raises:
        BackendError: PyTorch is missing.
        ParameterError: the weights do not fit.
        IntegrityError: their file carries its SHA-256, and another one than it has.
    """
    try:
        from torch import nn
    except ImportError:
        raise BackendError(
            f"PyTorch is not installed; install it with: {install('torch')}"
        ) from None
    text = source if isinstance(source, str) else source.text()
    namespace = ModuleType("triton_dsl_generated")
    exec(compile(text, "<generated>", "exec"), namespace.__dict__)
    classes = [
        value
        for value in vars(namespace).values()
        if isinstance(value, type) and issubclass(value, nn.Module) and value is not nn.Module
    ]
    if len(classes) != 1:
        raise LoweringError("the source holds no generated module")
    if weights is None and "WEIGHTS" in vars(namespace):
        loaded: nn.Module = namespace.load()
        return loaded
    if weights is None and isinstance(source, Artifact):
        files = [data for name, data in source.files.items() if name.endswith(".safetensors")]
        weights = files[0] if files else None
    model: nn.Module = classes[0]()
    if weights is not None:
        _load(model, weights)
    return model.eval()


def _load(model: nn.Module, weights: StateDict | bytes) -> None:
    import torch

    if isinstance(weights, bytes):
        from safetensors.torch import load

        is_whole(".safetensors", weights, "the weights file")
        state = load(weights)
    else:
        state = {
            key: torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
            for key, value in weights.items()
        }
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise ParameterError(str(error)) from None
