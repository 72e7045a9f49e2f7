"""Frames for a circuit by chance, and what the interpreter gives for frames.

Not here: the test bench that sends and compares them (`testbench`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ...dialects.interpret import run_module
from ...ir.arrays import Array
from .circuit.interface import Interface
from .host.circuit_driver import frames_of, shaped


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
