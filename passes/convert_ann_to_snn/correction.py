"""What a conversion does with samples: thresholds, weights and biases, while it writes the program.

Each is found on the spikes of what stands before it, which is corrected already.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ..analysis.compile_time import literal_value
from ..analysis.layers import Layer, is_conv, is_ternary, rebuilt, weight_of
from .channels import channel_axis, is_synapse
from .neurons import following_pool, is_activation
from .population import Population
from .refit import MOST_INPUTS, LeastSquares
from .search import search
from .sensitivity import axes_but, information
from .signals import Conversion, Signal
from .trial import Trial

GUESSES = 512
"""Samples on which the biases of steps are found, and what steps count."""

HELD = 1e-3
"""How much what steps count is held equal, as a share of the mean energy of a step."""


class Fit(NamedTuple):
    """What a layer becomes that is fitted to spikes.

    Attributes:
        weight: in the layout of the layer's.
        bias: one number a channel.
        shares: how much each step counts, 1 in the mean.
    """

    weight: Array
    bias: Array
    shares: Array


class Correction:
    """The samples of one conversion, and what is done with them.

    - Thresholds, one a channel, have the least loss of information at a price for each spike.
    - Weights of synapses come as near to the float program's sums as they can, by least squares.
    - Sums with other weights get biases with which their means are the float program's (Li et al.
      2021, "A free lunch from ANN", bias shift).

    Args:
        trial: the values on the samples.
        price: of a spike of every neuron, as a share of what the result tells of a sample.
        fit: whether weights change, and not only biases.
        pools: where neurons stand: `before` pools, behind the `first`, or behind `all`.
        signed: whether neurons give signed spikes whose worth halves.
        weighs: whether steps may count differently for the result.
        copies: how many neurons may say a value; their spikes are added up before they are read.
    """

    def __init__(
        self,
        trial: Trial,
        *,
        price: float,
        fit: bool,
        pools: str,
        signed: bool = False,
        weighs: bool = False,
        copies: int = 1,
    ) -> None:
        self.trial = trial
        layers = [op.results[0] for op in trial.ops if is_activation(op)]
        behind = {following_pool(value) for value in layers}
        neurons = sum(trial.value(value, 0).size for value in layers) // trial.sizes[0]
        self.price = price * information(trial) / max(1, neurons)
        self.fit = fit
        self.pools = pools
        self.signed = signed
        self.weighs = weighs
        counted = any(
            isinstance(op, tensor.MaxPoolOp) and not (pools == "all" and op in behind)
            for op in trial.ops
        )
        # The maximum of a window is that of trains.
        self.copies = 1 if counted or not fit else copies
        self.last: dict[SSAValue, int] = {}
        for op in trial.ops:
            # Neurons may stand behind the pool that reads an activation.
            pool = following_pool(op.results[0]) if is_activation(op) else None
            self.last.update(
                dict.fromkeys(op.operands, trial.position[op if pool is None else pool])
            )

    def _live(self, state: Conversion) -> set[SSAValue]:
        """What the op under conversion and later ones read."""
        now = self.trial.position[state.source]
        live = {value for value, position in self.last.items() if position >= now}
        return live | {state.signals[value].steps for value in live if value in state.signals}

    def population(
        self,
        state: Conversion,
        value: SSAValue,
        current: SSAValue,
        initial: Array,
        bound: float | None = None,
        *,
        channels: bool = True,
    ) -> Population:
        """The neurons that say an activation; see `search`."""
        wide = channels and tensor_type(value).get_num_dims() > 1
        return search(
            self.trial,
            value,
            current,
            channel_axis(value) if wide else None,
            initial=initial,
            price=self.price,
            bound=bound,
            signed=self.signed and channels,
            subtracts=state.reset == "subtract",
            silent=self.fit,
            copies=self.copies if wide else 1,
            live=self._live(state),
        )

    def weights(self, state: Conversion, op: Layer, signal: Signal) -> Fit | None:
        """Weight and bias of a layer for what a signal says, in units of the float program.

        `None` where they stay: weights of trits, or of too many inputs.
        """
        weight = self.trial.value(weight_of(op), 0)
        inputs = weight[0].size if is_conv(op) else weight.shape[0]
        if not self.fit or is_ternary(op) or inputs > MOST_INPUTS:
            return None
        shares = np.ones(state.timesteps)
        if self.weighs and state.timesteps > 1 and not is_conv(op) and state.is_last(op):
            shares = self._shares(state, op, signal, weight)
        each = shares.astype(np.float32) / state.timesteps
        squares, first = LeastSquares(op, weight, sum(self.trial.sizes)), 0
        for number in self.trial.batches(self._live(state), signal.steps, op.result):
            steps = self.trial.value(signal.steps, number)
            said = np.tensordot(each, steps, 1) * signal.worth.astype(np.float32)
            squares.add(said, self.trial.value(op.result, number), first)
            first += len(said)
        return Fit(*squares.solve(), shares)

    def _shares(self, state: Conversion, op: Layer, signal: Signal, weight: Array) -> Array:
        """How much each step counts for a result, 1 in the mean: by least squares.

        The first spikes of a constant current tell more than the last ones.
        """
        numbers = self.trial.some(GUESSES)
        worth = signal.worth.astype(np.float32)
        currents = np.concatenate(
            [self.trial.value(signal.steps, n) * worth @ weight for n in numbers], axis=1
        )
        targets = np.concatenate([self.trial.value(op.result, n) for n in numbers])
        c, u = (x.astype(np.float64) for x in (currents, targets))
        c = (c - c.mean(axis=1, keepdims=True)).reshape(len(c), -1)
        gram, joint = c @ c.T, c @ (u - u.mean(axis=0)).reshape(-1)
        held = HELD * np.trace(gram) / len(c) + np.finfo(np.float64).tiny ** 0.5
        linalg: Any = np.linalg
        shares: Array = linalg.solve(gram + held * np.eye(len(c)), joint + held / len(c))
        return shares / shares.mean() if shares.mean() > 0 else np.ones(len(c))

    def shifted(self, state: Conversion, original: SSAValue, current: SSAValue) -> SSAValue:
        """The current whose mean over samples, time and places is that of a float value."""
        if current in state.exact:
            return current
        owner = current.owner
        type, axis = tensor_type(original), channel_axis(original)
        others = axes_but(type.get_num_dims(), axis)
        sums: Array = np.zeros(())
        for number in self.trial.batches(self._live(state), original, current):
            wanted = self.trial.value(original, number)
            steps = self.trial.value(current, number).mean(axis=0, dtype=np.float64)
            share = len(wanted) / sum(self.trial.sizes)
            sums = sums + share * (wanted.astype(np.float64) - steps).mean(axis=others)
        if is_synapse(owner) and not self.signed:
            old = None if owner.bias is None else literal_value(owner.bias)
            if owner.bias is None or old is not None:
                bias = sums if old is None else old + sums
                constant = state.constant(bias, type.element_type, "bias")
                return state.add(rebuilt(owner, bias=constant))
        shape = [-1, *[1] * (type.get_num_dims() - 1 - axis)]
        return state.offset(current, sums.reshape(shape), "shift")

    def biased(
        self, state: Conversion, op: Layer, current: SSAValue, bias: Array, name: str
    ) -> SSAValue:
        """The current of a layer with a bias at each step: what it sums up to is the best guess.

        Args:
            state: the conversion.
            op: the float layer.
            current: its current without a bias [T, N, …].
            bias: all of it, one number a channel.
            name: of the parameter.
        """
        axis, steps = channel_axis(op.result), state.timesteps
        guesses = np.zeros((steps, bias.size))
        numbers = self.trial.some(GUESSES)
        for number in numbers:
            wanted = self.trial.value(op.result, number).astype(np.float64)
            sums = np.cumsum(self.trial.value(current, number), axis=0, dtype=np.float64) / steps
            others = axes_but(wanted.ndim + 1, axis + 1)[1:]
            guesses += (wanted - sums).mean(axis=others) / len(numbers)
            self.trial.release(number, self._live(state))
        guesses[-1] = bias
        each = steps * np.diff(guesses, axis=0, prepend=0)
        shape = [1] * (tensor_type(op.result).get_num_dims() + 1)
        shape[0], shape[axis + 1] = steps, bias.size
        return state.plus(current, each.reshape(shape), name)
