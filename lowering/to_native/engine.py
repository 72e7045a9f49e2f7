"""Native code as an engine: compiled for this process, in memory. Not here: files of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from ...ir.arrays import Array
from ...runtime.native.loading import load_program
from ..engine import Engine
from ..options import parse_options
from .callables import program_content
from .target import NativeOptions

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..target import Target


class NativeEngine(Engine):
    """A program compiled for this processor.

    Args:
        content: see `callables.program_content`.
    """

    def __init__(self, content: bytes) -> None:
        self.program = load_program(content)
        self.size = len(content)

    @classmethod
    def of(cls, module: ModuleOp, target: Target, options: Mapping[str, object]) -> Self:
        """See `Engine.of`."""
        return cls(program_content(module, parse_options(NativeOptions, target.name, options)))

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Engine.run`."""
        self.name = f"native ({self.program.interface.recipe})"
        return self.program.run(inputs)
