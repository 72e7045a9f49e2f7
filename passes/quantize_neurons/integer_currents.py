"""Float currents that are whole numbers times a scale: sums of spikes, and constant currents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Operation, SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array, module_of
from ...dialects.spike.rebuild import rebuilt
from ...dialects.spike.types import is_train
from ..analysis.compile_time import literal, literal_value
from ..analysis.layers import is_layer, options_of, weight_of
from ..analysis.replacement import erase_unused, replace_results
from ..convert_spike_to_tensor.tensor_builder import Builder

_MOST = 127
"""The largest weight of a product that becomes one of integers here."""

Sum = spike.SynapseOp
"""Synapses whose sums of spikes are whole."""


@dataclass(frozen=True)
class Current:
    """A float current [T, …, channels] as scale·k.

    Attributes:
        maker: `spike.linear` or `spike.conv` with a scale, or `spike.encode` of a product.
        scale: in f64, of all channels or of each, in a shape that broadcasts to a step.
    """

    maker: Sum | spike.EncodeOp
    scale: Array

    @property
    def name(self) -> str:
        """The key of its weight."""
        op = self.maker if isinstance(self.maker, Sum) else self.maker.operand.owner
        weight = op.weight if isinstance(op, Sum) else weight_of(_product(op))
        owner = weight.owner
        is_parameter = isinstance(owner, tensor.ParameterOp | ternary.ParameterOp)
        return owner.key.data if is_parameter else "constant"

    def integers(self, builder: Builder) -> SSAValue:
        """k, made where the builder stands."""
        if isinstance(self.maker, spike.EncodeOp):
            return self._constant(builder, self.maker)
        synapse = self.maker
        shape = tensor_type(synapse.result).get_shape()
        scale = self.scale.reshape(-1) if self.scale.ndim else self.scale
        bias = [] if synapse.bias is None else [self._bias(builder, synapse.bias, scale)]
        new = rebuilt(synapse, {"scale": [], "bias": bias}, {"result": [TensorType(i32, shape)]})
        return builder.add(new)

    def _constant(self, builder: Builder, encode: spike.EncodeOp) -> SSAValue:
        product = _product(encode.operand.owner)
        source = _dequantized(product)
        weight, step = literal_value(weight_of(product)), literal_value(source.scale)
        assert weight is not None and step is not None and encode.timesteps is not None
        x = builder.converted(source.input, i32)
        zero = literal_value(source.zero_point)
        assert zero is not None
        if zero.any():
            x = builder.add(tensor.SubOp(x, builder.constant(zero.astype(np.int32), i32)))
        units = self.scale / step.astype(np.float64)
        rounded = np.rint(weight.astype(np.float64) / units).astype(np.int32)
        constant = literal(
            module_of(encode), f"{self.name}.i8", rounded, TensorType(i32, rounded.shape)
        )
        value = builder.add(tensor.MatmulOp(x, builder.add(constant)))
        bias = options_of(product).get("bias")
        if bias is not None:
            value = builder.add(tensor.AddOp(value, self._bias(builder, bias, self.scale)))
        return builder.add(spike.EncodeOp(value, "direct", encode.timesteps.value.data))

    def _bias(self, builder: Builder, bias: SSAValue, scale: Array) -> SSAValue:
        values = literal_value(bias)
        assert values is not None
        units = np.rint(values.astype(np.float64) / scale).astype(np.int32)
        type = TensorType(i32, units.shape)
        return builder.add(literal(module_of(self.maker), f"{self.name}.bias", units, type))

    def forget_after(self, op: Operation, value: SSAValue) -> None:
        """Put a value in the place of an op on the current, and drop what nobody needs then."""
        chain: list[Operation] = [self.maker]
        if isinstance(self.maker, spike.EncodeOp):
            product = _product(self.maker.operand.owner)
            chain = [_dequantized(product), product, self.maker]
        first = [v.owner for v in op.operands if isinstance(v.owner, tensor.ClampOp)]
        replace_results(op, [value])
        erase_unused([*chain[:-1], *first, chain[-1]])


def current_of(value: SSAValue) -> Current | None:
    """A current of f32 as whole numbers times a scale, if it is such and they are known."""
    maker = value.owner
    if isinstance(maker, spike.EncodeOp):
        return _constant_current(maker)
    if not isinstance(maker, Sum) or not is_train(maker.input) or maker.scale is None:
        return None
    scale = literal_value(maker.scale)
    bias = None if maker.bias is None else literal_value(maker.bias)
    if scale is None or not (scale > 0).all() or (maker.bias is not None and bias is None):
        return None
    scale = scale.astype(np.float64)
    if isinstance(maker, spike.ConvOp) and scale.ndim:
        scale = scale.reshape(-1, *[1] * (tensor_type(value).get_num_dims() - 3))
    return Current(maker, scale)


def _constant_current(encode: spike.EncodeOp) -> Current | None:
    """The weights of the product become multiples of a 127th of the largest of their channel."""
    product = encode.operand.owner
    if encode.scheme.data != "direct" or not isinstance(product, Operation):
        return None
    if not isinstance(product, tensor.LinearOp | tensor.MatmulOp) or not is_layer(product):
        return None
    source = product.operands[0].owner
    known = [literal_value(value) for value in product.operands[1:]]
    if not isinstance(source, tensor.DequantizeOp) or any(value is None for value in known):
        return None
    step, zero = literal_value(source.scale), literal_value(source.zero_point)
    weight = known[0]
    if step is None or zero is None or step.ndim or zero.ndim or weight is None:
        return None
    largest = np.abs(weight.astype(np.float64)).max(axis=0, initial=0)
    units = np.where(largest > 0, largest, _MOST) / _MOST
    return Current(encode, float(step) * units)


def _product(op: object) -> tensor.LinearOp | tensor.MatmulOp:
    assert isinstance(op, tensor.LinearOp | tensor.MatmulOp)
    return op


def _dequantized(product: tensor.LinearOp | tensor.MatmulOp) -> tensor.DequantizeOp:
    source = product.operands[0].owner
    assert isinstance(source, tensor.DequantizeOp)
    return source
