"""What stands in a tile of a nest: the values of its body, vector by vector, and what they read.

A tile is a few iterations of one loop by vectors of another; a value that does not change along one
of them stands there once. Not here: the loops around tiles (`loops`), what is stored (`sequels`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects import tensor as upstream
from xdsl.dialects.func import CallOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Operation, SSAValue

from ....runtime.native.abi.sizes import ONE, TWO, ZERO, Size
from ..llvm.types import lanes as lanes_of
from .nests import Access, Nest, dependencies, neighbours
from .schedule import Schedule, element_axis
from .views import View, stored
from .writer import Writer, wide_type


@dataclass(frozen=True)
class Piece:
    """A part of a tile: its distance from the tile's start, and its elements (`None`: a scalar)."""

    start: int
    width: int | None


class TileValues:
    """Writes what a tile reads and computes; loops say where it stands.

    Attributes:
        rows: the iterations of the loop over rows that it has.
        pieces: its parts along vectors.
    """

    def __init__(
        self,
        writer: Writer,
        nest: Nest,
        plan: Schedule,
        pointers: Mapping[Access, SSAValue],
        tables: Mapping[View, SSAValue],
    ) -> None:
        """Take a nest and where its operands stand.

        Args:
            writer: of its function.
            nest, plan: what it is, and how it runs.
            pointers, tables: where operands stand (the first of `neighbours`), and tensors that are
                read elsewhere.
        """
        self.writer = writer
        self.nest = nest
        self.plan = plan
        self.depends = dependencies(nest)
        self._tables = tables
        self._indices: dict[int, SSAValue] = {}
        vector = plan.vector if plan.vector is None or nest.parallel[plan.vector] else None
        loops = {"outer": plan.outer, "rows": (plan.rows,), "columns": (vector,)}
        self._order = [d for part in plan.parts for d in loops[part] if d is not None]
        self._order += [d for d in plan.reductions if d != plan.vector]
        if plan.across and plan.vector is not None:
            self._order.append(plan.vector)
        self._values: dict[tuple[SSAValue, int | None, int | None], SSAValue] = {}
        self._near = neighbours(nest.accesses)
        self._places: dict[Access, SSAValue] = {a: pointers[a] for a, _ in self._near.values()}
        self._accumulated = accumulated_ops(nest)
        first: dict[Access, SSAValue] = {}
        self._same = {value: first.setdefault(a, value) for value, a in nest.reads.items()}
        self.rows: Sequence[int] = [0]
        self.pieces: Sequence[Piece] = [Piece(0, None)]

    @contextmanager
    def bound(self, d: int, index: SSAValue) -> Generator[None]:
        """A loop at an index; what is computed meanwhile is forgotten afterwards."""
        values = dict(self._values)
        self._indices[d] = index
        with self._moved(d, index):
            self._level(self._order.index(d) + 1)
            yield
        self._values = values

    @contextmanager
    def _moved(self, d: int | None, index: SSAValue) -> Generator[None]:
        """Operands so many iterations of a loop further on."""
        places = dict(self._places)
        for a, place in places.items():
            if d is not None and a.depends_on(d):
                kind = stored(a.view.element)
                self._places[a] = self.writer.move(place, [(index, a.strides[d])], kind)
        yield
        self._places = places

    def _level(self, depth: int) -> None:
        """Compute what changes with the loops entered so far and with no later one."""
        for argument, a in self.nest.reads.items():
            if self._same[argument] is argument and self.depth(argument) == depth:
                self._load_all(argument, a)
        for number, argument in enumerate(self.nest.output_arguments()):
            reads = argument.first_use is not None and not self.nest.reductions
            if reads and self.depth(argument) == depth:
                self._each(argument, lambda j, c, v=argument, n=number: self._begin(v, n, j, c))
        for op in self.nest.body.ops:
            if isinstance(op, linalg.YieldOp | arith.ConstantOp) or op in self._accumulated:
                continue
            value = op.results[0]
            if self.depth(value) == depth:
                self._each(value, lambda j, c, op=op: self._compute(op, j, c))

    def compute_accumulated(self) -> None:
        """Compute what needs the results so far, once those are set."""
        for op in self._accumulated:
            self._each(op.results[0], lambda j, c, op=op: self._compute(op, j, c))

    def _begin(self, argument: SSAValue, output: int, j: int | None, c: int | None) -> None:
        """What an output holds before: a number too, where a reduction has one element to add."""
        start = self.nest.starts[output]
        if start is None:
            self._load(argument, self.nest.writes[output], j, c)
        else:
            self.set(argument, j, c, self.writer.literal(start, self.width(c)))

    def load_output(self, output: int, j: int, c: int | None) -> SSAValue:
        """What stands where an output goes."""
        argument = self.nest.output_arguments()[output]
        return self._loaded(self.nest.writes[output], argument.type, j, c)

    def depth(self, value: SSAValue) -> int:
        """The loops that must have been entered before a value is known."""
        loops = self.depends[value]
        return max((self._order.index(d) + 1 for d in loops), default=0)

    def _each(self, value: SSAValue, write: Callable[[int | None, int | None], None]) -> None:
        """Once for each part of the tile in which a value differs."""
        loops = self.depends[value]
        rows = self.rows if self.plan.rows in loops else [None]
        columns = range(len(self.pieces)) if self.plan.vector in loops else [None]
        for j in rows:
            for c in columns:
                write(j, c)

    def width(self, c: int | None) -> int | None:
        """The lanes of a part of the tile."""
        return None if c is None else self.pieces[c].width

    def address(self, a: Access, j: int | None, c: int | None) -> SSAValue:
        """Where a part of the tile starts in an operand."""
        first, away = self._near[a]
        place, distances = self._places[first], [Size.of(away)]
        if j and self.plan.rows is not None:
            distances.append(a.strides[self.plan.rows] * Size.of(j))
        if c is not None and self.plan.vector is not None and self.pieces[c].start:
            distances.append(self._between(a) * Size.of(self.pieces[c].start))
        for distance in distances:
            if distance != ZERO:
                place = self.writer.at(place, self.writer.size(distance), stored(a.view.element))
        return place

    def _between(self, a: Access) -> Size:
        """The distance of neighbours in a vector."""
        assert self.plan.vector is not None
        return ONE if a.panels else a.strides[self.plan.vector]

    def _load_all(self, value: SSAValue, a: Access) -> None:
        """Load what a tile reads for an argument."""
        plan = self.plan
        if self.nest.reductions or None in (plan.vector, plan.rows) or not self._lies_across(a):
            self._each(value, lambda j, c: self._load(value, a, j, c))
            return
        for c in range(len(self.pieces)):
            width = self.width(c)
            if width is not None and width == len(self.rows) and width.bit_count() == 1:
                self._turn(value, a, c)
                continue
            for j in self.rows:
                self._load(value, a, j, c)

    def _lies_across(self, a: Access) -> bool:
        """Whether an operand lies in a row along the rows of a tile, and not along its vectors."""
        vector, rows = self.plan.vector, self.plan.rows
        assert vector is not None and rows is not None
        return a.depends_on(vector) and a.strides[vector] != ONE and a.strides[rows] == ONE

    def _load(self, value: SSAValue, a: Access, j: int | None, c: int | None) -> None:
        self._values[value, j, c] = self._loaded(a, value.type, j, c)

    def _turn(self, value: SSAValue, a: Access, c: int) -> None:
        """Load a square of elements line by line, along the rows, and turn it over.

        Its side is a power of two.
        """
        writer, vector, width = self.writer, self.plan.vector, len(self.rows)
        assert vector is not None
        address, kind = self.address(a, 0, c), stored(a.view.element)
        lines: list[SSAValue] = []
        for _ in range(width):
            lines.append(writer.load(address, wide_type(kind, width)))
            address = writer.at(address, writer.size(a.strides[vector]), kind)
        step = 1
        while step < width:
            # Squares of `step` elements change places across the diagonal.
            near = [n - step + width if n & step else n for n in range(width)]
            far = [n + width if n & step else n + step for n in range(width)]
            for n in range(width):
                if not n & step:
                    x, y = lines[n], lines[n + step]
                    lines[n], lines[n + step] = (writer.shuffle(x, y, p) for p in (near, far))
            step *= 2
        for j, line in zip(self.rows, lines, strict=True):
            known = writer.loaded(line, a.view.element, value.type)
            self.set(value, j, c, self._raised(known, a.view))

    def _loaded(self, a: Access, kind: Attribute, j: int | None, c: int | None) -> SSAValue:
        writer, vector, width = self.writer, self.plan.vector, self.width(c)
        address, element = self.address(a, j, c), a.view.element
        if width is None or vector is None or self._between(a) == ONE:
            value = writer.load_element(address, element, kind, width)
        elif self._between(a) == TWO:
            value = writer.load_every_second(address, element, kind, width)
        else:
            value = writer.gather(address, writer.size(a.strides[vector]), element, kind, width)
        return self._raised(value, a.view)

    def _raised(self, value: SSAValue, view: View) -> SSAValue:
        """An element of what stands in memory for it."""
        return self.writer.add(value, view.buffer.low) if view.buffer.low else value

    def set(self, value: SSAValue, j: int | None, c: int | None, known: SSAValue) -> None:
        """Say what a value of the body is in a part of the tile."""
        self._values[value, j, c] = known

    def get(self, value: SSAValue, j: int | None, c: int | None) -> SSAValue:
        """What a value is in a part of the tile, with the lanes of that part."""
        value = self._same.get(value, value)
        width = self.width(c)
        literal = value.owner
        if isinstance(literal, arith.ConstantOp):
            return self.writer.literal(literal, width)
        captured = self.nest.captured.get(value)
        if isinstance(captured, Size):
            return self.writer.wide(self.writer.size(captured), width)
        loops = self.depends[value]
        row = j if self.plan.rows in loops else None
        column = c if self.plan.vector in loops else None
        known = self._values[value, row, column]
        if column is None and width is not None and lanes_of(known.type) is None:
            return self.writer.wide(known, width)
        return known

    def copies(self, value: SSAValue) -> dict[tuple[int, int], SSAValue]:
        """A value in all parts of the tile."""
        return {(j, c): self.get(value, j, c) for j in self.rows for c in range(len(self.pieces))}

    def _compute(self, op: Operation, j: int | None, c: int | None) -> None:
        width = self.width(c)
        writer = self.writer
        if isinstance(op, linalg.IndexOp):
            results = [self._index(op, j, c)]
        elif isinstance(op, upstream.ExtractOp):
            results = [self._extract(op, j, c)]
        elif isinstance(op, CallOp):
            operands = [self.get(operand, j, c) for operand in op.operands]
            callee = op.callee.string_value()
            results = [writer.ask(callee, op.results[0].type, *operands)]
        else:
            operands = [self.get(operand, j, c) for operand in op.operands]
            results = writer.apply(op, operands, width)
        for result, known in zip(op.results, results, strict=True):
            self._values[result, j, c] = known

    def _index(self, op: linalg.IndexOp, j: int | None, c: int | None) -> SSAValue:
        d = self.nest.index[op.dim.value.data]
        writer = self.writer
        if d is None:
            return writer.constant(0)
        index = self._indices[d]
        if d == self.plan.rows and j:
            index = writer.add(index, j)
        if d != self.plan.vector or c is None:
            return index
        if self.pieces[c].start:
            index = writer.add(index, self.pieces[c].start)
        return writer.counted(index, self.width(c))

    def _extract(self, op: upstream.ExtractOp, j: int | None, c: int | None) -> SSAValue:
        """An element of a tensor; a place outside of it is taken as the nearest inside."""
        view = self.nest.captured[op.tensor]
        assert isinstance(view, View)
        writer, width = self.writer, self.width(c)
        axis = None
        if width is not None and self.plan.vector is not None:
            axis = element_axis(self.nest, op, self.depends, self.plan.vector)
        place = self._tables[view]
        for position, index in enumerate(op.indices):
            if position == axis and self.plan.vector is not None:
                assert c is not None
                value = self._indices[self.plan.vector]
                value = writer.add(value, self.pieces[c].start)
            else:
                last = writer.size(view.sizes[position] - ONE)
                value = self.get(index, j, c if width is None else None)
                value = writer.maximum(writer.minimum(value, last), 0)
            stride = view.strides[position]
            place = writer.move(place, [(value, stride)], stored(view.element))
        kind = op.result.type
        if axis is None or width is None or view.strides[axis] == ONE:
            wide = None if axis is None else width
            value = writer.load_element(place, view.element, kind, wide)
        else:
            stride = writer.size(view.strides[axis])
            value = writer.gather(place, stride, view.element, kind, width)
        return self._raised(value, view)


def pieces_of(count: int, lanes: int) -> list[Piece]:
    """So many elements in whole vectors and one shorter one."""
    pieces = [Piece(start, lanes) for start in range(0, count - lanes + 1, lanes)]
    rest = count % lanes
    if rest:
        pieces.append(Piece(count - rest, None if rest == 1 else rest))
    return pieces


def accumulated_ops(nest: Nest) -> dict[Operation, None]:
    """The ops of the body that need the result so far of a reduction, in order."""
    known: set[SSAValue] = set(nest.output_arguments()) if nest.reductions else set()
    ops: dict[Operation, None] = {}
    for op in nest.body.ops:
        if not isinstance(op, linalg.YieldOp) and any(value in known for value in op.operands):
            known.update(op.results)
            ops[op] = None
    return ops
