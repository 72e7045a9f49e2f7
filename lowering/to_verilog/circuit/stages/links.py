"""Stages between stages: joins, forks, selections and FIFOs.

A fork gives each beat to several stages, each when it can take it; a join makes one beat of one of
each input; a selection leaves out elements that nothing reads. Where ways of different length meet
again, a FIFO before the join keeps the beats of the shorter one. Not here: how deep it has to be
(`schedule`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from .....dialects.shapes import bit_width
from ..memories import Memory
from .body import StageBody
from .counters import clog2
from .stage import Layout, Stage

FEW_BITS = 16
"""Of all beats of a FIFO that has registers: a RAM takes more control than that."""


def join_stage(name: str, inputs: Sequence[Layout]) -> Stage:
    """One beat of each input, side by side, the first in the lowest bits. No registers."""
    beats = {layout.beats for layout in inputs}
    if len(beats) != 1:
        raise ValueError(f"a join of frames of {sorted(beats)} beats")
    bounds = tuple(b for layout in inputs for b in layout.bounds)
    output = Layout(bounds, beats.pop(), max(layout.level for layout in inputs))
    body = StageBody(*inputs)
    readies = [
        body.all_of(body.out_ready[0], *(v for v in body.in_valid if v is not valid))
        for valid in body.in_valid
    ]
    valid = body.all_of(*body.in_valid)
    data = body.joined(body.in_data)
    comment = f"Join of {len(inputs)} channels: one beat of each"
    return body.finish(name, comment, readies, [(output, data, valid)])


def fork_stage(name: str, input: Layout, outputs: Sequence[Sequence[int]]) -> Stage:
    """Each beat to several outputs; each output takes some of its elements, in order.

    Args:
        outputs: for each output the elements that it takes.
    """
    layouts = [_layout_of(input, places) for places in outputs]
    body = StageBody(input, outputs=len(outputs))
    dones = [body.state(1, f"done_{index}", 0) for index in range(len(outputs))]
    haves = [body.any_of(done, ready) for done, ready in zip(dones, body.out_ready, strict=True)]
    every = body.all_of(*haves, name="every")
    waits = body.all_of(body.in_valid[0], body.inverse(every), name="waits")
    for done, have in zip(dones, haves, strict=True):
        body.drive(done, body.all_of(waits, have))
    valids = [body.all_of(body.in_valid[0], body.inverse(done)) for done in dones]
    data = [_selected(body, input, places) for places in outputs]
    comment = f"Fork: each beat to {len(outputs)} channels"
    return body.finish(name, comment, [every], list(zip(layouts, data, valids, strict=True)))


def selection_stage(name: str, input: Layout, places: Sequence[int]) -> Stage:
    """Each beat with some of its elements, in order. No registers."""
    body = StageBody(input)
    handshake = body.out_ready[0], _selected(body, input, places), body.in_valid[0]
    comment = f"Selection: {len(places)} of {len(input.bounds)} elements of each beat"
    return body.stage(name, comment, _layout_of(input, places), handshake)


def _layout_of(input: Layout, places: Sequence[int]) -> Layout:
    return replace(input, bounds=tuple(input.bounds[i] for i in places))


def _selected(body: StageBody, input: Layout, places: Sequence[int]) -> SSAValue:
    """The bits of some elements of the first input, in order."""
    runs = _runs(input.places, places)
    return body.joined([body.extract(body.in_data[0], low, high - low) for low, high in runs])


def _runs(places: Sequence[int], indices: Sequence[int]) -> list[tuple[int, int]]:
    """The bits of elements, neighbours in one piece."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        low, high = places[index], places[index + 1]
        if runs and runs[-1][1] == low:
            runs[-1] = (runs[-1][0], high)
        else:
            runs.append((low, high))
    return runs


