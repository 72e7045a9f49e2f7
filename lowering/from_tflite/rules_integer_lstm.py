"""TFLite import of the LSTM whose activations have 8 bits, and whose gates and memory have 16.

The arithmetic is that of LiteRT (`lstm_eval.cc`, `LstmStepInteger8x8_16`): each product is rescaled
to gates with 12 bits behind the point and added with saturation; sigmoid and tangent are tables;
the scale of the memory is a power of two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i8, i16, i32
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor import shape as shapes
from ...ir.arrays import Array
from ..problems import ProblemError
from .fixed_point import RANGES, centred, clamped, rescaled, shifted
from .gemmlowp import sigmoid_table, tanh_table
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
    RECURRENT,
    WEIGHTS,
)
from .model import Quantization
from .tflite_builder import Builder, Node

_GATE_STEP = 2.0**-12
_TANH = 4
"""The fused activation that the kernel takes."""

_HIDDEN_PLACE = 4
"""Which of the intermediate tensors tells the scale of what is given."""


@dataclass(frozen=True)
class IntegerLstm:
    """One cell; inputs of the node by number."""

    e: Builder
    node: Node

    def check(self) -> None:
        """Refuse the forms that the kernel has and this file has not.

        Raises:
            ProblemError: normalised gates, a projection, other activations or grids.
        """
        if self.node.optional(NORMS + FORGET) is not None:
            raise ProblemError("its integer gates are normalised")
        if self.node.optional(PROJECTION) is not None:
            raise ProblemError("its integer form has a projection")
        if self.node.integer("fusedActivationFunction") != _TANH:
            raise ProblemError("its integer form has another activation than tanh")
        if len(self.node.intermediates) <= _HIDDEN_PLACE:
            raise ProblemError("it lacks the scales between its products")
        exponent = np.log2(self._memory_step())
        if exponent != np.rint(exponent) or not -15 <= exponent <= -9:
            raise ProblemError("LiteRT has no tangent for the scale of its memory")

    def step(self, x: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
        """The hidden state, i8, and the memory, i16, after a step."""
        e, hidden = self.e, state[0]
        memory = e.convert(state[1], i32)
        fine = round(-np.log2(self._memory_step()))
        forget = self._through(sigmoid_table(3), self._gate(FORGET, x, hidden, memory))
        if self.node.optional(WEIGHTS + INPUT) is None:
            entry = e.add(tensor.SubOp(e.number(RANGES[i16][1], i32), forget))
        else:
            entry = self._through(sigmoid_table(3), self._gate(INPUT, x, hidden, memory))
        new = self._through(tanh_table(3), self._gate(CELL, x, hidden, memory))
        kept = self._divided(e.add(tensor.MulOp(forget, memory)), 15)
        added = self._divided(e.add(tensor.MulOp(entry, new)), 30 - fine)
        memory = clamped(e, e.add(tensor.AddOp(kept, added)), *RANGES[i16], i32)
        memory = clamped(e, memory, *self._bounds(), i32)
        output = self._through(sigmoid_table(3), self._gate(OUTPUT, x, hidden, memory))
        shown = self._through(tanh_table(15 - fine), memory)
        given = self._given(e.add(tensor.MulOp(output, shown)))
        return [given, e.convert(memory, i16)]

    def _gate(self, gate: int, x: SSAValue, hidden: SSAValue, memory: SSAValue) -> SSAValue:
        e, node = self.e, self.node
        from_x = self._sums(x, node.scales(0), WEIGHTS + gate)
        from_x = e.add(tensor.AddOp(from_x, node[BIASES + gate]))
        total = self._scaled(from_x, self._step(0, WEIGHTS + gate))
        from_h = self._sums(hidden, node.scales(HIDDEN), RECURRENT + gate)
        total = self._added(total, self._scaled(from_h, self._step(HIDDEN, RECURRENT + gate)))
        place = PEEPHOLES.get(gate)
        if place is not None and (hole := node.optional(place)) is not None:
            product = e.add(tensor.MulOp(e.convert(hole, i32), memory))
            total = self._added(total, self._scaled(product, self._step(MEMORY, place)))
        return total

    def _given(self, product: SSAValue) -> SSAValue:
        """What is given of a product of two numbers of 15 bits behind the point."""
        e, node = self.e, self.node
        between = node.intermediates[_HIDDEN_PLACE].quantization
        if between is None:
            raise ProblemError("it lacks the scales between its products")
        factor = np.float32(2.0**-30 / between.scale[0])
        return rescaled(e, product, factor, between.zero, i8)

    def _sums(self, x: SSAValue, scales: Quantization, weight: int) -> SSAValue:
        e = self.e
        wide = e.convert(e.permute(self.node[weight], [1, 0]), i32)
        return e.add(tensor.MatmulOp(centred(e, x, scales), wide))

    def _step(self, x: int, weight: int) -> np.floating:
        """The factor from a product of two inputs to the gates, in float32 as LiteRT has it."""
        scales = [self.node.scales(index).scale[0] for index in (x, weight)]
        return scales[1] * scales[0] / np.float32(_GATE_STEP)

    def _scaled(self, sums: SSAValue, factor: np.floating) -> SSAValue:
        return rescaled(self.e, sums, factor, 0, i32)

    def _added(self, total: SSAValue, sums: SSAValue) -> SSAValue:
        """Both, each within 16 bits."""
        e = self.e
        first = clamped(e, total, *RANGES[i16], i32)
        return clamped(e, e.add(tensor.AddOp(first, sums)), *RANGES[i16], i32)

    def _through(self, table: Array, x: SSAValue) -> SSAValue:
        e = self.e
        places = e.add(tensor.AddOp(x, e.number(1 << 15, i32)))
        return e.convert(e.add(shapes.GatherRowsOp(e.known(table, i16), places)), i32)

    def _divided(self, x: SSAValue, shift: int) -> SSAValue:
        """x/2^shift, halves away from zero."""
        e = self.e
        negative = e.convert(e.add(tensor.CompareOp(x, e.number(0, i32), "lt")), i32)
        moved = e.add(tensor.SubOp(x, negative))
        return shifted(e, moved, shift, 0, i32, RANGES[i32])

    def _memory_step(self) -> float:
        return float(self.node.scales(MEMORY).scale[0])

    def _bounds(self) -> tuple[int, int]:
        """The integers that the memory may have."""
        low, high = RANGES[i16]
        most = self.node.number("cellClip") / self._memory_step()
        limit = high if most <= 0 else int(min(most, high))
        return (low if limit == high else -limit), limit
