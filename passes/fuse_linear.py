"""The pass `fuse-linear`: what follows a product moves into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import tensor, ternary
from ..dialects.inference import InferredOp, tensor_type
from ..dialects.shapes import is_float
from .analysis.channel_vectors import ChannelVectors, channel_shape
from .analysis.compile_time import compile_time_values, is_finite
from .analysis.layers import (
    Layer,
    channel_axis,
    channel_count,
    is_conv,
    is_layer,
    is_ternary,
    options_of,
    rebuilt,
    weight_of,
)
from .analysis.replacement import erase, replace


@dataclass(frozen=True)
class FuseLinearPass(ModulePass):
    """Move what follows a product into it: bias, batch norm, scale, activation, thresholds.

    Into `ternary.linear` and `ternary.conv` goes, in this order: products with a number a channel
    and batch normalisation (into `scale` and `bias`), sums with one (into `bias`), `relu` and
    `relu6`, then `multi_threshold` or `requantize`. `tensor.linear` and `tensor.conv` take the
    bias, and scale and batch normalisation into their weights. A `matmul` by one matrix becomes a
    `linear` on the way. An op is taken only if it is the product's one use and its other operands
    come from parameters and constants.

        %0 = ternary.matmul %x, %w : tensor<?x8xf32>, tensor<8x4x!ternary.trit> -> tensor<?x4xf32>
        %1 = tensor.add %0, %b : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
        %2 = tensor.relu %1 : (tensor<?x4xf32>) -> tensor<?x4xf32>
        // becomes
        %2 = ternary.linear %x, %w bias(%b : tensor<4xf32>) {activation = "relu"}
             : tensor<?x8xf32>, tensor<8x4x!ternary.trit> -> tensor<?x4xf32>

    Scales and biases are combined by ops on the parameters, so the pass reads no weights;
    `fold-constants` evaluates those ops. Combining them changes the rounding of floats (integers
    stay exact); `exact=true` leaves out what does.
    """

    name = "fuse-linear"

    exact: bool = False
    """Fuse only where every rounding stays: no batch normalisation, one scale, then one bias."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops = list(op.walk())
        fusion = _Fusion(compile_time_values(ops), self.exact)
        for layer in ops:
            if is_layer(layer):
                fusion.absorb_users(layer)


