"""Rules of what ATen makes of all elements up to each one along an axis: sums, products, extremes.

Not here: differences, which are cuts (PyTorch takes them apart itself), and loops over time
(`rolling`, `control_flow`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from .calls import Call
from .rules_elementwise import first
from .rules_shape import expanded
from .sizes import static
from .torch_builder import Builder, Rule

Combine = Callable[[Sequence[Formula], Sequence[Formula]], list[Formula]]
"""What earlier elements and later ones make together."""


def _cumulative(kind: type[tensor.CumulativeOp]) -> Rule:
    """A running sum or product along an axis; a number alone is its own."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x = first(e, call)
        return e.add(kind(x, call.integer("dim"))) if call.rank else x

    return rule


def _running(parts: Sequence[Formula], axis: int, size: int, combine: Combine) -> list[Formula]:
    """What `combine`, which is associative, makes of all up to each element: distances double."""
    distance = 1
    while distance < size:
        earlier = [part.cut(axis, 0, size - distance) for part in parts]
        later = [part.cut(axis, distance, size) for part in parts]
        heads = [part.cut(axis, 0, distance) for part in parts]
        parts = [
            Formula(x.writer, x.writer.add(tensor.ConcatenateOp([head.value, x.value], axis)))
            for head, x in zip(heads, combine(earlier, later), strict=True)
        ]
        distance *= 2
    return list(parts)


def _extreme(predicate: str) -> Rule:
    """`cummax` and `cummin`: of equal elements the last counts, and NaN is beyond all."""

    def combine(earlier: Sequence[Formula], later: Sequence[Formula]) -> list[Formula]:
        (old, old_place), (new, new_place) = earlier, later
        # NaN is what does not equal itself; behind one nothing counts but another.
        is_new = new.compare("ne", new).of(tensor.OrOp, new.compare(predicate, old))
        return [is_new.choose(new, old), is_new.choose(new_place, old_place)]

    def rule(e: Builder, call: Call) -> list[SSAValue]:
        x, sizes = e.value(call["self"]), e.sizes(call["self"])
        if not sizes:
            return [x, e.number(0, i64)]
        axis = call.axis(len(sizes))
        (size,) = static([sizes[axis]], "axis")
        column = (size, *[1] * (len(sizes) - axis - 1))
        places = e.add(tensor.ReshapeToOp(e.arange(size), list(column)))
        places = expanded(e, places, column, sizes)
        parts = _running([Formula(e, x), Formula(e, places)], axis, size, combine)
        return [part.value for part in parts]

    return rule


def _log_sum_exp(e: Builder, call: Call) -> SSAValue:
    """`logcumsumexp`, stable: a sum keeps its largest term outside the exponential."""
    x, sizes = e.value(call["self"]), e.sizes(call["self"])
    if not sizes:
        return x

    def combine(earlier: Sequence[Formula], later: Sequence[Formula]) -> list[Formula]:
        (old,), (new,) = earlier, later
        most = old.maximum(new)
        apart = -abs(old - new)
        total = most + apart.of(tensor.ExpOp).of(tensor.Log1pOp)
        # Two infinities of one sign have no difference.
        return [abs(most).compare("eq", math.inf).choose(most, total)]

    axis = call.axis(len(sizes))
    (size,) = static([sizes[axis]], "axis")
    return _running([Formula(e, x)], axis, size, combine)[0].value


RULES: dict[str, Rule] = {
    "cummax": _extreme("ge"),
    "cummin": _extreme("le"),
    "cumprod": _cumulative(tensor.CumprodOp),
    "cumsum": _cumulative(tensor.CumsumOp),
    "logcumsumexp": _log_sum_exp,
}
"""By the name of the operator in the namespace `aten`."""
