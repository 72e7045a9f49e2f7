"""A test bench that checks itself: frames in, results against those of the interpreter.

The first half of the frames goes through without waiting, which shows the latency and the interval
from frame to frame; then sender and receiver wait at random. A vector is a frame of one beat. The
same vectors are a test for cocotb 2 on the AXI models of `cocotbext-axi`, which needs nothing of
ours. Frames are drawn by chance, and the interpreter says what they give.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ...dialects.interpret import run_module
from ...ir.arrays import Array
from .circuit.interface import Interface
from .host.circuit_driver import frames_of, shaped
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


def cocotb_files(interface: Interface, *, registers: bool) -> dict[str, str]:
    """The test and its makefile, by name; they stand beside the files of vectors.

    Args:
        interface: of the circuit.
        registers: whether the module with AXI4-Lite registers is tested, with the circuit in it.
    """
    name = interface.name
    top = f"{name}_axi" if registers else name
    channels = {"m_axis_t": ["data", *(["keep"] if interface.word else []), "last"]}
    if registers:
        channels |= {"s_axi_b": ["resp"], "s_axi_r": ["data", "resp"]}
    test = filled("test.py.txt", of=interface, top=top, channels=channels, registers=registers)
    if registers:
        test += filled("test_registers.py.txt")
        test += filled("test_loads.py.txt") if interface.loads else ""
    return {f"test_{name}.py": test, "cocotb.mk": filled("cocotb.mk", name=name, top=top)}


def random_inputs(interface: Interface, frames: int, seed: int | Sequence[int]) -> list[Array]:
    """Integers within the bounds of the inputs, int64 [frames, elements], one array a port.

    The first frame has every element at its least, the second at its largest value.
    """
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for port in interface.inputs:
        low, high = port.frame_bounds()
        array = rng.integers(low, high, (frames, len(low)), np.int64, endpoint=True)
        array[0], array[1] = low, high
        arrays.append(array)
    return arrays


def golden(module: ModuleOp, interface: Interface, inputs: Sequence[Array]) -> list[Array]:
    """What the interpreter gives for a program: int64 [frames, elements], one array a result.

    Args:
        module: with the function; beside the circuit, or without one.
        interface: of the circuit.
        inputs: of the same form, one array an input.
    """
    together = all(port.free for port in (*interface.inputs, *interface.outputs))
    count = len(inputs[0]) if inputs else 1
    parts = [slice(None)] if together else [slice(n, n + 1) for n in range(count)]
    rows: list[list[Array]] = []
    for part in parts:
        arrays = [
            shaped(port.record, x[part]).astype(port.dtype)
            for port, x in zip(interface.inputs, inputs, strict=True)
        ]
        results = run_module(module, arrays)
        ends = zip(interface.outputs, results, strict=True)
        rows.append([frames_of(port.record, y) for port, y in ends])
    return [np.concatenate(column) for column in zip(*rows, strict=True)]
