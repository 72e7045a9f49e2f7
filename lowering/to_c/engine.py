"""C as an engine: compiled by the C compiler of this system, called in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self, cast

import numpy as np

from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type
from ...ir.arrays import Array
from ...ir.errors import BackendError
from ...ir.interpreter import entry_function
from ...passes.analysis.time_axis import has_time_first
from ...runtime.native.abi.interface import Interface
from ...runtime.native.program import dtype_named
from ..artifact import Artifact
from ..engine import ArtifactEngine
from ..targets import compile_to_target
from ..to_native.link import library_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..target import Target

FLAGS = ("-std=c99", "-O2", "-fPIC")
"""For the C compiler; the standard keeps it from joining products and sums of floats."""


class LoadedC:
    """The function of an artefact of the target `c`, compiled and loaded.

    Args:
        artifact: the files.
        flags: for the C compiler.

    Raises:
        BackendError: no C compiler, or it refuses.
    """

    def __init__(self, artifact: Artifact, flags: Sequence[str] = FLAGS) -> None:
        name = artifact.name
        files = {file: artifact.files[file] for file in (f"{name}.h", f"{name}.c")}
        content = library_of(files, [*flags, f"{name}.c", "-lm"], name)
        with TemporaryDirectory() as folder:
            path = Path(folder, f"{name}.so")
            path.write_bytes(content)
            self._library = ctypes.CDLL(str(path))
        self._function = self._library[name]
        data = cast("Mapping[str, object]", artifact.manifest["interface"])
        self.interface = Interface.from_dict(data)

    def __call__(self, *inputs: Array) -> list[Array]:
        """The outputs.

        Raises:
            BackendError: inputs of other types or shapes.
        """
        interface = self.interface
        if len(inputs) != len(interface.inputs):
            raise BackendError(f"expects {len(interface.inputs)} inputs, got {len(inputs)}")
        arrays = [np.asarray(x, order="C") for x in inputs]
        for tensor, x in zip(interface.inputs, arrays, strict=True):
            wanted = tensor.sizes(1), dtype_named(tensor.dtype)
            if (x.shape, x.dtype) != wanted:
                raise BackendError(
                    f"input '{tensor.name}' is {wanted[1]} {list(wanted[0])}, got {x.dtype} "
                    f"{list(x.shape)}"
                )
        outputs = [np.empty(t.sizes(1), dtype_named(t.dtype)) for t in interface.outputs]
        self._function(*(ctypes.c_void_p(x.ctypes.data) for x in (*arrays, *outputs)))
        return outputs


class CEngine(ArtifactEngine):
    """A program in C in this process.

    Args:
        artifact: the files.
    """

    def __init__(self, artifact: Artifact) -> None:
        super().__init__(artifact)
        self._fitting: Callable[[Sequence[Array]], Artifact] = lambda _: artifact

    @classmethod
    def of(cls, module: ModuleOp, target: Target, options: Mapping[str, object]) -> Self:
        """See `Engine.of`. Where the options leave the batch open it is that of the inputs."""
        engine = cls(compile_to_target(module, target, options))
        if "batch" not in options:
            engine._fitting = lambda inputs: compile_to_target(
                module, target, {**options, "batch": _batch(module, inputs)}
            )
        return engine

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Engine.run`."""
        loaded = LoadedC(self._fitting(inputs))
        self.name = "C99 (cc)"
        return loaded(*inputs)


def _batch(module: ModuleOp, inputs: Sequence[Array]) -> int:
    """The batch of inputs, 1 where a program leaves none open."""
    arguments = entry_function(module, "forward").args
    for argument, x in zip(arguments, inputs, strict=False):
        shape = dense_type(argument).get_shape()
        for axis, size in enumerate(shape):
            if size == DYNAMIC and not (axis == 0 and has_time_first(argument)):
                return x.shape[axis]
    return 1
