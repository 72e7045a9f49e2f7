"""A float product with trits, once its input is integer: exact sums, and what follows them."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i32
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...ir.errors import PassError
from ...ir.locations import error_at
from ..analysis.compile_time import literal, literal_value
from ..analysis.replacement import insert_before


class IntegerProduct:
    """The ops that stand for one float product once its input is integer."""

    def __init__(self, module: ModuleOp, product: ternary.FusedOp | ternary.MatmulOp) -> None:
        self.module = module
        self.product = product
        owner = product.weight.owner
        self.key = owner.key.data if isinstance(owner, ternary.ParameterOp) else "weight"
        self.channel_axis = -1
        if isinstance(product, ternary.FusedOp):
            self.channel_axis = product.CHANNEL_AXIS

    def add(self, op: Operation) -> SSAValue:
        """Insert `op` before the product."""
        insert_before(self.product, op)
        return op.results[0]

    def constant(self, what: str, values: Array) -> SSAValue:
        """A literal that belongs to the product's weight."""
        element = {np.dtype(np.float32): f32, np.dtype(np.int32): i32}[values.dtype]
        type = TensorType(element, values.shape)
        return self.add(literal(self.module, f"{self.key}.{what}", values, type, buffer=True))

    def sums(self, integers: SSAValue, zero: int) -> SSAValue:
        """The exact sums, without the optional steps; pads stand for the real number 0."""
        product = self.product
        if isinstance(product, ternary.MatmulOp):
            bare = ternary.LinearOp(integers, product.weight)
            bare.attributes.update(product.attributes)
            return self.add(bare)
        bare = product.rebuild(
            input=integers, scale=None, bias=None, thresholds=None, activation="none"
        )
        if isinstance(bare, ternary.ConvOp) and zero and any(bare.padding.get_values()):
            padding, rank = bare.padding.get_values(), tensor_type(integers).get_num_dims()
            low, high = padding[: rank - 2], padding[rank - 2 :]
            padded = tensor.PadToOp(integers, (0, 0, *low), (0, 0, *high), float(zero))
            bare = bare.rebuild(input=self.add(padded), padding=[0] * len(padding))
        bare.attributes.update(product.attributes)
        return self.add(bare)

    def followed(self, accumulated: SSAValue, scale: float, zero: int) -> SSAValue:
        """What the product computed, from the integer sums."""
        product = self.product
        offset = np.array(0, np.int32)
        if zero:
            offset = (zero * self._weight_sums()).astype(np.int32)
        factor, zeros = self._scale(scale), self.constant("zero_point", offset)
        per_channel = any(tensor_type(v).get_shape() for v in (factor, zeros))
        axis = self.channel_axis if per_channel else 1
        result = self.add(tensor.DequantizeOp(accumulated, factor, zeros, axis=axis))
        element = tensor_type(product.result).element_type
        if isinstance(product, ternary.MatmulOp):
            return result if element == f32 else self.add(tensor.ConvertOp(result, element))
        follows = product.input if product.bias is None else product.bias
        target = tensor_type(follows).element_type
        if target != f32:
            result = self.add(tensor.ConvertOp(result, target))
        if product.bias is not None:
            result = self.add(tensor.AddOp(result, self._per_channel(product.bias)))
        if product.activation.data != "none":
            kind = tensor.ReluOp if product.activation.data == "relu" else tensor.Relu6Op
            result = self.add(kind(result))
        if product.thresholds is not None:
            counted = tensor.MultiThresholdOp(result, product.thresholds, axis=self.channel_axis)
            result = self.add(counted)
        return result

    def _weight_sums(self) -> Array:
        weight = literal_value(self.product.weight)
        if weight is None:
            raise PassError(
                error_at(
                    self.product,
                    "a grid with a zero point needs the values of the weight; run 'ternarize' or "
                    "'fold-constants' first, or use symmetric=true",
                )
            )
        channel = 0 if isinstance(self.product, ternary.ConvOp) else 1
        axes = tuple(axis for axis in range(weight.ndim) if axis != channel)
        return weight.sum(axes, dtype=np.int64)

    def _scale(self, activation: float) -> SSAValue:
        own = self.product.scale
        if own is None:
            return self.constant("scale", np.array(activation, np.float32))
        values = literal_value(own)
        if values is not None:
            product = np.float32(activation) * values.astype(np.float32)
            return self.constant("scale", np.asarray(product, np.float32))
        factor = self.constant("scale", np.array(activation, np.float32))
        if tensor_type(own).element_type != f32:
            own = self.add(tensor.ConvertOp(own, f32))
        return self.add(tensor.MulOp(own, factor))

    def _per_channel(self, vector: SSAValue) -> SSAValue:
        """A vector of channels, shaped to be added to the product's result."""
        trailing = tensor_type(self.product.result).get_num_dims() - 2
        if self.channel_axis == -1 or trailing == 0:
            return vector
        values = literal_value(vector)
        if values is None or values.dtype != np.float32:
            return self.add(tensor.UnsqueezeOp(vector, list(range(1, trailing + 1))))
        return self.constant("bias", values.reshape(-1, *[1] * trailing))
