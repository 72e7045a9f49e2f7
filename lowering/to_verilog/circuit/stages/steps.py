"""Stages on the steps of a frame: delays, the last step, and the same beat at every step.

Sums, maxima and minima over steps are accumulations (`frames`), neurons stand in `neurons`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from .....dialects import spike
from .....ir.arrays import Array
from .....passes.analysis.compile_time import literal_value
from .body import StageBody
from .stage import Layout, Stage


def delays_of(op: spike.DelayOp, shape: Sequence[int]) -> Array:
    """The steps by which each element of a step of that shape is late, int64."""
    steps = op.steps.value.data
    delays = np.full((), steps) if op.delays is None else literal_value(op.delays)
    assert delays is not None
    return np.broadcast_to(delays.astype(np.int64), shape)


def delay_stage(name: str, input: Layout, places: Sequence[int], delays: Sequence[int]) -> Stage:
    """Each element so many steps late, and 0 in the first steps of a frame.

    Args:
        places: the elements that are wanted, in order.
        delays: of each of them.
    """
    steps = input.beats
    late = [delay < steps for delay in delays]
    bounds = [
        (0, 0)
        if not reaches
        else input.bounds[place]
        if not delay
        else (min(input.bounds[place][0], 0), max(input.bounds[place][1], 0))
        for place, delay, reaches in zip(places, delays, late, strict=True)
    ]
    output = Layout(tuple(bounds), steps)
    body = StageBody(input)
    valid, ready, moved = body.taking()
    last = body.counter(steps, moved, "step").last
    parts: list[SSAValue] = []
    for index, (place, delay, width) in enumerate(zip(places, delays, output.widths, strict=True)):
        if not late[index]:
            parts.append(body.constant(0, width))
            continue
        value = body.widened(body.in_data[0], input, place, bounds[index])
        for step in range(delay):
            register = body.state(width, f"late_{index}_{step}", 0)
            body.drive(register, body.select(last, body.constant(0, width), value), moved)
            value = register
        parts.append(value)
    data = body.state(output.width, "late")
    body.drive(data, body.joined(parts), moved)
    body.drive(valid, body.in_valid[0], ready)
    comment = f"Delays of up to {max(delays, default=0)} of {steps} steps"
    return body.stage(name, comment, output, (ready, data, valid))


def last_stage(name: str, input: Layout) -> Stage:
    """The last beat of a frame."""
    steps = input.beats
    body = StageBody(input)
    valid, ready, moved = body.taking()
    last = body.counter(steps, moved, "step").last
    data = body.register(body.in_data[0], moved, "data")
    body.drive(valid, body.all_of(moved, last), ready)
    comment = f"The last of {steps} beats"
    return body.stage(name, comment, Layout(input.bounds), (ready, data, valid))


def repeat_stage(name: str, input: Layout, steps: int) -> Stage:
    """A frame of one beat, so many times."""
    body = StageBody(input)
    valid, ready, moved, _ = body.giving(steps, "step")
    data = body.register(body.in_data[0], moved, "data")
    comment = f"The same beat {steps} times"
    return body.stage(name, comment, Layout(input.bounds, steps), (ready, data, valid))
