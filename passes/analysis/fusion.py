"""What follows a product moves into it: what `fuse-linear` and `fuse-spike` have in common.

Sums, products and batch normalisation with numbers for each channel are known here. Not here: what
one of the two passes alone takes in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Operation, SSAValue

from ...dialects import spike, tensor
from ...dialects.inference import InferredOp, tensor_type
from ...dialects.shapes import is_float
from .channel_vectors import ChannelVectors, channel_shape
from .compile_time import is_finite
from .layers import (
    Layer,
    Synapse,
    channel_axis,
    channel_count,
    is_conv,
    is_layer,
    options_of,
    rebuilt,
    weight_of,
)
from .replacement import erase, replace


class Fusion(ABC):
    """One run over a module.

    Attributes:
        known: the compile-time values of the module, new ones included.
        exact: fuse only where every rounding stays.
        rules: by the op that uses a product, what makes one of both; `None` where that cannot be.
    """

    rules: dict[type[Operation], Callable[[Any, Operation], InferredOp | None]]

    def __init__(self, known: set[SSAValue], exact: bool) -> None:
        self.known = known
        self.exact = exact

    def takes_affine(self, layer: Any) -> bool:
        """Whether nothing comes after the layer's bias yet."""
        return True

    @abstractmethod
    def takes_scale(self, layer: Any) -> bool:
        """Whether a factor goes into the scale of a layer, else into its weight."""

    def absorb_users(self, layer: Layer | Synapse) -> None:
        """Take in the single user of `layer`, and so on with what results."""
        while (user := layer.result.get_user_of_unique_use()) is not None:
            rule = self.rules.get(type(user))
            if rule is None or user.parent is not layer.parent:
                return
            if not all(v in self.known or v is layer.result for v in user.operands):
                return
            fused = rule(layer, user)
            if fused is None:
                return
            replace(user, fused, source=layer)
            erase(layer)
            assert is_layer(fused) or isinstance(fused, Synapse)
            layer = fused

    def sum(self, layer: Layer | Synapse, user: Operation) -> InferredOp | None:
        """A sum with one number, or one a channel."""
        assert isinstance(user, tensor.AddOp | tensor.SubOp)
        other = user.rhs if user.lhs is layer.result else user.lhs
        if isinstance(user, tensor.SubOp) and other is user.lhs:
            return None
        bias = options_of(layer).get("bias")
        if self.exact and (
            is_rounded_early(layer) or (bias is not None and is_float(tensor_type(other)))
        ):
            return None
        shape = self._operand_shape(layer, other)
        if shape is None:
            return None
        emit = vectors(layer, user)
        added = emit.vector(emit.reshaped(other, shape), channel_count(layer))
        if isinstance(user, tensor.SubOp):
            added = emit.emit(tensor.NegOp(added))
        return self.finish(emit, layer, bias=emit.sum(bias, added))

    def product(self, layer: Layer | Synapse, user: Operation) -> InferredOp | None:
        """A product with one number, or one a channel, or the quotient by it."""
        assert isinstance(user, tensor.MulOp | tensor.DivOp)
        other = user.rhs if user.lhs is layer.result else user.lhs
        if isinstance(user, tensor.DivOp) and (self.exact or other is user.lhs):
            return None
        bare = self.takes_scale(layer) and not options_of(layer)
        if self.exact and (not bare or is_rounded_early(layer)):
            return None
        shape = self._operand_shape(layer, other)
        if shape is None or not is_float(tensor_type(other)) or not self._is_scalable(layer):
            return None
        if not is_finite(other, inverse=isinstance(user, tensor.DivOp)):
            return None
        emit = vectors(layer, user)
        factor = emit.reshaped(other, shape)
        if isinstance(user, tensor.DivOp):
            factor = emit.emit(tensor.DivOp(emit.number(1.0), factor))
        bias = options_of(layer).get("bias")
        return self._scaled(emit, layer, factor, bias and emit.product(bias, factor))

    def batch_norm(self, layer: Layer | Synapse, user: Operation) -> InferredOp | None:
        """factor = scale·αθ/√(var + ε); the weights times factor, (bias - mean)·factor + shift."""
        assert isinstance(user, tensor.BatchNormOp | spike.BatchNormOp)
        axis = 1
        if isinstance(user, spike.BatchNormOp):
            axis = user.axis.value.data % tensor_type(layer.result).get_num_dims()
        if self.exact or user.input is not layer.result or channel_axis(layer) != axis:
            return None
        if not self.takes_affine(layer) or not self._is_scalable(layer):
            return None
        emit = vectors(layer, user)
        spread = emit.emit(tensor.AddOp(user.variance, emit.number(user.epsilon.value.data)))
        factor = emit.emit(tensor.DivOp(user.scale, emit.emit(tensor.SqrtOp(spread))))
        if isinstance(user, spike.BatchNormOp) and user.factor() != 1:
            factor = emit.emit(tensor.MulOp(factor, emit.number(user.factor())))
        bias = options_of(layer).get("bias")
        if bias is None:
            shifted = emit.emit(tensor.MulOp(user.mean, factor))
            bias = emit.emit(tensor.SubOp(user.bias, shifted))
        else:
            centred = emit.emit(tensor.MulOp(emit.emit(tensor.SubOp(bias, user.mean)), factor))
            bias = emit.emit(tensor.AddOp(centred, user.bias))
        return self._scaled(emit, layer, factor, bias)

    def _operand_shape(self, layer: Layer | Synapse, other: SSAValue) -> tuple[int, ...] | None:
        """What `other` is to the layer's result: () or a number a channel."""
        if other is layer.result or not self.takes_affine(layer):
            return None
        rank = tensor_type(layer.result).get_num_dims()
        shape = tensor_type(other).get_shape()
        return channel_shape(shape, rank, channel_axis(layer), channel_count(layer))

    def _is_scalable(self, layer: Layer | Synapse) -> bool:
        """Whether a factor can go into the scale, or into a weight that nothing else uses."""
        return self.takes_scale(layer) or self.owns_weight(layer)

    def owns_weight(self, layer: Layer | Synapse) -> bool:
        """Whether the weight is a compile-time value that nothing else uses."""
        weight = weight_of(layer)
        return weight in self.known and weight.has_one_use()

    def _scaled(
        self,
        emit: ChannelVectors,
        layer: Layer | Synapse,
        factor: SSAValue,
        bias: SSAValue | None,
    ) -> InferredOp:
        """The layer times `factor` before the bias, which is replaced."""
        if self.takes_scale(layer):
            scale = emit.product(options_of(layer).get("scale"), factor)
            return self.finish(emit, layer, scale=scale, bias=bias)
        weight = weight_of(layer)
        if is_conv(layer) and tensor_type(factor).get_shape():
            spatial = tensor_type(weight).get_num_dims() - 1
            factor = emit.reshaped(factor, (channel_count(layer), *[1] * spatial))
        return self.finish(emit, layer, weight=emit.product(weight, factor), bias=bias)

    def finish(self, emit: ChannelVectors, layer: Any, **changes: SSAValue | None) -> InferredOp:
        """The layer with other operands."""
        self.known.update(emit.emitted)
        return rebuilt(layer, **changes)


def vectors(layer: Layer | Synapse, user: Operation) -> ChannelVectors:
    """What writes in front of `user` in the element type of the layer's result."""
    return ChannelVectors(user, user, tensor_type(layer.result).element_type)


def is_rounded_early(layer: Layer | Synapse) -> bool:
    """Whether the result is f16 or bf16: each op rounds to it, a fused op once, at its end."""
    element = tensor_type(layer.result).element_type
    return isinstance(element, Float16Type | BFloat16Type)
