"""Weights of a synapse by least squares on the spikes that reach it, and biases.

Both bring what the synapse sums nearest to what the float program has there. No label is looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dialects import tensor
from ...dialects.parameters import Array
from ...dialects.tensor.interpret_linear import conv_windows, window_rows
from ..analysis.layers import Layer, is_conv

RIDGES = (1.0, 0.3, 0.1, 3e-2, 1e-2, 1e-3)
"""How much weights are held, as shares of the mean energy of an input: less, until that is worse
for what is held out."""

HELD_OUT = 5
"""One sample in so many tells which ridge is best."""

MOST_INPUTS = 4096
"""Synapses with more inputs to a sum keep their weights: the fit takes the cube of that."""

MOST_ROWS = 75_000
"""Convolutions are fitted on so many places, evenly spread over all."""

AT_ONCE = 1024
"""Rows that are multiplied at once."""


class LeastSquares:
    """argmin |Φ·W - U|² + r·|W - W0|², a bias free, for each of several groups of inputs.

    Args:
        layer: the float layer; a convolution of G groups has G fits.
        weight: its weight.
        samples: how many samples will come.
    """

    def __init__(self, layer: Layer, weight: Array, samples: int) -> None:
        self.layer = layer
        self.samples = samples
        self.shape = weight.shape
        self.groups: int = layer.groups.value.data if isinstance(layer, tensor.ConvOp) else 1
        self.before = weight.astype(np.float64)[None]
        if is_conv(layer):
            grouped = weight.reshape(self.groups, weight.shape[0] // self.groups, -1)
            self.before = grouped.transpose(0, 2, 1).astype(np.float64)
        # Of what is fitted and of what is held out: Σ φ'φ with φ = [inputs, targets, 1].
        size = sum(self.before.shape[1:]) + 1
        self.moments = np.zeros((2, self.groups, size, size))
        self.waiting: tuple[list[Array], list[Array]] = ([], [])

    def add(self, inputs: Array, targets: Array, first: int) -> None:
        """Take in a batch: what comes in and what should go out, in units of the float program.

        Args:
            inputs: as the layer takes them, f32 or f64.
            targets: its results.
            first: the number of the batch's first sample.
        """
        rows, wanted = self._rows(inputs), self._targets(targets)
        places = rows.shape[1] // max(1, len(inputs))
        stride = max(1, self.samples * places // MOST_ROWS)
        rows, wanted = rows[:, ::stride], wanted[:, ::stride]
        number = np.repeat(np.arange(first, first + len(inputs)), places)[::stride]
        ones = np.ones((self.groups, rows.shape[1], 1), rows.dtype)
        joined = np.concatenate([rows, wanted, ones], axis=2)
        for index, chosen in enumerate((number % HELD_OUT != 0, number % HELD_OUT == 0)):
            waiting = self.waiting[index]
            waiting.append(joined[:, chosen])
            if sum(part.shape[1] for part in waiting) >= AT_ONCE:
                self._take_in(index)

    def _take_in(self, index: int) -> None:
        """Add the rows that wait to the moments."""
        if self.waiting[index]:
            rows = np.concatenate(self.waiting[index], axis=1)
            self.moments[index] += rows.swapaxes(1, 2) @ rows
            self.waiting[index].clear()

    def _rows(self, inputs: Array) -> Array:
        layer = self.layer
        if not isinstance(layer, tensor.ConvOp):
            return inputs.reshape(1, -1, inputs.shape[-1])
        windows = conv_windows(
            inputs,
            self.shape[2:],
            layer.strides.get_values(),
            layer.padding.get_values(),
            layer.dilation.get_values(),
        )
        return window_rows(windows, self.groups)

    def _targets(self, targets: Array) -> Array:
        if not is_conv(self.layer):
            return targets.reshape(1, -1, targets.shape[-1])
        grouped = targets.reshape(len(targets), self.groups, -1, int(np.prod(targets.shape[2:])))
        return grouped.transpose(1, 0, 3, 2).reshape(self.groups, -1, grouped.shape[2])

    def solve(self) -> tuple[Array, Array]:
        """Weight and bias, f64, in the layout of the layer's."""
        for index in range(2):
            self._take_in(index)
        ridge = RIDGES[-1]
        fitted, held = (_centred(part, self.before.shape[1]) for part in self.moments)
        if self.moments[1, 0, -1, -1] > 1 and self.moments[0, 0, -1, -1] > 1:
            least = np.inf
            for tried in RIDGES:
                error = _error(_solved(*fitted[:2], self.before, tried), *held[:2])
                if error >= least:
                    break
                least, ridge = error, tried
        gram, cross, inputs, targets = _centred(self.moments.sum(0), self.before.shape[1])
        weight = _solved(gram, cross, self.before, ridge)
        bias = (targets - (inputs[:, None] @ weight)[:, 0]).reshape(-1)
        if is_conv(self.layer):
            return weight.transpose(0, 2, 1).reshape(self.shape), bias
        return weight[0], bias


def _centred(moments: Array, inputs: int) -> tuple[Array, Array, Array, Array]:
    """Covariances of inputs, and of inputs with targets; the means of both."""
    means = moments[:, -1, :-1] / np.maximum(moments[:, -1, -1:], 1)
    sums = moments[:, :-1, :-1] - moments[:, -1:, :-1] * means[:, :, None]
    return (
        sums[:, :inputs, :inputs],
        sums[:, :inputs, inputs:],
        means[:, :inputs],
        means[:, inputs:],
    )


def _solved(gram: Array, cross: Array, before: Array, ridge: float) -> Array:
    size = gram.shape[-1]
    # What never spoke has no weight.
    before = before * (np.diagonal(gram, axis1=1, axis2=2) > 0)[:, :, None]
    energy = np.trace(gram, axis1=1, axis2=2)[:, None, None] / size
    held = ridge * energy + np.finfo(np.float64).tiny ** 0.5
    linalg: Any = np.linalg
    change: Array = linalg.solve(gram + held * np.eye(size), cross - gram @ before)
    return before + change


def _error(weight: Array, gram: Array, cross: Array) -> float:
    """The squared error, but for what no weight changes."""
    return float(np.sum((gram @ weight - 2 * cross) * weight))
