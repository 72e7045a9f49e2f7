"""A pipeline that never waits: a beat goes in where there is room for its result.

No ready reaches the registers of the pipeline, so that its clock is that of its arithmetic.
Results wait in a queue; there is a credit for each place of it, which a beat takes along and gives
back when its result has left. Where results are taken some cycles apart, all wide registers of the
queue go by registers that say a cycle before what they do, as a net with so many readers takes most
of a period. Not here: pipelines that stand still together (`arithmetic`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from .....dialects.shapes import bit_width
from ..pipeline import Core
from .body import StageBody
from .links import queued, two_places
from .stage import AnyModule, Layout, Stage

_APART = 3
"""Cycles between two results that a queue of registers needs."""

_PLACES = 4
"""Results that a queue of registers holds at most: behind more of them selection takes long."""


def credit_stage(name: str, core: Core, input: Layout, interval: int, *, selected: bool) -> Stage:
    """The stage around a pipeline that gives a beat every `interval` cycles.

    Args:
        name: of the stage.
        core: the pipeline, from `x` to `y` by at least one register.
        input: what comes in.
        interval: at least 1.
        selected: whether what comes in is behind a selection: registers come before the pipeline.
    """
    output, symbol = core.outputs["y"], core.module.sym_name.data
    body = StageBody([input.width], [output.width])
    latency = core.latency + selected
    apart = max(2, -(-(latency + 6) // interval))
    spaced = interval >= _APART and apart <= _PLACES
    # A beat keeps its place until two cycles after its result has left, and the next result may
    # have come by then.
    credits = apart if spaced else max(2, -(-(latency + 3) // interval) + 1)
    used = [body.state(1, f"used_{count}", 0) for count in range(1, credits + 1)]
    room = body.inverse(used[-1], "room")
    moved = body.all_of(body.in_valid[0], room, name="moved")
    chain = [moved]
    for step in range(1, latency + 1):
        register = body.state(1, f"valid_{step}", 0)
        body.drive(register, chain[-1])
        chain.append(register)
    x = body.in_data[0]
    if selected:
        x = body.state(input.width, "x")
        body.drive(x, body.in_data[0])
    operands = [("clock", body.clock), ("enable", body.constant(1, 1)), ("x", x)]
    (y,) = body.instance(symbol, "core", operands, [("y", output.width)])
    parts: list[AnyModule] = [core.module]
    if spaced:
        data, valid = _spaced(body, credits, y, chain[-2:])
    elif credits > 2:
        _, data, valid, memories = queued(body, credits, y, chain[-1])
        parts += memories
    else:
        has_place = body.state(1, "has_place", 1)
        data, valid, following_place = two_places(body, has_place, y, chain[-1], *body.out_ready)
        body.drive(has_place, following_place)
    leaves = body.state(1, "leaves", 0)
    body.drive(leaves, body.all_of(valid, body.out_ready[0]))
    # Whether so many are used, each by itself: no register waits for a sum of them.
    one, zero = body.constant(1, 1), body.constant(0, 1)
    for fewer, own, more in zip([one, *used], used, [*used[1:], zero], strict=False):
        still = body.all_of(own, body.any_of(body.inverse(leaves), moved, more))
        body.drive(own, body.any_of(still, body.all_of(fewer, moved, body.inverse(leaves))))
    comment = f"{symbol} without waiting: at most {credits} beats at once"
    handshake = room, data, valid
    return body.stage(name, comment, (input, output), handshake, parts)


def _spaced(
    body: StageBody, places: int, data: SSAValue, comes: Sequence[SSAValue]
) -> tuple[SSAValue, SSAValue]:
    """A queue before the output of a stage, of registers that go by registers.

    Args:
        body: of the stage.
        places: beats that may come before the first one leaves.
        data: the beat.
        comes: whether there will be one in the next cycle, and whether there is one.

    Returns:
        out_data and out_valid.
    """
    soon, now = comes
    words: list[SSAValue] = []
    at = [body.state(1, f"write_at_{place}", int(not place)) for place in range(places)]
    for place, before in enumerate([at[-1], *at[:-1]]):
        writes = body.state(1, f"writes_{place}", 0)
        body.drive(writes, body.all_of(soon, at[place]))
        body.drive(at[place], before, soon)
        words.append(body.register(data, writes, f"word_{place}"))
    # What loads the wide register has no other reader and waits for a register alone: where it is
    # placed is far from the control, which has a register of its own beside it.
    goes, loads, loaded = (body.state(1, name, 0) for name in ("goes", "loads", "loaded"))
    idle, valid = body.state(1, "idle", 1), body.state(1, "valid", 0)
    body.drive(loads, goes)
    body.drive(loaded, body.inverse(idle))
    held, some = body.state(places.bit_length(), "held", 0), body.state(1, "some", 0)
    changed = body.select(now, body.add(held, 1), body.add(held, -1))
    following = body.select(body.either(now, goes), changed, held)
    body.drive(held, following)
    body.drive(some, body.compare(following, "ne", 0))
    free = body.any_of(body.inverse(valid), body.out_ready[0], name="free")
    going = body.all_of(free, some, idle, body.inverse(loaded))
    body.drive(goes, going)
    body.drive(idle, body.inverse(going))
    body.drive(valid, body.any_of(loaded, body.all_of(valid, body.inverse(body.out_ready[0]))))
    read_at = [body.state(1, f"read_at_{place}", int(not place)) for place in range(places)]
    for place, before in enumerate([read_at[-1], *read_at[:-1]]):
        body.drive(read_at[place], before, loaded)
    # Two places are selected between at once, by look-up tables of four inputs; pairs wait in
    # registers, as a word is there for a cycle before it is loaded.
    pairs: list[SSAValue] = []
    for first in range(0, places - 1, 2):
        pairs.append(body.select(read_at[first + 1], words[first + 1], words[first]))
    if len(pairs) + places % 2 > 1:
        for index, pair in enumerate(pairs):
            pairs[index] = body.state(bit_width(data.type) or 1, f"pair_{index}")
            body.drive(pairs[index], pair)
    word, rest = pairs[0], [*pairs[1:], *words[places - places % 2 :]]
    if rest:
        word = body.select(body.any_of(*read_at[2:]), rest[0], word)
    return body.register(word, loads, "first"), valid
