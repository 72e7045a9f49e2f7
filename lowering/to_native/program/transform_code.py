"""Code that multiplies tiles by a matrix from both sides: loops over their columns, then rows.

Written out, a tile of 6×6 places takes more registers than there are, so that most values wait on
the stack all the same; as loops it is a fifth of the code. Not here: matrices (`transforms`), where
tiles stand (`tiles`).
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from ....runtime.native.abi.sizes import Size
from .loops import LoopWriter, Share
from .nests import Access, Nest, neighbours
from .sequels import bytes_of
from .structured import NestStep
from .transforms import Form, Matrix, divided, once
from .views import View, stored
from .writer import Writer, wide_type


@dataclass(eq=False)
class TransformStep(NestStep):
    """M v Mᵀ of tiles v, which the body of the nest writes out for all places, row by row.

    Attributes:
        matrix: M.
        divided: the form of tiles whose results become sums of the convolution.
    """

    matrix: Matrix = ()
    divided: Form | None = None

    @property
    def kind(self) -> Hashable:
        """What code is made of."""
        return self.matrix, self.divided


def has_grids(nest: Nest, matrix: Matrix) -> bool:
    """Whether places of tiles are equally far apart in memory, along columns and along rows.

    Constants may have been put in order place by place.
    """
    near = neighbours(nest.accesses)
    for places, side in ((list(nest.reads.values()), len(matrix[0])), (nest.writes, len(matrix))):
        first, start = near[places[0]]
        right, down = near[places[1]][1] - start, near[places[side]][1] - start
        for n, place in enumerate(places):
            row, column = divmod(n, side)
            if near[place] != (first, start + row * down + column * right):
                return False
    return True


class TransformWriter(LoopWriter):
    """Writes one step."""

    def __init__(
        self,
        writer: Writer,
        step: TransformStep,
        pointers: Mapping[Access, SSAValue],
        tables: Mapping[View, SSAValue],
        share: Share | None = None,
    ) -> None:
        super().__init__(writer, step.nest, step.plan, pointers, tables, lambda _: None, share)
        self._matrix, self._divided = step.matrix, step.divided

    def _level(self, depth: int) -> None:
        """Tiles are read in loops of their own."""

    def _tile(self) -> None:
        for j in self.rows:
            for c in range(len(self.pieces)):
                self._both(j, c)

    def _both(self, j: int, c: int) -> None:
        """One vector of all places of a tile."""
        nest, writer, width = self.nest, self.writer, self.pieces[c].width
        kind = nest.body.args[0].type
        given, wanted = list(nest.reads.values()), nest.writes
        side, count = len(self._matrix[0]), len(self._matrix)
        column = None if width is None else c
        element = wide_type(kind, width)
        each = bytes_of(element)
        memory = self._room(side * count * each)
        with self._places_along(given[0], given[1], side) as n:
            values = [self._loaded(a, kind, j, column) for a in given[::side]]
            line = writer.at(memory, writer.mul(n, each))
            for k, value in enumerate(self._once(values, width)):
                writer.store(value, writer.at(line, k * side * each))
        with self._places_along(wanted[0], wanted[count], count) as n:
            line = writer.at(memory, writer.mul(n, side * each))
            values = [writer.load(writer.at(line, k * each), element) for k in range(side)]
            for a, value in zip(wanted, self._once(values, width, self._divided), strict=False):
                self._put(a, {(j, c): value})

    @contextmanager
    def _places_along(self, first: Access, next: Access, count: int) -> Generator[SSAValue]:
        """A loop over places of tiles as far apart as two are."""
        head, away = self._near[first]
        other, further = self._near[next]
        assert head == other
        places = self._places
        with self.writer.each(0, count) as n:
            distance = Size.of(further - away)
            place = self.writer.move(places[head], [(n, distance)], stored(head.view.element))
            self._places = {**places, head: place}
            yield n
        self._places = places

    def _once(
        self, values: Sequence[SSAValue], width: int | None, divided_by: Form | None = None
    ) -> list[SSAValue]:
        """The matrix by vectors, and sums of a convolution of that."""
        body = Block(arg_types=[self.nest.body.args[0].type] * len(values))
        builder = Builder(InsertPoint.at_end(body))
        made = once(builder, self._matrix, body.args)
        if divided_by is not None:
            made = [divided(builder, divided_by, value) for value in made]
        builder.insert(linalg.YieldOp(*made))
        known: dict[SSAValue, SSAValue] = dict(zip(body.args, values, strict=True))
        for op in body.ops:
            if isinstance(op, arith.ConstantOp):
                known[op.result] = self.writer.literal(op, width)
            elif not isinstance(op, linalg.YieldOp):
                operands = [known[v] for v in op.operands]
                known.update(zip(op.results, self.writer.apply(op, operands, width), strict=True))
        end = body.last_op
        assert end is not None
        return [known[v] for v in end.operands]
