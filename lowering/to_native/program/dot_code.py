"""Code of sums of products of small integers: a tile of sums in registers, then what follows them.

In the innermost loop the weights of a few outputs are loaded once for all places, neighbouring
factors of a place are spread over a vector, and every sum takes a group of products more. Not here:
how factors lie in memory (`dots`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import i8, i16, i32
from xdsl.ir import SSAValue

from ..kernels.pack_panels import BYTES
from ..kernels.recipes import Recipe
from ..llvm.types import element, vector
from .dots import DotStep
from .loops import LoopWriter, Share
from .nests import Access
from .sequels import Results
from .views import View, stored
from .writer import Writer, wide_type

_SHORT, _MOST_UNROLLED = 32, 360
"""Groups of products of a short sum, and ops behind those of a tile that are written out."""


class DotWriter(LoopWriter):
    """Writes one step."""

    def __init__(
        self,
        writer: Writer,
        step: DotStep,
        recipe: Recipe,
        pointers: Mapping[Access, SSAValue],
        tables: Mapping[View, SSAValue],
        share: Share | None = None,
    ) -> None:
        super().__init__(writer, step.nest, step.plan, pointers, tables, lambda _: None, share)
        assert step.dots is not None
        self._dots = step.dots
        self._recipe = recipe

    @property
    def most_unrolled(self) -> int:
        """More where sums are short: to wait on the stack takes as long as some products. Not of
        rows of a free batch, since most calls have one."""
        rows = self.plan.rows
        known = rows is None or self.nest.sizes[rows].number is not None
        short = known and prod(count for count, _ in self._dots.taps) <= _SHORT
        return _MOST_UNROLLED if short else super().most_unrolled

    def _load_all(self, value: SSAValue, a: Access) -> None:
        """Factors are read in the innermost loop alone."""

    def _begin(self, argument: SSAValue, output: int, j: int | None, c: int | None) -> None:
        """Sums begin where they are added up."""

    def _tile(self) -> None:
        """Whole vectors of sums, of which the last outputs may be void."""
        nest, writer, lanes = self.nest, self.writer, self.plan.lanes
        image, weights = nest.reads[self._dots.image], nest.reads[self._dots.weights]
        places = [self.address(image, j, None) for j in self.rows]
        start = nest.starts[0]
        assert start is not None
        keys = [(j, c) for j in self.rows for c in range(len(self.pieces))]
        begun = [writer.literal(start, lanes)] * len(self.pieces)
        if self._dots.starts is not None:
            a = nest.reads[self._dots.starts]
            at, kind = self.address(a, None, None), a.view.element
            read = [writer.at(at, c * lanes, kind) for c in range(len(begun))]
            begun = [writer.add(begun[0], writer.load_element(x, kind, i32, lanes)) for x in read]
        first = [begun[c] for _, c in keys]
        known = self.address(weights, None, None)
        if self._dots.lanes:
            sums = self._lanes(self.address(image, 0, None), known, first)
        else:
            sums, _ = self._taps(0, places, known, first)
        self.store([dict(zip(keys, sums, strict=True))])

    def _lanes(
        self, image: SSAValue, weights: SSAValue, sums: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """Sums of factors of their own; neighbouring places share those that are put together."""
        writer, lanes, dots = self.writer, self.plan.lanes, self._dots
        rows = self.plan.rows
        assert rows is not None
        step = self.nest.reads[dots.image].strides[rows].number
        assert step is not None
        found = list(sums)
        if dots.most:
            found = [writer.constant(0, vector(i16, 2 * lanes))] * len(sums)
        factors: dict[tuple[int, ...], SSAValue] = {}
        for number, distances in enumerate(dots.lanes):
            values = writer.load(writer.at(weights, 4 * number * lanes, i8), vector(i8, 4 * lanes))
            values = writer.bits(values, vector(i32, lanes))
            for place, j in enumerate(self.rows):
                key = tuple(distance + j * step for distance in distances)
                if key not in factors:
                    factors[key] = self._beside(image, key)
                found[place] = self._added(found[place], factors[key], values)
        return self._widened(sums, found) if dots.most else found

    def _beside(self, image: SSAValue, distances: Sequence[int]) -> SSAValue:
        """The bytes at four distances of as many outputs as there are lanes, lane by lane."""
        writer, lanes = self.writer, self.plan.lanes
        lines = [writer.load(writer.at(image, d, i8), vector(i8, lanes)) for d in distances]
        first, last = (writer.shuffle(lines[n], lines[n + 1], range(2 * lanes)) for n in (0, 2))
        places = [line * lanes + n for n in range(lanes) for line in range(4)]
        return writer.bits(writer.shuffle(first, last, places), vector(i32, lanes))

    def _cut(self, values: Results) -> Results:
        """The sums of pieces, of which the last lanes may be void."""
        writer, cut = self.writer, dict(values)
        for (j, c), total in values.items():
            width = self.pieces[c].width
            if width is None:
                cut[j, c] = writer.lane(total, 0)
            elif width < self.plan.lanes:
                cut[j, c] = writer.shuffle(total, total, range(width))
        return cut

    def _taps(
        self, depth: int, places: Sequence[SSAValue], weights: SSAValue, sums: Sequence[SSAValue]
    ) -> tuple[list[SSAValue], SSAValue]:
        """The loops over factors from `depth` on: the sums, and where the next weights stand."""
        taps, most = self._dots.taps, self._dots.most
        if depth == len(taps):
            return self._products(places, weights, sums)
        count, step = taps[depth]
        narrow = element(sums[0].type) == i16
        if not most or narrow or count == 1:
            return self._turns(depth, range(0, count), places, weights, sums)
        if prod(n for n, _ in taps[depth:]) <= most:
            return self._in_shorts(depth, range(0, count), places, weights, sums)
        if depth < len(taps) - 1:
            return self._turns(depth, range(0, count), places, weights, sums)
        # Turns of the innermost loop in parts that 16 bits hold.
        parts = -(-count // most)
        each = -(-count // parts)
        whole = count // each
        results, at = list(sums), weights
        with self.writer.loop(0, whole, 1, [*sums, weights]) as turn:
            *so_far, at = turn.values
            here = self._further(places, self.writer.mul(turn.index, each * step))
            results, at = self._in_shorts(depth, range(0, each), here, at, so_far)
            turn.values = [*results, at]
        *results, at = turn.values
        if whole * each < count:
            rest = range(whole * each, count)
            results, at = self._in_shorts(depth, rest, places, at, results)
        return results, at

    def _turns(
        self,
        depth: int,
        turns: range,
        places: Sequence[SSAValue],
        weights: SSAValue,
        sums: Sequence[SSAValue],
    ) -> tuple[list[SSAValue], SSAValue]:
        """Some turns of a loop, of the innermost several at once where factors come so."""
        if len(turns) == 1 and not turns.start:
            return self._taps(depth + 1, places, weights, sums)
        last = depth == len(self._dots.taps) - 1
        each = self._recipe.factors if last else 1
        middle = turns.stop - len(turns) % each
        values = [*sums, weights]
        for start, stop, count in (turns.start, middle, each), (middle, turns.stop, 1):
            if start == stop:
                continue
            with self.writer.loop(start, stop, count, values) as turn:
                *so_far, at = turn.values
                here = self._further(places, self.writer.mul(turn.index, self._dots.taps[depth][1]))
                results, at = (
                    self._products(here, at, so_far, count)
                    if last
                    else self._taps(depth + 1, here, at, so_far)
                )
                turn.values = [*results, at]
            values = list(turn.values)
        *results, at = values
        return results, at

    def _in_shorts(
        self,
        depth: int,
        turns: range,
        places: Sequence[SSAValue],
        weights: SSAValue,
        sums: Sequence[SSAValue],
    ) -> tuple[list[SSAValue], SSAValue]:
        """Some turns whose sums of pairs 16 bits hold, then added to sums of 32."""
        writer, lanes = self.writer, self.plan.lanes
        nothing = writer.constant(0, vector(i16, 2 * lanes))
        found, at = self._turns(depth, turns, places, weights, [nothing] * len(sums))
        return self._widened(sums, found), at

    def _widened(self, sums: Sequence[SSAValue], found: Sequence[SSAValue]) -> list[SSAValue]:
        """Sums of 32 bits, and those of pairs in 16."""
        words = self._recipe.words
        assert words is not None
        ones = self.writer.constant(1, found[0].type)
        return [words(self.writer, s, pairs, ones) for s, pairs in zip(sums, found, strict=True)]

    def _further(self, places: Sequence[SSAValue], distance: SSAValue) -> list[SSAValue]:
        kind = stored(self.nest.reads[self._dots.image].view.element)
        return [self.writer.at(place, distance, kind) for place in places]

    def _products(
        self,
        places: Sequence[SSAValue],
        weights: SSAValue,
        sums: Sequence[SSAValue],
        count: int = 1,
    ) -> tuple[list[SSAValue], SSAValue]:
        """So many groups of products more for all sums."""
        writer, lanes, group = self.writer, self.plan.lanes, self._dots.group
        kind = self.nest.reads[self._dots.weights].view.element
        columns = range(len(self.pieces))
        groups = [
            writer.load(place, wide_type(i32, None if count == 1 else count)) for place in places
        ]
        results = list(sums)
        for n in range(count):
            known = [self._weights(weights, c) for c in columns]
            rest, results = iter(results), list[SSAValue]()
            for values_of_place in groups:
                factors = (
                    writer.splat(values_of_place, lanes)
                    if count == 1
                    else writer.shuffle(values_of_place, values_of_place, [n] * lanes)
                )
                results += [self._added(next(rest), factors, values) for values in known]
            weights = writer.at(weights, self.plan.columns * lanes * group, kind)
        return results, weights

    def _added(self, total: SSAValue, factors: SSAValue, values: SSAValue) -> SSAValue:
        """A sum and a group of products."""
        recipe = self._recipe
        if element(total.type) == i16:
            assert recipe.pairs is not None
            return self.writer.add(total, recipe.pairs(self.writer, factors, values))
        dot = recipe.dot if self._dots.group == BYTES else recipe.words
        assert dot is not None
        if recipe.signed:
            # ARM takes a lane of its last operand for all.
            factors, values = values, factors
        return dot(self.writer, total, factors, values)

    def _weights(self, weights: SSAValue, c: int) -> SSAValue:
        """A group of weights for a vector of outputs."""
        writer, lanes, group = self.writer, self.plan.lanes, self._dots.group
        kind = self.nest.reads[self._dots.weights].view.element
        values = writer.load(
            writer.at(weights, c * lanes * group, kind), vector(kind, lanes * group)
        )
        if group != BYTES:
            values = writer.resize(values, vector(i16, lanes * group))
        return writer.bits(values, vector(i32, lanes))
