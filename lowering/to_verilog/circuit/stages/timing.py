"""How stages move beats: models of their handshakes, cycle by cycle.

A model is what its module does to the valid and ready signals, without data. `schedule` runs the
models of a whole network. Not here: the modules.

A model remembers its `state`, and numbers that it counts for ever, its `positions`. At a position
it looks up in a table that goes round what is special there, as the end of a row; nothing depends
on the number otherwise. So times at which states are equal, and what stands in the tables from
there on, are followed by the same cycles, and `schedule` runs them once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, Self


class Timing(ABC):
    """The handshake of one stage.

    In each cycle `valid` is asked first, from the sources on, then `ready`, from the sinks on, then
    `step`.

    Args:
        state: what it remembers besides positions; hashable.
        tables: what it looks up at each position, a byte each, going round.

    Attributes:
        positions: how far it is in each table.
    """

    def __init__(self, state: Any, *tables: bytes) -> None:
        self.state: Any = state
        self._first: Any = state
        self.tables = tables
        self.positions = [0] * len(tables)

    def copy(self) -> Self:
        """The model after reset."""
        new = copy(self)
        new.state, new.positions = self._first, [0] * len(self.tables)
        return new

    def seen(self, index: int) -> int:
        """What stands in a table at the position reached."""
        table = self.tables[index]
        return table[self.positions[index] % len(table)]

    @abstractmethod
    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """`out_valid` of each output, from `in_valid` of each input."""

    @abstractmethod
    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """`in_ready` of each input, from each `in_valid` and each `out_ready`."""

    @abstractmethod
    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """The clock edge, with `in_valid` of each input and `out_ready` of each output."""


class PipelineTiming(Timing):
    """Registers that all take a step together, unless the last one holds a beat that cannot go.

    The state is a bit for each register, the first one lowest.
    """

    def __init__(self, latency: int) -> None:
        super().__init__(0)
        self.latency = latency
        self.last = 1 << latency >> 1

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """The last register, or the input where there is none."""
        return (self.state & self.last > 0,) if self.latency else (inputs[0],)

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether the registers take a step."""
        del inputs
        return (outputs[0] or (self.latency > 0 and not self.state & self.last),)

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """Move on."""
        if self.latency and (outputs[0] or not self.state & self.last):
            self.state = (self.state & ~self.last) << 1 | inputs[0]


class FifoTiming(Timing):
    """A queue; a beat can go out in the cycle after it came in. The state is how many it holds."""

    def __init__(self, depth: int | None) -> None:
        super().__init__(0)
        self.depth = depth
        self.most = 0

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """Whether there is a beat."""
        del inputs
        return (self.state > 0,)

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether there is room."""
        del inputs, outputs
        return (self.depth is None or self.state < self.depth,)

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """Count."""
        arrives = inputs[0] and (self.depth is None or self.state < self.depth)
        self.state += arrives - (outputs[0] and self.state > 0)
        self.most = max(self.most, self.state)


class ForkTiming(Timing):
    """Each output takes the beat when it can; the input moves on when all have taken it.

    The state is who has taken it.
    """

    def __init__(self, outputs: int) -> None:
        super().__init__((False,) * outputs)

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """Whether there is a beat that the output has not taken."""
        return [inputs[0] and not done for done in self.state]

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether all outputs have the beat after this cycle."""
        del inputs
        return (all(done or ready for done, ready in zip(self.state, outputs, strict=True)),)

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """Note who has taken it."""
        if inputs[0]:
            have = [done or ready for done, ready in zip(self.state, outputs, strict=True)]
            self.state = (False,) * len(have) if all(have) else tuple(have)


class JoinTiming(Timing):
    """One beat of each input at once."""

    def __init__(self, inputs: int) -> None:
        super().__init__(None)
        self.inputs = inputs

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """Whether all inputs have a beat."""
        return (all(inputs),)

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether the output can go and all other inputs have a beat."""
        missing = self.inputs - sum(inputs)
        return [outputs[0] and missing - (not has) == 0 for has in inputs]

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """Nothing is kept."""
