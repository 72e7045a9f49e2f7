"""Code of reductions: results so far go from iteration to iteration of a loop in registers.

Either the tile's own loop runs in vectors, each lane being a result of its own, or the innermost
reduction does, and the lanes are added up at the end. Not here: the loops around (`loops`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ....runtime.native.abi.sizes import Size
from ..kernels.code import Index
from ..llvm.types import element, lanes
from .combiners import Combiner, combiners
from .loops import LoopWriter
from .schedule import UNROLLED, shared_parts, unrolled
from .tile_values import Piece, pieces_of
from .writer import wide_type

Inner = Callable[[list[SSAValue]], list[SSAValue]]


def write_reduction(loops: LoopWriter) -> None:
    """Write the reductions of one tile."""
    _Reduction(loops).write()


class _Reduction:
    """The reductions of one tile."""

    def __init__(self, loops: LoopWriter) -> None:
        self.loops = loops
        self.writer = loops.writer
        self.nest = loops.nest
        self.plan = loops.plan
        self.outputs = range(len(self.nest.writes))

    def write(self) -> None:
        """Start, add up, store."""
        if self.plan.across and self.plan.vector is not None:
            _Across(self, self.plan.vector).write()
            return
        places = [(j, c) for j in self.loops.rows for c in range(len(self.loops.pieces))]
        slots = [(o, j, c) for o in self.outputs for j, c in places]
        first = [self.start(o, j, c) for o, j, c in slots]

        def step(carried: list[SSAValue]) -> list[SSAValue]:
            for (o, j, c), value in zip(slots, carried, strict=True):
                self.loops.set(self.nest.output_arguments()[o], *self.key(j, c), value)
            self.loops.compute_accumulated()
            return [self.loops.get(self.nest.results()[o], j, c) for o, j, c in slots]

        if self.plan.rows in shared_parts(self.nest):
            last = self.in_parts(first, slots, step)
        else:
            last = self.around(self.plan.reductions, first, step)
        results = dict(zip(slots, last, strict=True))
        self.loops.store([{(j, c): results[o, j, c] for j, c in places} for o in self.outputs])

    def key(self, j: int, c: int) -> tuple[int | None, int | None]:
        """Under what an accumulator is known."""
        plan = self.plan
        return (None if plan.rows is None else j, None if plan.vector is None else c)

    def start(self, output: int, j: int, c: int | None) -> SSAValue:
        """What an output begins with: a number, or what stands in memory."""
        number = self.nest.starts[output]
        width = self.loops.width(c)
        if number is not None:
            return self.writer.literal(number, width)
        return self.loops.load_output(output, j, c)

    def in_parts(
        self, first: list[SSAValue], slots: Sequence[tuple[int, int, int]], inner: Inner
    ) -> list[SSAValue]:
        """Part by part along the outermost reduction: LLVM makes those once that rows share."""
        every, (shared, *rest) = combiners(self.nest), self.plan.reductions
        size = self.nest.sizes[shared].number
        assert every is not None and size is not None
        chosen = [every[o] for o, _, _ in slots]
        neutral = [
            self.writer.neutral(combiner.neutral, value.type)
            for combiner, value in zip(chosen, first, strict=True)
        ]
        for index in range(size):
            with self.loops.bound(shared, self.writer.constant(index)):
                parts = self.around(rest, neutral, inner)
            first = [
                self.writer.apply(combiner.op, [value, part], lanes(value.type))[0]
                for combiner, value, part in zip(chosen, first, parts, strict=True)
            ]
        return first

    def around(self, order: Sequence[int], first: list[SSAValue], inner: Inner) -> list[SSAValue]:
        """The loops `order`, the first outermost, around `inner`."""
        if not order:
            return inner(first)
        d, rest = order[0], order[1:]
        count = self.nest.sizes[d].number
        if count is not None and (
            unrolled(self.nest) or d == self.plan.window or (not rest and count <= UNROLLED)
        ):
            for index in range(count):
                with self.loops.bound(d, self.writer.constant(index)):
                    first = self.around(rest, first, inner)
            return first
        size = self.writer.size(self.nest.sizes[d])
        with self.writer.loop(0, size, 1, first) as turn, self.loops.bound(d, turn.index):
            turn.values = self.around(rest, list(turn.values), inner)
        return list(turn.values)


class _Across:
    """A reduction whose innermost loop runs in vectors."""

    def __init__(self, reduction: _Reduction, vector: int) -> None:
        self.reduction = reduction
        self.loops, self.writer = reduction.loops, reduction.writer
        self.nest, self.vector = reduction.nest, vector
        every = combiners(self.nest)
        assert every is not None
        self.combiners = every
        lanes_, size = reduction.plan.lanes, self.nest.sizes[vector]
        self.lanes = lanes_
        columns = reduction.plan.columns
        if size.number is not None:
            columns = max(1, min(columns, size.number // lanes_))
        self.chains = columns
        self.slots = [
            (o, j, u)
            for o in reduction.outputs
            for j in reduction.loops.rows
            for u in range(columns)
        ]
        self.ends = [(o, j) for o in reduction.outputs for j in reduction.loops.rows]
        rest = None if size.number is None else size.number % lanes_
        self.overlaps = all(c.repeats for c in every) and (size.number or 0) >= lanes_
        self.rest = None if self.overlaps or rest in (None, 0, 1) else rest

    def write(self) -> None:
        """Start every lane with the neutral element; at the end join lanes and the real start."""
        order = [d for d in self.reduction.plan.reductions if d != self.vector]
        first = [self.neutral(o, self.lanes) for o, _, _ in self.slots]
        first += [self.neutral(o, self.rest) for o, _ in self.ends]
        last = self.reduction.around(order, first, self.along)
        sums = dict(zip(self.slots, last, strict=False))
        ends = dict(zip(self.ends, last[len(self.slots) :], strict=True))
        stored: list[dict[tuple[int, int], SSAValue]] = []
        for o in self.reduction.outputs:
            row: dict[tuple[int, int], SSAValue] = {}
            for j in self.loops.rows:
                total = sums[o, j, 0]
                for u in range(1, self.chains):
                    total = self.join(o, total, sums[o, j, u])
                total = self.join(o, self.horizontal(o, total), self.horizontal(o, ends[o, j]))
                row[j, 0] = self.join(o, self.reduction.start(o, j, None), total)
            stored.append(row)
        self.loops.store(stored)

    def neutral(self, output: int, width: int | None) -> SSAValue:
        """The neutral element of an output in every lane."""
        combiner = self.combiners[output]
        return self.writer.neutral(combiner.neutral, wide_type(combiner.op.results[0].type, width))

    def join(self, output: int, a: SSAValue, b: SSAValue) -> SSAValue:
        """Two parts of an output as one."""
        combiner: Combiner = self.combiners[output]
        return self.writer.apply(combiner.op, [a, b], lanes(a.type))[0]

    def horizontal(self, output: int, value: SSAValue) -> SSAValue:
        """All lanes of a vector as one number."""
        count = lanes(value.type)
        if count is None:
            return value
        half = 1 << (count.bit_length() - 1)
        builder = self.writer
        if half < count:
            low = self.horizontal(output, builder.shuffle(value, value, range(half)))
            high = builder.shuffle(value, value, range(half, count))
            return self.join(output, low, self.horizontal(output, high))
        if count == 1:
            return builder.bits(value, element(value.type))
        if isinstance(self.combiners[output].op, arith.AddiOp) and element(value.type) == i32:
            # Where halves add up products of bytes, LLVM 22 takes VNNI and drops most of its sums.
            return builder.reduced("add", value)
        return self.horizontal(output, self.join(output, *builder.halves(value)))

    def along(self, carried: list[SSAValue]) -> list[SSAValue]:
        """The vector loop."""
        vectors, ends = carried[: len(self.slots)], carried[len(self.slots) :]
        size = self.nest.sizes[self.vector]
        step = self.lanes * self.chains
        whole = [Piece(self.lanes * u, self.lanes) for u in range(self.chains)]
        if size.number is None:
            return self._dynamic(vectors, ends, size, whole, step)
        end = size.number // step * step
        if end:
            vectors = self.run(0, end, step, whole, vectors)
        for piece in pieces_of(size.number - end, self.lanes):
            if self.overlaps and piece.width != self.lanes:
                piece = Piece(size.number - self.lanes - end, self.lanes)
            place = self.writer.constant(end + piece.start)
            short = [Piece(0, piece.width)]
            if piece.width == self.lanes:
                vectors = self.first_chain(place, short, vectors)
            else:
                ends = self.once(place, short, ends)
        return [*vectors, *ends]

    def _dynamic(
        self,
        vectors: list[SSAValue],
        ends: list[SSAValue],
        size: Size,
        whole: Sequence[Piece],
        step: int,
    ) -> list[SSAValue]:
        total = self.writer.size(size)
        end = self.loops.below(total, step)
        vectors = self.run(0, end, step, whole, vectors)
        if self.chains > 1:
            stop = self.loops.below(total, self.lanes)
            before = vectors
            first = [v for (_, _, u), v in zip(self.slots, before, strict=True) if u == 0]
            first = self.run(end, stop, self.lanes, whole[:1], first)
            vectors = self._with_first(before, first)
            end = stop
        ends = self.run(end, total, 1, [Piece(0, None)], ends)
        return [*vectors, *ends]

    def _with_first(self, vectors: Sequence[SSAValue], first: Sequence[SSAValue]) -> list[SSAValue]:
        """The first chain of every sum replaced."""
        new = iter(first)
        return [
            next(new) if u == 0 else old for (_, _, u), old in zip(self.slots, vectors, strict=True)
        ]

    def first_chain(
        self, place: SSAValue, pieces: Sequence[Piece], vectors: list[SSAValue]
    ) -> list[SSAValue]:
        """One more vector, added to the first chain."""
        first = [v for (_, _, u), v in zip(self.slots, vectors, strict=True) if u == 0]
        return self._with_first(vectors, self.once(place, pieces, first))

    def run(
        self,
        start: Index,
        end: Index,
        step: int,
        pieces: Sequence[Piece],
        carried: list[SSAValue],
    ) -> list[SSAValue]:
        """A loop over vectors."""
        with self.writer.loop(start, end, step, carried) as turn:
            turn.values = self.once(turn.index, pieces, list(turn.values))
        return list(turn.values)

    def once(
        self, index: SSAValue, pieces: Sequence[Piece], carried: list[SSAValue]
    ) -> list[SSAValue]:
        """One iteration, with as many vectors as there are pieces."""
        places = [
            (o, j, c)
            for o in self.reduction.outputs
            for j in self.loops.rows
            for c in range(len(pieces))
        ]
        arguments = self.nest.output_arguments()
        self.loops.pieces = pieces
        with self.loops.bound(self.vector, index):
            for (o, j, c), value in zip(places, carried, strict=True):
                self.loops.set(arguments[o], *self.reduction.key(j, c), value)
            self.loops.compute_accumulated()
            last = [self.loops.get(self.nest.results()[o], j, c) for o, j, c in places]
        self.loops.pieces = [Piece(0, None)]
        return last
