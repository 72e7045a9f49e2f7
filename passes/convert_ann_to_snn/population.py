"""How many neurons say each value of an activation, and from what potentials they start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...dialects.parameters import Array


class Population(NamedTuple):
    """The neurons that say an activation.

    Attributes:
        threshold: what those of a value say at most in the mean, one number a channel.
        copies: how many neurons say a value, likewise.
        never: a threshold that no neuron reaches.
        margin: of signed neurons, how much more than a half of its quantum the last spike needs to
            be left, as a share of that quantum, likewise.
    """

    threshold: Array
    copies: Array
    never: float
    margin: Array = np.array(0.0)

    @property
    def worth(self) -> Array:
        """What a spike is worth that is one of T."""
        return self.threshold / self.copies

    def members(self, initial: Array) -> Iterator[tuple[Array, Array]]:
        """Threshold, and initial potential as a share of it, of each neuron of a value.

        Shares stand evenly between 0 and 1: what one neuron rounds up another rounds down.

        Args:
            initial: the share for a single neuron.
        """
        for copy in range(int(self.copies.max())):
            there = copy < self.copies
            share = np.where(there, (initial + copy) / self.copies, initial)
            yield np.where(there, self.threshold, self.never), share
