"""PyTorch as the engine of generated modules. Not here: loading them (`load`)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from ...ir.arrays import Array
from ...runtime.engines import run_torch
from ..engine import ArtifactEngine
from .load import load_module


class PyTorchEngine(ArtifactEngine):
    """A generated module in PyTorch, in evaluation mode."""

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Engine.run`."""
        outputs = run_torch(load_module(self.artifact), inputs)
        self.name = f"torch {version('torch')}"
        return outputs
