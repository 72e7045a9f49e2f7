"""The least and the most that integers of a program can be, as far as its loops say.

Not here: what follows from that (`narrowing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ....dialects.shapes import bit_width
from ..linalg.scalars import integer_range
from .known_factors import factors_of, known_values
from .nests import Nest
from .structured import NestStep
from .views import Buffer

Interval = tuple[int, int]
"""The least and the most."""
Values = Mapping[SSAValue, Interval | None]
"""The integers of a body; others have no interval."""


def intervals_of(steps: Sequence[NestStep]) -> dict[Buffer, Interval]:
    """What integers the loops of a program put into each buffer."""
    known: dict[Buffer, Interval] = {}
    for step in steps:
        results = _results(as_given(step), known)
        for a, found in zip(step.nest.writes, results, strict=True):
            buffer = a.view.buffer
            if found is not None:
                known[buffer] = _union(known[buffer], found) if buffer in known else found
    return known


def as_given(step: NestStep) -> Nest:
    """The loops of a step in which known integers stand as in the op that it comes from."""
    return step.nest if step.given is None else step.given


def _results(nest: Nest, known: Mapping[Buffer, Interval]) -> list[Interval | None]:
    """The results of a nest; `None` for those that are no integers."""
    if nest.behind is not None:
        return [_last(nest.behind.body, values_behind(nest, known), 0)]
    values = values_in(nest, known)
    outputs = range(len(nest.writes))
    if nest.reductions:
        return [_reduced(nest, output, values) for output in outputs]
    return [_last(nest.body, values, output) for output in outputs]


def values_in(nest: Nest, known: Mapping[Buffer, Interval]) -> Values:
    """All integers of the body of a nest."""
    reads = {v: _read(a.view.buffer, known) for v, a in nest.reads.items()}
    return _values(nest.body, reads)


def values_behind(nest: Nest, known: Mapping[Buffer, Interval]) -> Values:
    """All integers of what follows the sums of a nest."""
    assert nest.behind is not None
    total = _reduced(nest, 0, values_in(nest, known))
    reads = {v: _read(a.view.buffer, known) for v, a in nest.behind.reads.items()}
    return _values(nest.behind.body, reads | dict.fromkeys(nest.behind.sums, total))


def _values(body: Block, reads: Mapping[SSAValue, Interval | None]) -> Values:
    values = dict(reads)
    for op in body.ops:
        for result in op.results:
            values[result] = _value(op, [interval(v, values) for v in op.operands])
    return values


def _reduced(nest: Nest, output: int, values: Values) -> Interval | None:
    """A sum, or the largest of some integers; else all of its type."""
    every = _range(nest.output_arguments()[output].type)
    op, start = nest.results()[output].owner, nest.starts[output]
    number = None if start is None else _constant(start)
    if not isinstance(op, arith.MaxSIOp | arith.AddiOp) or number is None or every is None:
        return every
    if isinstance(op, arith.AddiOp) and (found := _weighted(nest, values)) is not None:
        low, high = found[0] + number, found[1] + number
        return (low, high) if every[0] <= low and high <= every[1] else every
    others = [v for v in op.operands if v is not nest.output_arguments()[output]]
    each = interval(others[0], values) if len(others) == 1 else None
    counts = [nest.sizes[d].number for d in nest.reductions]
    if each is None or None in counts:
        return every
    if isinstance(op, arith.MaxSIOp):
        return each if number <= each[0] else _union(each, (number, number))
    count = prod(n or 0 for n in counts)
    # Sums so far are bounded too: nothing is lost on the way.
    low, high = number + count * min(each[0], 0), number + count * max(each[1], 0)
    return (low, high) if every[0] <= low and high <= every[1] else every


def _weighted(nest: Nest, values: Values) -> Interval | None:
    """The least and the most that sums of products with known integers are, of all outputs."""
    factors = factors_of(nest)
    if factors is None:
        return None
    image, weights = factors
    w, each = nest.reads[weights], interval(image, values)
    loops = [d for d in range(len(nest.sizes)) if w.depends_on(d)]
    counts = [nest.sizes[d].number for d in (*loops, *nest.reductions)]
    if each is None or None in counts:
        return None
    sizes = [n or 0 for n in counts[: len(loops)]]
    known = known_values(w, sizes, loops)
    if known is None:
        return None
    summed = tuple(axis for axis, d in enumerate(loops) if not nest.parallel[d])
    times = prod(nest.sizes[d].at(1) for d in nest.reductions if d not in loops)
    plus = times * np.maximum(known, 0).sum(axis=summed, dtype=np.int64)
    minus = times * np.minimum(known, 0).sum(axis=summed, dtype=np.int64)
    low, high = each
    return int((low * plus + high * minus).min()), int((high * plus + low * minus).max())


def _read(buffer: Buffer, known: Mapping[Buffer, Interval]) -> Interval | None:
    content = buffer.content
    if content is not None and content.dtype.kind in "iu" and content.size:
        return int(content.min()), int(content.max())
    return known.get(buffer, _range(buffer.element))


def _range(type: Attribute) -> Interval | None:
    bits = bit_width(type)
    if bits is None or not isinstance(type, IntegerType):
        return None
    return (0, 1) if bits == 1 else integer_range(bits, unsigned=False)


def _constant(op: arith.ConstantOp) -> int | None:
    if not isinstance(op.value, IntegerAttr):
        return None
    number = cast("IntegerAttr[IntegerType]", op.value).value.data
    return abs(number) if op.result.type == IntegerType(1) else number


def _last(body: Block, values: Values, output: int) -> Interval | None:
    """What a body gives."""
    end = body.last_op
    assert end is not None
    return interval(end.operands[output], values)


def interval(value: SSAValue, values: Values) -> Interval | None:
    """What a value of a body can be; `None` of no integer."""
    found = values.get(value)
    if found is None and isinstance(value.owner, arith.ConstantOp):
        number = _constant(value.owner)
        found = None if number is None else (number, number)
    return _range(value.type) if found is None else found


def _value(op: Operation, operands: Sequence[Interval | None]) -> Interval | None:
    """What an op gives, all of its type where nothing better is known."""
    every = _range(op.results[0].type)
    if every is None or None in operands:
        return every
    found = _computed(op, [operand for operand in operands if operand is not None])
    if found is None or found[0] < every[0] or found[1] > every[1]:
        return every
    return found


def _computed(op: Operation, operands: Sequence[Interval]) -> Interval | None:
    match op, operands:
        case arith.ConstantOp(), _:
            number = _constant(op)
            return None if number is None else (number, number)
        case arith.ExtSIOp() | arith.TruncIOp(), [a]:
            return a
        case arith.ExtUIOp(), [a] if a[0] >= 0:
            return a
        case arith.AddiOp(), [a, b]:
            return a[0] + b[0], a[1] + b[1]
        case arith.SubiOp(), [a, b]:
            return a[0] - b[1], a[1] - b[0]
        case arith.MuliOp(), [a, b]:
            return _spanned(x * y for x in a for y in b)
        case arith.MaxSIOp(), [a, b]:
            return max(a[0], b[0]), max(a[1], b[1])
        case arith.MinSIOp() | arith.MinUIOp(), [a, b] if a[0] >= 0 and b[0] >= 0:
            return min(a[0], b[0]), min(a[1], b[1])
        case arith.MinSIOp(), [a, b]:
            return min(a[0], b[0]), min(a[1], b[1])
        case arith.ShLIOp(), [a, b] if b[0] >= 0 and b[1] < 64:
            return _spanned(x << y for x in a for y in b)
        case arith.ShRSIOp(), [a, b] if b[0] >= 0 and b[1] < 64:
            return _spanned(x >> y for x in a for y in b)
        case arith.SelectOp(), [_, a, b]:
            return _union(a, b)
        case _:
            return None


def _spanned(values: Iterable[int]) -> Interval:
    every = list(values)
    return min(every), max(every)


def _union(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])
