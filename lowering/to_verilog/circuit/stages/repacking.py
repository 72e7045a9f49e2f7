"""Stages that make beats of other widths: several in one, and one in several.

A frame may end within a block: what is there goes on then, so that the next frame begins anew.
Not here: which widths (`framing`), and where the stages stand (`words`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from .body import StageBody
from .counters import Counter
from .links import in_turns
from .stage import Layout, Stage

Finished = Callable[[StageBody, SSAValue, int], SSAValue]
"""From a piece of a block and its place there to what goes out."""


def raw(bits: int, beats: int) -> Layout:
    """A channel of bits that are one element."""
    return Layout(((0, (1 << bits) - 1),), beats)


def arranged(body: StageBody, layout: Layout, order: Sequence[int], bits: int) -> SSAValue:
    """Elements of what comes in, the first in the lowest bits, with zeros above in so many bits."""
    if list(order) == list(range(len(layout.bounds))):
        value = body.in_data[0]
    else:
        value = body.joined([body.element(body.in_data[0], layout, index) for index in order])
    return body.joined([value], bits=bits)


class _Places:
    """At which piece of its block a frame is.

    Args:
        total: of a frame.

    Attributes:
        places: a bit for each piece of a block.
        last: whether the block ends with the piece.
    """

    def __init__(self, body: StageBody, count: int, total: int) -> None:
        self._body, self._counter = body, None
        one = body.constant(1, 1)
        self.places = [one]
        if count > 1:
            self.places = [body.state(1, f"at_{index}", int(not index)) for index in range(count)]
        self.last = self.places[-1]
        if total % count:
            self._counter = Counter(body, total, "piece", early=True)
            self.last = body.any_of(self.last, self._counter.last)

    def step(self, moved: SSAValue) -> SSAValue:
        """Go on where a piece has gone; whether a block ends with the piece of the next cycle."""
        body, places = self._body, self.places
        if len(places) == 1:
            return places[0]
        befores = [places[-1], *places[:-1]]
        following: list[SSAValue] = []
        if self._counter is not None:
            stays = body.inverse(self.last)
            befores = [self.last, *(body.all_of(place, stays) for place in places[:-1])]
            ending = self._counter.before(self._counter.count - 1)
            following = [body.select(moved, ending, self._counter.last)]
            self._counter.step(moved)
        for place, before in zip(places, befores, strict=True):
            body.drive(place, before, moved)
        return body.any_of(body.select(moved, befores[-1], places[-1]), *following)


def collect_stage(
    name: str, input: Layout, output: Layout, count: int, order: Sequence[int], bits: int
) -> Stage:
    """Blocks of `count` beats side by side; the last one of a frame may be shorter.

    Args:
        output: what the bits of a block are; those above are left out.
        count: beats of a block; of one there are no registers.
        order: the elements that are wanted of a beat.
        bits: of a beat within a block.
    """
    width = output.width
    body = StageBody(input)
    value = arranged(body, input, order, bits)
    if count == 1:
        data = body.extract(value, 0, width)
        handshake = body.out_ready[0], data, body.in_valid[0]
        return body.stage(name, f"{bits} bits as a beat", output, handshake)
    at = _Places(body, count, input.beats)
    ready = body.any_of(body.inverse(at.last), body.out_ready[0])
    moved = body.all_of(body.in_valid[0], ready, name="moved")
    # A register takes what there is until its beat has come; the last beat needs none, as it waits
    # where it comes from.
    ends = {count - 1, (input.beats - 1) % count}
    parts: list[SSAValue] = []
    for index, place in enumerate(at.places):
        own = min(bits, width - index * bits)
        if own > 0:
            part = body.extract(value, 0, own)
            if index < count - 1:
                register = body.register(part, place, f"part_{index}")
                part = body.select(place, part, register) if index in ends else register
            parts.append(part)
    at.step(moved)
    comment = f"{count} beats of {bits} bits side by side"
    handshake = ready, body.joined(parts), body.all_of(body.in_valid[0], at.last)
    return body.stage(name, comment, output, handshake)


def in_pieces(
    body: StageBody, pieces: Sequence[SSAValue], loads: SSAValue, steps: SSAValue | None = None
) -> SSAValue:
    """A shift register of pieces, of which the first one goes out.

    Args:
        pieces: that are there in a cycle.
        loads: whether they are taken in it, rather than that each goes on by one.
        steps: whether any register changes; by default always.
    """
    piece: SSAValue | None = None
    for index in reversed(range(len(pieces))):
        # Nothing comes after the last one that anybody looks at.
        own = pieces[index]
        value = own if piece is None else body.either_of(loads, own, piece)
        piece = body.register(value, steps, f"piece_{index}")
    assert piece is not None
    return piece


def spread_stage(
    name: str,
    input: Layout,
    output: Layout,
    count: int,
    order: Sequence[int],
    bits: int,
    finished: Finished = lambda body, piece, index: piece,
) -> Stage:
    """Blocks as `count` beats one after another; the last block of a frame may have fewer.

    All of its wide registers go by registers that say a cycle before what they do: a block is taken
    where there was none or its last piece goes, which is known as two pieces have room behind it.

    Args:
        output: what the bits of a beat are; those above are left out.
        count: beats of a block.
        order: the elements that are wanted of a block.
        bits: of a beat within a block.
        finished: what becomes of a piece of the block that comes in.
    """
    body = StageBody(input)
    valid, room = body.state(1, "valid", 0), body.state(1, "room", 0)
    free, steps = body.state(1, "free", 1), body.state(1, "steps", 1)
    # The control has a register of its own, which stands where the control does.
    full = body.state(1, "full", 0)
    ready = body.inverse(full)
    sent = body.all_of(valid, room, name="sent")
    at = _Places(body, count, output.beats)
    last = at.step(sent)
    holds = body.select(full, valid, body.in_valid[0])
    body.drive(valid, holds)
    block = arranged(body, input, order, count * bits)
    pieces = [
        finished(body, body.extract(block, index * bits, bits), index) for index in range(count)
    ]
    piece = in_pieces(body, pieces, free, steps)
    given = body.extract(piece, 0, output.width)
    data, out_valid, has_room = in_turns(body, room, given, sent)
    is_free = body.any_of(body.inverse(holds), body.all_of(has_room, last))
    body.drive(room, has_room)
    body.drive(free, is_free)
    body.drive(full, body.inverse(is_free))
    body.drive(steps, body.any_of(is_free, has_room))
    comment = f"A beat as {count} of {bits} bits, one after another"
    return body.stage(name, comment, output, (ready, data, out_valid))
