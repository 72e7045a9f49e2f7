"""Nests of loops over views as loops in C. Not here: the functions around them (`text`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import tensor as upstream
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from ...runtime.native.abi.sizes import Size
from ..to_native.program.known_factors import widened
from ..to_native.program.nests import Access, Nest
from ..to_native.program.views import View
from .expressions import c_type, constant, expression, literal

_LEAST_PRODUCTS = 8
"""Fewer products in a row are not worth a call."""


def number(size: Size) -> int:
    """A size, all of which are known."""
    known = size.number
    assert known is not None
    return known


def known_number(a: Access) -> str | None:
    """The text of all elements that an access reads, where they are one constant."""
    content = a.view.buffer.content
    if content is None or not content.size:
        return None
    value = content.reshape(-1)[number(a.offset)]
    if any(number(stride) for stride in a.strides) and content.tobytes() != (
        value.tobytes() * content.size
    ):
        return None
    if value.dtype.itemsize == 2 and value.dtype.kind not in "iu":
        value = value.view(np.uint16)
    return literal(value.item(), c_type(a.view.element))


def touched(nest: Nest) -> tuple[list[Access], list[View]]:
    """What a nest needs pointers to: elements, and tensors that it reads elements of."""
    accesses = dict.fromkeys(a for a in nest.accesses if known_number(a) is None)
    return list(accesses), list(dict.fromkeys(nest.views()))


def _live(nest: Nest) -> set[SSAValue]:
    """The values of a body that its results need."""
    live = set(nest.results())
    for op in reversed(list(nest.body.ops)):
        if not live.isdisjoint(op.results):
            live.update(op.operands)
    return live


class NestWriter:
    """Writes the loops of a nest.

    Args:
        nest: the loops; all sizes are known.
        places: for each access the name of a pointer to its first element.
        tables: the same for each tensor of which the body reads elements.
        fixed: loops that stand elsewhere already, with the text of their index.
        scalars: variables that hold what accesses read.
        prefix: of all names, for loops within others.
        stored: the type in C of what a view has in memory; by default nothing is known of it.
    """

    def __init__(
        self,
        nest: Nest,
        places: Mapping[Access, str],
        tables: Mapping[View, str],
        fixed: Mapping[int, str] | None = None,
        scalars: Mapping[Access, str] | None = None,
        prefix: str = "",
        stored: Callable[[View], str] = lambda view: "",
    ) -> None:
        self._nest = nest
        self._stored = stored
        self._places = places
        self._tables = tables
        self._prefix = prefix
        self._scalars = scalars or {}
        own = {d: f"{prefix}i{d}" for d in range(len(nest.sizes))}
        self._index = own | dict(fixed or {})
        self._fixed = set(fixed or {})
        self._names: dict[SSAValue, str] = {}
        self._lines: list[str] = []
        self._depth = 1

    def write(self, behind: Callable[[str], Sequence[str]] | None = None) -> list[str]:
        """The lines, indented once.

        Args:
            behind: writes what is done with a sum, told its name, in the place of storing it.
        """
        nest = self._nest
        outer = [d for d, parallel in enumerate(nest.parallel) if parallel]
        with_sums = bool(nest.reductions)
        self._open(outer)
        for output, argument in enumerate(nest.output_arguments()):
            if with_sums or nest.read_back(output):
                self._begin(output, argument)
        products = self._products() if with_sums else None
        around = nest.reductions if products is None else nest.reductions[:-1]
        self._open(around)
        if products is not None:
            self._line(products)
        else:
            self._body()
            if with_sums:
                self._next()
        self._close(around)
        results = nest.output_arguments() if with_sums else nest.results()
        for a, value in zip(nest.writes, results, strict=True):
            if behind is not None:
                for line in behind(self._value(value)):
                    self._lines.append("    " * (self._depth - 1) + line)
                continue
            stored, text = c_type(a.view.element), self._value(value)
            text = text if stored == c_type(value.type) else f"({stored}){text}"
            self._line(f"{self._element(a)} = {text};")
        self._close(outer)
        return self._lines

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def _open(self, loops: Sequence[int]) -> None:
        for d in loops:
            if d not in self._fixed:
                size = number(self._nest.sizes[d])
                i = self._index[d]
                self._line(f"for (int32_t {i} = 0; {i} < {size}; {i}++) {{")
                self._depth += 1

    def _close(self, loops: Sequence[int]) -> None:
        for d in loops:
            if d not in self._fixed:
                self._depth -= 1
                self._line("}")

    def _products(self) -> str | None:
        """A sum of products with bytes that stand in a row, as a call; `None` if it is none."""
        nest, (result, *more) = self._nest, self._nest.results()
        (acc, *_), d = nest.output_arguments(), nest.reductions[-1]
        sum_of = result.owner
        if more or not isinstance(sum_of, arith.AddiOp) or c_type(result.type) != "int32_t":
            return None
        product = next((v.owner for v in sum_of.operands if v is not acc), None)
        if acc not in sum_of.operands or not isinstance(product, arith.MuliOp):
            return None
        factors = [widened(value) for value in product.operands]
        reads = [nest.reads[value] for value in factors if value in nest.reads]
        reads.sort(key=lambda a: self._stored(a.view) == "int8_t")
        if (
            len(reads) < 2
            or any(number(a.strides[d]) != 1 or a not in self._places for a in reads)
            or number(nest.sizes[d]) < _LEAST_PRODUCTS
        ):
            return None
        kinds = [self._stored(a.view) for a in reads]
        if kinds[0] not in ("int8_t", "int16_t") or kinds[1] != "int8_t":
            return None
        x, weights = (f"&{self._element(a, d)}" for a in reads)
        name, size = self._names[acc], number(nest.sizes[d])
        dot = f"dot_{kinds[0]}({x}, {weights}, {size})"
        return f"{name} = (int32_t)((uint32_t){name} + (uint32_t){dot});"

    def _element(self, a: Access, without: int | None = None) -> str:
        """The element that an access is at; the first one of a loop."""
        if a in self._scalars:
            return self._scalars[a]
        terms = [
            self._index[d] if number(stride) == 1 else f"{self._index[d]} * {number(stride)}"
            for d, stride in enumerate(a.strides)
            if number(stride) and d != without
        ]
        return f"{self._places[a]}[{' + '.join(terms) or '0'}]"

    def _begin(self, output: int, argument: SSAValue) -> None:
        """What an output holds before."""
        start, a = self._nest.starts[output], self._nest.writes[output]
        value = self._element(a) if start is None else constant(start)
        name = self._names[argument] = f"{self._prefix}y{output}"
        keyword = "" if self._nest.reductions else "const "
        self._line(f"{keyword}{c_type(argument.type)} {name} = {value};")

    def _next(self) -> None:
        """What outputs hold after one more element; all are computed before one is set."""
        values = [self._value(value) for value in self._nest.results()]
        arguments = self._nest.output_arguments()
        for position, (argument, value) in enumerate(zip(arguments, values, strict=True)):
            target = self._names[argument]
            if any(target == other for other in values[position + 1 :]):
                copied = f"{target}_before"
                self._line(f"const {c_type(argument.type)} {copied} = {target};")
                values = [copied if other == target else other for other in values]
                value = values[position]
            if value != target:
                self._line(f"{target} = {value};")

    def _body(self) -> None:
        first: dict[Access, str] = {}
        live = _live(self._nest)
        for argument, a in self._nest.reads.items():
            if argument not in live:
                continue
            if a not in first:
                name = first[a] = f"{self._prefix}x{len(first)}"
                value = known_number(a) or self._element(a)
                self._line(f"const {c_type(argument.type)} {name} = {value};")
            self._names[argument] = first[a]
        for op in self._nest.body.ops:
            if isinstance(op, arith.ConstantOp) or live.isdisjoint(op.results):
                continue
            result = op.results[0]
            text = self._expression(op)
            name = self._names[result] = f"{self._prefix}v{len(self._names)}"
            self._line(f"const {c_type(result.type)} {name} = {text};")

    def _expression(self, op: Operation) -> str:
        if isinstance(op, linalg.IndexOp):
            place = self._nest.index[op.dim.value.data]
            return "0" if place is None else self._index[place]
        if isinstance(op, upstream.ExtractOp):
            return self._extracted(op)
        return expression(op, [self._value(value) for value in op.operands])

    def _extracted(self, op: upstream.ExtractOp) -> str:
        """An element of a tensor; a place outside of it is taken as the nearest inside."""
        view = self._nest.captured[op.tensor]
        assert isinstance(view, View)
        terms = [
            f"inside({self._value(index)}, {number(size) - 1}) * {number(stride)}"
            for index, size, stride in zip(op.indices, view.sizes, view.strides, strict=True)
        ]
        return f"{self._tables[view]}[{' + '.join(terms) or '0'}]"

    def _value(self, value: SSAValue) -> str:
        if isinstance(value.owner, arith.ConstantOp):
            return constant(value.owner)
        captured = self._nest.captured.get(value)
        if isinstance(captured, Size):
            return str(number(captured))
        return self._names[value]
