"""The interface of a circuit: what its ports carry, and the record of it on the module.

Not here: the circuit (`circuit`), and how numbers are packed for a simulation (`lowering`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, SSAValue

from ....dialects.inference import tensor_type
from ....dialects.shapes import DYNAMIC
from ....ir.attribute_data import data_of, dictionary_of
from ....ir.errors import OptionError
from ....passes.adder_graph import InputRange
from ....passes.adder_graph.graph import width_of
from ....passes.adder_graph.optimize_adder_graph import input_range
from ....passes.analysis.argument_bounds import noted_bounds
from ....passes.quantize_activations.expose_integers import QUANTIZED
from .evaluation import identifier

NAME = "tensor.name"

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

    def over(self, spatial: Sequence[int], beats: int) -> Port:
        """The port where a frame comes in several beats: the bounds are those of a beat.

        Args:
            spatial: the axes that the beats run over, counted from the last one.
            beats: of a frame.
        """
        axes = tuple(axis + len(self.shape) for axis in spatial)
        ends = np.moveaxis(np.reshape(self.bounds, (*self.shape, 2)), axes, range(len(axes)))
        ends = ends.reshape(beats, -1, 2)
        low, high = ends[..., 0].min(axis=0), ends[..., 1].max(axis=0)
        bounds = tuple(zip(low.tolist(), high.tolist(), strict=True))
        return replace(self, axes=axes, bounds=bounds)

    def to_attribute(self) -> DictionaryAttr:
        """The port as an attribute."""
        entries = {
            "name": self.name,
            "shape": self.shape,
            "free": self.free,
            "low": [low for low, _ in self.bounds],
            "high": [high for _, high in self.bounds],
            "element": self.element,
            "axes": self.axes,
            "frame_axis": self.frame_axis,
            "quantized": self.quantized,
        }
        return dictionary_of({key: value for key, value in entries.items() if value is not None})


def quantized_range(quantized: DictionaryAttr) -> InputRange:
    """The integers that the caller makes of an argument, as `expose-integers` noted."""
    noted = data_of(quantized)
    return InputRange(noted["low"], noted["high"])


def argument_port(function: func.FuncOp, index: int, input_bits: int | None) -> Port:
    """What comes in for an argument, all of it in one beat.

    Raises:
        OptionError: `input_bits` are more than those of the argument's type.
    """
    argument = function.args[index]
    attributes = _attributes(function.arg_attrs, index)
    quantized, noted = attributes.get(QUANTIZED), noted_bounds(argument)
    range = input_range(argument)
    if isinstance(quantized, DictionaryAttr):
        range = quantized_range(quantized)
    elif input_bits is not None and noted is None:
        most = width_of(range.low, range.high)
        if input_bits > most:
            raise OptionError(
                f"convert-ternary-to-hw expects input-bits of at most {most} for elements "
                f"{tensor_type(argument).element_type}, got {input_bits}"
            )
        range = InputRange.of_bits(input_bits, signed=range.low < 0)
    name = argument.name_hint or (f"x{index}" if index else "x")
    port = _port(argument, attributes, name, ())
    bounds = ((range.low, range.high),) * prod(port.shape) if noted is None else noted.pairs
    return replace(port, bounds=bounds)


def result_port(
    function: func.FuncOp, index: int, value: SSAValue, bounds: Sequence[tuple[int, int]]
) -> Port:
    """What goes out for a result, given the bounds of a beat's elements."""
    attributes = _attributes(function.res_attrs, index)
    return _port(value, attributes, f"y{index}" if index else "y", bounds)


def _port(
    value: SSAValue,
    attributes: Mapping[str, Attribute],
    name: str,
    bounds: Sequence[tuple[int, int]],
) -> Port:
    """The port of a value with those attributes, called `name` where they do not say."""
    type, given = tensor_type(value), attributes.get(NAME)
    quantized = attributes.get(QUANTIZED)
    sizes = list(type.get_shape())
    return Port(
        identifier(given.data if isinstance(given, StringAttr) else name),
        tuple(1 if n == DYNAMIC else n for n in sizes),
        DYNAMIC in sizes,
        tuple(bounds),
        type.element_type,
        quantized if isinstance(quantized, DictionaryAttr) else None,
        frame_axis=sizes.index(DYNAMIC) if DYNAMIC in sizes else 0,
    )


def _attributes(
    attributes: ArrayAttr[DictionaryAttr] | None, index: int
) -> Mapping[str, Attribute]:
    return {} if attributes is None else attributes.data[index].data


def distinct(ports: Sequence[Port], taken: set[str]) -> list[Port]:
    """The ports, each with a name that nobody has taken."""
    result: list[Port] = []
    for port in ports:
        name = port.name
        while name in taken:
            name += "_"
        taken.add(name)
        result.append(replace(port, name=name))
    return result


def stream_width(bits: int) -> int:
    """The bits of a stream that carries so many: whole bytes, at least one."""
    return max(8, -(-bits // 8) * 8)
