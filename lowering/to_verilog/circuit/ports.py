"""The interface of a circuit: what its ports carry, and the record of it on the module.

Not here: the circuit (`circuit`), and how numbers are packed for a simulation (`lowering`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute

from ....passes.adder_graph.graph import width_of
from .circuit import LayerCount

INTERFACE = "verilog.interface"
"""The module attribute that holds what goes in and out, and what each layer became."""


@dataclass(frozen=True)
class Port:
    """A tensor on a stream: its elements in row-major order, the first in the lowest bits.

    Attributes:
        name: what the program calls it.
        shape: of one frame; a free leading axis is 1.
        free: whether an axis is the batch of the program.
        bounds: of each element of a beat, in order.
        element: the element type of the program.
        quantized: how the caller makes the integers, or what they stand for; `None` if they are
            the program's own.
    """

    name: str
    shape: tuple[int, ...]
    free: bool
    bounds: tuple[tuple[int, int], ...]
    element: Attribute
    quantized: DictionaryAttr | None
    axes: tuple[int, ...] = ()
    """The axes that the beats of a frame run over, row-major; none where a beat is a frame."""
    frame_axis: int = 0
    """The axis that counts frames, where there is a free one: of trains the one after time."""

    @property
    def widths(self) -> list[int]:
        """The bits of each element."""
        return [width_of(*bounds) for bounds in self.bounds]

    def to_attribute(self) -> DictionaryAttr:
        """The port as an attribute."""
        entries: dict[str, Attribute] = {
            "name": StringAttr(self.name),
            "shape": numbers(self.shape),
            "free": IntegerAttr(int(self.free), i64),
            "low": numbers([low for low, _ in self.bounds]),
            "high": numbers([high for _, high in self.bounds]),
            "element": self.element,
            "axes": numbers(self.axes),
            "frame_axis": IntegerAttr(self.frame_axis, i64),
        }
        if self.quantized is not None:
            entries["quantized"] = self.quantized
        return DictionaryAttr(entries)


def stream_width(bits: int) -> int:
    """The bits of a stream that carries so many: whole bytes, at least one."""
    return max(8, -(-bits // 8) * 8)


def numbers(values: Sequence[int]) -> ArrayAttr[IntegerAttr]:
    """Integers as an attribute."""
    return ArrayAttr([IntegerAttr(value, i64) for value in values])


def layer_attribute(layer: LayerCount) -> DictionaryAttr:
    """What a layer became, as an attribute."""
    return DictionaryAttr(
        {
            name: StringAttr(value) if isinstance(value, str) else IntegerAttr(value, i64)
            for name, value in vars(layer).items()
        }
    )
