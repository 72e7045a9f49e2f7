"""Frames to a circuit and its results back, over a serial port or by PYNQ's DMA.

    from circuit_driver import SerialCircuit, PynqCircuit
    with SerialCircuit("/dev/ttyUSB1") as circuit:          # a board with a serial port
        (y,) = circuit.run(x)
    circuit = PynqCircuit("model.bit")                      # a bitstream and its .hwh
    (y,) = circuit.run(x)
    print(circuit.registers.read("frames_out"))
    circuit.load("other/circuit")    # weights of another model of the same layout, if compiled so

`report.json` beside this file, or in the folder above, says what the streams carry. Arrays have the
program's shape; an axis that counts frames may have any length. Floats are quantised, and results
dequantised, where the report says so.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
LOADED = b"\6"  # answers a load on a serial port
ALIGNED = 64  # bytes that DMA buffers are padded to


def find(name: str) -> Any:
    """JSON data of a file beside this one or in the folder above."""
    for folder in (HERE, HERE.parent, HERE.parent / "ip"):
        if (folder / name).exists():
            return json.loads((folder / name).read_text(encoding="utf-8"))
    raise FileNotFoundError(f"'{name}' is neither in {HERE} nor above: copy it there")


def load_of(folder: str | Path) -> tuple[bytes, Any]:
    """The weights of a compiled folder for the circuit of this one, and the folder's report.

    Raises:
        ValueError: they are those of another circuit, or not whole.
    """
    place = Path(folder)
    own = find("weights.json")
    other = json.loads((place / "host" / "weights.json").read_text(encoding="utf-8"))
    if own["layout"] != other["layout"]:
        raise ValueError(
            f"'{folder}' is of another circuit: compile the model with the options, names and "
            "shapes of this one (weights of fewer bits, other bounds or unfolded layers differ too)"
        )
    content = (place / "host" / "weights.bin").read_bytes()
    if hashlib.sha256(content).hexdigest() != other["sha256"]:
        raise ValueError(f"the weights in '{folder}' are not those that it was compiled with")
    return content, json.loads((place / "report.json").read_text(encoding="utf-8"))


class Frames:
    """What a frame is in bytes.

    Args:
        report: `report.json` as data.
    """

    def __init__(self, report: Any) -> None:
        self.report = report
        self.word = (report["stream_width"] or report["s_axis_tdata_bits"]) // 8
        self.bytes_in = report["words_in"] * self.word
        self.word_out = (report["stream_width"] or report["m_axis_tdata_bits"]) // 8
        self.bytes_out = report["words_out"] * self.word_out

    def encode(self, *inputs: Any) -> Any:
        """Arrays as bytes, uint8 [frames, bytes of a frame].

        Raises:
            ValueError: other arrays are expected, or a number is out of range.
        """
        ports = self.report["inputs"]
        if len(inputs) != len(ports):
            raise ValueError(f"expected {len(ports)} arrays, got {len(inputs)}")
        each = [frames_of(port, quantized(port, x)) for port, x in zip(ports, inputs, strict=True)]
        return packed(ports, each, self.report["beat_bytes_in"], self.bytes_in)

    def decode(self, data: Any) -> list[Any]:
        """Arrays from the bytes of whole frames."""
        ports = self.report["outputs"]
        frames = np.frombuffer(bytes(data), np.uint8).reshape(-1, self.bytes_out)
        each = unpacked(ports, frames, self.report["beats_out"], self.report["beat_bytes_out"])
        return [dequantized(port, x) for port, x in zip(ports, each, strict=True)]


def quantized(port: Any, x: Any) -> Any:
    """The integers of an input in the program's shape."""
    how = port["quantized"]
    if how is None:
        return np.asarray(x)
    if "thresholds" in how:
        reached = np.array(how["thresholds"], np.float32)
        return np.searchsorted(reached, np.asarray(x, np.float32), side="right")
    real = np.sign(x) if how.get("of_sign") else np.asarray(x)
    with np.errstate(over="ignore"):  # what is too large comes to the end of the range
        steps = np.rint(real / _along(how, "scale", real.ndim))
        steps = steps + _along(how, "zero_point", real.ndim).astype(np.float32)
    return np.clip(np.nan_to_num(steps.astype(np.float64)), how["low"], how["high"])


def dequantized(port: Any, frames: Any) -> Any:
    """The values of an output in the program's shape, from its integers [frames, elements]."""
    x, how = shaped(port, frames), port["quantized"]
    if how is None:
        return x.astype(port["dtype"])
    if "factor" in how:
        x = (x * np.array(how["factor"]) + np.array(how["addend"])).astype(port["dtype"])
    zero = _along(how, "zero_point", x.ndim)
    return (x.astype(np.int64) - zero).astype(np.float32) * _along(how, "scale", x.ndim)


