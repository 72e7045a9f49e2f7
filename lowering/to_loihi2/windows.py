"""Programs of a known number of steps: constant inputs, and means of currents as results.

Every layer of the chip hears spikes a step late, so it has a window of steps of its own, a step
after that of the layer before; what comes behind its window reaches no result.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i32
from xdsl.ir import Operation, SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.inference import InferredOp, tensor_type
from ...dialects.tensor.shape import SLICE_END
from ...ir.arrays import Array
from ...ir.neurons.loihi import MOST_THRESHOLD
from ...passes.analysis.compile_time import literal
from ...passes.analysis.layers import (
    channel_axis,
    input_of,
    is_conv,
    is_layer,
    options_of,
    weight_of,
)
from ...passes.analysis.replacement import replace_results
from ...passes.convert_spike_to_tensor.tensor_builder import Builder

LARGEST = 255
"""What stands for the largest input: 8 bits and a sign."""

MOST_CONSTANT = 127 * 128
"""The largest constant current: what the bytes of two synapses hold."""

MOST_CURRENT = 1 << 16
"""Half of the current at which u goes once around."""


def move_product(encode: spike.EncodeOp) -> None:
    """Encode the argument in the place of its product with weights, which is then one a step.

    A product that is computed once is left where nothing else comes between it and the argument.
    """
    product = encode.operand.owner
    if encode.scheme.data != "direct" or not isinstance(product, Operation):
        return
    if not is_layer(product) or isinstance(product, ternary.FusedOp):
        return
    options = options_of(product)
    chain = list[Operation]()
    value = input_of(product)
    while isinstance(value.owner, tensor.FlattenOp | tensor.ReshapeToOp):
        chain.append(value.owner)
        value = value.owner.operands[0]
    if isinstance(value.owner, Operation) or (not is_conv(product) and channel_axis(product) != 1):
        return
    builder = Builder(encode)
    assert encode.timesteps is not None
    steps = builder.add(spike.EncodeOp(value, "direct", encode.timesteps.value.data))
    for op in reversed(chain):
        shape = tensor_type(op.results[0]).get_shape()[1:]
        steps = builder.add(tensor.ReshapeToOp(steps, [-2, -3, *shape]))
    weight, scale, bias = weight_of(product), options.get("scale"), options.get("bias")
    if isinstance(product, tensor.ConvOp | ternary.ConvOp):
        windows = {n: getattr(product, n).get_values() for n in ("strides", "padding", "dilation")}
        groups: int = product.groups.value.data
        new = spike.ConvOp(steps, weight, scale=scale, bias=bias, groups=groups, **windows)
    else:
        new = spike.LinearOp(steps, weight, scale=scale, bias=bias)
    replace_results(encode, [builder.add(new)])


class Windows:
    """The steps of each layer.

    Args:
        module: the program.
        timesteps: T, its own steps.
        depth: by how many steps the result is later.

    Attributes:
        steps: how many the chip runs.
    """

    def __init__(self, module: ModuleOp, timesteps: int, depth: int) -> None:
        self.module = module
        self.timesteps, self.steps = timesteps, timesteps + depth
        self.depth = depth
        self.entered: dict[SSAValue, SSAValue] = {}

    def enter(self, encode: spike.EncodeOp, peak: float) -> None:
        """Let an input be whole numbers, at each step."""
        builder = Builder(encode)
        scale = builder.constant(np.array(peak / LARGEST, np.float32), f32)
        zero = builder.constant(np.array(0), i32)
        numbers = tensor.QuantizeOp(encode.operand, scale, zero, low=-LARGEST, high=LARGEST)
        steps = spike.EncodeOp(builder.add(numbers), "direct", self.steps)
        self.entered[encode.result] = builder.add(steps)

    def heard(self, value: SSAValue, builder: Builder) -> SSAValue:
        """Spikes, or an input in whole numbers, over all steps."""
        op = value.owner
        if value in self.entered or isinstance(op, spike.NeuronOp):
            return self.entered.get(value, value)
        assert isinstance(op, InferredOp)
        return builder.add(op.on_operands({op.operands[0]: self.heard(op.operands[0], builder)}))

    def gated(
        self, current: SSAValue, values: Array, level: int, builder: Builder, key: str
    ) -> SSAValue:
        """A current, and a constant one in the window of a layer."""
        if not values.any():
            return current
        rank = tensor_type(current).get_num_dims() - 2
        shape = (1,) * (rank - values.ndim) + values.shape
        array = np.zeros((self.steps, 1, *shape), np.int32)
        array[level : level + self.timesteps] = values.reshape(shape)
        type = TensorType(i32, array.shape)
        stored = literal(self.module, f"{key}.bias", array, type, buffer=True)
        return builder.add(tensor.AddOp(current, builder.add(stored)))

    def start(self, current: SSAValue, values: Array, builder: Builder, key: str) -> list[SSAValue]:
        """The states u and v before the first step."""
        if not values.any():
            return []
        rank = tensor_type(current).get_num_dims()
        end = [1, *[SLICE_END] * (rank - 1)]
        first = builder.add(tensor.SliceOp(current, [0] * rank, end, [1] * rank))
        like = builder.add(tensor.SqueezeOp(first, [0]))
        zeros = builder.add(tensor.ClampOp(like, min=0.0, max=0.0))
        array = values.astype(np.int32)
        type = TensorType(i32, array.shape)
        stored = builder.add(literal(self.module, f"{key}.start", array, type, buffer=True))
        return [zeros, builder.add(tensor.AddOp(zeros, stored))]

    def read(self, decode: spike.DecodeOp, current: SSAValue, unit: float, bias: Array) -> None:
        """The mean of a current, from the potential of neurons that never fire."""
        builder = Builder(decode)
        neuron = spike.LoihiLifOp(current, du=4095, dv=0, threshold=MOST_THRESHOLD, final=True)
        builder.add(neuron)
        neuron.output.name_hint = decode.result.name_hint or "readout"
        neuron.location = decode.location
        scale = np.array(1 / (64 * unit * self.timesteps), np.float32)
        zero = builder.constant(np.array(0), i32)
        mean = tensor.DequantizeOp(neuron.final[1], builder.constant(scale, f32), zero)
        result = builder.add(mean)
        if bias.any():
            array = bias.astype(np.float32)
            type = TensorType(f32, array.shape)
            stored = literal(self.module, "readout.bias", array, type, buffer=True)
            result = builder.add(tensor.AddOp(result, builder.add(stored)))
        replace_results(decode, [result])
