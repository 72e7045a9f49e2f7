"""A float product with float weights, once its input is integer: integer weights, exact sums.

The counterpart of `integer_products`, whose weights are trits.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i32
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...ir.errors import PassError
from ...ir.locations import error_at
from ..analysis.compile_time import literal, literal_value
from ..analysis.layers import PlainLayer, channel_axis, options_of, weight_of
from ..analysis.magnitude import type_magnitude
from ..analysis.replacement import insert_before
from .integer_weights import integer_weight


class DenseIntegerProduct:
    """The ops that stand for one float product once its input is integer.

    Args:
        module: holds the product.
        product: with a known weight.
        bits: of its weights.
        shared: whether all channels get one scale.

    Raises:
        PassError: the values of the weight are not there or not finite, or the sums of the product
            would not fit an i32.
    """

    def __init__(
        self, module: ModuleOp, product: PlainLayer, bits: int, *, shared: bool = False
    ) -> None:
        self.module = module
        self.product = product
        weight = weight_of(product)
        values = literal_value(weight)
        if values is None or not np.isfinite(values).all():
            raise PassError(
                error_at(
                    product,
                    "integer weights need the values of the weight, all finite; run "
                    "'fold-constants' first, and give the weights of the model",
                )
            )
        owner = weight.owner
        self.key = owner.key.data if isinstance(owner, tensor.ParameterOp) else "weight"
        self.channel = 0 if isinstance(product, tensor.ConvOp) else values.ndim - 1
        self.weight = integer_weight(values, self.channel, bits, shared=shared)

    def add(self, op: Operation) -> SSAValue:
        """Insert `op` before the product."""
        insert_before(self.product, op)
        return op.results[0]

    def constant(self, what: str, values: Array, *, keep_name: bool = False) -> SSAValue:
        """A literal that belongs to the product's weight."""
        element = {np.dtype(np.float32): f32, np.dtype(np.int32): i32}[values.dtype]
        type = TensorType(element, values.shape)
        key = f"{self.key}.{what}"
        return self.add(literal(self.module, key, values, type, buffer=True, keep_name=keep_name))

    def sums(self, integers: SSAValue, zero: int) -> SSAValue:
        """The exact sums in i32, without bias; pads stand for the real number 0."""
        product = self.product
        self._check_size(type_magnitude(integers))
        wide = self.add(tensor.ConvertOp(integers, i32))
        weight = self.constant("integers", self.weight.integers, keep_name=True)
        if not isinstance(product, tensor.ConvOp):
            return self.add(tensor.LinearOp(wide, weight))
        window, padding = product.window, product.padding.get_values()
        if zero and any(padding):
            spatial = tensor_type(integers).get_num_dims() - 2
            low, high = padding[:spatial], padding[spatial:]
            wide = self.add(tensor.PadToOp(wide, (0, 0, *low), (0, 0, *high), float(zero)))
            window["padding"] = [0] * len(padding)
        return self.add(tensor.ConvOp(wide, weight, **window))

    def _check_size(self, most: int) -> None:
        axes = tuple(a for a in range(self.weight.integers.ndim) if a != self.channel)
        size = int(np.abs(self.weight.integers.astype(np.int64)).sum(axis=axes).max(initial=0))
        if size * most >= 2**31:
            raise PassError(
                error_at(
                    self.product, "the sums of this product do not fit an i32; give fewer bits"
                )
            )

    def followed(self, accumulated: SSAValue, scale: float, zero: int) -> SSAValue:
        """What the product computed, from the integer sums."""
        product = self.product
        axes = tuple(a for a in range(self.weight.integers.ndim) if a != self.channel)
        offset = np.array(0, np.int32)
        if zero:
            offset = (zero * self.weight.integers.sum(axis=axes, dtype=np.int64)).astype(np.int32)
        factor = np.asarray(np.float32(scale) * self.weight.scale.astype(np.float32), np.float32)
        result = self.add(
            tensor.DequantizeOp(
                accumulated,
                self.constant("scale", factor),
                self.constant("zero_point", offset),
                axis=channel_axis(product) if factor.ndim or offset.ndim else 1,
            )
        )
        element = tensor_type(product.result).element_type
        if element != f32:
            result = self.add(tensor.ConvertOp(result, element))
        bias = options_of(product).get("bias")
        if bias is not None:
            result = self.add(tensor.AddOp(result, self._along_channels(bias)))
        return result

    def _along_channels(self, bias: SSAValue) -> SSAValue:
        """A vector of channels, shaped to be added to the product's result."""
        trailing = tensor_type(self.product.result).get_num_dims() - 2
        if not isinstance(self.product, tensor.ConvOp) or not trailing:
            return bias
        values = literal_value(bias)
        if values is None or values.dtype != np.float32:
            return self.add(tensor.UnsqueezeOp(bias, list(range(1, trailing + 1))))
        return self.constant("bias", values.reshape(-1, *[1] * trailing))
