"""Code of loop nests: a function for each, its innermost work in vectors and registers.

The parallel loops of a nest stand outside, then the tile (vectors of one loop, a few iterations of
another, unrolled), then the reductions, whose results so far stay in registers. What does not
change in a loop is computed before it. Not here: what the loops are (`schedule`), what is computed
in a tile (`tile_values`), what is stored of it (`sequels`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from xdsl.ir import SSAValue

from ....runtime.native.abi.sizes import Size
from ..kernels.code import Index
from .nests import Access, Nest
from .schedule import Schedule
from .sequels import Sequels
from .tile_values import Piece, pieces_of
from .views import View
from .writer import Writer


class Share(NamedTuple):
    """Some of the turns of a parallel loop, from the first to the end: each time so many as are
    done together (`Schedule.parallel`)."""

    loop: int
    first: SSAValue
    end: SSAValue


class LoopWriter(Sequels):
    """Writes one nest; `reduce` the reductions of each tile."""

    def __init__(
        self,
        writer: Writer,
        nest: Nest,
        plan: Schedule,
        pointers: Mapping[Access, SSAValue],
        tables: Mapping[View, SSAValue],
        reduce: Callable[[LoopWriter], None],
        share: Share | None = None,
    ) -> None:
        """Take a nest and where its operands stand.

        Args:
            writer: of its function.
            nest, plan: what it is, and how it runs.
            pointers, tables: where operands and tensors stand that are read elsewhere.
            reduce: see above.
            share: what is done of it; all when not given.
        """
        super().__init__(writer, nest, plan, pointers, tables)
        self._reduce = reduce
        self._share = share

    def write(self) -> None:
        """Write all of it."""
        self._level(0)
        self._inside(0)

    def _inside(self, depth: int) -> None:
        """The loops of a part of the plan, those of later parts inside."""
        if depth == len(self.plan.parts):
            self._tile()
            return
        part = self.plan.parts[depth]
        write = {"outer": self._outer, "rows": self._rows, "columns": self._columns}[part]
        write(lambda: self._inside(depth + 1))

    def _outer(self, inner: Callable[[], None], depth: int = 0) -> None:
        if depth == len(self.plan.outer):
            inner()
            return
        d = self.plan.outer[depth]
        start, end = self._range(d, 1)
        with self._loop(d, start, end):
            self._outer(inner, depth + 1)

    def _extent(self, size: Size) -> Index:
        return self.writer.size(size) if size.number is None else size.number

    def _range(self, d: int, step: int) -> tuple[Index, Index]:
        """Where a loop begins and ends, of which so many turns are one thing."""
        end = self._extent(self.nest.sizes[d])
        share = self._share
        if share is None or d != share.loop:
            return 0, end
        start, stop = (self.writer.mul(bound, step) for bound in (share.first, share.end))
        return start, self.writer.minimum(stop, self.writer.integer(end))

    def _whole(self, start: Index, end: Index, step: int) -> Index:
        """Where the last whole thing of a range ends."""
        if isinstance(start, int) and isinstance(end, int):
            return start + (end - start) // step * step
        room = self.writer.sub(self.writer.integer(end), self.writer.integer(start))
        return self.writer.add(self.writer.integer(start), self.below(room, step))

    @contextmanager
    def _loop(self, d: int, start: Index, end: Index, step: int = 1) -> Generator[None]:
        """A loop that carries nothing."""
        with self.writer.each(start, end, step) as index, self.bound(d, index):
            yield

    def _columns(self, inner: Callable[[], None]) -> None:
        d = self.plan.vector
        if d is None or self.plan.across:
            self.pieces = [Piece(0, None)]
            inner()
            return
        lanes, size = self.plan.lanes, self.nest.sizes[d]
        whole = [Piece(lanes * c, lanes) for c in range(self.plan.columns)]
        if size.number is None:
            self._dynamic_columns(d, whole, inner)
            return
        count, step = size.number, lanes * self.plan.columns
        start, stop = self._range(d, step)
        rest = count % step
        few = 0 < rest <= step // 2 and count >= step
        if self.plan.joins and few and isinstance(stop, int):
            rest += step
        end = stop - rest if isinstance(stop, int) else self._whole(start, stop, step)
        if count - rest >= step:
            self.pieces = whole
            with self._loop(d, start, end, step):
                inner()
        if rest:
            self.pieces = pieces_of(rest, lanes)
            with self._loop(d, end, stop, rest):
                inner()

    def _dynamic_columns(self, d: int, whole: Sequence[Piece], inner: Callable[[], None]) -> None:
        lanes = self.plan.lanes
        single = [Piece(0, None)]
        start, stop = self._range(d, lanes * len(whole))
        for pieces in [whole, whole[:1], single] if len(whole) > 1 else [whole, single]:
            step = 1 if pieces[0].width is None else lanes * len(pieces)
            self.pieces = pieces
            end = self._whole(start, stop, step)
            with self._loop(d, start, end, step):
                inner()
            start = end

    def below(self, size: SSAValue, step: int) -> SSAValue:
        """The last multiple of `step` that is not above a size."""
        if step == 1:
            return size
        return self.writer.mul(self.writer.udiv(size, step), step)

    def _rows(self, inner: Callable[[], None]) -> None:
        d = self.plan.rows
        if d is None:
            self.rows = [0]
            inner()
            return
        count, size = self.plan.row_count, self.nest.sizes[d].number
        start, stop = self._range(d, count)
        end = self._whole(start, stop, count)
        rest = 1 if size is None else size % count
        for rows, first, last in (range(count), start, end), (range(rest), end, stop):
            if rows and (size is None or size >= len(rows)):
                self.rows = rows
                with self._loop(d, first, last, len(rows)):
                    inner()

    def _tile(self) -> None:
        if self.nest.reductions:
            self._reduce(self)
        else:
            self.store([self.copies(result) for result in self.nest.results()])
