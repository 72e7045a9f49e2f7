"""A pipeline that never waits: a beat goes in where there is room for its result.

No ready reaches the registers of the pipeline, so that its clock is that of its arithmetic.
Results wait in a queue; there is a credit for each place of it, which a beat takes along and gives
back when its result has left. Not here: pipelines that stand still together (`arithmetic`).
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from ..pipeline import Core
from .body import StageBody
from .links import queued, two_places
from .stage import AnyModule, Layout, Stage


def enough_credits(latency: int, interval: int) -> int:
    """The credits with which a pipeline gives a beat every `interval` cycles.

    A beat keeps its place until two cycles after its result has left, and the next result may have
    come by then.
    """
    return max(2, -(-(latency + 3) // interval) + 1)


def credit_stage(name: str, core: Core, input: Layout, credits: int) -> Stage:
    """The stage around a pipeline.

    Args:
        name: of the stage.
        core: the pipeline, from `x` to `y` by at least one register.
        input: what comes in.
        credits: beats that may be on their way, at least two; see `enough_credits`.
    """
    output, symbol = core.outputs["y"], core.module.sym_name.data
    body = StageBody([input.width], [output.width])
    room, used = body.state(1, "room", 1), body.state(credits.bit_length(), "used", 0)
    moved = body.all_of(body.in_valid[0], room, name="moved")
    arrives = moved
    for step in range(1, core.latency + 1):
        register = body.state(1, f"valid_{step}", 0)
        body.drive(register, arrives)
        arrives = register
    operands: list[tuple[str, SSAValue]] = [
        ("clock", body.clock),
        ("enable", body.constant(1, 1)),
        ("x", body.in_data[0]),
    ]
    (y,) = body.instance(symbol, "core", operands, [("y", output.width)])
    parts: list[AnyModule] = [core.module]
    if credits > 2:
        _, data, valid, memories = queued(body, credits, y, arrives)
        parts += memories
    else:
        has_place = body.state(1, "has_place", 1)
        data, valid, following_place = two_places(body, has_place, y, arrives)
        body.drive(has_place, following_place)
    leaves = body.state(1, "leaves", 0)
    body.drive(leaves, body.all_of(valid, body.out_ready[0]))
    changed = body.select(moved, body.add(used, 1), body.add(used, -1))
    following = body.select(body.either(moved, leaves), changed, used, name="following")
    body.drive(used, following)
    body.drive(room, body.compare(following, "ne", credits))
    comment = f"{symbol} without waiting: at most {credits} beats at once"
    handshake = room, data, valid
    return body.stage(name, comment, (input, output), handshake, core.layers, parts)
