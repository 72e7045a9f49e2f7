"""A circuit in simulation beside the numbers that it has to give.

Not here: which circuits and which numbers (`layer_verification`, `whole_circuit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..ir.arrays import Array
from ..lowering.to_verilog.circuit.interface import Interface
from ..lowering.to_verilog.simulation import simulate_words
from .layer_results import Difference

_SHOWN = 4096
"""Numbers of a vector that are told, at most."""


@dataclass(frozen=True)
class Compared:
    """What a simulation found.

    Attributes:
        engine: the simulator.
        outputs: int64 [frames, elements], one array a result; of the frames that came out whole.
        difference: the first one.
        complaint: what else is wrong: beats that never came, or what the test bench says.
    """

    engine: str
    outputs: list[Array]
    difference: Difference | None
    complaint: str | None


def compared(
    rtl: Mapping[str, str],
    interface: Interface,
    inputs: Sequence[Array],
    expected: Sequence[Array],
    random: int,
    simulator: str | None = None,
) -> Compared:
    """Send frames through a circuit, and compare what comes out.

    Args:
        rtl: Verilog by file name.
        interface: of the circuit.
        inputs: int64 [frames, elements], one array an input.
        expected: of the same form, one array a result.
        random: how many frames are random; samples follow them.
        simulator: see `simulate_words`.

    Raises:
        BackendError: no simulator, or it refuses the circuit.
    """
    wanted = len(inputs[0]) * interface.words_out
    run = simulate_words(
        rtl,
        interface,
        interface.sent(inputs),
        interface.given(expected),
        simulator,
    )
    complaint = run.complaints[0] if run.complaints else None
    if len(run.words) < wanted:
        complaint = f"only {len(run.words):,} of {wanted:,} beats came"
    frames = len(run.words) // interface.words_out
    words = run.words[: frames * interface.words_out]
    outputs = interface.taken([word or 0 for word in words])
    holes = np.array([w is None for w in words], bool).reshape(frames, interface.words_out)
    undefined: Array = holes.max(axis=1)
    difference = _difference(interface, inputs, expected, outputs, undefined, random)
    return Compared(run.engine, outputs, difference, complaint)


def _difference(
    interface: Interface,
    inputs: Sequence[Array],
    expected: Sequence[Array],
    outputs: Sequence[Array],
    undefined: Array,
    random: int,
) -> Difference | None:
    """The first frame that differs, among those that came out."""
    frames = len(undefined)
    if not frames:
        return None
    wrong: list[Array] = [
        undefined[:, None] | (y[:frames] != z) for y, z in zip(expected, outputs, strict=True)
    ]
    differs: Array = np.any([rows.any(axis=1) for rows in wrong], axis=0)
    if not differs.any():
        return None
    vector = int(differs.argmax())
    side = next(index for index, rows in enumerate(wrong) if rows[vector].any())
    port, element = interface.outputs[side], int(wrong[side][vector].argmax())
    corners = {0: "least", 1: "largest"}
    shown = sum(x.shape[1] for x in inputs) <= _SHOWN
    return Difference(
        vector,
        corners.get(vector, "random") if vector < random else "sample",
        port.name,
        tuple(int(n) for n in np.unravel_index(element, port.shape)),
        int(expected[side][vector, element]),
        None if undefined[vector] else int(outputs[side][vector, element]),
        int(differs.sum()),
        tuple(tuple(x[vector].tolist()) for x in inputs) if shown else (),
    )
