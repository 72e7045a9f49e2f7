"""How much errors of a value cost a network's result, and how much that tells in all.

Measured by disturbing the float program; `search` weighs spikes against it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...ir.errors import PassError
from ..analysis.layers import input_of, is_layer, weight_of
from .trial import Trial

Floats = NDArray[np.float64]

PROBES = 512
"""Samples on which the float program is disturbed."""

DISTURBANCE = 0.5
"""The noise of a channel, as a share of its standard deviation."""


def axes_but(rank: int, axis: int | None) -> tuple[int, ...]:
    """All axes of an array but one."""
    return tuple(a for a in range(rank) if a != axis)


def sensitivity(trial: Trial, value: SSAValue, axis: int | None) -> Floats:
    """How much an error of a value hurts, a channel: KL ≈ ½·Σ F·error², in nats a sample.

    Measured for the value as a whole by noise on it; shared out by the squares of the weights that
    read each channel.
    """
    generator = np.random.default_rng(0)
    lost, count = 0.0, 0
    numbers = trial.some(PROBES)
    arrays = [trial.value(value, i) for i in numbers]
    spread = np.concatenate(arrays).std(axis=axes_but(arrays[0].ndim, axis), keepdims=True)
    spread = DISTURBANCE * spread.astype(np.float64) + 1e-9
    gains = np.ones(spread.size) if axis is None else reading(trial, value, axis, spread.size)
    for i, array in zip(numbers, arrays, strict=True):
        noise = generator.standard_normal(array.shape, np.float32) * spread
        after = trial.results({value: (array + noise).astype(array.dtype)}, i)
        lost += divergence(trial.results({}, i), after)
        count += len(array)
    places = arrays[0].size / len(arrays[0]) / spread.size
    energy = places * float((gains * spread.reshape(-1) ** 2).sum())
    return gains * (2 * lost / count / energy)


def information(trial: Trial) -> float:
    """What the float program's result tells of a sample, in nats: its divergence from the mean.

    Of a classifier the mutual information of sample and class; 1/2 of single numbers.

    Raises:
        PassError: it is not finite on the samples.
    """
    results = np.concatenate([trial.results({}, i) for i in trial.some(PROBES)])
    if not np.isfinite(results).all():
        raise PassError("the result becomes NaN or infinite on the samples")
    if results.ndim < 2 or results.shape[-1] < 2:
        return 0.5
    logs = results.astype(np.float64)
    logs = logs - np.logaddexp.reduce(logs, axis=-1, keepdims=True)
    mean = np.log(np.exp(logs).mean(axis=0))
    return max(divergence(logs, np.broadcast_to(mean, logs.shape)) / len(logs), 1e-12)


def divergence(before: Array, after: Array) -> float:
    """KL of the softmax of results, summed over samples; of single numbers ½·(difference/std)²."""
    p, q = (array.astype(np.float64) for array in (before, after))
    if p.ndim < 2 or p.shape[-1] < 2:
        return float(0.5 * ((p - q) ** 2).sum() / max(p.var(), 1e-30))
    p, q = (a - np.logaddexp.reduce(a, axis=-1, keepdims=True) for a in (p, q))
    return float((np.exp(p) * (p - q)).sum())


def reading(trial: Trial, value: SSAValue, axis: int, channels: int) -> Floats:
    """The squares of the weights that read each channel; ones where something else reads it."""
    total = np.zeros(channels)
    waiting = [(value, 1)]
    while waiting:
        current, places = waiting.pop()
        for use in current.uses:
            op = use.operation
            if op not in trial.position:
                continue
            if is_layer(op) and input_of(op) is current and weight_of(op) in trial.known:
                squares = trial.value(weight_of(op), 0).astype(np.float64) ** 2
                if isinstance(op, tensor.ConvOp | ternary.ConvOp):
                    # [groups, outputs, inputs, places of the kernel]
                    groups: int = op.groups.value.data
                    squares = squares.reshape(groups, -1, *squares.shape[1:])
                    squares = squares.reshape(*squares.shape[:3], -1).sum((1, 3))
                total += squares.reshape(channels, -1).sum(1) / places
            elif isinstance(op, tensor.AvgPoolOp | tensor.MaxPoolOp | tensor.ReluOp):
                waiting.append((op.results[0], places))
            elif isinstance(op, tensor.FlattenOp) and op.start.value.data == axis:
                size = tensor_type(op.result).get_shape()[-1]
                waiting.append((op.results[0], max(1, size // channels)))
            else:
                return np.ones(channels)
    return total if total.any() else np.ones(channels)
