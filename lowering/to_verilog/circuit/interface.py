"""What the streams of a circuit carry, noted on the module, and the numbers on them as bits.

Arrays become bytes as they do in the driver that a folder has (`host.circuit_driver`). Not here:
one tensor of them (`ports`), and simulation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr

from ....ir.arrays import Array
from ....ir.errors import LoweringError
from ..host import circuit_driver
from .framing import Framing
from .ports import Port, Record, recorded, restored, stream_width

INTERFACE = "verilog.interface"
"""The module attribute that holds what goes in and out, as JSON."""


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
        return recorded(self) | {
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
        sides = {side: tuple(map(Port.from_dict, data[side])) for side in ("inputs", "outputs")}
        return Interface(**restored(Interface, {**data, **sides}))


def _bits(ports: Sequence[Port]) -> int:
    """Of a beat."""
    return sum(sum(port.widths) for port in ports)


def _beat_bytes(framing: Framing | None, ports: Sequence[Port]) -> int:
    """That a beat takes in a frame."""
    return framing.beat_bytes if framing else stream_width(_bits(ports)) // 8


def noted_interface(module: ModuleOp) -> Interface:
    """The interface that `convert-ternary-to-hw` noted on a module.

    Raises:
        LoweringError: there is none.
    """
    noted = module.attributes.get(INTERFACE)
    if not isinstance(noted, StringAttr):
        raise LoweringError(
            f"the module has no attribute '{INTERFACE}'; run convert-ternary-to-hw first"
        )
    return Interface.from_dict(json.loads(noted.data))


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
