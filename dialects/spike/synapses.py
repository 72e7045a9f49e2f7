"""Synapses: weighted sums of spikes, pooling and delays, for each step by itself or over time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    TensorType,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import fail, tensor_type
from ..shapes import (
    AnyTensor,
    Shape,
    broadcasts_to,
    compatible,
    is_float,
    is_integer,
    matmul_shape,
    show_shape,
    with_shape,
)
from ..tensor.linear import check_vector
from ..tensor.window import (
    Averages,
    Convolves,
    Maxima,
    Pools,
    conv_shape,
)
from ..ternary.linear import accumulator
from ..ternary.types import is_trit
from ..traits import AddsUp, CanonicalizableOp, TakesSteps
from .types import SpikeOp, TrainType, is_train, like, time_first

SIGNAL = BaseAttr(TrainType) | BaseAttr(TensorType)
"""What travels over synapses: spikes, or graded spikes (a dense time-first tensor)."""


class SynapseOp(SpikeOp, CanonicalizableOp, ABC):
    """A weighted sum of spikes at each step: y = scale·(s · W) + bias.

    The input is a train, or graded spikes: floats, or integers of up to 32 bits with a sign.
    Weights are floats, i8 or trits. Sums of i8 and trit weights are in i32, modulo 2^32, and stay
    so without a scale; a float scale (a scalar or one a channel)
    turns them into floats of its type. Float sums are in the weights' type (for trits on graded
    spikes in the input's), in no fixed order. The bias has the result's type.
    """

    CHANNEL_AXIS: ClassVar[int]
    """The axis of the result that holds the output channels."""

    input = operand_def(SIGNAL)
    weight = operand_def(TensorType)
    scale = opt_operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(AddsUp(), TakesSteps())
    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$input `,` $weight (`scale` `(` $scale^ `:` type($scale) `)`)? "
        "(`bias` `(` $bias^ `:` type($bias) `)`)? "
        "attr-dict `:` type($input) `,` type($weight) `->` type($result)"
    )

    @abstractmethod
    def product_shape(self, input: Shape, weight: Shape) -> Shape:
        """The shape of the result from that of input and weight, checked."""

    def infer(self) -> Sequence[Attribute]:
        weight = tensor_type(self.weight)
        element = self.sum_element(weight)
        shape = self.product_shape(time_first(self.input).get_shape(), weight.get_shape())
        channels = shape[self.CHANNEL_AXIS]
        if self.scale is not None:
            scale = tensor_type(self.scale)
            if not is_float(scale) or element not in (i32, scale.element_type):
                fail(f"expects a scale of floats that fit sums of {element}, got {scale}")
            if scale.get_shape():
                check_vector(scale, channels, "scale")
            element = scale.element_type
        if self.bias is not None:
            bias = tensor_type(self.bias)
            check_vector(bias, channels, "bias")
            if bias.element_type != element:
                fail(f"expects a bias of {element}, got {bias}")
        return [TensorType(element, shape)]

    def sum_element(self, weight: AnyTensor) -> Attribute:
        """The element type of the sums before the scale."""
        exact = is_trit(weight) or weight.element_type == i8
        if is_train(self.input):
            if exact:
                return i32
            if is_float(weight):
                return weight.element_type
            fail(f"expects weights of floats, i8 or trits, got {weight}")
        graded = tensor_type(self.input)
        if is_integer(graded) and exact:
            if accumulator(graded) != i32:
                fail(f"expects graded spikes of at most 32 bits, got {graded}; convert them to i32")
            return i32
        if is_float(graded) and (is_trit(weight) or weight.element_type == graded.element_type):
            return graded.element_type
        fail(f"expects weights that fit graded spikes of {graded.element_type}, got {weight}")


@irdl_op_definition
class LinearOp(SynapseOp):
    """y[t] = scale·(s[t] · W) + bias with W [in, out], for spikes or graded spikes s [T, …, in].

    Float, i8 or trit weights; without a scale, sums of i8 and trits are exact i32.

        %i = spike.linear %s, %w : !spike.train<32x?x784>, tensor<784x256x!ternary.trit>
             -> tensor<32x?x256xi32>
    """

    name = "spike.linear"

    CHANNEL_AXIS: ClassVar[int] = -1

    def product_shape(self, input: Shape, weight: Shape) -> Shape:
        if len(input) < 2 or len(weight) != 2:
            fail(
                "expects an input of rank 2 or more, time first, and a weight of rank 2, "
                f"got ranks {len(input)} and {len(weight)}"
            )
        return matmul_shape(input, weight)


@irdl_op_definition
class ConvOp(Convolves, SynapseOp):
    """y[t] = scale·conv(s[t], W) + bias at each step, for s [T, N, C, …] and W [O, C/groups, …].

    Window properties and order of axes are those of `tensor.conv`, 1-d or 2-d; weights as for
    `spike.linear`.

        %i = spike.conv %s, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
             dilation = array<i64: 1, 1>, groups = 1 : i64} : !spike.train<32x?x2x34x34>,
             tensor<8x2x3x3xi8> -> tensor<32x?x8x34x34xi32>
    """

    name = "spike.conv"

    CHANNEL_AXIS: ClassVar[int] = 2

    def product_shape(self, input: Shape, weight: Shape) -> Shape:
        if len(input) not in (4, 5):
            fail(f"expects an input [T, N, C, …] of rank 4 or 5, got {self.input.type}")
        return (input[0], *conv_shape(input[1:], weight, **self.window))


class _PoolOp(Pools, SpikeOp, CanonicalizableOp, ABC):
    """A sliding window over the spatial axes of [T, N, C, …], 1-d or 2-d, at each step."""

    LEADING: ClassVar[int] = 3
    IMAGE: ClassVar[str] = "an input [T, N, C, …]"

    operand = operand_def(SIGNAL)
    result = result_def(SIGNAL)

    traits = traits_def(TakesSteps())

    def keeps_every_element(self) -> bool:
        """Whether each window is one element, and each element one window."""
        ones = (*self.kernel.get_values(), *self.strides.get_values())
        return set(ones) == {1} and not any(self.padding.get_values())


@irdl_op_definition
class AvgPoolOp(Averages, _PoolOp):
    """The mean of each window at each step: a dense tensor, f32 for spikes.

    `count_include_pad` counts pads as zeros, else they are left out. Windows as `tensor.avg_pool`.

        %y = spike.avg_pool %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
             padding = array<i64: 0, 0, 0, 0>}
             : (!spike.train<32x?x8x4x4>) -> tensor<32x?x8x2x2xf32>
    """

    name = "spike.avg_pool"

    def infer(self) -> Sequence[Attribute]:
        type = time_first(self.operand)
        shape = self.pooled_shape(type.get_shape())
        if is_train(self.operand):
            return [TensorType(f32, shape)]
        if not is_float(type):
            fail(f"expects spikes or graded spikes of floats, got {type}")
        return [with_shape(type, shape)]


@irdl_op_definition
class MaxPoolOp(Maxima, _PoolOp):
    """A spike wherever the window has one, at each step (or-pooling); pads have none.

    %y = spike.max_pool %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
         padding = array<i64: 0, 0, 0, 0>}
         : (!spike.train<32x?x8x4x4>) -> !spike.train<32x?x8x2x2>
    """

    name = "spike.max_pool"

    def infer(self) -> Sequence[Attribute]:
        if not is_train(self.operand):
            fail(f"expects a spike train, got {self.operand.type}")
        return [TrainType(self.pooled_shape(time_first(self.operand).get_shape()))]


@irdl_op_definition
class DelayOp(SpikeOp, CanonicalizableOp):
    """y[t] = x[t - d], for spikes or graded spikes (NIR's Delay with τ = d·dt).

    d is `steps`, or for each neuron an element of `delays`, integers from 0 to `steps` that
    broadcast to the shape of a step. What comes before the first step is `initial`, `steps` steps
    long, zeros by default; the last `steps` steps of what was received are a result on request, so
    that a run can be cut and resumed.

        %y = spike.delay %x {steps = 2 : i64}
             : (!spike.train<32x?x10>) -> !spike.train<32x?x10>
    """

    name = "spike.delay"

    input = operand_def(SIGNAL)
    delays = opt_operand_def(TensorType)
    initial = opt_operand_def(SIGNAL)
    steps = prop_def(IntegerAttr[IntegerType])
    output = result_def(SIGNAL)
    final = opt_result_def(SIGNAL)

    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$input (`delays` `(` $delays^ `:` type($delays) `)`)? "
        "(`initial` `(` $initial^ `:` type($initial) `)`)? "
        "attr-dict `:` functional-type($input, results)"
    )

    def infer(self) -> Sequence[Attribute]:
        shape, steps = time_first(self.input).get_shape(), self.steps.value.data
        if steps < 0:
            fail(f"expects steps of at least 0, got {steps}")
        if self.delays is not None:
            delays = tensor_type(self.delays)
            if not is_integer(delays) or not broadcasts_to(delays.get_shape(), shape[1:]):
                fail(
                    f"expects delays of integers that broadcast to {show_shape(shape[1:])}, "
                    f"got {delays}"
                )
        buffer = like(self.input, (steps, *shape[1:]))
        if self.initial is not None and not compatible(self.initial.type, buffer):
            fail(f"expects initial steps as {buffer}, got {self.initial.type}")
        return [self.input.type, *([buffer] if self.final is not None else [])]
