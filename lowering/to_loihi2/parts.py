"""What a network of Loihi is made of: inputs, populations, connections and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from ...dialects.shapes import Shape
from ...ir.arrays import Array
from .synapses import Weights


@dataclass(frozen=True, eq=False)
class Input:
    """What enters, at each step: spikes, currents of i32 for one population, or numbers.

    Attributes:
        name: its name.
        shape: of a step, without the samples.
        spikes: whether it is spikes.
        numbers: of numbers that stay, [samples, …], what a unit is worth, and the largest.
    """

    name: str
    shape: Shape
    spikes: bool
    numbers: tuple[np.float32, int] | None = None


@dataclass(frozen=True, eq=False)
class Pulses:
    """A source that says 1 and 128 at some steps, from which constant currents come.

    Attributes:
        name: its name.
        first, last: the steps; the last one is not among them.
    """

    name: str
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Output:
    """A result of the program.

    Attributes:
        name: of the result.
        population: whose spikes it is, or what is made of its potential at the end.
        scale, added: (v·scale) + added in f32, of potentials v; `None` for spikes.
    """

    name: str
    population: str
    scale: np.float32 | None = None
    added: Array | None = None


@dataclass(frozen=True)
class SigmaDelta:
    """Options of `spike.loihi_sigma_delta`."""

    shift: int
    relu: bool
    cumulative: bool


@dataclass(frozen=True, eq=False)
class Population:
    """Neurons of one kind.

    Attributes:
        name: its name.
        shape: of them.
        du, dv, threshold, threshold_low: of the op; the last is `None` for `spike.loihi_lif`, and
            with `subtracts` neurons may have thresholds of their own.
        bias: one number, or one for each neuron, i32.
        subtracts: whether the threshold is taken off v at a spike.
        start: v before the first step, a number or one for each neuron.
        sigma_delta: of neurons that send changes alone, what else they are; du and dv are 0 then.
    """

    name: str
    shape: Shape
    du: int
    dv: int
    threshold: Array
    threshold_low: int | None
    bias: Array
    subtracts: bool
    start: Array
    sigma_delta: SigmaDelta | None = None

    @property
    def count(self) -> int:
        """How many neurons."""
        return prod(self.shape)


@dataclass(frozen=True, eq=False)
class Window:
    """A convolution: strides, dilation, and pads at both ends, each for height and width."""

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


@dataclass(frozen=True, eq=False)
class Connection:
    """Synapses, or the way of currents from an input.

    Attributes:
        name: its name.
        source: the name of a population or input.
        target: the name of a population.
        weights: [out, in], or [out, in / groups, height, width]; `None` for currents.
        delay: steps, at least 1; 0 for currents.
        window: of a convolution.
        bits: of what the source says; 0 of spikes.
    """

    name: str
    source: str
    target: str
    weights: Weights | None
    delay: int
    window: Window | None = None
    bits: int = 0


@dataclass(frozen=True, eq=False)
class LoihiNetwork:
    """All of a program.

    Attributes:
        inputs: in the order of the arguments.
        populations: such that each comes after those that reach it.
        connections: in that order.
        outputs: the results.
        pulses: sources of constant currents.
        steps: how many the program runs; `None` where its inputs tell.
        values: what in the program the inputs and populations send, by name.
    """

    inputs: tuple[Input, ...]
    populations: tuple[Population, ...]
    connections: tuple[Connection, ...]
    outputs: tuple[Output, ...]
    pulses: tuple[Pulses, ...] = ()
    steps: int | None = None
    values: Mapping[str, SSAValue] = field(default_factory=dict[str, SSAValue])

    def shapes(self) -> dict[str, Shape]:
        """The shape of everything that sends or receives, by name."""
        named = {part.name: part.shape for part in (*self.inputs, *self.populations)}
        return named | {part.name: (2,) for part in self.pulses}
