"""Arithmetic on vectors with streams of words around it: one pipeline that never waits.

A word goes in where there is room for the result of its vector. So no ready reaches a register of
the pipeline, words need no buffer before it, and the words of results are made where nobody makes
them wait: they go by a shift register into a memory. There is a credit for each result that this
holds, which a vector takes along and gives back when the last word of its result is read. Not
here: networks of stages, which wait for one another (`words`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ..framing import Framing
from ..memories import Memory
from ..pipeline import Core
from ..ports import Port
from .body import StageBody
from .repacking import in_pieces
from .stage import Stage
from .words import words_layout

_ROUND = 4
"""Cycles from a vector to its credit beside those of the pipeline and of words: they are counted,
results are written, and read."""

_BEHIND = 2
"""Cycles in which `ready` has not yet seen that there is no credit left."""


def credit_stage(
    name: str, core: Core, inputs: Sequence[Port], framings: tuple[Framing, Framing]
) -> Stage:
    """The stage around a pipeline, of words with marks of packets' ends.

    Args:
        framings: of what comes in and goes out: frames of one beat.
    """
    given, taken = framings
    sends, gives, interval = given.words, taken.words, max(given.words, taken.words)
    output = words_layout(taken)
    body = StageBody(words_layout(given))
    ready = body.state(1, "ready", 0)
    moved = body.all_of(body.in_valid[0], ready, name="moved")
    x, ends = _vector(body, sends, given.width, moved)
    # What happens so many cycles after the last word of a vector has come.
    mark = body.all_of(ends, body.extract(body.in_data[0], given.width, 1))
    written = core.latency + 2
    steps = _delayed(body, ends, written + gives - 1, "step")
    marks = _delayed(body, mark, written + gives - 1, "mark")
    y = _computed(body, core, inputs, x, gives * taken.width)
    pieces = [body.extract(y, at * taken.width, taken.width) for at in range(gives)]
    word = body.joined([in_pieces(body, pieces, steps[written - 1]), marks[-1]])
    writes = steps[written]
    if gives > 1:
        writes = body.state(1, "writes", 0)
        more = body.all_of(writes, body.inverse(steps[-1]))
        body.drive(writes, body.any_of(steps[written - 1], more))
    # Results that are there to be read, and vectors that have a credit.
    credits = -(-(core.latency + _ROUND + sends + gives) // interval)
    most = credits + _BEHIND // interval
    there, used = (
        [body.state(1, f"{what}_{count}", 0) for count in range(1, most + 1)]
        for what in ("there", "used")
    )
    valid, leaves = body.state(1, "out_valid", 0), body.state(1, "leaves", 0)
    waits = body.all_of(valid, body.inverse(body.out_ready[0]))
    reads = body.all_of(there[0], body.inverse(waits), name="reads")
    body.drive(valid, body.any_of(reads, waits))
    done = body.all_of(reads, _last(body, gives, reads))
    body.drive(leaves, done)
    _count(body, there, steps[written], done)
    _count(body, used, steps[1], leaves)
    memory = Memory.ram(1 << (most * gives - 1).bit_length(), output.width, apart=True)
    write_at = _address(body, memory, writes, "write_at")
    read_at = _address(body, memory, reads, "read_at")
    out = body.memory(memory, "queue", [writes, write_at, word, reads, read_at])
    # Vectors come no closer to one another than their results can leave.
    blocked = [used[credits - 1], *_from_step(body, steps, gives - sends)]
    body.drive(ready, body.inverse(body.any_of(*blocked)))
    comment = f"{core.module.sym_name.data} without waiting: at most {most} vectors at once"
    parts = [core.module, memory.declaration()]
    return body.stage(name, comment, output, (ready, out, valid), parts)


def _vector(body: StageBody, count: int, bits: int, moved: SSAValue) -> tuple[SSAValue, SSAValue]:
    """So many words in registers, side by side, and whether the last one of a vector comes.

    A register takes what there is until its word has come, by a bit that has no logic before it.
    """
    word = body.extract(body.in_data[0], 0, bits)
    if count == 1:
        return body.register(word, None, "part"), moved
    places = [body.state(1, f"at_{index}", int(not index)) for index in range(count)]
    parts = [body.register(word, place, f"part_{index}") for index, place in enumerate(places)]
    for place, before in zip(places, [places[-1], *places[:-1]], strict=True):
        body.drive(place, before, moved)
    return body.joined(parts), body.all_of(moved, places[-1])


def _delayed(body: StageBody, bit: SSAValue, cycles: int, name: str) -> list[SSAValue]:
    """A bit, and what it was in each of so many cycles before."""
    chain = [bit]
    for step in range(1, cycles + 1):
        chain.append(body.register(chain[-1], None, f"{name}_{step}", 0))
    return chain


def _computed(
    body: StageBody, core: Core, inputs: Sequence[Port], x: SSAValue, bits: int
) -> SSAValue:
    """What the pipeline gives, with zeros above in so many bits."""
    widths = {port.name: sum(port.widths) for port in inputs}
    return body.joined([*core.instance(body, body.constant(1, 1), widths, x).values()], bits=bits)


def _last(body: StageBody, count: int, step: SSAValue) -> SSAValue:
    """Whether the last of so many steps is next."""
    if count == 1:
        return body.constant(1, 1)
    places = [body.state(1, f"word_{index}", int(not index)) for index in range(count)]
    for place, before in zip(places, [places[-1], *places[:-1]], strict=True):
        body.drive(place, body.either_of(step, before, place))
    return places[-1]


def _address(body: StageBody, memory: Memory, step: SSAValue, name: str) -> SSAValue:
    """An address that goes on where `step` is 1; it goes round by itself."""
    value = body.state(memory.address_width, name, 0)
    body.drive(value, body.add(value, body.joined([step], bits=memory.address_width)))
    return value


def _from_step(body: StageBody, steps: Sequence[SSAValue], cycles: int) -> list[SSAValue]:
    """Bits one of which is 1 in step 0 and the next ones, so many in all."""
    if cycles < 3:
        return list(steps[: max(0, cycles)])
    further = body.state(1, "further", 0)
    stays = body.all_of(further, body.inverse(steps[cycles - 1]))
    body.drive(further, body.any_of(steps[1], stays))
    return [*steps[:2], further]


def _count(body: StageBody, states: Sequence[SSAValue], up: SSAValue, down: SSAValue) -> None:
    """Count in registers that say whether there is at least one, two, …: none waits for a sum."""
    fewer, more = [body.constant(1, 1), *states], [*states[1:], body.constant(0, 1)]
    stays = body.any_of(up, body.inverse(down))
    comes = body.all_of(up, body.inverse(down))
    for below, own, above in zip(fewer, states, more, strict=False):
        still = body.all_of(own, stays)
        body.drive(own, body.any_of(above, still, body.all_of(below, comes)))
