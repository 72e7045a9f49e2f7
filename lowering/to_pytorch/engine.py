"""PyTorch as the engine of generated modules. Not here: loading them (`load`)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from ...ir.arrays import Array
from ...runtime.engines import run_torch
from ..artifact import Artifact
from ..engine import ArtifactEngine
from .load import load_module


class PyTorchEngine(ArtifactEngine):
    """A generated module in PyTorch, in evaluation mode; it is loaded at the first run."""

    def __init__(self, artifact: Artifact) -> None:
        super().__init__(artifact)
        self._module: Any = None

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Engine.run`."""
        if self._module is None:
            self._module = load_module(self.artifact)
        outputs = run_torch(self._module, inputs)
        self.name = f"torch {version('torch')}"
        return outputs
