"""How many additions the synapses of a run take when they go from spike to spike.

A spike adds each weight of its neuron that is not 0; a dense product takes all of them at every
step. Not here: what the synapses compute, in `interpret_synapses`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.arrays import Array
from ..tensor.interpret_linear import convolve, product
from .attention import AttentionOp
from .interpret_synapses import heads_of
from .synapses import ConvOp, LinearOp

Synapse = LinearOp | ConvOp | AttentionOp
"""Ops that add weights or spikes where spikes come in."""


def count_additions(op: Synapse, operands: Sequence[Array]) -> tuple[int, int]:
    """The additions that the spikes of a run cause, and those of dense products.

    Args:
        op: the synapse.
        operands: their values, as the interpreter has them.
    """
    if isinstance(op, LinearOp):
        return _linear(*operands[:2])
    if isinstance(op, ConvOp):
        return _conv(op, *operands[:2])
    return _attention(op, *operands[:3])


def _linear(s: Array, weight: Array) -> tuple[int, int]:
    rows = s.reshape(-1, len(weight))
    fan_out = np.count_nonzero(weight, axis=1)
    return int(np.count_nonzero(rows, axis=0) @ fan_out), len(rows) * weight.size


def _conv(op: ConvOp, s: Array, weight: Array) -> tuple[int, int]:
    """Counts of the places of one step: a convolution is linear in them."""
    spikes = np.count_nonzero(s, axis=(0, 1))
    counts = [
        convolve(
            image[None].astype(np.int64),
            mask.astype(np.int64),
            **op.window,
        ).sum()
        for image, mask in (
            (spikes, weight != 0),
            (np.ones(spikes.shape), np.ones(weight.shape)),
        )
    ]
    return int(counts[0]), int(counts[1]) * s.shape[0] * s.shape[1]


def _attention(op: AttentionOp, q: Array, k: Array, v: Array) -> tuple[int, int]:
    """`ssa`: a spike of Q meets one of K; then each score but 0 is added where V has a spike."""
    if op.kind.data == "sdsa":
        return int(np.count_nonzero(k & v)), k.size
    split = [heads_of(op, x.astype(np.int64)) for x in (q, k, v)]
    scores = product(split[0], split[1].swapaxes(-1, -2))
    mixed = product((scores != 0).astype(np.int64), split[2])
    return int(scores.sum() + mixed.sum()), 2 * q.size * k.shape[2]
