"""What the streams of a circuit carry, read from the module, and the numbers on them as bits.

Arrays become bytes as they do in the driver that a folder has (`host.circuit_driver`). Not here:
simulation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp

from ...dialects.elements import numpy_dtype
from ...ir.arrays import Array
from ...ir.attribute_data import data_of
from ...ir.errors import LoweringError
from ...passes.adder_graph.graph import width_of
from .circuit import INTERFACE
from .circuit.framing import Framing
from .circuit.ports import stream_width
from .host import circuit_driver

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

    @cached_property
    def record(self) -> Record:
        """JSON data."""
        widths = self.widths
        offsets = [*accumulate(widths[:-1], initial=0)] if len(widths) <= 4096 else []
        return _record(self, _PORT) | {"widths": widths, "first_bits": offsets}

    @staticmethod
    def from_dict(data: Record) -> Port:
        """The inverse of `record`."""
        return Port(**{field: _frozen(data[key]) for field, key in _PORT.items()})

    def frame_bounds(self) -> tuple[Array, Array]:
        """The least and the largest value of each element of a frame, int64 [elements]."""
        beats = prod(self.shape) // len(self.low)
        ends = (np.array([[end] * beats], np.int64) for end in (self.low, self.high))
        low, high = (circuit_driver.from_beats(self.record, end)[0] for end in ends)
        return low, high


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

    def frames(self, inputs: Sequence[Array]) -> list[Array]:
        """The program's inputs as int64 [frames, elements], as many frames of each."""
        each = [
            circuit_driver.frames_of(port.record, circuit_driver.quantized(port.record, x))
            for port, x in zip(self.inputs, inputs, strict=True)
        ]
        count = max((len(x) for x in each), default=1)
        return [np.broadcast_to(x, (count, x.shape[1])) for x in each]

    def sent(self, inputs: Sequence[Array]) -> list[int]:
        """The words of frames that come in, from int64 [frames, elements], one array a port.

        Raises:
            LoweringError: a number does not fit its element.
        """
        return _words(self.inputs, inputs, self.framing_in, self.input_width // 8)

    def given(self, outputs: Sequence[Array]) -> list[int]:
        """The words of frames of results, from arrays as `sent` takes them."""
        return _words(self.outputs, outputs, self.framing_out, self.output_width // 8)

    def taken(self, words: Sequence[int]) -> list[Array]:
        """The arrays in words of whole frames of results, as `given` takes them."""
        size = self.output_width // 8
        data = b"".join(word.to_bytes(size, "little") for word in words)
        frames = np.frombuffer(data, np.uint8).reshape(-1, self.words_out * size)
        records = [port.record for port in self.outputs]
        beat = _beat_bytes(self.framing_out, self.outputs)
        return circuit_driver.unpacked(records, frames, self.beats_out, beat)

    def to_dict(self) -> Record:
        """JSON data."""
        return _record(self, _INTERFACE) | {
            "s_axis_tdata_bits": self.input_width,
            "m_axis_tdata_bits": self.output_width,
            "words_in": self.words_in,
            "words_out": self.words_out,
            "beat_bytes_in": _beat_bytes(self.framing_in, self.inputs),
            "beat_bytes_out": _beat_bytes(self.framing_out, self.outputs),
            "inputs": [port.record for port in self.inputs],
            "outputs": [port.record for port in self.outputs],
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
    entries = {key: _frozen(data_of(value)) for key, value in noted.data.items()}
    for side in ("inputs", "outputs"):
        ports = cast("ArrayAttr[DictionaryAttr]", noted.data[side])
        entries[side] = tuple(port_of(port) for port in ports)
    entries["staged"] = bool(entries["staged"])
    beats_in, beats_out = entries.pop("beats")
    return Interface(**entries, beats_in=beats_in, beats_out=beats_out)


def port_of(noted: DictionaryAttr) -> Port:
    """A port as `convert-ternary-to-hw` notes it."""
    entries = {key: _frozen(data_of(value)) for key, value in noted.data.items()}
    entries["free"], entries["dtype"] = (
        bool(entries["free"]),
        numpy_dtype(entries.pop("element")).name,
    )
    entries.setdefault("quantized", None)
    return Port(**entries)


def _words(
    ports: Sequence[Port], arrays: Sequence[Array], framing: Framing | None, size: int
) -> list[int]:
    """The words, of `size` bytes, of frames on a stream."""
    beat = _beat_bytes(framing, ports)
    beats = [prod(port.shape) // len(port.low) for port in ports] or [1]
    frame = framing.words * size if framing else beats[0] * size
    try:
        rows = circuit_driver.packed([port.record for port in ports], arrays, beat, frame)
    except ValueError as error:
        raise LoweringError(f"input {error}") from None
    data = rows.tobytes()
    starts = range(0, len(data), size)
    return [int.from_bytes(data[start : start + size], "little") for start in starts]
