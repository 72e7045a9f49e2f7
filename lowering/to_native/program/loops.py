"""Code of loop nests: a function for each, its innermost work in vectors and registers.

The parallel loops of a nest stand outside, then the tile (vectors of one loop, a few iterations of
another, unrolled), then the reductions, whose results so far stay in registers. What does not
change in a loop is computed before it. Not here: what the loops are (`schedule`).
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

from ..kernels.code import Index
from ..llvm.types import lanes as lanes_of
from ..llvm.types import width as bits_of
from .nests import Access, Behind, Nest, dependencies
from .schedule import Schedule, element_axis
from .sizes import ONE, TWO, ZERO, Size
from .views import View, stored
from .writer import Writer, wide_type

Bounds = tuple[SSAValue, SSAValue]
"""The first and the end of some of a number of things."""

Results = Mapping[tuple[int, int], SSAValue]
"""What the parts of a tile give: by row and piece."""

_MOST_UNROLLED = 64
"""Ops behind the sums of a tile that are written for each of them."""


@dataclass(frozen=True)
class Piece:
    """A part of a tile: its distance from the tile's start, and its elements (`None`: a scalar)."""

    start: int
    width: int | None


class LoopWriter:
    """Writes one nest; `reduce` the reductions of each tile."""

    def __init__(
        self,
        writer: Writer,
        nest: Nest,
        plan: Schedule,
        pointers: Mapping[Access, SSAValue],
        tables: Mapping[View, SSAValue],
        reduce: Callable[[LoopWriter], None],
        bounds: Bounds | None = None,
    ) -> None:
        """Take a nest and where its operands stand.

        Args:
            writer: of its function.
            nest, plan: what it is, and how it runs.
            pointers, tables: where operands and tensors stand that are read elsewhere.
            reduce: see above.
            bounds: which of the things that `first_loop` counts are done; all when not given.
        """
        self.writer = writer
        self.nest = nest
        self.plan = plan
        self.depends = dependencies(nest)
        self._tables = tables
        self._reduce = reduce
        self._indices: dict[int, SSAValue] = {}
        vector = None if plan.vector is None or self._reduces(plan.vector) else plan.vector
        loops = {"outer": plan.outer, "rows": (plan.rows,), "columns": (vector,)}
        self._order = [d for part in plan.parts for d in loops[part] if d is not None]
        self._order += [d for d in plan.reductions if d != plan.vector]
        if plan.across and plan.vector is not None:
            self._order.append(plan.vector)
        self._bounds = bounds
        first_of_all = first_loop(nest, plan)
        self._shared = None if bounds is None or first_of_all is None else first_of_all[0]
        self._values: dict[tuple[SSAValue, int | None, int | None], SSAValue] = {}
        self._places: dict[Access, SSAValue] = {a: pointers[a] for a in nest.accesses}
        self._accumulated = accumulated_ops(nest)
        first: dict[Access, SSAValue] = {}
        self._rooms: dict[int, SSAValue] = {}
        self._same = {value: first.setdefault(a, value) for value, a in nest.reads.items()}
        self.rows: Sequence[int] = [0]
        self.pieces: Sequence[Piece] = [Piece(0, None)]

    def _reduces(self, dimension: int) -> bool:
        return not self.nest.parallel[dimension]

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
        if d != self._shared or self._bounds is None:
            return 0, end
        start, stop = (self.writer.mul(bound, step) for bound in self._bounds)
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

    # The tile

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
        end = self._whole(start, stop, step)
        if count >= step:
            self.pieces = whole
            with self._loop(d, start, end, step):
                inner()
        if count % step:
            self.pieces = pieces_of(count % step, lanes)
            with self._loop(d, end, stop, count % step):
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

    # Values

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
        place, distances = self._places[a], list[Size]()
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

    def store(self, results: Sequence[Results]) -> None:
        """Store the results of the tile, one map for each output."""
        behind = self.nest.behind
        for a, values in zip(self.nest.writes, results, strict=True):
            if behind is None:
                self._put(a, self._cut(values))
            elif len(values) * behind.work <= self.most_unrolled:
                self._put(a, self._followed(behind, self._cut(values)))
            else:
                self._follow_in_turn(a, behind, values)

    @property
    def most_unrolled(self) -> int:
        """Ops behind the sums of a tile that are written one after the other."""
        return _MOST_UNROLLED

    def _cut(self, values: Results) -> Results:
        """Results with as many lanes as the parts of the tile have."""
        return values

    def _put(self, a: Access, values: Results) -> None:
        vector = self.plan.vector
        for (j, c), value in values.items():
            low = a.view.buffer.low
            lowered = self.writer.sub(value, low) if low else value
            known = self.writer.storable(lowered, a.view.element)
            address = self.address(a, j, None if self.plan.across else c)
            width = None if self.plan.across else self.width(c)
            if width is None or vector is None or a.strides[vector] == ONE:
                self.writer.store(known, address)
            else:
                stride = self.writer.size(a.strides[vector])
                self.writer.scatter(known, address, stride, width)

    def _follow_in_turn(self, a: Access, behind: Behind, sums: Results) -> None:
        """Many steps behind each sum, written once: sums wait on the stack."""
        writer, plan = self.writer, self.plan
        tile = self.rows, self.pieces
        count, slot = len(tile[1]), max(value_bytes(value.type) for value in sums.values())
        memory = self._room(len(sums) * slot)
        for (j, c), value in sums.items():
            writer.store(value, writer.at(memory, (j * count + c) * slot))

        def follow(line: SSAValue) -> None:
            values = {
                (0, c): writer.load(writer.at(line, c * slot), sums[0, c].type)
                for c in range(len(self.pieces))
            }
            self._put(a, self._followed(behind, self._cut(values)))

        self.rows = [0]
        is_even = all(piece.width == plan.lanes for piece in tile[1]) and not plan.across
        with writer.each(0, len(tile[0])) as j, self._moved(plan.rows, j):
            line = writer.at(memory, writer.mul(j, count * slot))
            if not is_even or count * behind.work <= 2 * _MOST_UNROLLED:
                follow(line)
            else:
                self.pieces = tile[1][:1]
                columns = writer.each(0, count * plan.lanes, plan.lanes)
                with columns as c, self._moved(plan.vector, c):
                    follow(writer.at(line, writer.mul(c, slot // plan.lanes)))
        self.rows, self.pieces = tile

    def _room(self, size: int) -> SSAValue:
        """Memory on the stack that tiles share."""
        known = next((memory for held, memory in self._rooms.items() if held >= size), None)
        if known is None:
            known = self._rooms[size] = self.writer.stack(size)
        return known

    def _followed(self, behind: Behind, sums: Results) -> dict[tuple[int, int], SSAValue]:
        """What is stored in the place of sums."""
        results: dict[tuple[int, int], SSAValue] = {}
        for (j, c), value in sums.items():
            column = None if self.plan.across else c
            width = self.width(column)
            known = dict.fromkeys(behind.sums, value)
            for argument, a in behind.reads.items():
                moves = self.plan.vector is not None and a.depends_on(self.plan.vector)
                element = self._loaded(a, argument.type, j, column if moves else None)
                known[argument] = element if moves else self.writer.wide(element, width)
            for op in behind.body.ops:
                operands = [
                    self.writer.literal(v.owner, width)
                    if isinstance(v.owner, arith.ConstantOp)
                    else known[v]
                    for v in op.operands
                ]
                if isinstance(op, linalg.YieldOp):
                    results[j, c] = operands[0]
                elif not isinstance(op, arith.ConstantOp):
                    applied = self.writer.apply(op, operands, width)
                    known.update(zip(op.results, applied, strict=True))
        return results


def first_loop(nest: Nest, plan: Schedule) -> tuple[int, int] | None:
    """The outermost parallel loop of more than one turn for one sample, and how many of its turns
    are one thing, which is never cut."""
    loops: dict[str, list[tuple[int, int]]] = {
        "outer": [(d, 1) for d in plan.outer],
        "rows": [] if plan.rows is None else [(plan.rows, plan.row_count)],
        "columns": [],
    }
    if plan.vector is not None and not plan.across:
        loops["columns"].append((plan.vector, plan.lanes * plan.columns))
    each = [loop for part in plan.parts for loop in loops[part]]
    return next(((d, step) for d, step in each if nest.sizes[d].at(1) > 1), None)


def value_bytes(type: Attribute) -> int:
    """Bytes of a number or a vector."""
    return bits_of(type) // 8 * (lanes_of(type) or 1)


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
