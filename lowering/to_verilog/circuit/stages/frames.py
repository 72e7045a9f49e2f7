"""Stages on the beats of a frame, positions or steps, which they count by themselves.

They gather, scatter and accumulate positions, delay elements by steps, take the last step, and
repeat a beat. Not here: neurons (`neurons`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from xdsl.ir import SSAValue

from .....dialects import spike
from .....ir.arrays import Array
from .....ir.errors import UnsupportedError
from .....ir.locations import location_text
from .....passes.adder_graph.graph import around, width_of
from .....passes.analysis.compile_time import literal_value
from .body import StageBody
from .stage import Layout, Stage

MOST_GATHERED = 1 << 20
"""Bits of a frame in registers: no device has room for more beside the rest of a circuit."""


def check_gathered(value: SSAValue, frame: Layout) -> None:
    """Refuse to hold all positions of a large frame in registers.

    Raises:
        UnsupportedError: names the op that takes them at once.
    """
    bits = frame.width * frame.beats
    if bits <= MOST_GATHERED:
        return
    op = next(iter(value.uses)).operation
    reason = (
        f"it takes all positions of a frame at once, which are {bits:,} bits in registers, at most "
        f"{MOST_GATHERED:,}: make the image smaller before, by strides or pooling"
    )
    raise UnsupportedError("verilog", [(op.name, location_text(op), reason)])


def gather_stage(name: str, input: Layout) -> Stage:
    """All positions of a frame in one beat: those of the first position in the lowest bits."""
    count = input.beats
    output = Layout(input.bounds * count)
    body = StageBody(input)
    valid, ready, moved = body.taking()
    last = body.counter(count, moved, "position").last
    body.drive(valid, body.all_of(moved, last), ready)
    places = [body.state(input.width, f"pixel_{index}") for index in range(count)]
    for place, value in zip(places, [*places[1:], body.in_data[0]], strict=True):
        body.drive(place, value, moved)
    comment = f"Gathers the {count} positions of a frame"
    return body.stage(name, comment, output, (ready, body.joined(places), valid))


def scatter_stage(name: str, input: Layout, positions: Sequence[Sequence[int]]) -> Stage:
    """A beat's elements, position by position.

    Args:
        input: all of a frame in one beat.
        positions: for each position the elements of its beat; the n-th elements of all positions
            get the bits that every one of them needs.
    """
    count = len(positions)
    columns: list[list[int]] = np.array(positions).T.tolist()
    bounds = tuple(around(input.bounds[place] for place in column) for column in columns)
    output = Layout(bounds, count)
    body = StageBody(input)
    words = [
        body.joined(
            [
                body.widened(body.in_data[0], input, place, bounds[channel])
                for channel, place in enumerate(position)
            ]
        )
        for position in positions
    ]
    valid, ready, loads, sent = body.giving(count, "position")
    places = [body.state(output.width, f"pixel_{index}") for index in range(count)]
    for index, place in enumerate(places):
        moved = body.select(loads, words[index], places[min(index + 1, count - 1)])
        body.drive(place, moved, body.any_of(loads, sent))
    comment = f"Scatters a frame to {count} positions"
    return body.stage(name, comment, output, (ready, places[0], valid))


Accumulation = Literal["sum", "max", "min"]


def accumulate_stage(name: str, input: Layout, kind: Accumulation) -> Stage:
    """For each channel the sum, the largest or the least number of all positions of a frame."""
    count = input.beats
    times = count if kind == "sum" else 1
    bounds = tuple((low * times, high * times) for low, high in input.bounds)
    output = Layout(bounds)
    body = StageBody(input)
    valid, ready, moved, first = body.closing(count, "position")
    sums: list[SSAValue] = []
    for channel, want in enumerate(bounds):
        x = body.widened(body.in_data[0], input, channel, want)
        total = body.state(width_of(*want), f"total_{channel}")
        body.drive(
            total, body.select(first, x, _combined(body, kind, total, x, signed=want[0] < 0)), moved
        )
        sums.append(total)
    comment = f"The {kind} of {count} positions, channel by channel"
    return body.stage(name, comment, output, (ready, body.joined(sums), valid))


def _combined(
    body: StageBody, kind: Accumulation, total: SSAValue, x: SSAValue, *, signed: bool
) -> SSAValue:
    """A number of a position taken into those of the positions before."""
    if kind == "sum":
        return body.add(total, x)
    predicate = f"{'s' if signed else 'u'}{'ge' if kind == 'max' else 'le'}"
    return body.select(body.compare(total, predicate, x), total, x)


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
            kept = body.select(last, body.constant(0, width), value)
            value = body.register(kept, moved, f"late_{index}_{step}", 0)
        parts.append(value)
    data = body.register(body.joined(parts), moved, "late")
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
