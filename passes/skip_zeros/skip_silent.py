"""The pass `skip-silent`: leave out neurons that never fire, and those that nobody listens to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ..analysis.compile_time import has_value, is_literal, literal_value
from ..analysis.layers import Synapse, channel_axis, is_conv, is_layer
from ..analysis.replacement import erase, erase_unused
from .channel_edges import ChannelEdge, edge_from, prune_channels
from .prunable import Mask, PrunableLayer, new_literal, set_channels
from .silence import current_bounds, silent_neurons


@dataclass(frozen=True)
class SkipSilentPass(ModulePass):
    """Remove neurons that cannot fire, or whose spikes nobody uses, with their weights.

    A neuron is silent if it does not fire even when its synapse gives the largest current at every
    step: spikes are 0 or 1, so that is the sum of its positive weights, and its bias. Potentials
    are followed with the neuron's own arithmetic, from its initial state. Neurons whose outgoing
    weights are all zero are not heard. Both go, with the rows and columns of the weights around
    them, again and again until none is left; one neuron of a population stays at least. A neuron
    that always fires stays. Between a neuron and the synapses that read it there may be delays,
    pools, `flatten` and conversions; several may read. Last, synapses whose weights are all zero
    leave the sums that they are part of.

        // the second neuron has no positive weight
        %i = spike.linear %x, %w : !spike.train<?x?x8>, tensor<8x3xf32> -> tensor<?x?x3xf32>
        %s = spike.lif %i {beta = 0.9 : f64} : (tensor<?x?x3xf32>) -> !spike.train<?x?x3>
        %j = spike.linear %s, %v : !spike.train<?x?x3>, tensor<3x4xf32> -> tensor<?x?x4xf32>
        // becomes
        %i = spike.linear %x, %w : !spike.train<?x?x8>, tensor<8x2xf32> -> tensor<?x?x2xf32>
        %s = spike.lif %i {beta = 0.9 : f64} : (tensor<?x?x2xf32>) -> !spike.train<?x?x2>
        %j = spike.linear %s, %v : !spike.train<?x?x2>, tensor<2x4xf32> -> tensor<?x?x4xf32>

    What the program computes stays for all finite inputs; float sums, whose order is free, have
    fewer terms. Needs numbers (`fold-constants` before), plain ops (`fuse-spike`, `expose-state`
    after) and constant parameters of neurons.
    """

    name = "skip-silent"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        before = [inner for inner in op.walk() if is_literal(inner)]
        layers, edges = _edges(op)
        if prune_channels(edges):
            leaving = {edge.source: edge for edge in edges}
            for layer in layers:
                layer.commit()
                if layer in leaving:
                    leaving[layer].commit_steps()
        _skip_zero_synapses(op)
        for literal in before:
            if literal.result.first_use is None:
                erase(literal)


def _edges(module: ModuleOp) -> tuple[list[PrunableLayer], list[ChannelEdge]]:
    """All layers and synapses whose values are known, and where the spikes of neurons go."""
    layers: dict[SSAValue, PrunableLayer] = {}
    for op in module.walk():
        layer: PrunableLayer | None = None
        if isinstance(op, Synapse) and not isinstance(op.parent_op(), spike.LayerOp):
            layer = SpikingLayer(op)
        elif is_layer(op):
            layer = PrunableLayer(op)
        if layer is not None and layer.is_known():
            layers[layer.op.result] = layer
    sources = [s for s in layers.values() if isinstance(s, SpikingLayer) and s.neuron is not None]
    edges = (edge_from(source, layers) for source in sources)
    return list(layers.values()), [edge for edge in edges if edge is not None]


class SpikingLayer(PrunableLayer):
    """A synapse with its values in memory, and the neurons that it alone feeds, if it does."""

    only_zeros = True

    def __init__(self, op: Synapse) -> None:
        super().__init__(op)
        self.synapse: Synapse = op
        self.neuron = _neuron_of(op)

    @property
    def value(self) -> SSAValue:
        if self.neuron is None:
            return self.synapse.result
        return SSAValue.get(self.neuron.output)

    @cached_property
    def dead_outputs(self) -> Mask:
        """The channels that never fire."""
        weight = self.arrays["weight"]
        channels: int = weight.shape[0] if is_conv(self.op) else weight.shape[1]
        bounds = None if self.neuron is None else current_bounds(self.synapse, self.arrays)
        if self.neuron is None or bounds is None:
            return np.zeros(channels, np.bool_)
        low, high = (np.broadcast_to(bound, (channels,)) for bound in bounds)
        return silent_neurons(self.neuron, self._values, low, high, channel_axis(self.op))

    @cached_property
    def at_zero(self) -> Array:
        """No spikes."""
        return np.zeros(len(self.dead_outputs), np.bool_)

    @cached_property
    def _values(self) -> dict[SSAValue, Array]:
        """The parameters and initial states of the neurons, by operand."""
        assert self.neuron is not None
        arrays = {value: literal_value(value) for value in self.neuron.operands[1:]}
        return {value: array for value, array in arrays.items() if array is not None}

    def drop_outputs(self, keep: Mask) -> None:
        super().drop_outputs(keep)
        if self.neuron is None:
            return
        # Values align with the end of a step.
        tail = tensor_type(self.neuron.input).get_num_dims() - channel_axis(self.op)
        for value, array in self._values.items():
            axis = array.ndim - tail
            if axis >= 0 and array.shape[axis] == len(keep):
                self._values[value] = np.compress(keep, array, axis)

    def commit(self) -> None:
        changed = bool(self._changed)
        super().commit()
        assert isinstance(self.op, Synapse)
        self.synapse = self.op
        if not changed or self.neuron is None:
            return
        for index, value in enumerate(self.neuron.operands):
            array = self._values.get(value)
            type = tensor_type(value) if array is not None else None
            if array is None or type is None or type.get_shape() == array.shape:
                continue
            smaller = TensorType(type.element_type, array.shape)
            self.neuron.operands[index] = new_literal(self.neuron, value, array, smaller)
        set_channels(self.neuron.output, channel_axis(self.op), len(self.dead_outputs))


def _neuron_of(op: Synapse) -> spike.FiringOp | None:
    """The neurons that alone use a synapse, if their numbers are known and their states unseen."""
    user = op.result.get_user_of_unique_use()
    if (
        not isinstance(user, spike.FiringOp)
        or user.parent is not op.parent
        or user.input is not op.result
        or len(user.results) != 1
    ):
        return None
    others = [value.owner for value in user.operands[1:]]
    return user if all(is_literal(owner) and has_value(owner) for owner in others) else None


def _skip_zero_synapses(module: ModuleOp) -> None:
    """Take synapses without weights out of sums."""
    for op in list(module.walk()):
        if not isinstance(op, tensor.AddOp):
            continue
        for zero, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if _is_nothing(zero) and other.type == op.result.type:
                op.result.replace_all_uses_with(other)
                erase(op)
                if isinstance(zero.owner, Operation):
                    erase_unused([zero.owner])
                break


def _is_nothing(value: SSAValue) -> bool:
    """Whether `value` is what a synapse of zeros gives."""
    op = value.owner
    if not isinstance(op, Synapse) or op.bias is not None:
        return False
    weight = literal_value(op.weight)
    return weight is not None and not weight.any()
