"""Stages between stages: joins, forks and FIFOs.

A fork gives each beat to several stages, each when it can take it; a join makes one beat of one of
each input. Where ways of different length meet again, a FIFO before the join keeps the beats of the
shorter one. Not here: how deep it has to be (`schedule`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..circuit import LayerCount
from ..memories import Memory
from .body import StageBody, clog2
from .stage import Layout, Stage


def join_stage(name: str, inputs: Sequence[Layout]) -> Stage:
    """One beat of each input, side by side, the first in the lowest bits. No registers."""
    beats = {layout.beats for layout in inputs}
    if len(beats) != 1:
        raise ValueError(f"a join of frames of {sorted(beats)} beats")
    bounds = tuple(b for layout in inputs for b in layout.bounds)
    output = Layout(bounds, beats.pop(), max(layout.level for layout in inputs))
    body = StageBody([layout.width for layout in inputs], [output.width])
    readies = [
        body.all_of(body.out_ready[0], *(v for v in body.in_valid if v is not valid))
        for valid in body.in_valid
    ]
    valid = body.all_of(*body.in_valid)
    data = body.joined(body.in_data)
    module = body.finish(
        name, f"Join of {len(inputs)} channels: one beat of each", readies, [data], [valid]
    )
    return Stage(name, module, tuple(inputs), (output,))


def fork_stage(name: str, input: Layout, outputs: Sequence[Sequence[int]]) -> Stage:
    """Each beat to several outputs; each output takes some of its elements, in order.

    Args:
        name: of the stage.
        input: what comes in.
        outputs: for each output the elements that it takes.
    """
    layouts = [replace(input, bounds=tuple(input.bounds[i] for i in places)) for places in outputs]
    body = StageBody([input.width], [layout.width for layout in layouts])
    dones = [body.state(1, f"done_{index}", 0) for index in range(len(outputs))]
    haves = [body.any_of(done, ready) for done, ready in zip(dones, body.out_ready, strict=True)]
    every = body.all_of(*haves, name="every")
    waits = body.all_of(body.in_valid[0], body.inverse(every), name="waits")
    for done, have in zip(dones, haves, strict=True):
        body.drive(done, body.all_of(waits, have))
    valids = [body.all_of(body.in_valid[0], body.inverse(done)) for done in dones]
    data = [
        body.joined(
            [
                body.extract(body.in_data[0], low, high - low)
                for low, high in _runs(input.places, places)
            ]
        )
        for places in outputs
    ]
    module = body.finish(name, f"Fork: each beat to {len(outputs)} channels", [every], data, valids)
    count = LayerCount(name, "fork", register_bits=body.register_bits)
    return Stage(name, module, (input,), tuple(layouts), layers=(count,))


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
    """A queue of `depth` beats: a register for the first, one more for two, else a RAM.

    A beat can leave in the cycle after it came; `in_ready` does not depend on `out_ready`.
    """
    if depth < 1:
        raise ValueError(f"a FIFO of {depth} beats")
    if depth == 2:
        return _buffer(name, layout)
    bits = layout.width
    body = StageBody([bits], [bits])
    valid = body.state(1, "valid", 0)
    free = body.any_of(body.inverse(valid), body.out_ready[0], name="free")
    if depth == 1:
        ready = body.inverse(valid)
        moved = body.all_of(body.in_valid[0], ready, name="moved")
        data = body.register(body.in_data[0], moved, "first")
        body.drive(valid, body.select(free, moved, valid))
        count, handshake = LayerCount(name, "FIFO of 1 beat"), (ready, data, valid)
        comment = "FIFO of one beat"
        return body.stage(name, comment, (layout, layout), handshake, [count])
    memory = Memory.ram(depth - 1, bits)
    held = body.state(clog2(depth), "held", 0)
    from_memory = body.state(1, "from_memory", 0)
    ready = body.compare(held, "ne", depth - 1)
    empty = body.compare(held, "eq", 0)
    moved = body.all_of(body.in_valid[0], ready, name="moved")
    read = body.all_of(free, body.inverse(empty), name="read")
    passed = body.all_of(free, empty, moved, name="passed")
    write = body.all_of(moved, body.inverse(passed), name="write")
    write_at, _ = body.counter(depth - 1, write, "write_at")
    read_at, _ = body.counter(depth - 1, read, "read_at")
    operands = [write, write_at, body.in_data[0], read, read_at]
    word = body.memory(memory, "queue", operands)
    direct = body.register(body.in_data[0], passed, "direct")
    body.drive(from_memory, read, free)
    body.drive(valid, body.select(free, body.any_of(read, passed), valid))
    changed = body.select(write, body.add(held, 1), body.add(held, -1))
    body.drive(held, changed, body.either(write, read))
    data = body.select(from_memory, word, direct)
    comment = f"FIFO of {depth} beats"
    count, parts = LayerCount(name, comment, memory_bits=(depth - 1) * bits), [memory.declaration()]
    handshake = ready, data, valid
    return body.stage(name, comment, (layout, layout), handshake, [count], parts)


def _buffer(name: str, layout: Layout) -> Stage:
    """A queue of two beats, which is ready by a register that has no other readers.

    Its inverse, as equal registers become one.
    """
    bits = layout.width
    body = StageBody([bits], [bits])
    (data,), (in_valid,), (out_ready,) = body.in_data, body.in_valid, body.out_ready
    valid, room, full = (body.state(1, *of) for of in (("valid", 0), ("room", 1), ("full", 0)))
    first, second = body.state(bits, "first"), body.state(bits, "second")
    free = body.any_of(body.inverse(valid), out_ready, name="free")
    waits = body.all_of(valid, body.inverse(out_ready))
    body.drive(valid, body.any_of(in_valid, body.inverse(room), waits))
    body.drive(first, body.select(room, data, second), free)
    body.drive(second, data, room)
    following = body.any_of(free, body.all_of(room, body.inverse(in_valid)))
    body.drive(room, following)
    body.drive(full, body.inverse(following))
    comment, count = "Buffer of two beats", LayerCount(name, "buffer of 2 beats", mux_bits=bits)
    handshake = body.inverse(full), first, valid
    return body.stage(name, comment, (layout, layout), handshake, [count])
