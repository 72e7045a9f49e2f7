"""What the streams of a circuit carry, read from the module, and the numbers on them as bits.

Not here: quantisation and simulation, which are the caller's (`to_verilog.simulation` does both).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute

from ...dialects.elements import numpy_dtype
from ...ir.arrays import Array
from ...ir.errors import LoweringError
from ...passes.adder_graph.graph import width_of
from .circuit import INTERFACE
from .circuit.framing import Framing
from .circuit.ports import stream_width

Record = dict[str, Any]
"""JSON data: strings, numbers, truth values, lists of them, and further records."""

Quantization = Record
"""`scale` and `zero_point` (numbers or lists), `axis`, for inputs `low` and `high`, and `of_sign`
where the sign of an input is quantised."""


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
    def widths(self) -> list[int]:
        """The bits of each element."""
        return [width_of(*bounds) for bounds in zip(self.low, self.high, strict=True)]

    def to_dict(self) -> Record:
        """JSON data."""
        widths = self.widths
        offsets = [*accumulate(widths[:-1], initial=0)] if len(widths) <= 4096 else []
        return _record(self, _PORT) | {"widths": widths, "first_bits": offsets}

    @staticmethod
    def from_dict(data: Record) -> Port:
        """The inverse of `to_dict`."""
        return Port(**{field: _frozen(data[key]) for field, key in _PORT.items()})

    def beats(self, frames: Array) -> Array:
        """Frames [frames, elements] as beats [frames · beats, elements of a beat]."""
        if not self.axes:
            return frames
        moved = np.moveaxis(frames.reshape(len(frames), *self.shape), *self._sides)
        return moved.reshape(-1, len(self.low))

    def frames(self, beats: Array) -> Array:
        """The inverse of `beats`."""
        if not self.axes:
            return beats
        sizes = [n for axis, n in enumerate(self.shape) if axis not in self.axes]
        moved = beats.reshape(-1, *(self.shape[axis] for axis in self.axes), *sizes)
        return np.moveaxis(moved, *self._sides[::-1]).reshape(len(moved), -1)

    def frame_bounds(self) -> tuple[Array, Array]:
        """The least and the largest value of each element of a frame, int64 [elements]."""
        beats = prod(self.shape) // len(self.low)
        ends = (np.array([end] * beats, np.int64) for end in (self.low, self.high))
        low, high = (self.frames(end).reshape(-1) for end in ends)
        return low, high

    @property
    def _sides(self) -> tuple[list[int], list[int]]:
        """The axes of beats in an array of frames, and where they are before its elements."""
        return [axis + 1 for axis in self.axes], [index + 1 for index in range(len(self.axes))]


@dataclass(frozen=True)
class Interface:
    """A circuit from outside.

    Attributes:
        name: of the module with the streams.
        latency: cycles from the first beat of a frame to the last one of its result, while nobody
            waits.
        interval: cycles from frame to frame then.
        beats_in: of a frame that comes in.
        beats_out: of a frame of results.
        staged: whether it is a network of stages, which marks the last beat of every frame itself.
        pipeline: levels of adders between registers; 0 for no registers.
        word: bits of a word of the streams; 0 where a word is a beat.
        inputs: in `s_axis_tdata`, the first in the lowest bits.
        outputs: in `m_axis_tdata`.
        layers: what each layer became, see `LayerCount`.
        loads: bits of a piece of weights that are loaded; 0 where none are.
    """

    name: str
    latency: int
    interval: int
    beats_in: int
    beats_out: int
    staged: bool
    pipeline: int
    word: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    layers: tuple[Record, ...]
    loads: int = 0

    @property
    def streams(self) -> dict[str, int]:
        """The bits of the ports that depend on the program."""
        return {"s_axis_tdata": self.input_width, "m_axis_tdata": self.output_width}

    @property
    def input_width(self) -> int:
        """The bits of `s_axis_tdata`."""
        return self.word or stream_width(_bits(self.inputs))

    @property
    def output_width(self) -> int:
        """The bits of `m_axis_tdata`."""
        return self.word or stream_width(_bits(self.outputs))

    @property
    def framing_in(self) -> Framing | None:
        """How frames lie in the words that come in; `None` where a word is a beat."""
        return Framing(self.word, _bits(self.inputs), self.beats_in) if self.word else None

    @property
    def framing_out(self) -> Framing | None:
        """The same of words that go out."""
        return Framing(self.word, _bits(self.outputs), self.beats_out) if self.word else None

    @property
    def words_in(self) -> int:
        """The words of a frame that comes in."""
        return self.framing_in.words if self.framing_in else self.beats_in

    @property
    def words_out(self) -> int:
        """The words of a frame of results."""
        return self.framing_out.words if self.framing_out else self.beats_out

    def sent(self, inputs: Sequence[Array]) -> list[int]:
        """The words of frames that come in, from arrays as `pack` takes them.

        Raises:
            LoweringError: a number does not fit its element.
        """
        beats = pack(self.inputs, inputs)
        return self.framing_in.to_words(beats) if self.framing_in else beats

    def given(self, outputs: Sequence[Array]) -> list[int]:
        """The words of frames of results, from arrays as `pack` takes them."""
        beats = pack(self.outputs, outputs)
        return self.framing_out.to_words(beats) if self.framing_out else beats

    def taken(self, words: Sequence[int]) -> list[Array]:
        """The arrays in words of whole frames of results, as `unpack` gives them."""
        beats = self.framing_out.to_beats(words) if self.framing_out else words
        return unpack(self.outputs, beats)

    def to_dict(self) -> Record:
        """JSON data."""
        return _record(self, _INTERFACE) | {
            "s_axis_tdata_bits": self.input_width,
            "m_axis_tdata_bits": self.output_width,
            "words_in": self.words_in,
            "words_out": self.words_out,
            "beat_bytes_in": _beat_bytes(self.framing_in, self.inputs),
            "beat_bytes_out": _beat_bytes(self.framing_out, self.outputs),
            "inputs": [port.to_dict() for port in self.inputs],
            "outputs": [port.to_dict() for port in self.outputs],
        }

    @staticmethod
    def from_dict(data: Record) -> Interface:
        """The inverse of `to_dict`; other entries are left out."""
        own: Record = {field: _frozen(data[key]) for field, key in _INTERFACE.items()}
        own |= {side: tuple(map(Port.from_dict, data[side])) for side in ("inputs", "outputs")}
        return Interface(**own)


_PORT = {
    "name": "name",
    "shape": "shape",
    "free": "batch",
    "low": "low",
    "high": "high",
    "dtype": "dtype",
    "quantized": "quantized",
    "axes": "beat_axes",
    "frame_axis": "batch_axis",
}
"""For each field of a port its key in JSON data."""

_INTERFACE = {
    "name": "name",
    "latency": "latency_cycles",
    "interval": "initiation_interval",
    "beats_in": "beats_in",
    "beats_out": "beats_out",
    "staged": "staged",
    "pipeline": "pipeline",
    "word": "stream_width",
    "layers": "layers",
    "loads": "load_bits",
}
"""The same of an interface, but for its ports."""


def _bits(ports: Sequence[Port]) -> int:
    """Of a beat."""
    return sum(sum(port.widths) for port in ports)


def _beat_bytes(framing: Framing | None, ports: Sequence[Port]) -> int:
    """That a beat takes in a frame."""
    return framing.beat_bytes if framing else stream_width(_bits(ports)) // 8


def _record(of: Port | Interface, keys: Mapping[str, str]) -> Record:
    values = {key: getattr(of, field) for field, key in keys.items()}
    return {key: [*v] if isinstance(v, tuple) else v for key, v in values.items()}


def _frozen(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def noted_interface(module: ModuleOp) -> Interface:
    """The interface that `convert-ternary-to-hw` noted on a module.

    Raises:
        LoweringError: there is none.
    """
    noted = module.attributes.get(INTERFACE)
    if not isinstance(noted, DictionaryAttr):
        raise LoweringError(
            f"the module has no attribute '{INTERFACE}'; run convert-ternary-to-hw first"
        )
    entries = {key: _frozen(json_data(value)) for key, value in noted.data.items()}
    for side in ("inputs", "outputs"):
        ports = cast("ArrayAttr[DictionaryAttr]", noted.data[side])
        entries[side] = tuple(port_of(port) for port in ports)
    entries["staged"] = bool(entries["staged"])
    beats_in, beats_out = entries.pop("beats")
    return Interface(**entries, beats_in=beats_in, beats_out=beats_out)


def port_of(noted: DictionaryAttr) -> Port:
    """A port as `convert-ternary-to-hw` notes it."""
    entries = {key: _frozen(json_data(value)) for key, value in noted.data.items()}
    entries["free"], entries["dtype"] = (
        bool(entries["free"]),
        numpy_dtype(entries.pop("element")).name,
    )
    entries.setdefault("quantized", None)
    return Port(**entries)


def json_data(value: Attribute) -> Any:
    """An attribute as JSON data; types stay as they are."""
    match value:
        case StringAttr():
            return value.data
        case IntegerAttr() | FloatAttr():
            return value.value.data
        case ArrayAttr():
            return [json_data(item) for item in value]
        case DictionaryAttr():
            return {key: json_data(item) for key, item in value.data.items()}
        case DenseIntOrFPElementsAttr():
            values = list(value.get_values())
            return values if value.get_shape() else values[0]
        case _:
            return value


def pack(ports: Sequence[Port], arrays: Sequence[Array]) -> list[int]:
    """The words of a stream, one a beat, from integer arrays [frames, elements], one a port.

    Raises:
        LoweringError: a number does not fit its element.
    """
    parts = [port.beats(array) for port, array in zip(ports, arrays, strict=True)]
    words = [0] * (len(parts[0]) if parts else 1)
    place = 0
    for port, part in zip(ports, parts, strict=True):
        flat = part.astype(object)
        for column, (low, high) in enumerate(zip(port.low, port.high, strict=True)):
            width = width_of(low, high)
            for beat, value in enumerate(flat[:, column]):
                number = int(value)
                if not low <= number <= high:
                    raise LoweringError(
                        f"input '{port.name}' element {column} is {number}, expected "
                        f"{low} to {high}"
                    )
                words[beat] |= (number % (1 << width)) << place
            place += width
    return words


def unpack(ports: Sequence[Port], words: Sequence[int]) -> list[Array]:
    """The integer arrays int64 [frames, elements] in the words of a stream, one a port."""
    arrays: list[Array] = []
    place = 0
    for port in ports:
        columns = np.zeros((len(words), len(port.low)), np.int64)
        for column, (low, high) in enumerate(zip(port.low, port.high, strict=True)):
            width = width_of(low, high)
            for beat, word in enumerate(words):
                number = (word >> place) % (1 << width)
                negative = low < 0 and number >> (width - 1)
                columns[beat, column] = number - (1 << width) if negative else number
            place += width
        arrays.append(port.frames(columns))
    return arrays


def frames_of(port: Port, x: Array) -> Array:
    """Integers in the program's shape as int64 [frames, elements]."""
    if port.free:
        x = np.moveaxis(x, port.frame_axis, 0)
    return x.reshape(len(x) if port.free else 1, prod(port.shape)).astype(np.int64)


def shaped(port: Port, frames: Array) -> Array:
    """The inverse of `frames_of`."""
    if not port.free:
        return frames[0].reshape(port.shape)
    sizes = [n for axis, n in enumerate(port.shape) if axis != port.frame_axis]
    return np.moveaxis(frames.reshape(len(frames), *sizes), 0, port.frame_axis)
