"""Rules of bags of embeddings: sums, means or greatest elements of rows of a table."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ...dialects.tensor.shape import SLICE_END
from .calls import Call, schema_of
from .rules_shape import fixed
from .sizes import Size
from .torch_builder import Builder, Rule, array_of


def _embedding_bag(e: Builder, call: Call) -> list[SSAValue | None]:
    """Sums, means or greatest elements of rows, as many in each bag as its offsets say."""
    indices, (count,), bags = e.value(call["indices"]), e.sizes(call["indices"]), call.sizes[0]
    mode, padding = call.integer("mode", 0), call.integer("padding_idx", -1)
    rows = Formula(e, e.add(tensor.GatherRowsOp(e.value(call["weight"]), indices)))
    if "per_sample_weights" in call:
        weights = Formula(e, e.value(call["per_sample_weights"]))
        rows = rows * weights.of(tensor.UnsqueezeOp, axes=[1])
    held = Formula(e, indices).compare("ne", padding) if padding >= 0 else None
    length = _bag_length(e, call, count)
    if length is None:
        within = _within_bags(e, call, count)
        held = within if held is None else within.of(tensor.AndOp, held)
        if mode < _MOST:  # a product takes less memory than rows of all bags
            total = held.convert(rows.element).of(tensor.MatmulOp, rows)
        else:
            total = _of_held(rows.of(tensor.UnsqueezeOp, axes=[0]), held, mode)
    else:
        each = e.reshape(rows.value, (count, call.sizes[-1]), (bags, length, call.sizes[-1]))
        rows = Formula(e, each)
        if held is not None:
            held = Formula(e, e.reshape(held.value, (count,), (bags, length)))
        total = _of_held(rows, held, mode)
    if mode == _MEAN:
        number = length if held is None else held.convert(rows.element)
        if isinstance(number, Formula):
            number = number.of(tensor.ReduceSumOp, axes=[1], keepdims=True).maximum(1)
        total = total / (number or 1)
    return [total.value, None, None, None]


_MEAN, _MOST = 1, 2
"""Modes of bags; 0 is the sum."""


def _of_held(rows: Formula, held: Formula | None, mode: int) -> Formula:
    """The sum or the greatest of rows [bags or 1, rows, width], of each bag those that it holds."""
    kind = tensor.ReduceMaxOp if mode == _MOST else tensor.ReduceSumOp
    if held is None:
        return rows.of(kind, axes=[1])
    least = -math.inf if mode == _MOST else 0
    found = held.of(tensor.UnsqueezeOp, axes=[2]).choose(rows, least).of(kind, axes=[1])
    if mode != _MOST:
        return found
    number = held.convert(i64).of(tensor.ReduceSumOp, axes=[1], keepdims=True)
    return number.compare("eq", 0).choose(rows.number(0), found)


def _bag_length(e: Builder, call: Call, count: Size) -> int | None:
    """How many rows each bag has, where that is one number, known before the program runs."""
    offsets = call["offsets"]
    known = e.known(offsets)
    if known is not None:
        last = () if call.flag("include_last_offset") else (fixed(count),)
        lengths = {int(length) for length in np.diff([*array_of(known.tensor), *last])}
    else:
        counted = Call.of(offsets) if schema_of(offsets) is not None else None
        is_even = (
            counted is not None
            and counted.name == "aten::arange"
            and counted.size("start", 0) == 0
            and not call.flag("include_last_offset")
        )
        lengths = {counted.integer("step", 1)} if counted is not None and is_even else set[int]()
    return lengths.pop() if len(lengths) == 1 and 0 not in lengths else None


def _within_bags(e: Builder, call: Call, count: Size) -> Formula:
    """Which rows each bag has, [bags, rows]."""
    starts, places = Formula(e, e.value(call["offsets"])).convert(i64), Formula(e, e.arange(count))
    edges = starts
    if not call.flag("include_last_offset"):
        end = e.add(tensor.ReshapeToOp(e.number(count, i64), [1]))
        edges = Formula(e, e.add(tensor.ConcatenateOp([starts.value, end], 0)))
    sides = edges.of(tensor.UnsqueezeOp, axes=[1])
    from_start = sides.cut(0, 0, -1).compare("le", places)
    return from_start.of(tensor.AndOp, sides.cut(0, 1, SLICE_END).compare("gt", places))


RULES: dict[str, Rule] = dict.fromkeys(
    ("_embedding_bag", "_embedding_bag_forward_only"), _embedding_bag
)
"""By the name of the operator in the namespace `aten`."""
