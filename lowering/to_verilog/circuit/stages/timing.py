"""How stages move beats: models of their handshakes, cycle by cycle.

A model is what its module does to the valid and ready signals, without data. `schedule` runs the
models of a whole network. Not here: the modules.

A model remembers its `state`, and numbers that it counts for ever, its `positions`. At a position
it looks up in a table that goes round what is special there, as the end of a row; nothing depends
on the number otherwise. So times at which states are equal, and what stands in the tables from
there on, are followed by the same cycles, and `schedule` runs them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

State = TypeVar("State")


class Timing(Protocol):
    """The handshake of one stage.

    In each cycle `valid` is asked first, from the sources on, then `ready`, from the sinks on, then
    `step`. `copy` gives the model as it is after reset.

    Attributes:
        state: what it remembers besides positions; hashable.
        tables: what it looks up at each position, a byte each, going round.
        positions: how far it is in each table.
    """

    state: Any
    tables: tuple[bytes, ...]
    positions: list[int]

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


class Counting(Generic[State]):
    """What models have in common: positions in tables.

    Args:
        state: after reset.
        tables: as in `Timing`.
    """

    def __init__(self, state: State, *tables: bytes) -> None:
        self.state: State = state
        self.tables = tables
        self.positions = [0] * len(tables)

    def seen(self, index: int) -> int:
        """What stands in a table at the position reached."""
        table = self.tables[index]
        return table[self.positions[index] % len(table)]


class PipelineTiming(Counting[int]):
    """Registers that all take a step together, unless the last one holds a beat that cannot go.

    The state is a bit for each register, the first one lowest.
    """

    def __init__(self, latency: int) -> None:
        super().__init__(0)
        self.latency = latency
        self.last = 1 << latency >> 1

    def copy(self) -> PipelineTiming:
        """The model after reset."""
        return PipelineTiming(self.latency)

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


class FifoTiming(Counting[int]):
    """A queue; a beat can go out in the cycle after it came in. The state is how many it holds."""

    def __init__(self, depth: int | None) -> None:
        super().__init__(0)
        self.depth = depth
        self.most = 0

    def copy(self) -> FifoTiming:
        """The model after reset."""
        return FifoTiming(self.depth)

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
        taken = inputs[0] and (self.depth is None or self.state < self.depth)
        self.state += taken - (outputs[0] and self.state > 0)
        self.most = max(self.most, self.state)


class ForkTiming(Counting[tuple[bool, ...]]):
    """Each output takes the beat when it can; the input moves on when all have taken it.

    The state is who has taken it.
    """

    def __init__(self, outputs: int) -> None:
        super().__init__((False,) * outputs)

    def copy(self) -> ForkTiming:
        """The model after reset."""
        return ForkTiming(len(self.state))

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


class JoinTiming(Counting[None]):
    """One beat of each input at once."""

    def __init__(self, inputs: int) -> None:
        super().__init__(None)
        self.inputs = inputs

    def copy(self) -> JoinTiming:
        """The model after reset."""
        return JoinTiming(self.inputs)

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """Whether all inputs have a beat."""
        return (all(inputs),)

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether the output can go and all other inputs have a beat."""
        missing = self.inputs - sum(inputs)
        return [outputs[0] and missing - (not has) == 0 for has in inputs]

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """Nothing is kept."""
