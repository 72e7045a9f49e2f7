"""Programs on a simulated circuit: what `triton verify -t verilog` runs.

Inputs are quantised and results dequantised here as the circuit's report says; between the two
every bit is that of the simulated registers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError
from ...runtime.verilog import simulate
from ..artifact import Artifact
from ..engine import ArtifactEngine
from .circuit.interface import Interface, Record
from .host.circuit_driver import dequantized
from .testbench import vector_files

_LONG = 3_000_000
"""Cycles from which on a simulator gains by optimising a circuit more than that takes."""

_ICARUS = 1e-8
"""Seconds that Icarus Verilog takes for a cycle of a circuit, a character of its Verilog."""

_VERILATOR = 5.0, 2.5e-5
"""Seconds that Verilator takes to begin, and for each character."""


def run_verilog(
    artifact: Artifact, inputs: Sequence[Array], simulator: str | None = None
) -> tuple[str, list[Array]]:
    """Simulate a circuit on the inputs of the program; the simulator, and the program's results.

    Args:
        artifact: a folder of the target `verilog`.
        inputs: of `@forward`, in order; a free axis (of trains that after time) is one frame an
            element.
        simulator: see `simulate_words`.

    Raises:
        BackendError: no simulator, several frames for an input that has one, or the circuit does
            not finish as it should.
        LoweringError: an input is out of the range that the circuit was made for.
    """
    data = json.loads(artifact.text("report.json"))
    interface = Interface.from_dict(data)
    rtl = {
        Path(name).name: artifact.text(name) for name in artifact.files if name.startswith("rtl/")
    }
    for port, x in zip(interface.inputs, inputs, strict=True):
        if not port.free and x.size != prod(port.shape):
            raise BackendError(
                f"input '{port.name}' has the shape {list(x.shape)}, and the circuit takes "
                f"{list(port.shape)} alone: its batch is fixed"
            )
    words = interface.sent(interface.frames(inputs))
    wanted = len(words) // interface.words_in * interface.words_out
    run = simulate_words(rtl, interface, words, [0] * wanted, simulator)
    if len(run.words) != wanted or run.complaints:
        said = " ".join(run.complaints[-1:])
        raise BackendError(f"the circuit gave {len(run.words)} of {wanted} beats: {said}")
    beats = [word for word in run.words if word is not None]
    if len(beats) != wanted:
        raise BackendError("the circuit gave undefined bits")
    return run.engine, received(interface, interface.taken(beats), data["left_out"])


class VerilogEngine(ArtifactEngine):
    """A circuit in a simulator."""

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Engine.run`.

        Raises:
            LoweringError: an input is out of the range that the circuit was made for.
        """
        self.name, outputs = run_verilog(self.artifact, inputs)
        return outputs


def received(
    interface: Interface, outputs: Sequence[Array], left_out: Sequence[Sequence[Record]]
) -> list[Array]:
    """What the receiver makes of results: the values of the program.

    Args:
        interface: of the circuit.
        outputs: int64 [frames, elements], one array a result.
        left_out: for each result what `passes.expose_logits` left to the receiver, if anything.
    """
    left = left_out or [[] for _ in outputs]
    return [
        _finished(dequantized(port.record, x if port.free else x[:1]), steps)
        for port, x, steps in zip(interface.outputs, outputs, left, strict=True)
    ]


def _finished(x: Array, steps: Sequence[Record]) -> Array:
    """What the receiver does with a result, see `passes.expose_logits`."""
    for step in steps:
        match step["op"]:
            case "tensor.quantize":
                levels = np.rint(x / np.float32(step["scale"])) + step["zero_point"]
                x = np.clip(levels, step["low"], step["high"]).astype(step["dtype"])
            case "tensor.dequantize":
                zero = x.astype(np.int64) - step["zero_point"]
                x = zero.astype(np.float32) * np.float32(step["scale"])
            case "tensor.sigmoid":
                with np.errstate(over="ignore"):  # of large numbers: 1 / inf is 0
                    x = (1 / (1 + np.exp(-x))).astype(x.dtype)
            case "tensor.softmax" | "tensor.log_softmax":
                shifted = x - x.max(axis=step["axis"], keepdims=True)
                total = np.exp(shifted).sum(axis=step["axis"], keepdims=True)
                is_log = step["op"] == "tensor.log_softmax"
                x = shifted - np.log(total) if is_log else np.exp(shifted) / total
            case "tensor.convert":
                x = x.astype(step["dtype"])
            case other:
                raise BackendError(f"no receiver here does '{other}'")
    return x


@dataclass(frozen=True)
class Simulated:
    """What came out of a simulated circuit.

    Attributes:
        engine: the simulator and its version.
        words: the beats of the results; `None` for one with undefined bits. Fewer than expected
            where the circuit stood still.
        complaints: of the test bench, about latency, interval and last beats.
    """

    engine: str
    words: list[int | None]
    complaints: list[str]


def simulate_words(
    rtl: Mapping[str, str],
    interface: Interface,
    words: Sequence[int],
    expected: Sequence[int],
    simulator: str | None = None,
) -> Simulated:
    """Send words through a circuit: half of them without waiting, then with random waits.

    Args:
        rtl: Verilog by file name.
        interface: of the circuit.
        words: what goes in, whole frames; a single one goes in twice.
        expected: of the results; the test bench speaks of those that differ.
        simulator: see `runtime.verilog.simulate`; by default the one that takes less time.

    Raises:
        BackendError: no simulator, or it refuses the files.
    """
    once = len(words) == interface.words_in
    times = 2 if once else 1
    tests = vector_files(interface, [*words] * times, [*expected] * times)
    cycles = len(words) // interface.words_in * interface.interval
    size = sum(map(len, rtl.values()))
    if simulator is None and cycles * size * _ICARUS > _VERILATOR[0] + size * _VERILATOR[1]:
        simulator = "verilator" if which("verilator") else None
    with TemporaryDirectory() as folder:
        top = f"{interface.name}_tb"
        run = simulate({**rtl, **tests}, top, Path(folder), simulator, short=cycles < _LONG)
        written = Path(folder) / f"{interface.name}_results.mem"
        lines = written.read_text(encoding="utf-8").split() if written.exists() else []
    digits = set("0123456789abcdef")
    beats = [int(line, 16) if set(line) <= digits else None for line in lines]
    said = ("latency is", "interval is", "tlast", "tkeep")
    complaints = [line for line in run.output.splitlines() if any(text in line for text in said)]
    whole = not once or len(beats) == 2 * len(expected)
    return Simulated(run.engine, beats[: len(expected)] if whole else [], complaints)
