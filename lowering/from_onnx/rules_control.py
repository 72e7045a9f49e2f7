"""ONNX import of graphs in attributes, unrolled, and of sequences and optional values.

How often a loop runs must be known; where values choose a branch, both are computed. A sequence is
a list of values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from ...dialects import tensor
from ..problems import ProblemError, refuse
from .calls import tensor_of
from .onnx_builder import Builder, Call, Results, Rule, Value
from .rules_shape import axis_of
from .sizes import static

if TYPE_CHECKING:
    from onnx import GraphProto

LONGEST_LOOP = 100_000
"""A loop runs at most this often."""


def _if(e: Builder, call: Call) -> Results:
    """The branch that is taken; where only values tell, both, and a choice of the results."""
    if e.is_known(call[0]):
        branch = "then_branch" if e.array(call[0]).any() else "else_branch"
        return tuple(call.run(call.graph(branch), []))
    both = [call.run(call.graph(f"{name}_branch"), []) for name in ("then", "else")]
    if not all(isinstance(value, SSAValue) for branch in both for value in branch):
        e.array(call[0], "condition")  # only values choose between tensors
    choice = e.reshape(call[0], [])
    return tuple(
        _chosen(e, choice, tensor_of(one), tensor_of(other))
        for one, other in zip(*both, strict=True)
    )


def _chosen(e: Builder, choice: SSAValue, one: SSAValue, other: SSAValue) -> SSAValue:
    if e.sizes(one) != e.sizes(other):
        raise ProblemError("values choose between branches whose results differ in their sizes")
    return e.add(tensor.WhereOp(choice, one, other))


def _loop(e: Builder, call: Call) -> Results:
    body = call.graph("body")
    count = int(e.array(call[0], "trip count").reshape(-1)[0]) if call.has(0) else LONGEST_LOOP
    condition = bool(e.array(call[1], "condition").any()) if call.has(1) else True
    if call.has(0) and count > LONGEST_LOOP:
        raise ProblemError(f"it runs {count} times; loops are unrolled up to {LONGEST_LOOP}")
    state: list[Value] = [*call.inputs[2:]]
    rows: list[list[SSAValue]] = [[] for _ in range(len(body.output) - 1 - len(state))]
    turn = 0
    while condition and turn < count:
        inputs = [e.indices(turn), e.known(np.asarray(True), i1), *state]
        results = call.run(body, inputs)
        condition = bool(e.array(tensor_of(results[0]), "condition").any())
        state = results[1 : 1 + len(state)]
        for row, value in zip(rows, results[1 + len(state) :], strict=True):
            row.append(tensor_of(value))
        turn += 1
        if not call.has(0) and turn == LONGEST_LOOP:
            raise ProblemError("its end is not known before the program runs")
    return (*state, *(_stacked(e, row, 0) for row in rows))


def _stacked(e: Builder, values: list[SSAValue], axis: int) -> SSAValue:
    refuse(not values, "it gathers the results of no turn")
    rows = [e.add(tensor.UnsqueezeOp(value, [axis])) for value in values]
    return rows[0] if len(rows) == 1 else e.add(tensor.ConcatenateOp(rows, axis))


def _scan(e: Builder, call: Call) -> Results:
    body, count = call.graph("body"), call.integer("num_scan_inputs", 0)
    if call.opset < 9:
        return _batched_scan(e, call, call.tensors(1))
    return _scanned(e, call, body, call.tensors(), count)


def _scanned(
    e: Builder, call: Call, body: GraphProto, inputs: list[SSAValue], count: int
) -> tuple[Value, ...]:
    state, scanned = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    in_axes = call.integers("scan_input_axes", [0] * count)
    turned = call.integers("scan_input_directions", None) or call.integers(
        "directions", [0] * count
    )
    axes: list[int] = [a % e.rank(v) for a, v in zip(in_axes, scanned, strict=True)]
    steps = {static([e.sizes(v)[a]], "number of steps")[0]
             for a, v in zip(axes, scanned, strict=True)}  # fmt: skip
    if len(steps) != 1 or max(steps) > LONGEST_LOOP:
        raise ProblemError(f"its inputs have {sorted(steps)} steps")
    (length,) = steps
    rows: list[list[SSAValue]] = [[] for _ in range(len(body.output) - len(state))]
    for turn in range(length):
        parts: list[SSAValue] = []
        for value, axis, back in zip(scanned, axes, turned, strict=True):
            place = length - 1 - turn if back else turn
            part = e.cut(value, axis, place, place + 1)
            parts.append(e.add(tensor.SqueezeOp(part, [axis])))
        results = call.run(body, [*state, *parts])
        state = results[: len(state)]
        for row, value in zip(rows, results[len(state) :], strict=True):
            row.append(tensor_of(value))
    out_axes = call.integers("scan_output_axes", [0] * len(rows))
    backs = call.integers("scan_output_directions", [0] * len(rows))
    outputs: list[SSAValue] = []
    for row, axis, back in zip(rows, out_axes, backs, strict=True):
        rank = e.rank(row[0]) + 1 if row else 1
        outputs.append(_stacked(e, row[::-1] if back else row, axis % rank))
    return (*state, *outputs)


def _batched_scan(e: Builder, call: Call, inputs: list[SSAValue]) -> Results:
    """`Scan` of opset 8, which has a batch in front of the steps."""
    (batch,) = static([e.sizes(inputs[0])[0]], "batch")
    refuse(call.has(0), "its sequences have lengths of their own")
    runs: list[list[SSAValue]] = []
    for row in range(batch):
        parts = [e.add(tensor.SqueezeOp(e.cut(v, 0, row, row + 1), [0])) for v in inputs]
        count = call.integer("num_scan_inputs", 0)
        runs.append([*map(tensor_of, _scanned(e, call, call.graph("body"), parts, count))])
    return tuple(_stacked(e, list(values), 0) for values in zip(*runs, strict=True))


# Sequences.


def _place(e: Builder, call: Call, index: int, count: int, default: int) -> int:
    if not call.has(index):
        return default
    place = int(e.array(call[index], "position").reshape(-1)[0])
    refuse(not -count <= place <= count, f"its position {place} is outside a sequence of {count}")
    return place + count if place < 0 else place


def _at(e: Builder, call: Call) -> SSAValue:
    values = call.sequence()
    place = _place(e, call, 1, len(values), 0)
    refuse(place >= len(values), f"its position {place} is outside a sequence of {len(values)}")
    return values[place]


def _insert(e: Builder, call: Call) -> list[SSAValue]:
    values = call.sequence()
    place = _place(e, call, 2, len(values), len(values))
    return [*values[:place], call[1], *values[place:]]


def _erase(e: Builder, call: Call) -> list[SSAValue]:
    values = call.sequence()
    place = _place(e, call, 1, len(values), len(values) - 1)
    return [*values[:place], *values[place + 1 :]]


def _joined(e: Builder, call: Call) -> SSAValue:
    values = call.sequence()
    if call.integer("new_axis", 0):
        return _stacked(e, values, axis_of(call, e.rank(values[0]) + 1))
    return e.add(tensor.ConcatenateOp(values, axis_of(call, e.rank(values[0]))))


def _split_sequence(e: Builder, call: Call) -> list[SSAValue]:
    x = call[0]
    axis = axis_of(call, e.rank(x))
    (size,) = static([e.sizes(x)[axis]], "size along the axis")
    if not call.has(1):
        parts = [1] * size
    elif e.rank(call[1]) == 0:
        each = int(e.array(call[1], "split"))
        refuse(each < 1, f"it splits into pieces of {each}")
        parts = [min(each, size - start) for start in range(0, size, each)]
    else:
        parts = e.int_list(call[1], "split")
    pieces = e.add_all(tensor.SplitOp(x, axis, parts))
    if call.has(1) or call.integer("keepdims", 1):
        return pieces
    return [e.add(tensor.SqueezeOp(piece, [axis])) for piece in pieces]


def _sequence_map(e: Builder, call: Call) -> Results:
    count = len(call.sequence())
    rows: list[list[SSAValue]] = [[] for _ in range(call.outputs)]
    for turn in range(count):
        inputs: list[Value] = [v[turn] if isinstance(v, list) else v for v in call.inputs]
        for row, value in zip(rows, call.run(call.graph("body"), inputs), strict=True):
            row.append(tensor_of(value))
    return tuple(rows)


RULES: dict[str, Rule] = {
    "ConcatFromSequence": _joined,
    "If": _if,
    "Loop": _loop,
    "Optional": lambda e, call: call.value(0) if call.has(0) else None,
    "OptionalGetElement": lambda e, call: call.value(0),
    "OptionalHasElement": lambda e, call: e.known(np.asarray(call.has(0)), i1),
    "Scan": _scan,
    "SequenceAt": _at,
    "SequenceConstruct": lambda e, call: call.tensors(),
    "SequenceEmpty": lambda e, call: [],
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": lambda e, call: e.indices(len(call.sequence())),
    "SequenceMap": _sequence_map,
    "SplitToSequence": _split_sequence,
}
"""By the type of the operator."""
