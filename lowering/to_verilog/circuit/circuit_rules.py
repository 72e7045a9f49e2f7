"""For each op that becomes hardware, how: signals of its operands in, signals of its results out.

A tensor is an array of `Signal`s of its shape; the free leading axis is 1. Not here: arithmetic on
single numbers (`arithmetic`), the order of ops and what is refused (`conversion`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, i1, i32
from xdsl.ir import Operation, SSAValue

from ....dialects import interpret, spike, tensor, ternary
from ....dialects.elements import numpy_dtype
from ....dialects.inference import tensor_type
from ....dialects.spike.types import dense_type
from ....dialects.traits import MovesElements, has
from ....ir.arrays import Array
from ....passes.adder_graph.graph import AdderGraph, around
from ....passes.adder_graph.optimize_adder_graph import Product, is_known_product
from ....passes.analysis.compile_time import is_literal, literal_value
from ....passes.quantize_activations.integer_pipeline import integer_pipeline
from ....passes.requantize.rescaling import Rescaling
from .arithmetic import (
    add,
    at_least,
    clamp,
    count_reached,
    equal_to,
    first_largest,
    greater_equal,
    inverted,
    larger,
    rescaled,
    scaled,
    select,
    smaller,
)
from .arrays import Objects, Reduction, along, array_of, in_pairs, over_axes, rows_along
from .circuit import Circuit
from .products import graph_row, times_matrix
from .signals import Signal

Signals = Objects
"""An array of `Signal`s."""

Rule = Callable[[Circuit, Any, Sequence[Signals]], Signals]

Combine = Callable[[Circuit, Signal, Signal], Signal]


def moved(op: Operation, operands: Sequence[Signals]) -> Sequence[Signals]:
    """The results of an op that moves elements: wires."""
    results = interpret.RULES[type(op)](op, *operands)
    return results if isinstance(results, tuple) else (results,)


def numbers(values: Array) -> Signals:
    """Constants for the elements of an integer array."""
    flat: list[int] = values.reshape(-1).tolist()
    constants = {value: Signal.constant(value) for value in {*flat}}
    return array_of([constants[value] for value in flat], values.shape)


def _each(circuit: Circuit, function: Callable[..., Signal], *arrays: Signals) -> Signals:
    """`function` of the elements, broadcast."""
    parts = np.broadcast_arrays(*arrays)
    flat: list[Signal] = []
    for index, items in enumerate(zip(*(part.reshape(-1) for part in parts), strict=True)):
        with circuit.element(index):
            flat.append(function(*items))
    return array_of(flat, parts[0].shape)


def adder_graph(circuit: Circuit, op: ternary.AdderGraphOp, operands: Sequence[Signals]) -> Signals:
    """`ternary.adder_graph`, for each row: shared adders, or sums of single bits."""
    (x,) = operands
    graph = _graph(op)
    exact = not _takes_offsets(op.result)
    rows = [
        graph_row(circuit, graph, list(row), exact=exact) for row in x.reshape(-1, graph.inputs)
    ]
    flat = [signal for row in rows for signal in row]
    return array_of(flat, (*x.shape[:-1], len(graph.outputs)))


def _graph(op: ternary.AdderGraphOp) -> AdderGraph:
    nodes = np.reshape(op.nodes.get_values(), (-1, 4)).tolist()
    outputs = np.reshape(op.outputs.get_values(), (-1, 2)).tolist()
    return AdderGraph(
        op.inputs.value.data,
        tuple((a, b, sign, shift) for a, b, sign, shift in nodes),
        tuple((value, sign) for value, sign in outputs),
    )


def _takes_offsets(value: SSAValue) -> bool:
    """Whether all users of a value take a known addend in for nothing."""
    return all(_takes_offset(use.operation, use.index) for use in value.uses)


def _takes_offset(user: Operation, index: int) -> bool:
    if isinstance(user, tensor.RequantizeOp | tensor.MultiThresholdOp):
        return index == 0
    if isinstance(user, tensor.ReluOp):
        return _is_rectified(user.result)
    if isinstance(user, tensor.AddOp | tensor.SubOp):
        others = [operand for operand in user.operands if operand is not user.operands[index]]
        return all(is_literal(o.owner) for o in others) and _takes_offsets(user.result)
    passed = has(user, MovesElements) or isinstance(user, tensor.ConvertOp | tensor.NegOp)
    return passed and all(_takes_offsets(result) for result in user.results)


def known_product(
    circuit: Circuit,
    op: ternary.MatmulOp | tensor.MatmulOp | spike.LinearOp,
    operands: Sequence[Signals],
) -> Signals:
    """A product with one known matrix, and its bias."""
    x, weight, *bias = operands
    matrix = np.array([[w.offset for w in row] for row in weight])
    exact = not isinstance(op, spike.LinearOp) and not _takes_offsets(op.result)
    rows = [
        times_matrix(circuit, list(row), matrix, exact=exact) for row in x.reshape(-1, x.shape[-1])
    ]
    sums = array_of([total for row in rows for total in row], (*x.shape[:-1], matrix.shape[1]))
    return _pairwise(circuit, add, [sums, *bias]) if bias else sums


def _spiked(circuit: Circuit, x: Signal) -> Signal:
    """1 where a number is not 0."""
    return x if x.bounds == (0, 1) else inverted(equal_to(circuit, x, 0))


def _picked(circuit: Circuit, op: tensor.GatherRowsOp, operands: Sequence[Signals]) -> Signals:
    """`tensor.gather_rows` with known indices: wires."""
    rows = literal_value(op.indices)
    assert rows is not None
    return operands[0][rows]


def _converted(circuit: Circuit, op: tensor.ConvertOp, operands: Sequence[Signals]) -> Signals:
    """The same number, or none of the type; whether it is not 0 as a truth value."""
    if _is_truth(op.result):
        return _each(circuit, partial(_spiked, circuit), *operands)
    return operands[0]


def requantize(circuit: Circuit, op: tensor.RequantizeOp, operands: Sequence[Signals]) -> Signals:
    """`tensor.requantize` with known multipliers, shifts and zero point."""
    rectified = _is_rectified(op.input)
    x, multiplier, shift, zero_point = operands
    axis = op.axis.value.data
    bounds = (op.low.value.data, op.high.value.data)

    def one(signal: Signal, m: Signal, s: Signal, z: Signal) -> Signal:
        by = Rescaling(m.offset, 1 << (s.offset - 1), s.offset)
        low, high = bounds
        if rectified:  # a monotone function of max(x, 0) lies beyond its value at 0
            end = min(max(by(0) + z.offset, low), high)
            low, high = (end, high) if m.offset >= 0 else (low, end)
        return rescaled(circuit, signal, by, z.offset, (low, high), circuit.name("q"))

    factors, shifts = (along(values, x.ndim, axis) for values in (multiplier, shift))
    return _each(circuit, one, x, factors, shifts, zero_point)


def multi_threshold(
    circuit: Circuit, op: tensor.MultiThresholdOp, operands: Sequence[Signals]
) -> Signals:
    """`tensor.multi_threshold` with known thresholds."""
    x, thresholds = operands
    rectified = _is_rectified(op.input)
    rows = [tuple(t.offset for t in row) for row in thresholds]
    channels = rows_along(rows, x.ndim, op.axis.value.data)

    def one(signal: Signal, row: tuple[int, ...]) -> Signal:
        asked = [t for t in row if t > 0] if rectified else list(row)
        return count_reached(circuit, signal, asked).plus(len(row) - len(asked))

    return _each(circuit, one, x, channels)


def _is_rectified(value: SSAValue) -> bool:
    """Whether a relu made the value and all its users count thresholds or rescale."""
    return isinstance(value.owner, tensor.ReluOp) and all(
        isinstance(use.operation, tensor.RequantizeOp | tensor.MultiThresholdOp) and not use.index
        for use in value.uses
    )


def _bounded(circuit: Circuit, x: Signals, low: int | None, high: int | None, kind: str) -> Signals:
    def one(number: Signal) -> Signal:
        return clamp(circuit, number, low, high, circuit.name(kind))

    return _each(circuit, one, x)


def relu(circuit: Circuit, op: tensor.ReluOp, operands: Sequence[Signals]) -> Signals:
    """`tensor.relu`; left to the ops that follow where they take bounds in for nothing."""
    x = operands[0]
    return x if _is_rectified(op.result) else _bounded(circuit, x, 0, None, "relu")


def bounded(circuit: Circuit, op: tensor.ClampOp, operands: Sequence[Signals]) -> Signals:
    """`tensor.clamp`."""
    low, high = (None if b is None else int(b.value.data) for b in (op.min, op.max))
    return _bounded(circuit, operands[0], low, high, "clamp")


def compare(circuit: Circuit, op: tensor.CompareOp, operands: Sequence[Signals]) -> Signals:
    """`tensor.compare`."""
    predicate = op.predicate.data
    if predicate in ("lt", "le"):
        operands, predicate = operands[::-1], {"lt": "gt", "le": "ge"}[predicate]
    negated = predicate == "ne"
    asked = "eq" if negated else predicate

    def one(a: Signal, b: Signal) -> Signal:
        bit = greater_equal(circuit, a, b, asked)
        return inverted(bit) if negated else bit

    return _each(circuit, one, *operands)


def chosen(circuit: Circuit, op: tensor.WhereOp, operands: Sequence[Signals]) -> Signals:
    """`tensor.where`."""

    def one(condition: Signal, yes: Signal, no: Signal) -> Signal:
        bounds = around((yes.bounds, no.bounds))
        return select(circuit, _bit(circuit, condition), yes, no, bounds, circuit.name("chosen"))

    return _each(circuit, one, *operands)


def _bit(circuit: Circuit, x: Signal) -> Signal:
    """A truth value as a wire of one bit, as it is or inverted."""
    is_bit = x.wire is None or (x.wire.low, x.wire.high) == (0, 1)
    return x if is_bit else at_least(circuit, x, 1)


def _both(circuit: Circuit, a: Signal, b: Signal) -> Signal:
    """a ∧ b of truth values."""
    a, b = sorted((_bit(circuit, a), _bit(circuit, b)), key=lambda bit: bit.sign)
    if b.wire is None:
        return a if b.offset else b
    if b.sign > 0:
        return select(circuit, a, b, Signal.constant(0), (0, 1), circuit.name("both"))
    either = select(
        circuit, inverted(a), Signal.constant(1), inverted(b), (0, 1), circuit.name("either")
    )
    return inverted(either)


def _either(circuit: Circuit, a: Signal, b: Signal) -> Signal:
    """a ∨ b of truth values."""
    return inverted(_both(circuit, inverted(a), inverted(b)))


def _differ(circuit: Circuit, a: Signal, b: Signal) -> Signal:
    """a ⊕ b of truth values."""
    return inverted(greater_equal(circuit, a, b, "eq"))


def _opposite(circuit: Circuit, op: tensor.NotOp, operands: Sequence[Signals]) -> Signals:
    """`tensor.not`: of integers -1 - x."""
    addend = 1 if _is_truth(op.operand) else -1

    def one(x: Signal) -> Signal:
        return x.negated().plus(addend)

    return _each(circuit, one, *operands)


def _magnitude(circuit: Circuit, x: Signal) -> Signal:
    """|x|."""
    low, high = x.bounds
    if low >= 0 or high <= 0:
        return x if low >= 0 else x.negated()
    bounds, name = (0, max(-low, high)), circuit.name("abs")
    return select(circuit, at_least(circuit, x, 0), x, x.negated(), bounds, name)


def _sign(circuit: Circuit, x: Signal) -> Signal:
    """-1, 0 or 1."""
    return count_reached(circuit, x, (0, 1)).plus(-1)


def argmax(circuit: Circuit, op: tensor.ArgmaxOp, operands: Sequence[Signals]) -> Signals:
    """`tensor.argmax`."""
    return over_axes(op, operands[0], partial(first_largest, circuit))


def reduced(circuit: Circuit, op: Reduction, operands: Sequence[Signals]) -> Signals:
    """`tensor.reduce_sum`, `reduce_max` and `reduce_min`, as a tree."""
    combine = partial(_COMBINE[type(op)], circuit)
    return over_axes(op, operands[0], partial(in_pairs, combine))


def _subtract(circuit: Circuit, a: Signal, b: Signal) -> Signal:
    return add(circuit, a, b.negated())


def _multiply(circuit: Circuit, a: Signal, b: Signal) -> Signal:
    """One of them is known."""
    return scaled(circuit, b, a.offset) if a.wire is None else scaled(circuit, a, b.offset)


def _pairwise(circuit: Circuit, combine: Combine, operands: Sequence[Signals]) -> Signals:
    """The elements of two tensors combined, broadcast."""
    return _each(circuit, partial(combine, circuit), *operands)


_COMBINE: dict[type[Operation], Combine] = {
    tensor.ReduceSumOp: add,
    tensor.ReduceMaxOp: larger,
    tensor.ReduceMinOp: smaller,
}

FLOATS = "floating point"
"""Why ops on floats have no circuit."""

FLOATS_HINT = (
    "where an input has no quantiser but holds few values, say which: "
    "'verilog{inputs=\"NAME:int8*0.5\"}'; to make a float network integer, give the target samples "
    "of its inputs, 'verilog{calibration=samples.npz}', or run before: triton-opt FILE -o "
    f"integer.mlir -p '{integer_pipeline('samples.npz')}' (docs/quantization.md)"
)
"""What helps."""

RULES: dict[type[Operation], Rule] = {
    ternary.AdderGraphOp: adder_graph,
    tensor.AbsOp: lambda c, op, x: _each(c, partial(_magnitude, c), *x),
    tensor.AndOp: lambda c, op, x: _pairwise(c, _both, x),
    tensor.AddOp: lambda c, op, x: _pairwise(c, add, x),
    tensor.ArgmaxOp: argmax,
    tensor.ClampOp: bounded,
    tensor.CompareOp: compare,
    tensor.ConvertOp: _converted,
    tensor.GatherRowsOp: _picked,
    tensor.MaximumOp: lambda c, op, x: _pairwise(c, larger, x),
    tensor.MinimumOp: lambda c, op, x: _pairwise(c, smaller, x),
    tensor.MulOp: lambda c, op, x: _pairwise(c, _multiply, x),
    tensor.MultiThresholdOp: multi_threshold,
    tensor.NegOp: lambda c, op, x: _each(c, Signal.negated, *x),
    tensor.NotOp: _opposite,
    tensor.OrOp: lambda c, op, x: _pairwise(c, _either, x),
    tensor.ReduceMaxOp: reduced,
    tensor.ReduceMinOp: reduced,
    tensor.ReduceSumOp: reduced,
    tensor.ReluOp: relu,
    tensor.RequantizeOp: requantize,
    tensor.MatmulOp: known_product,
    ternary.MatmulOp: known_product,
    spike.FromTensorOp: lambda c, op, x: _each(c, partial(_spiked, c), x[0]),
    spike.LinearOp: known_product,
    spike.ToTensorOp: lambda c, op, x: x[0],
    tensor.SignOp: lambda c, op, x: _each(c, partial(_sign, c), *x),
    tensor.SubOp: lambda c, op, x: _pairwise(c, _subtract, x),
    tensor.WhereOp: chosen,
    tensor.XorOp: lambda c, op, x: _pairwise(c, _differ, x),
}


def _is_truth(value: SSAValue) -> bool:
    return tensor_type(value).element_type == i1


def is_known(value: SSAValue) -> bool:
    """Whether a value is known before the program runs."""
    return literal_value(value) is not None


def refusal(op: Operation) -> str | None:
    """Why an op of a function cannot become hardware; `None` if it can."""
    if has(op, MovesElements):
        return None
    if isinstance(op, ternary.MatmulOp | tensor.MatmulOp) and is_known_product(op):
        return None
    if isinstance(op, Product):
        return _product_refusal(op)
    if isinstance(op, ternary.ConvOp | tensor.ConvOp | tensor.MaxPoolOp):
        return "images in a loop have no circuit: a step of it takes one cycle"
    if type(op) not in RULES and not all(map(_is_tensor, (*op.operands, *op.results))):
        return "no circuit for it"
    if any(not holds_integers(value) for value in (*op.operands, *op.results)):
        return FLOATS
    if type(op) not in RULES:
        return "no circuit for it"
    if isinstance(op, tensor.RequantizeOp | tensor.MultiThresholdOp) and not all(
        is_known(value) for value in op.operands[1:]
    ):
        return "its parameters must be constants with values"
    if isinstance(op, tensor.GatherRowsOp) and not is_known(op.indices):
        return "it picks rows by numbers that are not known"
    if isinstance(op, tensor.AndOp | tensor.OrOp | tensor.XorOp) and not _is_truth(op.result):
        return "bits of integers; it takes truth values alone"
    if isinstance(op, tensor.MulOp) and not any(is_known(value) for value in op.operands):
        return "a product of two values that are not known"
    return None


def _product_refusal(op: Product) -> str:
    """Why a product did not become additions."""
    if any(not holds_integers(value) for value in op.operands):
        return FLOATS
    if tensor_type(op.result).element_type != i32:
        return "dense products become adders in i32 alone; convert its operands to i32"
    return "only products with one known matrix of integers become adders"


def _is_tensor(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)


def holds_integers(value: SSAValue) -> bool:
    """Whether the elements of a tensor or a train are integers or truth values."""
    return numpy_dtype(dense_type(value).element_type).kind in "iub"
