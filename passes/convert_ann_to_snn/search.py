"""Thresholds by simulation: neurons run on the currents they will get, at a price for each spike.

How much an error costs tells `sensitivity`. Statistics of activations alone give thresholds in
`balance_thresholds`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...ir.errors import PassError
from .neurons import Pool, following_pool
from .population import Population
from .sensitivity import sensitivity
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
    currents = _Currents(pool, signed=signed, subtracts=subtracts)
    size = max(1, trial.value(current, 0)[:, :1].size)
    wholes: list[Array] = []
    strongest = 0.0
    for number in trial.some(MOST_NUMBERS // size):
        given, wanted, pooled = (trial.value(v, number) for v in (current, value, seen))
        given = _by_channel(given, axis, 1)
        wholes.append(np.maximum(_by_channel(wanted, axis), 0))
        currents.add(given, np.maximum(_by_channel(pooled, axis), 0))
        strongest = max(strongest, float(np.abs(given).max()))
        trial.release(number, live)
    top = _nearly_greatest(np.concatenate(wholes, axis=1))
    loss = 0.5 * sensitivity(trial, seen, axis) * currents.places
    start = _by_channel(initial[None], axis) if initial.ndim else initial

    def cost(candidate: _Candidate) -> Floats:
        tally = currents.tally(candidate, start)
        return loss * tally.unexplained() + price * tally.spikes / currents.samples

    found = _Candidates(cost, np.inf if bound is None else bound)
    for number in (1 << power for power in range(copies.bit_length())):
        first = len(found.tried)
        # Where a spike takes all of the potential, costs have several valleys.
        for share in SHARES[1::3] if subtracts else SHARES:
            found.add(top * share, number)
        if subtracts:
            near = found.best(first).threshold
            for factor in (1 / BETWEEN, BETWEEN):
                found.add(near * factor, number)
        if signed and number == 1:
            # Neurons that leave out spikes do best with a threshold near that of all spikes.
            near = found.best(first).threshold
            for margin in MARGINS:
                for factor in (1, BETWEEN):
                    found.add(near / factor, number, margin)
    # No neuron fires on the samples with this one.
    never = SILENT * currents.steps * strongest
    never = max(float(top.max()), never * (2.0**currents.steps if signed else 1.0))
    if bound is None and silent:
        found.add(np.full(len(top), never))
    rank = tensor_type(value).get_num_dims()
    shape = [-1 if a == axis else 1 for a in range(1, rank)]
    threshold, number, margin = (array.reshape(shape) for array in found.best())
    return Population(threshold, number, never, margin)


class _Candidate(NamedTuple):
    """Neurons that are tried, a number for each channel: see `Population`."""

    threshold: Array
    copies: Array
    margin: Array


class _Candidates:
    """What was tried, and what it costs, a channel."""

    def __init__(self, cost: Callable[[_Candidate], Floats], bound: float) -> None:
        self.tried: list[_Candidate] = []
        self._costs: list[Floats] = []
        self._cost = cost
        self._bound = bound

    def add(self, threshold: Array, copies: int = 1, margin: float = 0.0) -> None:
        """Try so many neurons a value, whose thresholds stay within the bound."""
        others = (np.full(len(threshold), number) for number in (copies, margin))
        candidate = _Candidate(np.minimum(threshold, self._bound), *others)
        self.tried.append(candidate)
        self._costs.append(self._cost(candidate))

    def best(self, first: int = 0) -> _Candidate:
        """What costs least, a channel, of those tried since the first."""
        each = np.argmin(np.stack(self._costs[first:]), axis=0)
        columns = (np.stack(column) for column in zip(*self.tried[first:], strict=True))
        return _Candidate(*(column[each, np.arange(len(each))] for column in columns))


class _Currents:
    """The currents of a population on samples, and what it should say behind the pool."""

    def __init__(self, pool: Pool | None, *, signed: bool, subtracts: bool) -> None:
        self._pool = pool
        self._signed = signed
        self._subtracts = subtracts
        self._blocks: list[tuple[Array, Array]] = []
        self.samples = self.steps = self.places = 0

    def add(self, current: Array, wanted: Array) -> None:
        """Take in samples: [T, channels, samples, …] and [channels, samples, …]."""
        self.steps, self.places = len(current), wanted[0, 0].size
        self.samples += current.shape[2]
        # So many samples at a time that all arrays stay in a near cache.
        few = max(1, NEAR // max(1, current[0, :, 0].size))
        for begin in range(0, current.shape[2], few):
            some = slice(begin, begin + few)
            both = current[:, :, some], wanted[:, some]
            self._blocks.append((np.ascontiguousarray(both[0]), np.ascontiguousarray(both[1])))

    def tally(self, candidate: _Candidate, start: Array) -> _Tally:
        """What a candidate's neurons say of them, from a potential as a share of the threshold."""
        copies, margin = int(candidate.copies[0]), float(candidate.margin[0])
        tally = _Tally(len(candidate.threshold))
        for current, wanted in self._blocks:
            level = candidate.threshold.reshape(-1, *[1] * (current.ndim - 2))
            told = fired = np.zeros(())
            for copy in range(copies):
                share = (start + copy) / copies
                if self._signed:
                    more, spikes = simulate_signed(current, level, float(share), margin)
                else:
                    more = spikes = simulate(current, level, share, subtracts=self._subtracts)
                told, fired = told + more, fired + spikes
            if self._pool is not None:
                # It does not mind which of the first two axes counts the samples.
                told = self._pool.compute(told)
            tally.add(fired, told, wanted)
        return tally


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
