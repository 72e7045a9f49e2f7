"""The pass `fuse-linear`: what follows a product moves into it."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import tensor, ternary
from ..dialects.inference import InferredOp, tensor_type
from ..dialects.shapes import is_float
from .analysis.compile_time import compile_time_values
from .analysis.fusion import Fusion, is_rounded_early
from .analysis.layers import (
    Layer,
    channel_axis,
    is_layer,
    is_ternary,
    options_of,
    rebuilt,
)


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


class _Fusion(Fusion):
    """One run over a module."""

    def __init__(self, known: set[SSAValue], exact: bool) -> None:
        super().__init__(known, exact)
        self.rules = {
            tensor.AddOp: self.sum,
            tensor.SubOp: self.sum,
            tensor.MulOp: self.product,
            tensor.DivOp: self.product,
            tensor.BatchNormOp: self.batch_norm,
            tensor.ReluOp: self._activation,
            tensor.Relu6Op: self._activation,
            tensor.MultiThresholdOp: self._thresholds,
            tensor.RequantizeOp: self._requantization,
        }

    def takes_affine(self, layer: Layer) -> bool:
        """Whether nothing comes after the layer's bias yet."""
        if not isinstance(layer, ternary.FusedOp):
            return True
        return layer.activation.data == "none" and _takes_quantization(layer)

    def takes_scale(self, layer: Layer) -> bool:
        """Whether the weight is of trits."""
        return is_ternary(layer)

    def _activation(self, layer: Layer, user: Operation) -> InferredOp | None:
        if not self.takes_affine(layer) or not is_ternary(layer):
            return None
        if isinstance(user, tensor.ReluOp):
            return rebuilt(layer, activation="relu")
        return rebuilt(layer, activation="relu6") if is_float(tensor_type(layer.result)) else None

    def _thresholds(self, layer: Layer, user: Operation) -> InferredOp | None:
        assert isinstance(user, tensor.MultiThresholdOp)
        per_channel = tensor_type(user.thresholds).get_shape()[0] != 1
        if user.input is not layer.result or not _takes_quantization(layer):
            return None
        if self.exact and is_rounded_early(layer):
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


def _takes_quantization(layer: Layer) -> bool:
    """Whether the layer is ternary and neither counts thresholds nor requantises yet."""
    return is_ternary(layer) and not {"thresholds", "multiplier"} & set(options_of(layer))


def _on_channels(layer: Layer, axis: int) -> bool:
    return axis % tensor_type(layer.result).get_num_dims() == channel_axis(layer)
