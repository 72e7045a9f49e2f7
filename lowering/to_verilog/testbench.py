"""A test bench that checks itself: frames in, results against those of the interpreter.

The first half of the frames goes through without waiting, which shows the latency and the interval
from frame to frame; then sender and receiver wait at random. A vector is a frame of one beat.
"""

from __future__ import annotations

from collections.abc import Sequence

from .circuit.interface import Interface
from .templates import filled

_SHOWN = 8192
"""Bits that Verilator shows of one argument."""

_STEADY = 4
"""So many frames without waiting, and those within the latency, show the interval."""


def testbench(interface: Interface, frames: int) -> str:
    """The test bench for so many frames, in the files NAME_inputs.mem and NAME_expected.mem.

    A network of stages marks the last beat of every frame; a single circuit passes the sender's
    mark on, which stands on the last vector here.
    """
    free = max(2, frames // 2)
    # Later results leave together with frames that the sender waits with.
    late = max(1, interface.latency // interface.interval) if interface.staged else 1
    shown = max(1, free - late)
    results, wanted = (
        _parts(signal, interface.output_width) for signal in ("m_axis_tdata", "expected[received]")
    )
    return filled(
        "testbench.v",
        of=interface,
        digits="%h" * len(results),
        result=", ".join(results),
        wanted=", ".join(wanted),
        frames=frames,
        free=free,
        shown=shown,
        steady=int(shown >= _STEADY - 1),
    )


def _parts(signal: str, width: int) -> list[str]:
    """A signal in parts that are shown one after the other, the highest bits first."""
    if width <= _SHOWN:
        return [signal]
    starts = reversed(range(0, width, _SHOWN))
    return [f"{signal}[{min(start + _SHOWN, width) - 1}:{start}]" for start in starts]


def memory(words: Sequence[int], bits: int) -> str:
    """Words as a file for `$readmemh`."""
    digits = -(-bits // 4)
    return "".join(f"{word:0{digits}x}\n" for word in words)


def vector_files(
    interface: Interface, inputs: Sequence[int], expected: Sequence[int]
) -> dict[str, str]:
    """The test bench and its two files of vectors, by name."""
    name = interface.name
    return {
        f"{name}_tb.v": testbench(interface, len(inputs) // interface.words_in),
        f"{name}_inputs.mem": memory(inputs, interface.input_width),
        f"{name}_expected.mem": memory(expected, interface.output_width),
    }
