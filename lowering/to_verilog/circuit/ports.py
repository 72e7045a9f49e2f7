"""The tensors that go into a circuit and out of it: their elements on a stream.

Not here: the circuit (`circuit`), and all that is known of it from outside (`interface`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, SSAValue

from ....dialects.elements import numpy_dtype
from ....dialects.inference import tensor_type
from ....dialects.shapes import DYNAMIC
from ....ir.arrays import Array
from ....ir.attribute_data import data_of
from ....ir.errors import OptionError
from ....ir.value_names import NAME_ATTRIBUTE
from ....passes.adder_graph import InputRange
from ....passes.adder_graph.graph import width_of
from ....passes.adder_graph.optimize_adder_graph import input_range
from ....passes.analysis.argument_bounds import noted_bounds
from ....passes.quantize_activations.expose_integers import QUANTIZED
from ..host import circuit_driver
from .evaluation import identifier

Record = dict[str, Any]
"""JSON data: strings, numbers, truth values, lists of them, and further records."""

Quantization = Record
"""`scale` and `zero_point` (numbers or lists), `axis`, for inputs `low` and `high`, and `of_sign`
where the sign of an input is quantised; or `thresholds`, `low` and `high` of an input."""


@dataclass(frozen=True)
class Port:
    """A tensor on a stream: its elements in row-major order, the first in the lowest bits.

    Attributes:
        name: what the program calls it.
        shape: of one frame; a free axis is 1.
        free: whether an axis counts frames.
        low: the least value of each element of a beat.
        high: the largest one; elements that can be negative are in two's complement.
        dtype: NumPy's name of the element type.
        quantized: how the caller makes the integers of an input from floats, or what those of an
            output stand for; `None` where the program's own values are integers.
        axes: those that the beats of a frame run over, row-major; none where a beat is a frame.
        frame_axis: the axis that counts frames, where there is a free one.
    """

    name: str
    shape: tuple[int, ...]
    free: bool
    low: tuple[int, ...]
    high: tuple[int, ...]
    dtype: str
    quantized: Quantization | None
    axes: tuple[int, ...] = ()
    frame_axis: int = 0

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The least and the largest value of each element of a beat."""
        return tuple(zip(self.low, self.high, strict=True))

    @property
    def widths(self) -> list[int]:
        """The bits of each element."""
        return [width_of(*bounds) for bounds in self.bounds]

    def within(self, bounds: Sequence[tuple[int, int]]) -> Port:
        """The port with other bounds of a beat's elements."""
        low, high = zip(*bounds, strict=True) if bounds else ((), ())
        return replace(self, low=low, high=high)

    def over(self, spatial: Sequence[int], beats: int) -> Port:
        """The port where a frame comes in several beats: the bounds are those of a beat.

        Args:
            spatial: the axes that the beats run over, counted from the last one.
        """
        axes = tuple(axis + len(self.shape) for axis in spatial)
        low, high = (
            np.moveaxis(np.reshape(ends, self.shape), axes, range(len(axes))).reshape(beats, -1)
            for ends in (self.low, self.high)
        )
        low, high = low.min(axis=0).tolist(), high.max(axis=0).tolist()
        return replace(self, axes=axes, low=tuple(low), high=tuple(high))

    @cached_property
    def record(self) -> Record:
        """JSON data."""
        widths = self.widths
        offsets = [*accumulate(widths[:-1], initial=0)] if len(widths) <= 4096 else []
        return recorded(self) | {"widths": widths, "first_bits": offsets}

    @staticmethod
    def from_dict(data: Record) -> Port:
        """The inverse of `record`."""
        return Port(**restored(Port, data))

    def frame_bounds(self) -> tuple[Array, Array]:
        """The least and the largest value of each element of a frame, int64 [elements]."""
        beats = prod(self.shape) // len(self.low)
        ends = (np.array([[end] * beats], np.int64) for end in (self.low, self.high))
        low, high = (circuit_driver.from_beats(self.record, end)[0] for end in ends)
        return low, high


_KEYS = {
    "free": "batch",
    "axes": "beat_axes",
    "frame_axis": "batch_axis",
    "latency": "latency_cycles",
    "interval": "initiation_interval",
    "word": "stream_width",
    "loads": "load_bits",
}
"""The keys in JSON data of fields that have another name there."""


def recorded(of: Any) -> Record:
    """The fields of a data class as JSON data."""
    return {_KEYS.get(f.name, f.name): getattr(of, f.name) for f in fields(of)}


def restored(kind: Any, data: Record) -> Record:
    """The fields of a data class from JSON data; other entries are left out."""
    values = {f.name: data[_KEYS.get(f.name, f.name)] for f in fields(kind)}
    return {k: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for k, v in values.items()}


def quantized_range(quantized: DictionaryAttr) -> InputRange:
    """The integers that the caller makes of an argument, as `expose-integers` noted."""
    noted = data_of(quantized)
    return InputRange(noted["low"], noted["high"])


def takes_input_bits(function: func.FuncOp, index: int) -> bool:
    """Whether nothing but its type says which integers an argument holds."""
    quantized = _attributes(function.arg_attrs, index).get(QUANTIZED)
    return quantized is None and noted_bounds(function.args[index]) is None


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
    elif input_bits is not None and takes_input_bits(function, index):
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
    return port.within(bounds)


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
    type, given = tensor_type(value), attributes.get(NAME_ATTRIBUTE)
    quantized = attributes.get(QUANTIZED)
    sizes = list(type.get_shape())
    return Port(
        identifier(given.data if isinstance(given, StringAttr) else name),
        tuple(1 if n == DYNAMIC else n for n in sizes),
        DYNAMIC in sizes,
        (),
        (),
        numpy_dtype(type.element_type).name,
        data_of(quantized) if isinstance(quantized, DictionaryAttr) else None,
        frame_axis=sizes.index(DYNAMIC) if DYNAMIC in sizes else 0,
    ).within(bounds)


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
