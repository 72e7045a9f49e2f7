"""The rule for neurons: their equations as ops on tensors, in a loop over the steps.

What does not depend on the states is computed before the loop, for all steps at once. What would
change nothing is left out: a factor of 1, a leak towards 0. A potential of -0 may so come out as 0.
Not here: the equations (`ir.neurons`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, i32, i64
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import Rewriter

from ...dialects import spike, tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import Shape, broadcast
from ...dialects.spike.types import is_train
from ...ir.arrays import Array
from ...ir.neurons.arithmetic import GeneralArithmetic
from ..analysis.loop_body import scan_over
from .tensor_builder import BodyBuilder, Builder, Values


class _Equations(GeneralArithmetic[SSAValue]):
    """The steps of a neuron as ops.

    Args:
        outside: builds what is the same at all steps.
        op: the neuron.
        products: whether a reset takes θ·s off the potential, or is a choice.

    Attributes:
        builder: builds a step.
    """

    def __init__(self, outside: Builder, op: spike.NeuronOp, products: bool) -> None:
        self.options, self.products = op.options(), products
        self._outside = self.builder = outside
        stored = tensor_type(op.input).element_type
        self.element: Attribute = f32 if stored in (f16, bf16) else stored
        self._numbers: dict[str, Array] = {}
        self._each: dict[str, SSAValue] = {}
        for name in op.PARAMETERS:
            value = op.parameter(name)
            if isinstance(value, SSAValue):
                self._each[name] = outside.converted(value, self.element)
            else:
                rounded = np.asarray(value).astype(numpy_dtype(stored))
                self._numbers[name] = rounded.astype(numpy_dtype(self.element))

    def _constant(self, value: Array | np.generic | float, name: str = "zero") -> SSAValue:
        array = np.asarray(value, numpy_dtype(self.element))
        result = self.builder.constant(array, self.element)
        result.name_hint = name
        return result

    def shapes(self) -> list[Shape]:
        """Those of parameters that each neuron has its own of."""
        return [tensor_type(value).get_shape() for value in self._each.values()]

    def parameter(self, name: str) -> SSAValue:
        known = self._numbers.get(name)
        return self._each[name] if known is None else self._constant(known, name)

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.builder.add(tensor.AddOp(a, b))

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.builder.add(tensor.SubOp(a, b))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.builder.add(tensor.MulOp(a, b))

    def complement(self, name: str) -> SSAValue:
        one = np.ones((), numpy_dtype(self.element))
        known = self._numbers.get(name)
        if known is not None:
            return self._constant(one - known, "rest")
        whole = self._outside.constant(one, self.element)
        return self._outside.add(tensor.SubOp(whole, self._each[name]))

    def relu(self, a: SSAValue) -> SSAValue:
        return self.builder.add(tensor.MaximumOp(a, self._constant(0)))

    def magnitude(self, a: SSAValue) -> SSAValue:
        return self.builder.add(tensor.AbsOp(a))

    def reaches(self, v: SSAValue, threshold: SSAValue) -> SSAValue:
        return self.builder.add(tensor.CompareOp(v, threshold, self.options.compare))

    def is_zero(self, a: SSAValue) -> SSAValue:
        return self.builder.add(tensor.CompareOp(a, self._constant(0), "eq"))

    def choose(self, where: SSAValue, chosen: SSAValue, other: SSAValue) -> SSAValue:
        return self.builder.add(tensor.WhereOp(where, chosen, other))

    def gated(self, where: SSAValue, a: SSAValue) -> SSAValue:
        return self.choose(where, a, self._constant(0))

    def as_number(self, where: SSAValue) -> SSAValue:
        return self.builder.converted(where, self.element)

    def number(self, value: float) -> SSAValue:
        return self._constant(value, "number")

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.builder.add(tensor.DivOp(a, b))

    def exp(self, a: SSAValue) -> SSAValue:
        return self.builder.add(tensor.ExpOp(a))

    def least(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.builder.add(tensor.MinimumOp(a, b))

    def both(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.builder.add(tensor.AndOp(a, b))

    def shifted(self, factor: SSAValue, x: SSAValue, places: int) -> SSAValue:
        if self.element == i32:  # whose halves have products of 32 bits
            high = self._right(x, places)
            low = self.sub(x, self.mul(high, self._constant(2**places)))
            return self.add(self.mul(high, factor), self._right(self.mul(low, factor), places))
        wide = (self.builder.converted(value, i64) for value in (factor, x))
        return self.builder.converted(self._right(self.mul(*wide), places), self.element)

    def _right(self, x: SSAValue, places: int) -> SSAValue:
        """⌊x / 2^places⌋"""
        element = tensor_type(x).element_type
        count = self.builder.constant(np.asarray(places, numpy_dtype(element)), element)
        return self.builder.add(tensor.ShiftRightOp(x, count))

    def times(self, name: str, x: SSAValue) -> SSAValue:
        known = self._numbers.get(name)
        return x if known is not None and known == 1 else super().times(name, x)

    def driven(self, name: str, x: SSAValue) -> SSAValue:
        return x

    def rest(self) -> SSAValue | None:
        known = self._numbers.get("v_leak")
        if known is not None and known == 0:
            return None
        return super().rest()

    def after(self, spikes: SSAValue, v: SSAValue, threshold: SSAValue) -> SSAValue:
        """As everywhere; θ·s is exact, and in some engines faster than a choice."""
        is_number = not tensor_type(threshold).get_num_dims()
        is_known = is_number and isinstance(threshold.owner, tensor.ConstantOp)
        if not (self.products and is_known and self.options.reset == "subtract"):
            return super().after(spikes, v, threshold)
        return self.sub(v, self.times("threshold", self.as_number(spikes)))


def neuron(builder: Builder, op: spike.NeuronOp, products: bool) -> Values:
    """A neuron: `spike.scan`, or one step as it is."""
    type = tensor_type(op.input)
    shape, stored = type.get_shape(), type.element_type
    equations = _Equations(builder, op, products)
    wide = equations.element
    drive = equations.times(op.MODEL.input_factor, builder.converted(op.input, wide))
    zero = builder.constant(np.zeros((), numpy_dtype(stored)), stored)
    initial = [builder.add(tensor.UnsqueezeOp(value, [0])) for value in op.initial]
    initial = initial or [zero] * len(op.STATES)
    if shape[0] == 1:
        output, states = _step(equations, op, drive, initial)
        if op.final:
            states = [_spread(builder, state, drive) for state in states]
    else:
        current = tensor_type(drive).get_shape()[1:]
        each = broadcast(current, *equations.shapes())
        state = TensorType(stored, (1, *each))
        block = Block(arg_types=[TensorType(wide, (1, *current)), *[state] * len(initial)])
        for argument, name in zip(block.args[1:], op.STATES, strict=True):
            argument.name_hint = name
        body = equations.builder = BodyBuilder(block, op)
        given, after = _step(equations, op, block.args[0], block.args[1:])
        after = [_spread(body, value, block.args[0]) for value in after]
        block.add_op(spike.YieldOp(*after, given))
        loop = scan_over([drive], initial, block)
        output, states = builder.add(loop), list(loop.final)
    final = [builder.add(tensor.SqueezeOp(state, [0])) for state in states if op.final]
    # Parameters of each neuron may know sizes that the op does not say.
    pairs = zip((output, *final), op.results, strict=True)
    return [Rewriter.replace_value_with_new_type(value, old.type) for value, old in pairs]


def _step(
    equations: _Equations, op: spike.NeuronOp, x: SSAValue, states: Sequence[SSAValue]
) -> tuple[SSAValue, list[SSAValue]]:
    """What a step gives and the states after it, in the types of the op, with an axis of time."""
    builder = equations.builder
    wide = [builder.converted(state, equations.element) for state in states]
    given, after = op.MODEL.step(equations, x, wide)
    stored = tensor_type(op.input).element_type
    output = builder.train(given) if is_train(op.output) else builder.converted(given, stored)
    return output, [builder.converted(state, stored) for state in after]


def _spread(builder: Builder, state: SSAValue, x: SSAValue) -> SSAValue:
    """A state of the sizes of a step; one that no step changes is a number still."""
    if tensor_type(state).get_num_dims():
        return state
    here = builder.add(tensor.CompareOp(x, x, "eq"))
    return builder.add(tensor.WhereOp(here, state, state))
