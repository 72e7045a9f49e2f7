"""Words that come from outside into the memories of a circuit, one memory after another.

A load is a row of pieces: those of each word from its lowest bits on, the words of each memory from
address 0 on, the memories in order. Pieces are taken while no frame is in the circuit, and none
comes in before the load is whole: nothing is ever computed with weights of two models. Not here:
where a memory takes them (`stages.body`), registers and serial ports that pass them on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import SSAValue, TypeAttribute

from .memories import Memory
from .stages.body import ModuleBody, load_sizes
from .stages.counters import clog2

_FRAMES = 16
"""Bits of a count of frames in a circuit: more than any can hold."""


@dataclass(frozen=True)
class Loads:
    """What is loaded.

    Attributes:
        memories: in order.
        bits: of a piece.
    """

    memories: tuple[Memory, ...]
    bits: int

    @property
    def pieces(self) -> int:
        """Of a load."""
        return sum(self.pieces_of(memory) * memory.depth for memory in self.memories)

    def pieces_of(self, memory: Memory) -> int:
        """The pieces of a word."""
        return -(-memory.width // self.bits)

    @property
    def inputs(self) -> list[tuple[str, TypeAttribute]]:
        """The ports by which pieces come; `load_restart` lets the next one be the first."""
        return [("load_data", IntegerType(self.bits)), ("load_valid", i1), ("load_restart", i1)]

    def contents(self) -> bytes:
        """The pieces of the words that the memories begin with, the lowest byte first."""
        words = (
            word.to_bytes(self.pieces_of(memory) * self.bits // 8, "little")
            for memory in self.memories
            for word in memory.contents
        )
        return b"".join(words)


LOAD_OUTPUTS = (("load_ready", 1), ("load_part", 1))
"""Whether what comes in this cycle is taken; whether a load has begun and is not whole."""


class Loader:
    """Takes pieces, in the body of a module with streams.

    Args:
        ports: `load_data`, `load_valid` and `load_restart`.

    Attributes:
        blocks: whether no word may come in, from registers.
        part: whether a load has begun and is not whole.
        operands: of the network, by port.
    """

    def __init__(self, body: ModuleBody, loads: Loads, ports: Sequence[SSAValue]) -> None:
        self.body, self.loads = body, loads
        self._data, self._valid, self._restart = ports
        self._held = body.state(1, "load_held", 0)
        self._begins = body.state(1, "load_begins", 0)
        self.part = body.state(1, "load_begun", 0)
        self.blocks = body.any_of(self._held, self._begins, self.part, name="load_blocks")
        self._sizes = load_sizes(loads.memories)
        self.operands = self._sequence()

    def ready(self, frames: tuple[int, int], takes: SSAValue, leaves: SSAValue) -> SSAValue:
        """Whether there is no frame in the circuit and none begins.

        Args:
            frames: the words of one that comes in, and of a result.
            takes: whether a word comes in.
            leaves: whether a word of a result goes.
        """
        body = self.body
        place = body.counter(frames[0], takes, "load_word_in")
        out = body.counter(frames[1], leaves, "load_word_out")
        came, left = body.all_of(takes, place.last), body.all_of(leaves, out.last)
        inside = body.state(_FRAMES, "load_frames", 0)
        change = body.select(came, body.constant(1, _FRAMES), body.constant(-1, _FRAMES))
        body.drive(inside, body.add(inside, change), body.either(came, left))
        none = body.compare(inside, "eq", 0)
        ready = body.all_of(none, body.compare(place.value, "eq", 0), body.inverse(takes))
        body.drive(self._held, body.all_of(self._valid, ready))
        body.drive(self._begins, body.all_of(self._restart, ready))
        return ready

    def _sequence(self) -> dict[str, SSAValue]:
        body, loads = self.body, self.loads
        count, step = len(loads.memories), self._held
        restarts = body.any_of(body.reset, self._begins, name="load_restarts")
        body_reset, body.reset = body.reset, restarts
        piece_bits = clog2(max(map(loads.pieces_of, loads.memories)))
        zeros = body.constant(0, piece_bits), body.constant(0, self._sizes[0])
        piece = body.state(piece_bits, "load_piece", 0)
        address = body.state(self._sizes[0], "load_place", 0)
        turns = [body.state(1, f"load_turn_{k}", int(not k)) for k in range(count)]
        body.reset = body_reset
        last_piece = self._at(turns, piece, loads.pieces_of)
        last_word = self._at(turns, address, lambda memory: memory.depth)
        whole = body.all_of(step, last_piece, name="load_word_whole")
        ends = body.all_of(whole, last_word, name="load_memory_whole")
        word = self._word(piece, step)
        body.drive(piece, body.select(last_piece, zeros[0], body.add(piece, 1)), step)
        following = body.select(last_word, zeros[1], body.add(address, 1))
        writes = [
            body.register(body.all_of(whole, turn), None, f"load_write_{k}", 0)
            for k, turn in enumerate(turns)
        ]
        place = body.register(address, None, "load_address")
        body.drive(address, following, whole)
        done = body.all_of(ends, turns[-1], name="load_done")
        for before, turn in zip([turns[-1], *turns[:-1]], list(turns), strict=True):
            body.drive(turn, before, ends)
        over = body.register(done, None, "load_over", 0)
        goes_on = body.all_of(self.part, body.inverse(over))
        body.drive(self.part, body.any_of(step, self._begins, goes_on))
        return {"load_enable": body.joined(writes), "load_address": place, "load_data": word}

    def _at(
        self, turns: Sequence[SSAValue], value: SSAValue, count: Callable[[Memory], int]
    ) -> SSAValue:
        """Whether a number is the last of those that the memory whose turn it is counts to."""
        body = self.body
        pairs = sorted(
            zip(map(count, self.loads.memories), turns, strict=True), key=lambda pair: pair[0]
        )
        parts = [
            body.all_of(
                body.compare(value, "eq", number - 1),
                body.any_of(*(turn for _, turn in group)),
            )
            for number, group in groupby(pairs, lambda pair: pair[0])
        ]
        return body.any_of(*parts)

    def _word(self, number: SSAValue, step: SSAValue) -> SSAValue:
        """The pieces of a word, from the number of the piece that comes."""
        body = self.body
        piece = body.register(self._data, None, "load_piece_held")
        bits, width = self.loads.bits, self._sizes[1]
        return body.joined(
            [
                body.register(
                    body.extract(piece, 0, min(bits, width - low)),
                    body.all_of(step, body.compare(number, "eq", low // bits)),
                    f"load_word_{low // bits}",
                )
                for low in range(0, width, bits)
            ]
        )
