"""TFLite import of operators that keep values from run to run: LSTM over a sequence, and SVDF.

A rule gives the new values of the node's variables behind its results; the importer makes them
arguments and results of the program. The arithmetic is that of LiteRT's reference kernels
(`lstm_eval.cc`, `svdf.h`): floats, floats by stored integers, and integers, those of the LSTM by
`rules_integer_lstm`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i8, i16, i32
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ..from_onnx.rules_recurrent import all_steps
from ..problems import ProblemError, refuse
from .fixed_point import RANGES, centred, clamped, real_values, rescaled
from .lstm_inputs import (
    BIASES,
    CELL,
    FORGET,
    HIDDEN,
    INPUT,
    MEMORY,
    NORMS,
    OUTPUT,
    PEEPHOLES,
    PROJECTION,
    PROJECTION_BIAS,
    RECURRENT,
    WEIGHTS,
)
from .rules_activation import activated
from .rules_integer_lstm import IntegerLstm
from .rules_products import rows
from .tflite_builder import Builder, Node, Results, Rule, is_real

_LEAST_VARIANCE = 1e-8
"""What is added to a variance before gates are divided by its root."""


@dataclass(frozen=True)
class _Lstm:
    """One cell; inputs of the node by number."""

    e: Builder
    node: Node

    def product(self, x: SSAValue, index: int, bias: SSAValue | None) -> Formula:
        """x · W for the weight [out, in] that is input `index`."""
        weight = self.e.permute(self.node[index], [1, 0])
        product = rows(self.e, x, weight, (0, index, -1))
        return Formula(self.e, product.floats(self.e, self.node, bias))

    def stored(self, index: int) -> Formula | None:
        """A vector of floats, or of stored integers."""
        value = self.node.optional(index)
        if value is not None and not is_real(value):
            value = real_values(self.e, value, self.node.scales(index))
        return None if value is None else Formula(self.e, value)

    def gate(self, gate: int, x: SSAValue, hidden: SSAValue, memory: Formula) -> Formula:
        """A gate before its activation."""
        norm, bias = self.stored(NORMS + gate), self.node[BIASES + gate]
        total = self.product(x, WEIGHTS + gate, None if norm is not None else bias)
        total += self.product(hidden, RECURRENT + gate, None)
        hole = self.stored(PEEPHOLES[gate]) if gate in PEEPHOLES else None
        if hole is not None:
            total += hole * memory
        if norm is None:
            return total
        deviation = total - total.of(tensor.ReduceMeanOp, axes=[1], keepdims=True)
        variance = (deviation * deviation).of(tensor.ReduceMeanOp, axes=[1], keepdims=True)
        scaled = deviation / (variance + _LEAST_VARIANCE).of(tensor.SqrtOp)
        return scaled * norm + Formula(self.e, bias)

    def step(self, x: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
        """The hidden state and the memory after a step."""
        e, (hidden, before) = self.e, state
        memory = Formula(e, before)
        forget = self.gate(FORGET, x, hidden, memory).of(tensor.SigmoidOp)
        if self.node.optional(WEIGHTS + INPUT) is None:
            entry = 1 - forget
        else:
            entry = self.gate(INPUT, x, hidden, memory).of(tensor.SigmoidOp)
        new = self.activated(self.gate(CELL, x, hidden, memory))
        memory = _clipped(forget * memory + entry * new, self.node.number("cellClip"))
        output = self.gate(OUTPUT, x, hidden, memory).of(tensor.SigmoidOp)
        given = output * self.activated(memory)
        if self.node.optional(PROJECTION) is not None:
            bias = self.node.optional(PROJECTION_BIAS)
            given = self.product(given.value, PROJECTION, bias)
            given = _clipped(given, self.node.number("projClip"))
        return [given.value, memory.value]

    def activated(self, x: Formula) -> Formula:
        """The activation of new values, which the node names."""
        return Formula(self.e, activated(self.e, self.node, x.value))


def _clipped(x: Formula, most: float) -> Formula:
    return x.maximum(-most).minimum(most) if most > 0 else x


def _sequence_lstm(e: Builder, node: Node) -> Results:
    x = node[0]
    refuse(node.flag("diagonalRecurrentTensors"), "its recurrent weights are diagonals")
    if e.rank(x) != 3:
        raise ProblemError(f"its input has rank {e.rank(x)}")
    first = node.flag("timeMajor")
    x = x if first else e.permute(x, [1, 0, 2])
    state = [node[HIDDEN], node[MEMORY]]
    if is_real(x):
        step = _Lstm(e, node).step
    else:
        (cell := IntegerLstm(e, node)).check()
        step = cell.step
    outputs, state = all_steps(e, x, state, step)
    return (outputs if first else e.permute(outputs, [1, 0, 2]), *state)


# SVDF: filters of rank 1 in time and features (Nakkiran et al. 2015).


def _svdf(e: Builder, node: Node) -> Results:
    x, state, rank = node[0], node[4], node.integer("rank")
    filters, length = e.shape(node[2], "filters over time")
    batch = e.sizes(x)[0]
    refuse(rank < 1 or filters % rank, f"its {filters} filters have rank {rank}")
    rests = e.reshape(state, (batch, filters, length))
    if is_real(x):
        weight = e.permute(node[1], [1, 0])
        features = rows(e, x, weight, (0, 1, -1)).floats(e, node, None)
    else:
        features = _integer_features(e, node)
    features = e.reshape(features, (batch, filters, 1))
    kept = e.add(tensor.ConcatenateOp([e.cut(rests, 2, 1), features], 2))
    after = e.reshape(kept, (batch, filters * length))
    units = (batch, filters // rank, rank * length)
    if is_real(x):
        times = node[2] if is_real(node[2]) else real_values(e, node[2], node.scales(2))
        filtered = e.add(tensor.MulOp(kept, times))
    else:
        filtered = e.add(tensor.MulOp(e.convert(kept, i32), e.convert(node[2], i32)))
    sums = e.add(tensor.ReduceSumOp(e.reshape(filtered, units), [2]))
    if (bias := node.optional(3)) is not None:
        sums = e.add(tensor.AddOp(sums, bias))
    if is_real(x):
        return activated(e, node, sums), after
    result = node.result_scales()
    factor = node.scales(4).scale[0].astype("f8") * node.scales(2).scale[0] / result.scale[0]
    if node.integer("fusedActivationFunction") not in (0, 1) or node.element != i8:
        raise ProblemError("its integer form gives INT8, as it is or behind a ReLU")
    return rescaled(e, sums, factor, result.zero, i8), after


def _integer_features(e: Builder, node: Node) -> SSAValue:
    """Products with the features in the steps of the state, which is i16."""
    kinds = [tensor_type(node[i]).element_type for i in (0, 1, 2, 4)]
    if kinds != [i8, i8, i16, i16]:
        raise ProblemError(f"it multiplies integers of {', '.join(map(str, kinds))}")
    x = centred(e, node[0], node.scales(0))
    weight = e.convert(e.permute(node[1], [1, 0]), i32)
    sums = e.add(tensor.MatmulOp(x, weight))
    steps = node.scales(0).scale[0].astype("f8") * node.scales(1).scale[0]
    factor = steps / node.scales(4).scale[0]
    return clamped(e, rescaled(e, sums, factor, 0, i32), *RANGES[i16], i16)


RULES: dict[str, Rule] = {
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _sequence_lstm,
}
"""By the name of the operator; all look at the types of their inputs themselves."""
