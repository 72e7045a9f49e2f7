"""The back ends that are here: Loihi 2, SpiNNaker, and microcontrollers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, cast

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError
from ...runtime.boards.boards import Port, board_named, run_on_board
from ...runtime.lava import lava_python
from ...runtime.native.abi.interface import Interface
from ...runtime.native.program import dtype_named
from ..compile_model import CompiledModel
from ..targets import get_target
from ..to_c.engine import CEngine
from ..to_loihi2.engine import SIMULATOR, Loihi2Engine
from ..to_spinnaker.engine import NestEngine, SpyNNakerEngine
from .backend import NeuromorphicBackend, Run, interpreted


class Loihi2Backend(NeuromorphicBackend):
    """Intel's Loihi 2: Lava where it is, else our simulator, which gives the same bits."""

    target: ClassVar[str] = "loihi2"
    machines: ClassVar[tuple[str, ...]] = ("loihi2", "loihi2-kapohopoint", "loihi2-halapoint")

    def ways(self, compiled: CompiledModel) -> Sequence[tuple[str, Callable[[], Run]]]:
        """Lava, then the simulator."""

        def engine() -> Loihi2Engine:
            target, options = get_target("loihi2"), compiled.options
            return Loihi2Engine.staged(compiled.module, target, options, compiled.artifact)

        def lava() -> Run:
            if lava_python() is None:
                raise BackendError("no Python has it; set TRITON_LAVA_PYTHON to one that has")
            return engine().run

        return ("Lava", lava), (SIMULATOR, lambda: engine().simulated)


class SpiNNakerBackend(NeuromorphicBackend):
    """SpiNNaker 1 and 2 through sPyNNaker; without a board NEST, else the interpreter."""

    target: ClassVar[str] = "spinnaker"
    machines: ClassVar[tuple[str, ...]] = ("spinnaker1-4chips", "spinnaker1")

    def ways(self, compiled: CompiledModel) -> Sequence[tuple[str, Callable[[], Run]]]:
        """A board, NEST, the interpreter."""

        def started(kind: type[NestEngine]) -> Callable[[], Run]:
            def start() -> Run:
                kind.found()
                return kind(compiled.artifact).run

            return start

        return (
            ("sPyNNaker", started(SpyNNakerEngine)),
            ("NEST", started(NestEngine)),
            interpreted(compiled),
        )


class EdgeBackend(NeuromorphicBackend):
    """Microcontrollers: C on a board that QEMU emulates, else on this processor.

    Args:
        board: one of `runtime.boards.BOARDS`.
    """

    target: ClassVar[str] = "c"
    machines: ClassVar[tuple[str, ...]] = ("cortex-a",)

    def __init__(self, *args: object, board: str = "cortex-m4", **options: object) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportArgumentType]
        self.board = board
        self.most = 1

    def options(self, device: str) -> dict[str, object]:
        """The target has no machines."""
        del device
        return {"batch": 1}

    def ways(self, compiled: CompiledModel) -> Sequence[tuple[str, Callable[[], Run]]]:
        """The board, the C compiler of this system, the interpreter."""
        name, artifact = compiled.artifact.name, compiled.artifact
        interface = Interface.from_dict(
            cast("Mapping[str, object]", artifact.manifest["interface"])
        )

        def on_board() -> Run:
            board_named(self.board)
            sources = {file: artifact.files[file] for file in (f"{name}.h", f"{name}.c")}
            inward, outward = (
                [Port(t.dtype, int(np.prod(t.sizes(1)))) for t in tensors]
                for tensors in (interface.inputs, interface.outputs)
            )

            def run(inputs: Sequence[Array]) -> list[Array]:
                samples = [np.ascontiguousarray(x).reshape(1, -1) for x in inputs]
                done = run_on_board(self.board, sources, name, inward, outward, samples)
                return [
                    x.reshape(t.sizes(1)).astype(dtype_named(t.dtype))
                    for x, t in zip(done.outputs, interface.outputs, strict=True)
                ]

            return run

        return (
            (f"{self.board} in QEMU", on_board),
            ("C on this processor", lambda: CEngine(artifact).run),
            interpreted(compiled),
        )
