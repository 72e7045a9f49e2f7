"""Thresholds by simulation: neurons run on the currents they will get, at a price for each spike.

How much an error costs is measured by disturbing the float program. Statistics of activations alone
give thresholds in `balance_thresholds`.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...ir.errors import PassError
from ..analysis.layers import input_of, is_layer, weight_of
from .neurons import following_pool
from .population import Population
from .signed import simulate_signed
from .trial import Trial

Floats = NDArray[np.float64]

SHARES = np.geomspace(0.15, 2.2, 12)
"""The thresholds that are tried, as shares of nearly the greatest activation: where spikes subtract
their threshold each third one, then those beside the best of these."""

BETWEEN = float(SHARES[1] / SHARES[0])
"""How many times one of them is the one before."""

QUANTILE = 0.998
"""What nearly the greatest activation is."""

MARGINS = (0.25, 0.5, 2.0)
"""What is tried of signed neurons beside 0, see `signed.margins`."""

MOST_NUMBERS = 1 << 19
"""Currents that are simulated, over all steps and samples; one batch at least."""

NEAR = 1 << 16
"""Currents of a step that are simulated at a time."""

SILENT = 8.0
"""A threshold so many times the greatest sum of currents is never reached."""

PROBES = 512
"""Samples on which the float program is disturbed."""

DISTURBANCE = 0.5
"""The noise of a channel, as a share of its standard deviation."""


def axes_but(rank: int, axis: int | None) -> tuple[int, ...]:
    """All axes of an array but one."""
    return tuple(a for a in range(rank) if a != axis)


def simulate(current: Array, threshold: Array, initial: Array, *, subtracts: bool = True) -> Array:
    """How often integrate-and-fire neurons fire on a current [T, N, …].

    Args:
        current: over time.
        threshold: θ; broadcasts to a step.
        initial: the potential before the first step as a share of θ.
        subtracts: whether a spike takes θ off the potential, and not all of it.
    """
    theta = threshold.astype(current.dtype)
    potential = np.zeros(current.shape[1:], current.dtype) + theta * initial.astype(current.dtype)
    counts = np.zeros_like(potential)
    for step in current:
        potential += step
        fired = potential >= theta
        counts += fired
        potential -= fired * (theta if subtracts else potential)
    return counts


def search(
    trial: Trial,
    value: SSAValue,
    current: SSAValue,
    axis: int | None,
    *,
    initial: Array,
    price: float,
    bound: float | None,
    signed: bool = False,
    subtracts: bool = True,
    silent: bool = True,
    copies: int = 1,
    live: Collection[SSAValue],
) -> Population:
    """The neurons with the least ½·F·error + price·spikes.

    The error is what a linear function of the spikes leaves of the activation, a channel, behind
    the pool that follows where one does; F how much the float program's result suffers from it.

    Args:
        trial: the values on samples.
        value: the activation; of what is negative nothing is said.
        current: the current of its neurons [T, N, …].
        axis: that of the channels; `None` for one threshold for all.
        initial: the potential before the first step as a share of the threshold.
        price: of a spike, in nats.
        bound: the most that the activation can be.
        signed: whether neurons give signed spikes, of which the threshold is all together.
        subtracts: whether a spike takes the threshold off the potential, and not all of it.
        silent: whether a channel may say nothing, whose weights then must become 0.
        copies: how many neurons may say a value.
        live: the values to remember.

    Raises:
        PassError: an activation is not finite on the samples.
    """
    pool = following_pool(value)
    seen = value if pool is None else pool.results[0]
    size = max(1, trial.value(current, 0)[:, :1].size)
    parts: list[tuple[Array, Array, Array]] = []
    for number in trial.some(MOST_NUMBERS // size):
        said, wanted, pooled = (trial.value(v, number) for v in (current, value, seen))
        first = (_by_channel(said, axis, 1), _by_channel(wanted, axis), _by_channel(pooled, axis))
        parts.append((first[0], np.maximum(first[1], 0), np.maximum(first[2], 0)))
        trial.release(number, live)
    top = _nearly_greatest(np.concatenate([part[1] for part in parts], axis=1))
    importance = sensitivity(trial, seen, axis)
    # No neuron fires on the samples with this one.
    steps = len(parts[0][0])
    never = SILENT * steps * max(float(np.abs(part[0]).max()) for part in parts)
    never = max(float(top.max()), never * (2.0**steps if signed else 1.0))
    start = _by_channel(initial[None], axis) if initial.ndim else initial
    places = parts[0][2][0, 0].size
    samples = sum(part[0].shape[2] for part in parts)
    blocks: list[tuple[Array, Array]] = []
    for said, _, target in parts:
        # So many samples at a time that all arrays stay in a near cache.
        few = max(1, NEAR // max(1, said[0, :, 0].size))
        for begin in range(0, said.shape[2], few):
            some = slice(begin, begin + few)
            both = said[:, :, some], target[:, some]
            blocks.append((np.ascontiguousarray(both[0]), np.ascontiguousarray(both[1])))

    def cost(theta: Array, number: int, margin: float) -> Floats:
        """Of so many neurons a value, a channel."""
        tally = _Tally(len(top))
        for current, wanted in blocks:
            level = theta.reshape(-1, *[1] * (current.ndim - 2))
            told = fired = np.zeros(())
            for copy in range(number):
                share = (start + copy) / number
                if signed:
                    more, spikes = simulate_signed(current, level, float(share), margin)
                else:
                    more = spikes = simulate(current, level, share, subtracts=subtracts)
                told, fired = told + more, fired + spikes
            if pool is not None:
                # It does not mind which of the first two axes counts the samples.
                told = pool.compute(told)
            tally.add(fired, told, wanted)
        return 0.5 * importance * tally.unexplained() * places + price * tally.spikes / samples

    def bounded(theta: Array) -> Array:
        return theta if bound is None else np.minimum(theta, bound)

    channels = np.arange(len(top))
    candidates: list[tuple[Array, int, float]] = []
    costs: list[Floats] = []

    def best_of(tried: list[tuple[Array, int, float]], found: list[Floats]) -> Array:
        """The threshold that costs least, a channel."""
        each = np.argmin(np.stack(found), axis=0)
        return np.stack([theta for theta, _, _ in tried])[each, channels]

    for number in (1 << power for power in range(copies.bit_length())):
        # Where a spike takes all of the potential, costs have several valleys.
        shares = SHARES[1::3] if subtracts else SHARES
        tried = [(bounded(top * share), number, 0.0) for share in shares]
        found = [cost(*each) for each in tried]
        if subtracts:
            near = best_of(tried, found)
            finer = [(bounded(near * factor), number, 0.0) for factor in (1 / BETWEEN, BETWEEN)]
            tried, found = tried + finer, found + [cost(*each) for each in finer]
        if signed and number == 1:
            # Neurons that leave out spikes do best with a threshold near that of all spikes.
            near = best_of(tried, found)
            finer = [(near / factor, number, m) for m in MARGINS for factor in (1, BETWEEN)]
            tried, found = tried + finer, found + [cost(*each) for each in finer]
        candidates, costs = candidates + tried, costs + found
    if bound is None and silent:
        candidates.append((np.full(len(top), never), 1, 0.0))
        costs.append(cost(*candidates[-1]))
    best = np.argmin(np.stack(costs), axis=0)
    rank = tensor_type(value).get_num_dims()
    shape = [-1 if a == axis else 1 for a in range(1, rank)]
    chosen = np.stack([theta for theta, _, _ in candidates])[best, channels]
    numbers, margin = (np.array([c[i] for c in candidates])[best].reshape(shape) for i in (1, 2))
    return Population(chosen.reshape(shape), numbers, never, margin)


def _by_channel(array: Array, axis: int | None, before: int = 0) -> Array:
    """[before…, samples, …] as [before…, channels, samples, …]; one channel without an axis."""
    if axis is None:
        return np.expand_dims(array, before)
    return np.moveaxis(array, before + axis, before)


def _nearly_greatest(activation: Array) -> Floats:
    """A number above 0 for each channel of [channels, samples, …].

    Raises:
        PassError: an activation is not finite.
    """
    if not np.isfinite(activation).all():
        raise PassError("an activation becomes NaN or infinite on the samples")
    flat = activation.reshape(len(activation), -1)
    top = np.quantile(flat, QUANTILE, axis=1).astype(np.float64)
    if flat.shape[1] == activation.shape[1]:
        # One neuron sees too few samples to tell how far its own tail reaches.
        scale = np.sqrt((flat.astype(np.float64) ** 2).mean(axis=1))
        active = (top > 0) & (scale > 0)
        if active.any():
            top = scale * np.median(top[active] / scale[active])
    return np.where(top > 0, top, max(float(activation.max(initial=0.0)), 1e-6))


class _Tally:
    """What neurons of one threshold say beside what they should: sums, a channel."""

    def __init__(self, channels: int) -> None:
        self.spikes = np.zeros(channels)
        self.count = 0
        # Of what is said, of what is wanted, of their squares and of their products.
        self.sums = np.zeros((5, channels))

    def add(self, fired: Array, said: Array, wanted: Array) -> None:
        """Take in some samples, [channels, samples, …] each."""
        s, y = (array.reshape(len(array), -1) for array in (said, wanted))
        self.spikes += fired.reshape(len(s), -1).sum(axis=1)
        self.count += s.shape[1]
        self.sums += (
            s.sum(axis=1),
            y.sum(axis=1),
            *(np.einsum("cn,cn->c", a, b) for a, b in ((s, s), (y, y), (s, y))),
        )

    def unexplained(self) -> Floats:
        """The variance of what is wanted that a linear function of what is said leaves."""
        s, y, ss, yy, sy = self.sums / self.count
        return yy - y * y - (sy - s * y) ** 2 / (1.001 * (ss - s * s) + 1e-6)


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
