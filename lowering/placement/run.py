"""`Drive`: a run as a machine sees it, with its neurons, who reaches whom, and all spikes.

Targets say what runs of the files do that they make (`Target.driver`); `drive.drive_of` takes
programs as they are given. Not here: what a run costs (`energy`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ...ir.arrays import Array
from .workload import Workload


@dataclass(frozen=True, eq=False)
class Drive:
    """A run as a machine sees it.

    Attributes:
        workload: neurons and synapses; of `drive_of` with the rates of the run.
        spikes: by population and input, of each step and neuron, all samples together, int
            [steps, neurons].
        active: by population, steps in which a neuron hears something or has a potential, of each,
            all samples together, int [neurons].
        samples: inputs of the run.
        steps: of each, on the machine.
        dt: seconds a step, if the program states it.
        products: of numbers with weights, of one sample, that are computed before spikes.
        outputs: what the program gave.
        refused: why these are the neurons of the program as given, and not those of a target's
            files; empty where they are.
    """

    workload: Workload
    spikes: Mapping[str, Array]
    active: Mapping[str, Array]
    samples: int
    steps: int
    dt: float | None
    products: float
    outputs: Sequence[Array] = ()
    refused: str = ""

    def rates(self) -> dict[str, Array]:
        """Spikes a step of each neuron, f64 [neurons] by name."""
        runs = max(1, self.steps * self.samples)
        return {name: x.sum(0) / runs for name, x in self.spikes.items()}


Driver = Callable[[Sequence[Array]], Drive]
"""Runs a program on inputs of its `@forward`."""


def spike_counts(output: Array) -> Array:
    """Spikes of each step and neuron, all samples together, of [T, N, …]; numbers but 0 count."""
    steps, samples, *shape = output.shape
    return np.count_nonzero(output.reshape(steps, samples, prod(shape)), axis=1)


def active_steps(heard: Array, potential: Array | None, starts: bool = False) -> Array:
    """Steps in which each neuron hears something or has a potential, int [neurons].

    Args:
        heard: where its current is not 0, [T, N, …].
        potential: after each step, alike; `None` of neurons that are always at work. Readouts keep
            what they `kept`.
        starts: whether there is a potential before the first step.
    """
    if potential is None:
        return np.full(prod(heard.shape[2:]), prod(heard.shape[:2]))
    busy = heard.copy()
    busy[1:] |= potential[:-1] != 0
    busy[:1] |= starts
    return np.count_nonzero(busy.reshape(prod(busy.shape[:2]), prod(busy.shape[2:])), axis=0)


def kept(heard: Array) -> Array:
    """The potential of neurons that never fire, where that is not 0."""
    return np.logical_or.accumulate(heard, axis=0)