def _along(how: Any, name: str, rank: int) -> Any:
    value = np.array(how[name], np.float32 if name == "scale" else np.int64)
    shape = [1] * rank
    if value.ndim:
        shape[how["axis"]] = -1
    return value.reshape(shape) if value.ndim else value


def frames_of(port: Any, x: Any) -> Any:
    """Integers in the program's shape as int64 [frames, elements]."""
    if port["batch"]:
        x = np.moveaxis(x, port["batch_axis"], 0)
    return np.asarray(x, np.int64).reshape(-1, np.prod(port["shape"], dtype=int))


def shaped(port: Any, frames: Any) -> Any:
    """The inverse of `frames_of`."""
    shape = port["shape"]
    if port["batch"]:
        sizes = [n for axis, n in enumerate(shape) if axis != port["batch_axis"]]
        return np.moveaxis(frames.reshape(len(frames), *sizes), 0, port["batch_axis"])
    return frames.reshape(-1, *shape[1:]) if len(frames) > 1 else frames.reshape(shape)


def beats_of(port: Any, frames: Any) -> Any:
    """Integers [frames, elements] as [frames, beats, elements of a beat]."""
    order, elements = _order(port), len(port["low"])
    return frames[:, order].reshape(len(frames), len(order) // elements, elements)


def from_beats(port: Any, beats: Any) -> Any:
    """The inverse of `beats_of`."""
    order = _order(port)
    frames = np.empty((len(beats), len(order)), beats.dtype)
    frames[:, order] = beats.reshape(frames.shape)
    return frames


def _order(port: Any) -> Any:
    """The elements of a frame in the order of its beats."""
    shape, axes = port["shape"], port["beat_axes"]
    places = np.zeros(shape, np.int64)
    places.reshape(-1)[:] = range(places.size)
    return np.moveaxis(places, axes, range(len(axes))).reshape(-1)


def packed(ports: Any, arrays: Any, beat: int, frame: int) -> Any:
    """Frames in bytes, uint8 [frames, `frame`], of integers [frames, elements], one array a port.

    Args:
        ports: side by side in a beat, the first in the lowest bits.
        arrays: of each.
        beat: the bytes of a beat.
        frame: those of a frame.

    Raises:
        ValueError: a number is out of range.
    """
    each = [beats_of(port, x) for port, x in zip(ports, arrays, strict=True)]
    bits = np.zeros((*(each[0].shape[:2] if each else (1, 1)), beat * 8), np.uint8)
    place = 0
    for port, values in zip(ports, each, strict=True):
        wrong = (values < port["low"]) | (values > port["high"])
        if wrong.any():
            *at, k = np.argwhere(wrong)[0]
            raise ValueError(
                f"'{port['name']}' element {k} is {values[(*at, k)]}, expected {port['low'][k]} to "
                f"{port['high'][k]}"
            )
        for k, width in enumerate(port["widths"]):
            bits[..., place : place + width] = values[..., k, None] >> np.arange(width) & 1
            place += width
    rows = np.packbits(bits, axis=2, bitorder="little").reshape(len(bits), -1)
    return np.pad(rows, ((0, 0), (0, frame - rows.shape[1])))


def unpacked(ports: Any, frames: Any, beats: int, beat: int) -> list[Any]:
    """Integers int64 [frames, elements], one array a port, of frames in bytes; see `packed`."""
    raw = frames[:, : beats * beat].reshape(len(frames), beats, beat)
    bits = np.unpackbits(raw, axis=2, bitorder="little")
    results: list[Any] = []
    place = 0
    for port in ports:
        values = np.zeros((*bits.shape[:2], len(port["low"])), np.int64)
        for k, (low, width) in enumerate(zip(port["low"], port["widths"], strict=True)):
            places = 1 << np.arange(width, dtype=np.int64)
            if low < 0:
                places[-1] *= -1
            values[..., k] = bits[..., place : place + width] @ places
            place += width
        results.append(from_beats(port, values))
    return results


class SerialCircuit:
    """A circuit behind a serial port (pyserial).

    Args:
        port: its name, as `/dev/ttyUSB1`.
        baud: bits a second.
        open_port: what opens it; by default `serial.Serial`.
    """

    def __init__(
        self, port: str, baud: int = 115200, open_port: Callable[..., Any] | None = None
    ) -> None:
        if open_port is None:
            import serial

            open_port = serial.Serial
        self.frames = Frames(find("report.json"))
        self.baud = baud
        self.line = open_port(port, baud, timeout=10)
        self.reset()

    def reset(self) -> None:
        """Reset the circuit by a break."""
        self._break()
        if self.frames.report["load_bits"]:
            self.line.write(b"\0")

    def _break(self) -> None:
        self.line.send_break(0.05)
        self.line.reset_input_buffer()

    def load(self, folder: str | Path) -> None:
        """Load the weights of a model that was compiled to `folder`; see `load_of`.

        Raises:
            TimeoutError: the circuit does not answer.
        """
        content, report = load_of(folder)
        self._break()
        self.line.write(b"\1" + content)
        self.line.timeout = 10 + 10 * len(content) / self.baud
        answer = self.line.read(1)
        self.line.timeout = 10
        if answer != LOADED:
            raise TimeoutError(f"the load is not answered: {answer!r} came")
        self.line.write(b"\0")
        self.frames = Frames(report)

    def run(self, *inputs: Any) -> list[Any]:
        """Send frames one after another, each when the result of the one before is there.

        Raises:
            TimeoutError: a result does not come.
        """
        answers = bytearray()
        for frame in self.frames.encode(*inputs):
            self.line.write(frame.tobytes())
            answer = self.line.read(self.frames.bytes_out)
            if len(answer) != self.frames.bytes_out:
                raise TimeoutError(f"{len(answer)} of {self.frames.bytes_out} bytes came")
            answers += answer
        return self.frames.decode(answers)

    def __enter__(self) -> SerialCircuit:
        return self

    def __exit__(self, *error: object) -> None:
        self.line.close()


class Registers:
    """The registers of a circuit with AXI4-Lite.

    Args:
        read: of a word, by its address.
        write: of a word.
    """

    def __init__(self, read: Callable[[int], int], write: Callable[[int, int], Any]) -> None:
        self.map = {entry["name"]: entry for entry in find("registers.json")}
        self._read, self._write = read, write

    def read(self, name: str) -> int:
        """A register."""
        return self._read(self.map[name]["offset"])

    def fields(self, name: str) -> dict[str, int]:
        """The bits of a register by name."""
        value = self.read(name)
        return {f["name"]: value >> f["bit"] & 1 for f in self.map[name]["fields"]}

    def write(self, name: str, **fields: int) -> None:
        """Write bits of a register; others stay."""
        value = self.read(name)
        for entry in self.map[name]["fields"]:
            if entry["name"] in fields:
                value = value & ~(1 << entry["bit"]) | fields[entry["name"]] << entry["bit"]
        self._write(self.map[name]["offset"], value)

    def load(self, content: bytes, bits: int, about: Any, seconds: float) -> None:
        """Load weights in pieces of so many bits; `about` is what `weights.json` holds.

        Raises:
            ValueError: the circuit is another one.
            TimeoutError: a frame stays in the circuit for so many seconds.
            RuntimeError: not all of them came in.
        """
        if self.read("layout") != int(about["layout"][:8], 16):
            raise ValueError("the bitstream is not that of this folder")
        self.write("control", run=0)
        end = time.monotonic() + seconds
        while self.fields("status")["busy"]:
            if time.monotonic() > end:
                raise TimeoutError(f"a frame is still in the circuit after {seconds:g} s")
        self._write(self.map["load"]["offset"], 1)
        place, size = self.map["load_data"]["offset"], bits // 8
        for start in range(0, len(content), size):
            self._write(place, int.from_bytes(content[start : start + size], "little"))
        taken = self.read("load")
        if taken != about["pieces"] or self.fields("status")["loading"]:
            raise RuntimeError(f"{taken} of {about['pieces']} pieces came in: load them again")
        self.write("control", run=1)


class PynqCircuit:
    """A circuit with registers and a DMA in an overlay of PYNQ.

    Args:
        bitfile: the bitstream; its `.hwh` stands beside it.
        pynq: the module; by default it is imported.
    """

    def __init__(self, bitfile: str, pynq: Any = None) -> None:
        if pynq is None:
            import pynq  # pyright: ignore[reportMissingImports]
        self._allocate = pynq.allocate
        overlay = pynq.Overlay(bitfile)
        self.dma = overlay.dma
        self.registers = Registers(overlay.network.read, overlay.network.write)
        self.frames = Frames(find("report.json"))

    def load(self, folder: str | Path, seconds: float = 10.0) -> None:
        """Load the weights of a model that was compiled to `folder`, once the circuit is idle.

        See `load_of` and `Registers.load`.
        """
        content, report = load_of(folder)
        registers = self.registers
        registers.load(content, report["load_bits"], find("weights.json"), seconds)
        self.frames = Frames(report)

    def run(self, *inputs: Any) -> list[Any]:
        """Send frames as one packet, and receive the packet of their results."""
        sent = self.frames.encode(*inputs)
        given = self._allocate(shape=(sent.size,), dtype=np.uint8)
        # All bytes of the last word of a frame count for the DMA but those that tkeep leaves out.
        size = len(sent) * self.frames.bytes_out
        taken = self._allocate(shape=(-(-size // ALIGNED) * ALIGNED,), dtype=np.uint8)
        given[:] = sent.reshape(-1)
        self.dma.recvchannel.transfer(taken, 0, size)
        self.dma.sendchannel.transfer(given)
        self.dma.sendchannel.wait()
        self.dma.recvchannel.wait()
        results = self.frames.decode(np.array(taken[:size]))
        for buffer in (given, taken):
            buffer.freebuffer()
        return results
