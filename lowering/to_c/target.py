"""The target `c`: its options, its stages, and its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from xdsl.dialects.builtin import ModuleOp

from ...dialects.registry import triton_context
from ...ir.errors import OptionError, UnsupportedError
from ...ir.locations import location_text
from ...passes.infer_shapes import InferShapesPass
from ..artifact import Artifact
from ..options import TargetOptions, option
from ..stages import Stage
from ..target import Target
from ..to_native.free_sizes import free_sizes
from ..to_native.header import in_c
from ..to_native.interface import note_interface, noted_interface
from ..to_native.program.nests import RefusedError
from ..to_native.program.planning import forward_of
from ..to_native.target import loop_stages
from .files import Written
from .planning import planned
from .ports import take_ports


@dataclass(frozen=True)
class COptions(TargetOptions):
    """Options of the target `c`."""

    batch: int = option(1, "samples that a call takes: memory is static, so that it is fixed")
    ports: Literal["float", "quantized"] = option(
        "float",
        "inputs and outputs that the program quantises and dequantises: as the program has them, "
        "or as integers, which the caller scales",
    )
    name: str | None = option(None, "name of the C function; by default the model's")

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise OptionError(f"target 'c': batch must be at least 1, got {self.batch}")


class CTarget(Target[COptions]):
    """C99 files for microcontrollers."""

    name: ClassVar[str] = "c"
    description: ClassVar[str] = "C99 for microcontrollers: static memory, packed weights"
    Options: ClassVar[type[TargetOptions]] = COptions
    engine = f"{__package__}.engine:CEngine"
    backend = "triton_dsl.lowering.neuromorphic.machines:EdgeBackend"
    known_steps = True

    def prepare(self, module: ModuleOp, options: COptions) -> None:
        """Fix the batch, and note the interface before the passes take names and types away.

        Raises:
            UnsupportedError: another size is not known.
        """
        InferShapesPass(batch=options.batch).apply(triton_context(), module)
        if options.ports == "quantized":
            take_ports(module)
        function = forward_of(module, self.name)
        names = free_sizes(function).names
        if names:
            reason = (
                f"has free sizes ({', '.join(names)}), and memory is static; give them with "
                "-p 'infer-shapes{timesteps=… batch=…}', the batch as the option batch too"
            )
            raise UnsupportedError(self.name, [(function.name, location_text(function), reason)])
        note_interface(module, "C99")

    def stages(self, options: COptions) -> Sequence[Stage]:
        """From whole tensors to loops and products."""
        return loop_stages("sums", "products", (), fused=True)

    def emit(self, module: ModuleOp, options: COptions) -> Artifact:
        """The files.

        Raises:
            UnsupportedError: names every op that has no form in C.
        """
        interface = noted_interface(module)
        name = in_c(options.name or interface.name)
        try:
            written = Written.of(planned(module), interface, name, module)
        except RefusedError as error:
            problem = ("builtin.module", location_text(module), str(error))
            raise UnsupportedError(self.name, [problem]) from None
        manifest = {"interface": interface.to_dict(), "report": written.report}
        return Artifact(written.name, written.files(), manifest=manifest)
