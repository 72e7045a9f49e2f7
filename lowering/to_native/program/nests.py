"""Nests of loops over views: what a `linalg` op does, in the form that loops are written from.

Not here: which loop is vectorised (`schedule`), the code (`loops`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.rewriter import InsertPoint

from ....runtime.native.abi.sizes import ONE, ZERO, Size
from .views import Buffer, View


class RefusedError(Exception):
    """Why an op cannot be compiled; listed with all others."""


@dataclass(frozen=True)
class Access:
    """Which element of a buffer is touched in an iteration: offset + Σ index·stride.

    Attributes:
        panels: whether the elements of a tile lie in a row, and its stride is between tiles alone.
    """

    view: View
    offset: Size
    strides: tuple[Size, ...]
    panels: bool = False

    def depends_on(self, dimension: int) -> bool:
        """Whether the element changes from one iteration of a loop to the next."""
        return self.strides[dimension] != ZERO

    @property
    def first(self) -> View:
        """Where the first element stands, as a view."""
        return View(self.view.buffer, (), (), self.offset)


Captured = arith.ConstantOp | Size | View
"""What a body uses from outside: a scalar, a size, a tensor that it reads elements of."""


@dataclass(frozen=True)
class Behind:
    """What is computed of a sum before it is stored.

    Attributes:
        body: the ops; it gives what is stored.
        sums: arguments of the body that stand for the sum.
        reads: the elements that other arguments stand for, in the loops of the sum.
    """

    body: Block
    sums: tuple[SSAValue, ...]
    reads: Mapping[SSAValue, Access]

    @property
    def work(self) -> int:
        """The ops that are computed."""
        return sum(not isinstance(op, arith.ConstantOp) for op in self.body.ops)


@dataclass(frozen=True)
class Nest:
    """Loops around a body.

    Attributes:
        sizes: of the loops.
        parallel: which loops may run in any order; the others are reductions.
        reads: the elements that arguments of the body stand for.
        writes: where the results of an iteration go.
        starts: for each result the number that it begins with, `None` if memory holds that.
        body: the ops of one iteration; it stays where it is.
        captured: values from outside.
        index: the loop that takes the place of each loop of the op; `None` for a size of 1.
        behind: what follows the sum, of a nest with reductions and one result.
    """

    sizes: tuple[Size, ...]
    parallel: tuple[bool, ...]
    reads: Mapping[SSAValue, Access]
    writes: tuple[Access, ...]
    starts: tuple[arith.ConstantOp | None, ...]
    body: Block
    captured: Mapping[SSAValue, Captured]
    index: tuple[int | None, ...]
    behind: Behind | None = None

    @property
    def read(self) -> list[Access]:
        """All that the nest reads through arguments of bodies."""
        behind = () if self.behind is None else self.behind.reads.values()
        return [*self.reads.values(), *behind]

    @property
    def accesses(self) -> list[Access]:
        """All that the nest touches through arguments of bodies."""
        return [*self.read, *self.writes]

    @property
    def reductions(self) -> list[int]:
        """The loops that add up."""
        return [d for d, parallel in enumerate(self.parallel) if not parallel]

    @property
    def is_copy(self) -> bool:
        """Whether elements go from one place to another as they are."""
        return (
            self.behind is None
            and not self.reductions
            and len(self.reads) == len(self.writes) == 1
            and self.body.first_op is self.body.last_op
            and list(self.results()) == list(self.reads)
        )

    def results(self) -> Sequence[SSAValue]:
        """The new values of the outputs, in the body."""
        end = self.body.last_op
        assert isinstance(end, linalg.YieldOp)
        return end.operands

    def output_arguments(self) -> Sequence[SSAValue]:
        """The arguments of the body that hold what an output has so far."""
        return self.body.args[len(self.body.args) - len(self.writes) :]

    def read_back(self, output: int) -> bool:
        """Whether the body reads what an output has so far."""
        return self.output_arguments()[output].first_use is not None

    def views(self) -> list[View]:
        """Tensors that the body reads elements of."""
        return [value for value in self.captured.values() if isinstance(value, View)]


def mapping(
    sizes: tuple[Size, ...],
    reads: Mapping[SSAValue, Access],
    writes: tuple[Access, ...],
    body: Block,
) -> Nest:
    """Loops that add nothing up, and whose bodies use nothing from outside."""
    loops = len(sizes)
    starts, index = (None,) * len(writes), tuple(range(loops))
    return Nest(sizes, (True,) * loops, reads, writes, starts, body, {}, index)


def followed(
    behind: Behind,
    total: SSAValue,
    body: Block,
    reads: dict[SSAValue, Access],
    moved: Callable[[Access], Access],
) -> SSAValue:
    """What follows a sum, appended to another body; the value that it gives.

    Args:
        behind: what follows.
        total: the sum there.
        body: gets an argument for all that is read.
        reads: get what those stand for.
        moved: the same elements in the loops around the body.
    """
    builder = Builder(InsertPoint.at_end(body))
    known: dict[SSAValue, SSAValue] = dict.fromkeys(behind.sums, total)
    for argument, a in behind.reads.items():
        known[argument] = body.insert_arg(argument.type, len(body.args))
        reads[known[argument]] = moved(a)
    end = behind.body.last_op
    assert isinstance(end, linalg.YieldOp)
    for op in behind.body.ops:
        if op is not end:
            builder.insert(op.clone(known))
    return known.get(end.operands[0], end.operands[0])


def neighbours(accesses: Iterable[Access]) -> dict[Access, tuple[Access, int]]:
    """For each operand the first one beside which it always stands, and how many elements further.

    Those that move with the same steps in a buffer need one address.
    """
    found: dict[Access, tuple[Access, int]] = {}
    first: dict[tuple[Buffer, tuple[Size, ...]], list[Access]] = {}
    for a in dict.fromkeys(accesses):
        others = first.setdefault((a.view.buffer, a.strides), [])
        away = ((other, (a.offset - other.offset).number) for other in others)
        near = next(((other, n) for other, n in away if n is not None), None)
        if near is None:
            others.append(a)
        found[a] = near or (a, 0)
    return found


def linear_form(expr: AffineExpr, loops: int) -> tuple[int, list[int]]:
    """A constant, and the factor of every loop.

    Raises:
        RefusedError: the expression is not linear.
    """
    match expr:
        case AffineConstantExpr():
            return expr.value, [0] * loops
        case AffineDimExpr():
            return 0, [int(d == expr.position) for d in range(loops)]
        case AffineBinaryOpExpr(AffineBinaryOpKind.Add):
            a, b = linear_form(expr.lhs, loops), linear_form(expr.rhs, loops)
            return a[0] + b[0], [x + y for x, y in zip(a[1], b[1], strict=True)]
        case AffineBinaryOpExpr(AffineBinaryOpKind.Mul):
            a, b = linear_form(expr.lhs, loops), linear_form(expr.rhs, loops)
            if any(b[1]):
                a, b = b, a
            if not any(b[1]):
                return a[0] * b[0], [x * b[0] for x in a[1]]
        case _:
            pass
    raise RefusedError(f"reads at {expr}, which is not linear")


def access(view: View, exprs: Sequence[AffineExpr], loops: int) -> Access:
    """The elements of a view at positions that are linear in the loops."""
    offset, strides = view.offset, [ZERO] * loops
    for expr, stride in zip(exprs, view.strides, strict=True):
        constant, factors = linear_form(expr, loops)
        offset = offset + stride * Size.of(constant)
        strides = [s + stride * Size.of(f) for s, f in zip(strides, factors, strict=True)]
    return Access(view, offset, tuple(strides))


def loop_sizes(
    views: Sequence[View],
    maps: Sequence[Sequence[AffineExpr]],
    loops: int,
    meet: Callable[[Size, Size], None] | None = None,
) -> tuple[Size, ...]:
    """The number of iterations of each loop, from the sizes of what it runs over.

    `meet` is told of sizes that must be equal.
    """
    sizes: list[Size | None] = [None] * loops
    for view, exprs in zip(views, maps, strict=True):
        for size, expr in zip(view.sizes, exprs, strict=True):
            if isinstance(expr, AffineDimExpr):
                known = sizes[expr.position]
                if known is not None and meet is not None:
                    meet(known, size)
                sizes[expr.position] = size if known is None else known
    if None in sizes:
        raise RefusedError("a loop runs over no axis of any operand")
    return tuple(size for size in sizes if size is not None)


def simplified(nest: Nest) -> Nest:
    """Without loops of one iteration; loops over what lies in a row merged."""
    for d in range(len(nest.sizes) - 1, -1, -1):
        if nest.sizes[d] == ONE:
            nest = _without(nest, d)
    fixed = {nest.index[d] for d in _named_loops(nest.body)}
    merged = True
    while merged:
        merged = False
        for outer in range(len(nest.sizes)):
            for inner in range(len(nest.sizes)):
                if _mergeable(nest, outer, inner, fixed):
                    nest = _merge(nest, outer, inner)
                    fixed = {nest.index[d] for d in _named_loops(nest.body)}
                    merged = True
                    break
            if merged:
                break
    return nest


def _named_loops(body: Block) -> set[int]:
    return {op.dim.value.data for op in body.walk() if isinstance(op, linalg.IndexOp)}


def _mergeable(nest: Nest, outer: int, inner: int, fixed: set[int | None]) -> bool:
    if outer == inner or outer in fixed or inner in fixed:
        return False
    if nest.parallel[outer] != nest.parallel[inner]:
        return False
    size = nest.sizes[inner]
    return all(a.strides[outer] == a.strides[inner] * size for a in nest.accesses)


def _merge(nest: Nest, outer: int, inner: int) -> Nest:
    sizes = list(nest.sizes)
    sizes[inner] = sizes[inner] * sizes[outer]
    return _without(replace(nest, sizes=tuple(sizes)), outer)


def _without(nest: Nest, dimension: int) -> Nest:
    """The nest with an index of 0 in the place of one loop."""

    def cut(a: Access) -> Access:
        return replace(a, strides=_dropped(a.strides, dimension))

    def moved(d: int | None) -> int | None:
        return d if d is None or d < dimension else None if d == dimension else d - 1

    return replace(
        nest,
        sizes=_dropped(nest.sizes, dimension),
        parallel=nest.parallel[:dimension] + nest.parallel[dimension + 1 :],
        reads=_cut(nest.reads, cut),
        writes=tuple(cut(a) for a in nest.writes),
        index=tuple(moved(d) for d in nest.index),
        behind=nest.behind and replace(nest.behind, reads=_cut(nest.behind.reads, cut)),
    )


def _cut(
    reads: Mapping[SSAValue, Access], cut: Callable[[Access], Access]
) -> dict[SSAValue, Access]:
    return {value: cut(a) for value, a in reads.items()}


def _dropped(sizes: tuple[Size, ...], position: int) -> tuple[Size, ...]:
    return sizes[:position] + sizes[position + 1 :]


def shape_of(nest: Nest) -> tuple[object, ...]:
    """What the code of a nest depends on: equal for nests that differ in their buffers alone."""
    numbers: dict[SSAValue, object] = {value: n for n, value in enumerate(nest.body.args)}
    near = neighbours(nest.accesses)
    places = list(near)
    tables = list(dict.fromkeys(nest.views()))
    for value, captured in nest.captured.items():
        known = isinstance(captured, View)
        numbers[value] = ("table", tables.index(captured)) if known else str(captured)
    ops = _described(nest.body, numbers)
    behind: object = None
    if nest.behind is not None:
        numbers |= {value: ("behind", n) for n, value in enumerate(nest.behind.body.args)}
        reads = _placed(nest.behind.reads, numbers, places)
        behind = (_described(nest.behind.body, numbers), reads)
    return (
        nest.sizes,
        nest.parallel,
        nest.index,
        _placed(nest.reads, numbers, places),
        tuple(places.index(a) for a in nest.writes),
        tuple((str(a.view.element), a.view.buffer.low, a.strides, a.panels) for a in places),
        tuple((places.index(first), away) for first, away in near.values()),
        tuple((str(v.element), v.buffer.low, v.sizes, v.strides) for v in tables),
        tuple(start if start is None else str(start.value) for start in nest.starts),
        ops,
        behind,
    )


def _placed(
    reads: Mapping[SSAValue, Access], numbers: Mapping[SSAValue, object], places: Sequence[Access]
) -> tuple[object, ...]:
    """What is read for each argument, whose type may be wider than what stands in memory."""
    return tuple((numbers[v], str(v.type), places.index(a)) for v, a in reads.items())


def _described(body: Block, numbers: dict[SSAValue, object]) -> tuple[object, ...]:
    """The ops of a body by what they do; their results get numbers."""
    ops: list[object] = []
    for op in body.ops:
        operands = tuple(
            str(operand.owner) if isinstance(operand.owner, arith.ConstantOp) else numbers[operand]
            for operand in op.operands
        )
        for result in op.results:
            numbers[result] = len(numbers)
        types = tuple(str(result.type) for result in op.results)
        properties = tuple(f"{name}={value}" for name, value in sorted(op.properties.items()))
        ops.append((op.name, operands, types, properties))
    return tuple(ops)


def dependencies(nest: Nest) -> dict[SSAValue, frozenset[int]]:
    """The loops that each value of the body changes with; accumulators with all of them."""
    every = frozenset(range(len(nest.sizes)))
    known: dict[SSAValue, frozenset[int]] = {
        value: frozenset(d for d in every if a.depends_on(d)) for value, a in nest.reads.items()
    }
    for argument, written in zip(nest.output_arguments(), nest.writes, strict=True):
        moving = frozenset(d for d in every if written.depends_on(d))
        known[argument] = every if nest.reductions else moving
    for op in nest.body.ops:
        for result in op.results:
            if isinstance(op, linalg.IndexOp):
                place = nest.index[op.dim.value.data]
                known[result] = frozenset() if place is None else frozenset({place})
                continue
            loops: frozenset[int] = frozenset()
            for operand in op.operands:
                loops |= known.get(operand, frozenset())
            known[result] = loops
    return known