class _Fusion:
    """One run over a module; `known` are its compile-time values, new ones included."""

    def __init__(self, known: set[SSAValue], exact: bool) -> None:
        self.known = known
        self.exact = exact
        self.rules: dict[type[Operation], Callable[[Layer, Operation], InferredOp | None]] = {
            tensor.AddOp: self._sum,
            tensor.SubOp: self._sum,
            tensor.MulOp: self._product,
            tensor.DivOp: self._product,
            tensor.BatchNormOp: self._batch_norm,
            tensor.ReluOp: self._activation,
            tensor.Relu6Op: self._activation,
            tensor.MultiThresholdOp: self._thresholds,
            tensor.RequantizeOp: self._requantization,
        }

    def absorb_users(self, layer: Layer) -> None:
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
            assert is_layer(fused)
            layer = fused

    def _sum(self, layer: Layer, user: Operation) -> InferredOp | None:
        assert isinstance(user, tensor.AddOp | tensor.SubOp)
        other = user.rhs if user.lhs is layer.result else user.lhs
        if isinstance(user, tensor.SubOp) and other is user.lhs:
            return None
        bias = options_of(layer).get("bias")
        if self.exact and (
            _is_rounded_early(layer) or (bias is not None and is_float(tensor_type(other)))
        ):
            return None
        shape = self._operand_shape(layer, other)
        if shape is None:
            return None
        emit = self._vectors(layer, user)
        added = emit.vector(emit.reshaped(other, shape), channel_count(layer))
        if isinstance(user, tensor.SubOp):
            added = emit.emit(tensor.NegOp(added))
        return self._finish(emit, layer, bias=emit.sum(bias, added))

    def _product(self, layer: Layer, user: Operation) -> InferredOp | None:
        assert isinstance(user, tensor.MulOp | tensor.DivOp)
        other = user.rhs if user.lhs is layer.result else user.lhs
        if isinstance(user, tensor.DivOp) and (self.exact or other is user.lhs):
            return None
        if self.exact and (not is_ternary(layer) or options_of(layer) or _is_rounded_early(layer)):
            return None
        shape = self._operand_shape(layer, other)
        if shape is None or not is_float(tensor_type(other)) or not self._scalable(layer):
            return None
        if not is_finite(other, inverse=isinstance(user, tensor.DivOp)):
            return None
        emit = self._vectors(layer, user)
        factor = emit.reshaped(other, shape)
        if isinstance(user, tensor.DivOp):
            factor = emit.emit(tensor.DivOp(emit.number(1.0), factor))
        bias = options_of(layer).get("bias")
        return self._scaled(emit, layer, factor, bias and emit.product(bias, factor))

    def _batch_norm(self, layer: Layer, user: Operation) -> InferredOp | None:
        assert isinstance(user, tensor.BatchNormOp)
        if self.exact or user.input is not layer.result or channel_axis(layer) != 1:
            return None
        if not _takes_affine(layer) or not self._scalable(layer):
            return None
        emit = self._vectors(layer, user)
        spread = emit.emit(tensor.AddOp(user.variance, emit.number(user.epsilon.value.data)))
        factor = emit.emit(tensor.DivOp(user.scale, emit.emit(tensor.SqrtOp(spread))))
        bias = options_of(layer).get("bias")
        if bias is None:
            shifted = emit.emit(tensor.MulOp(user.mean, factor))
            bias = emit.emit(tensor.SubOp(user.bias, shifted))
        else:
            centred = emit.emit(tensor.MulOp(emit.emit(tensor.SubOp(bias, user.mean)), factor))
            bias = emit.emit(tensor.AddOp(centred, user.bias))
        return self._scaled(emit, layer, factor, bias)

    def _activation(self, layer: Layer, user: Operation) -> InferredOp | None:
        if not _takes_affine(layer) or not is_ternary(layer):
            return None
        if isinstance(user, tensor.ReluOp):
            return rebuilt(layer, activation="relu")
        return rebuilt(layer, activation="relu6") if is_float(tensor_type(layer.result)) else None

    def _thresholds(self, layer: Layer, user: Operation) -> InferredOp | None:
        assert isinstance(user, tensor.MultiThresholdOp)
        per_channel = tensor_type(user.thresholds).get_shape()[0] != 1
        if user.input is not layer.result or not _takes_quantization(layer):
            return None
        if self.exact and _is_rounded_early(layer):
            return None
        if per_channel and not _on_channels(layer, user.axis.value.data):
            return None
        return rebuilt(layer, thresholds=user.thresholds)

    def _requantization(self, layer: Layer, user: Operation) -> InferredOp | None:
        assert isinstance(user, tensor.RequantizeOp)
        per_channel = any(tensor_type(v).get_shape() for v in (user.multiplier, user.shift))
        if user.input is not layer.result or not _takes_quantization(layer):
            return None
        if per_channel and not _on_channels(layer, user.axis.value.data):
            return None
        return rebuilt(
            layer,
            multiplier=user.multiplier,
            shift=user.shift,
            zero_point=user.zero_point,
            low=user.low.value.data,
            high=user.high.value.data,
        )

    def _operand_shape(self, layer: Layer, other: SSAValue) -> tuple[int, ...] | None:
        if other is layer.result or not _takes_affine(layer):
            return None
        rank = tensor_type(layer.result).get_num_dims()
        shape = tensor_type(other).get_shape()
        return channel_shape(shape, rank, channel_axis(layer), channel_count(layer))

    def _scalable(self, layer: Layer) -> bool:
        """Whether a factor can go into the scale, or into a weight that nothing else uses."""
        weight = weight_of(layer)
        return is_ternary(layer) or (weight in self.known and weight.has_one_use())

    def _scaled(
        self, emit: ChannelVectors, layer: Layer, factor: SSAValue, bias: SSAValue | None
    ) -> InferredOp:
        """The layer times `factor` before the bias, which is replaced."""
        if is_ternary(layer):
            scale = emit.product(options_of(layer).get("scale"), factor)
            return self._finish(emit, layer, scale=scale, bias=bias)
        weight = weight_of(layer)
        if is_conv(layer) and tensor_type(factor).get_shape():
            spatial = tensor_type(weight).get_num_dims() - 1
            factor = emit.reshaped(factor, (channel_count(layer), *[1] * spatial))
        return self._finish(emit, layer, weight=emit.product(weight, factor), bias=bias)

    def _vectors(self, layer: Layer, user: Operation) -> ChannelVectors:
        return ChannelVectors(user, user, tensor_type(layer.result).element_type)

    def _finish(self, emit: ChannelVectors, layer: Layer, **changes: SSAValue | None) -> InferredOp:
        self.known.update(emit.emitted)
        return rebuilt(layer, **changes)


def _is_rounded_early(layer: Layer) -> bool:
    """Whether the result is f16 or bf16: each op rounds to it, a fused op once, at its end."""
    element = tensor_type(layer.result).element_type
    return isinstance(element, Float16Type | BFloat16Type)


def _takes_affine(layer: Layer) -> bool:
    """Whether nothing comes after the layer's bias yet."""
    if not isinstance(layer, ternary.FusedOp):
        return True
    return layer.activation.data == "none" and _takes_quantization(layer)


def _takes_quantization(layer: Layer) -> bool:
    """Whether the layer is ternary and neither counts thresholds nor requantises yet."""
    return is_ternary(layer) and not {"thresholds", "multiplier"} & set(options_of(layer))


def _on_channels(layer: Layer, axis: int) -> bool:
    return axis % tensor_type(layer.result).get_num_dims() == channel_axis(layer)
