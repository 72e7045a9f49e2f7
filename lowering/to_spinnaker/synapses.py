"""Projections in PyNN's words: lists of synapses, with the numbers that neurons add at a spike."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...dialects.spike import ProjectionOp
from ...dialects.spike.interpret_network import network_value
from ...ir.arrays import Array
from ..placement.connectivity import Connectivity, Diagonal, Window
from ..placement.workload import connectivity
from .neurons import Cell


@dataclass(frozen=True, eq=False)
class SynapseList:
    """Synapses, each with what a spike adds.

    Attributes:
        source: neuron of the source, int32 [synapses].
        target: neuron of the target, int32 [synapses].
        weight: mV, f64 [synapses].
        delay: steps, i16 [synapses].
    """

    source: Array
    target: Array
    weight: Array
    delay: Array


def synapse_list(op: ProjectionOp, cell: Cell, delay: int) -> SynapseList:
    """The synapses of a projection.

    Args:
        op: whose weights have values.
        cell: of its target.
        delay: steps that it takes, without those of single places.
    """
    ways = connectivity(op)
    source, target, place = ways.entries(0, ways.sources)
    weight = _values(op, ways)[place] * _per_target(cell.gain, op)[target] * cell.unit
    if op.scale is not None:
        scale = network_value(op.scale).astype(np.float32).astype(np.float64)
        weight = weight * (scale if scale.ndim == 0 else scale[_channel(op, target)])
    steps = np.full(ways.sources, delay)
    if op.delays is not None:
        shape = op.ends()[0].shape.get_values()
        steps = steps + np.broadcast_to(network_value(op.delays), shape).reshape(-1)
    kept = weight != 0
    source, target, weight = source[kept], target[kept], weight[kept]
    delays = steps[source].astype(np.int16)
    return SynapseList(source.astype(np.int32), target.astype(np.int32), weight, delays)


def constant_of(op: ProjectionOp, cell: Cell) -> Array:
    """What the bias of a projection adds to each neuron in a step, before `unit`, f64 [neurons]."""
    count = prod(op.ends()[1].shape.get_values())
    if op.bias is None:
        return np.zeros(count)
    bias = network_value(op.bias).astype(np.float32).astype(np.float64)
    return bias[_channel(op, np.arange(count))] * _per_target(cell.gain, op)


def _values(op: ProjectionOp, ways: Connectivity) -> Array:
    """The weights in the order in which `entries` counts them."""
    if op.weights is None:
        pooled = op.connection.data == "avg_pool" and op.kernel is not None
        size = prod(op.kernel.get_values()) if pooled and op.kernel is not None else 1
        count = len(ways.taps) if isinstance(ways, Window) else ways.sources
        return np.full(count, 1 / size)
    weights = network_value(op.weights).astype(np.float32).astype(np.float64)
    if isinstance(ways, Window):
        return weights[weights != 0]
    if isinstance(ways, Diagonal):
        return np.broadcast_to(weights, op.ends()[0].shape.get_values()).reshape(-1)
    return weights.reshape(-1)


def _per_target(values: Array, op: ProjectionOp) -> Array:
    shape = op.ends()[1].shape.get_values()
    return np.broadcast_to(values, shape).reshape(-1)


def _channel(op: ProjectionOp, targets: Array) -> Array:
    """The output channel of neurons: of a product each is one."""
    if op.connection.data == "linear":
        return targets
    shape = op.result_shape(tuple(op.ends()[0].shape.get_values()))
    return targets // prod(shape[1:])
