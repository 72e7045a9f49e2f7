"""The pass `fuse-spike`: normalisation moves into synapses, synapses and neurons become layers."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, f64, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import spike, tensor
from ..dialects.inference import tensor_type
from ..dialects.shapes import is_float
from ..dialects.spike.rebuild import rebuilt
from .analysis.channel_vectors import ChannelVectors
from .analysis.compile_time import compile_time_values
from .analysis.fusion import Fusion
from .analysis.layers import Synapse
from .analysis.replacement import erase, replace


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


class _Fusion(Fusion):
    """One run over a module."""

    def __init__(self, known: set[SSAValue], exact: bool) -> None:
        super().__init__(known, exact)
        self.rules = {
            tensor.ConvertOp: self._conversion,
            tensor.AddOp: self.sum,
            tensor.MulOp: self.product,
            spike.BatchNormOp: self.batch_norm,
        }

    def takes_scale(self, layer: Synapse) -> bool:
        """Whether it has a scale, or a weight that no factor can go into."""
        if self.exact or layer.scale is not None:
            return True
        return not (is_float(tensor_type(layer.weight)) and self.owns_weight(layer))

    def _conversion(self, synapse: Synapse, user: Operation) -> Synapse | None:
        """A conversion of exact sums is what a scale of 1 does."""
        element = tensor_type(user.results[0]).element_type
        sums = tensor_type(synapse.result).element_type
        if sums != i32 or synapse.bias is not None or element not in (f32, f64):
            return None
        emit = ChannelVectors(user, user, element)
        return self.finish(emit, synapse, scale=emit.number(1.0))

    def finish(self, emit: ChannelVectors, layer: Synapse, **changes: SSAValue | None) -> Synapse:
        """The synapse with other operands, and a result of the elements of `emit`."""
        self.known.update(emit.emitted)
        operands = {name: [] if value is None else [value] for name, value in changes.items()}
        result = TensorType(emit.element, tensor_type(layer.result).get_shape())
        return rebuilt(layer, operands, {"result": [result]})
