"""The pass `fuse-spike`: normalisation moves into synapses, synapses and neurons become layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp, TensorType, f32, f64, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import spike, tensor
from ..dialects.inference import keep_result_types, tensor_type
from ..dialects.shapes import is_float
from ..dialects.spike.rebuild import rebuilt
from .analysis.channel_vectors import ChannelVectors, channel_shape
from .analysis.compile_time import compile_time_values, is_finite
from .analysis.layers import Synapse, channel_axis, channel_count
from .analysis.replacement import erase, insert_before, replace


@dataclass(frozen=True)
class FuseSpikePass(ModulePass):
    """Move what follows a synapse into it, then join each synapse with the neurons that it feeds.

    1. Into `spike.linear` and `spike.conv` go, in their order: conversions of exact sums to floats,
       products with a number a channel, sums with one, and `spike.batch_norm` of both kinds: into
       constant float weights that nothing else uses, else into the scale, and into the bias. An op
       is taken only if it is the synapse's one use and its other operands come from parameters and
       constants.
    2. A synapse and the neuron that alone uses it become `spike.layer`, whose body they are.

        %i = spike.linear %x, %w : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
        %n = spike.batch_norm %i, %scale, %bias, %mean, %var {kind = "tdbn", threshold = 1.0 : f64}
             : (tensor<?x?x4xf32>, tensor<4xf32>, …) -> tensor<?x?x4xf32>
        %s = spike.lif %n {beta = 0.9 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
        // becomes
        %s = spike.layer %x, %w2, %b2
             : (!spike.train<?x?x8>, tensor<8x4xf32>, tensor<4xf32>) -> !spike.train<?x?x4> {
        ^bb0(%a: !spike.train<?x?x8>, %c: tensor<8x4xf32>, %d: tensor<4xf32>):
          %i = spike.linear %a, %c bias(%d : tensor<4xf32>) : …
          %o = spike.lif %i {beta = 0.9 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
          spike.yield %o : !spike.train<?x?x4>
        }

    Weights and biases are combined by ops on the parameters, so the pass reads none;
    `fold-constants` evaluates those ops. Combining them changes the rounding of floats, so that a
    spike may come or go where a potential is a rounding error away from its threshold;
    `exact=true` leaves out what does. `inline-spike-layers` undoes the second part.
    """

    name = "fuse-spike"

    exact: bool = False
    """Move only what keeps every rounding: conversions, one scale, then one bias."""

    layers: bool = True
    """Whether to make layers."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops = list(op.walk())
        fusion = _Fusion(compile_time_values(ops), self.exact)
        for synapse in ops:
            if isinstance(synapse, Synapse) and not isinstance(synapse.parent_op(), spike.LayerOp):
                fusion.absorb_users(synapse)
        if self.layers:
            for neuron in list(op.walk()):
                if isinstance(neuron, spike.NeuronOp):
                    _join(neuron)


def _join(neuron: spike.NeuronOp) -> None:
    """Put a neuron and its synapse into a layer, if the neuron alone uses the synapse."""
    synapse = neuron.input.owner
    if (
        not isinstance(synapse, Synapse)
        or isinstance(neuron.parent_op(), spike.LayerOp)
        or synapse.parent is not neuron.parent
        or not neuron.input.has_one_use()
    ):
        return
    outside = [v for v in (*synapse.operands, *neuron.operands) if v is not synapse.result]
    inputs = list(dict.fromkeys(outside))
    block = Block(arg_types=[value.type for value in inputs])
    values: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    inner = synapse.clone(values)
    values[synapse.result] = inner.result
    fires = neuron.clone(values)
    for copy, op in ((inner, synapse), (fires, neuron)):
        copy.location = op.location
        copy.results[0].name_hint = op.results[0].name_hint
    end = spike.YieldOp(*fires.results)
    end.location = neuron.location
    block.add_ops([inner, fires, end])
    layer = spike.LayerOp(inputs, block)
    replace(neuron, layer)
    layer.attributes.clear()
    erase(synapse)


class _Fusion:
    """One run over a module; `known` are its compile-time values, new ones included."""

    def __init__(self, known: set[SSAValue], exact: bool) -> None:
        self.known = known
        self.exact = exact
        self.rules: dict[type[Operation], Callable[[Synapse, Operation], Synapse | None]] = {
            tensor.ConvertOp: self._conversion,
            tensor.AddOp: self._sum,
            tensor.MulOp: self._product,
            spike.BatchNormOp: self._batch_norm,
        }

    def absorb_users(self, synapse: Synapse) -> None:
        """Take in the single user of `synapse`, and so on with what results."""
        while (user := synapse.result.get_user_of_unique_use()) is not None:
            rule = self.rules.get(type(user))
            if rule is None or user.parent is not synapse.parent:
                return
            if not all(v in self.known or v is synapse.result for v in user.operands):
                return
            fused = rule(synapse, user)
            if fused is None:
                return
            insert_before(user, fused, synapse)
            keep_result_types(fused, user)
            user.results[0].replace_all_uses_with(fused.result)
            if fused.result.name_hint is None:
                fused.result.name_hint = user.results[0].name_hint
            erase(user)
            erase(synapse)
            synapse = fused

    def _conversion(self, synapse: Synapse, user: Operation) -> Synapse | None:
        """A conversion of exact sums is what a scale of 1 does."""
        element = tensor_type(user.results[0]).element_type
        sums = tensor_type(synapse.result).element_type
        if sums != i32 or synapse.bias is not None or element not in (f32, f64):
            return None
        emit = ChannelVectors(user, user, element)
        return self._finish(emit, synapse, scale=emit.number(1.0))

    def _sum(self, synapse: Synapse, user: Operation) -> Synapse | None:
        assert isinstance(user, tensor.AddOp)
        other = user.rhs if user.lhs is synapse.result else user.lhs
        if self.exact and (
            _is_rounded_early(synapse)
            or (synapse.bias is not None and is_float(tensor_type(other)))
        ):
            return None
        shape = self._shape(synapse, other)
        if shape is None:
            return None
        emit = self._vectors(synapse, user)
        vector = emit.vector(emit.reshaped(other, shape), channel_count(synapse))
        bias = emit.sum(synapse.bias, vector)
        return self._finish(emit, synapse, scale=synapse.scale, bias=bias)

    def _product(self, synapse: Synapse, user: Operation) -> Synapse | None:
        assert isinstance(user, tensor.MulOp)
        other = user.rhs if user.lhs is synapse.result else user.lhs
        bare = synapse.bias is None and synapse.scale is None
        if self.exact and (not bare or _is_rounded_early(synapse)):
            return None
        shape = self._shape(synapse, other)
        if shape is None or not is_float(tensor_type(other)) or not is_finite(other):
            return None
        emit = self._vectors(synapse, user)
        factor = emit.reshaped(other, shape)
        if self.exact:
            return self._finish(emit, synapse, scale=factor)
        bias = None
        if synapse.bias is not None:
            bias = emit.product(synapse.bias, emit.vector(factor, channel_count(synapse)))
        return self._scaled(emit, synapse, factor, bias)

    def _batch_norm(self, synapse: Synapse, user: Operation) -> Synapse | None:
        """factor = scale·αθ/√(var + ε); the weights times factor, (bias - mean)·factor + shift."""
        assert isinstance(user, spike.BatchNormOp)
        axis = user.axis.value.data % tensor_type(synapse.result).get_num_dims()
        if self.exact or axis != channel_axis(synapse) or user.input is not synapse.result:
            return None
        emit = self._vectors(synapse, user)
        shifted = emit.sum(user.variance, emit.number(user.epsilon.value.data))
        assert shifted is not None
        factor = emit.emit(tensor.DivOp(user.scale, emit.emit(tensor.SqrtOp(shifted))))
        if user.factor() != 1:
            factor = emit.emit(tensor.MulOp(factor, emit.number(user.factor())))
        mean = emit.emit(tensor.NegOp(user.mean))
        centred = emit.sum(synapse.bias, mean)
        bias = emit.sum(emit.product(centred, factor), user.bias)
        return self._scaled(emit, synapse, factor, bias)

    def _scaled(
        self, emit: ChannelVectors, synapse: Synapse, factor: SSAValue, bias: SSAValue | None
    ) -> Synapse:
        """The synapse times `factor` before the bias, which is replaced."""
        weight = synapse.weight
        movable = (
            synapse.scale is None
            and is_float(tensor_type(weight))
            and weight in self.known
            and weight.has_one_use()
        )
        if not movable:
            scale = emit.product(synapse.scale, factor)
            return self._finish(emit, synapse, scale=scale, bias=bias)
        if isinstance(synapse, spike.ConvOp) and tensor_type(factor).get_shape():
            spatial = tensor_type(weight).get_num_dims() - 1
            factor = emit.reshaped(factor, (channel_count(synapse), *[1] * spatial))
        return self._finish(emit, synapse, weight=emit.product(weight, factor), bias=bias)

    def _vectors(self, synapse: Synapse, user: Operation) -> ChannelVectors:
        return ChannelVectors(user, user, tensor_type(synapse.result).element_type)

    def _shape(self, synapse: Synapse, other: SSAValue) -> tuple[int, ...] | None:
        """What `other` is to the synapse's result: () or a number a channel."""
        rank = tensor_type(synapse.result).get_num_dims()
        shape, channels = tensor_type(other).get_shape(), channel_count(synapse)
        return channel_shape(shape, rank, channel_axis(synapse), channels)

    def _finish(
        self,
        emit: ChannelVectors,
        synapse: Synapse,
        *,
        weight: SSAValue | None = None,
        scale: SSAValue | None = None,
        bias: SSAValue | None = None,
    ) -> Synapse:
        self.known.update(emit.emitted)
        type = tensor_type(synapse.result)
        return rebuilt(
            synapse,
            {
                "weight": [weight or synapse.weight],
                "scale": [] if scale is None else [scale],
                "bias": [] if bias is None else [bias],
            },
            {"result": [TensorType(emit.element, type.get_shape())]},
        )


def _is_rounded_early(synapse: Synapse) -> bool:
    """Whether the result is f16 or bf16: each op rounds to it, a synapse once, at its end."""
    element = tensor_type(synapse.result).element_type
    return isinstance(element, Float16Type | BFloat16Type)