def fifo_stage(name: str, layout: Layout, depth: int) -> Stage:
    """A queue of at least `depth` beats, two or more: registers for two or a few bits, else a RAM.

    A beat can leave in the cycle after it came; `in_ready` does not depend on `out_ready`.
    """
    if depth < 2:
        raise ValueError(f"a FIFO of {depth} beats")
    bits = layout.width
    body = StageBody(layout)
    comment = "buffer of 2 beats" if depth == 2 else f"FIFO of {depth} beats"
    if depth == 2 or depth * bits <= FEW_BITS:
        return body.stage(name, comment, layout, _buffers(body, -(-depth // 2)))
    memory = Memory.ram(depth - 1, bits, apart=True)
    handshake = _queued(body, depth, memory)
    return body.stage(name, comment, layout, handshake, [memory.declaration()])


def _queued(body: StageBody, depth: int, memory: Memory) -> tuple[SSAValue, SSAValue, SSAValue]:
    """A queue of at least three beats, of which the first stands before the memory of the others.

    Returns:
        in_ready, out_data, out_valid.
    """
    (data,), (comes,) = body.in_data, body.in_valid
    valid = body.state(1, "valid", 0)
    free = body.any_of(body.inverse(valid), body.out_ready[0], name="free")
    held = body.state(clog2(depth), "held", 0)
    from_memory = body.state(1, "from_memory", 0)
    ready = body.compare(held, "ne", depth - 1)
    empty = body.compare(held, "eq", 0)
    moved = body.all_of(comes, ready, name="moved")
    read = body.all_of(free, body.inverse(empty), name="read")
    passed = body.all_of(free, empty, moved, name="passed")
    write = body.all_of(moved, body.inverse(passed), name="write")
    write_at = body.counter(depth - 1, write, "write_at").value
    read_at = body.counter(depth - 1, read, "read_at").value
    operands = [write, write_at, data, read, read_at]
    word = body.memory(memory, "queue", operands)
    direct = body.register(data, passed, "direct")
    body.drive(from_memory, read, free)
    body.drive(valid, body.select(free, body.any_of(read, passed), valid))
    changed = body.select(write, body.add(held, 1), body.add(held, -1))
    body.drive(held, changed, body.either(write, read))
    return ready, body.select(from_memory, word, direct), valid


def _buffers(body: StageBody, count: int) -> tuple[SSAValue, SSAValue, SSAValue]:
    """A row of queues of two beats, each of which is ready by a register.

    No register of theirs waits for more than one look-up table of four inputs.

    Returns:
        in_ready, out_data, out_valid: the first and the last are registers.
    """
    (data,), (valid,) = body.in_data, body.in_valid
    rooms = [body.state(1, f"room_{index}", 1) for index in range(count)]
    # Ready is an inverse of its own: equal registers become one, and it has other readers.
    full = [body.state(1, f"full_{index}", 0) for index in range(count)]
    readies = [body.inverse(each) for each in full]
    bits, takers = bit_width(data.type) or 1, [*readies[1:], *body.out_ready]
    for room, own, out_ready in zip(rooms, full, takers, strict=True):
        comes = valid
        valid = body.state(1, "out_valid", 0)
        first, second = body.state(bits, "first"), body.state(bits, "second")
        free = body.any_of(body.inverse(valid), out_ready, name="out_free")
        waits = body.all_of(valid, body.inverse(out_ready))
        body.drive(valid, body.any_of(comes, body.inverse(room), waits))
        body.drive(first, body.select(room, data, second), free)
        body.drive(second, data, room)
        following = body.any_of(free, body.all_of(room, body.inverse(comes)))
        body.drive(room, following)
        body.drive(own, body.inverse(following))
        data = first
    return readies[0], data, valid


def turns_stage(name: str, layout: Layout) -> Stage:
    """A queue of two beats that is ready by a register, and whose registers go by registers."""
    body = StageBody(layout)
    ready = body.state(1, "ready", 0)
    comes = body.all_of(body.in_valid[0], ready)
    data, valid, following = in_turns(body, ready, body.in_data[0], comes)
    body.drive(ready, following)
    comment = "Two registers that take beats in turn"
    return body.stage(name, comment, layout, (ready, data, valid))


def in_turns(
    body: StageBody, ready: SSAValue, data: SSAValue, comes: SSAValue
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Registers for two beats that take them in turn; what goes out is selected.

    A register for each says a cycle before that it may take what there is: a net with many readers
    takes most of a period on small fabrics, where nothing then stands before it.

    Args:
        ready: a register that says whether a beat may come; the caller drives it, from 0 at reset.
        data: the beat.
        comes: whether there is one; not where `ready` is 0.

    Returns:
        out_data, out_valid, and whether there is room in the next cycle.
    """
    (out_ready,) = body.out_ready
    valid, given = body.state(1, "out_valid", 0), body.state(1, "given", 0)
    waits = body.all_of(valid, body.inverse(out_ready))
    both = body.all_of(valid, body.inverse(ready))
    body.drive(valid, body.any_of(comes, waits, both))
    following = body.inverse(body.all_of(waits, body.any_of(comes, body.inverse(ready))))
    # Whose turn it is to take: the other's than that which gives, where one beat is there.
    after = body.either(body.either(given, body.all_of(valid, ready)), comes)
    words: list[SSAValue] = []
    for index, chosen in enumerate((body.inverse(after), after)):
        may = body.all_of(following, chosen)
        takes = body.register(may, None, f"takes_{index}", int(not index))
        words.append(body.register(data, takes, f"word_{index}"))
    body.drive(given, body.either(given, body.all_of(valid, out_ready)))
    return body.select(given, words[1], words[0]), valid, following
