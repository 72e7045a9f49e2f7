"""How stages move beats: models of their handshakes, cycle by cycle.

A model is what its module does to the valid and ready signals, without data. `schedule` runs the
models of a whole network. Not here: the modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Timing(Protocol):
    """The handshake of one stage.

    In each cycle `valid` is asked first, from the sources on, then `ready`, from the sinks on, then
    `step`. `copy` gives the model as it is after reset.
    """

    def copy(self) -> Timing:
        """The model after reset."""
        ...

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """`out_valid` of each output, from `in_valid` of each input."""
        ...

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """`in_ready` of each input, from each `in_valid` and each `out_ready`."""
        ...

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """The clock edge, with `in_valid` of each input and `out_ready` of each output."""
        ...


class PipelineTiming:
    """Registers that all take a step together, unless the last one holds a beat that cannot go."""

    def __init__(self, latency: int) -> None:
        self.latency = latency
        self.places = [False] * latency

    def copy(self) -> PipelineTiming:
        """The model after reset."""
        return PipelineTiming(self.latency)

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """The last register, or the input where there is none."""
        return (self.places[-1],) if self.latency else (inputs[0],)

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether the registers take a step."""
        del inputs
        return (outputs[0] or (self.latency > 0 and not self.places[-1]),)

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """Move on."""
        if self.latency and (outputs[0] or not self.places[-1]):
            self.places = [inputs[0], *self.places[:-1]]


class FifoTiming:
    """A queue; a beat can go out in the cycle after it came in."""

    def __init__(self, depth: int | None) -> None:
        self.depth = depth
        self.held = 0
        self.most = 0

    def copy(self) -> FifoTiming:
        """The model after reset."""
        return FifoTiming(self.depth)

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """Whether there is a beat."""
        del inputs
        return (self.held > 0,)

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether there is room."""
        del inputs, outputs
        return (self.depth is None or self.held < self.depth,)

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """Count."""
        taken = inputs[0] and (self.depth is None or self.held < self.depth)
        self.held += taken - (outputs[0] and self.held > 0)
        self.most = max(self.most, self.held)


class ForkTiming:
    """Each output takes the beat when it can; the input moves on when all have taken it."""

    def __init__(self, outputs: int) -> None:
        self.done = [False] * outputs

    def copy(self) -> ForkTiming:
        """The model after reset."""
        return ForkTiming(len(self.done))

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """Whether there is a beat that the output has not taken."""
        return [inputs[0] and not done for done in self.done]

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether all outputs have the beat after this cycle."""
        del inputs
        return (all(done or ready for done, ready in zip(self.done, outputs, strict=True)),)

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """Note who has taken it."""
        if inputs[0]:
            have = [done or ready for done, ready in zip(self.done, outputs, strict=True)]
            self.done = [False] * len(have) if all(have) else have


class JoinTiming:
    """One beat of each input at once."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs

    def copy(self) -> JoinTiming:
        """The model after reset."""
        return self

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """Whether all inputs have a beat."""
        return (all(inputs),)

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether the output can go and all other inputs have a beat."""
        missing = self.inputs - sum(inputs)
        return [outputs[0] and missing - (not has) == 0 for has in inputs]

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """Nothing is kept."""
