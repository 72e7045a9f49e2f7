"""What a stage is to the network around it: its module, its channels, its handshake, its cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from xdsl.dialects import hw

from .....passes.adder_graph.graph import width_of
from ..memories import Memory
from ..modules import AnyModule
from .handshake import Handshake


@dataclass(frozen=True)
class Layout:
    """What a channel carries.

    Attributes:
        bounds: the least and the largest value of each element of a beat, the first element in
            the lowest bits, each with exactly its bits.
        beats: of a frame.
        level: how much later than a register's its bits are there, in the unit of `Pacing`.
    """

    bounds: tuple[tuple[int, int], ...]
    beats: int = 1
    level: float = 0

    @cached_property
    def widths(self) -> list[int]:
        """The bits of each element."""
        return [width_of(*bounds) for bounds in self.bounds]

    @property
    def places(self) -> list[int]:
        """The lowest bit of each element, and the bits of a beat behind them."""
        return [*accumulate(self.widths, initial=0)]

    @cached_property
    def width(self) -> int:
        """The bits of a beat."""
        return sum(self.widths)


@dataclass(frozen=True)
class Stage:
    """One part of a network of stages.

    Attributes:
        name: of its instance, and the start of its module's name.
        module: with the stage interface.
        inputs: what its inputs carry, in order.
        outputs: what its outputs carry.
        parts: modules that `module` instantiates: arithmetic, memories. Equal names are equal
            modules.
        loads: the memories whose words come in by the ports `load_enable` (a bit for each),
            `load_address` and `load_data`, which have no word to wait for.
    """

    name: str
    module: hw.HWModuleOp
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    parts: tuple[AnyModule, ...] = ()
    loads: tuple[Memory, ...] = ()

    @cached_property
    def handshake(self) -> Handshake:
        """How it moves beats, by its module."""
        return Handshake(self.module)


def repeated(stage: Stage, input: Layout, times: int) -> Stage:
    """A stage of one input and one output, so many frames of which are one of `input`."""
    (output,) = stage.outputs
    return replace(stage, inputs=(input,), outputs=(replace(output, beats=output.beats * times),))
