"""How a stage of several steps a beat moves beats: the model of `control` and `folded_stage`."""

from __future__ import annotations

from collections.abc import Sequence

from ..stages.timing import Timing

_PART, _BEAT = 1, 2
"""What stands at a fold: a part of the result is on its way behind it; the beat ends."""


class SteppedTiming(Timing):
    """Steps through the folds of a beat; parts of a result come out of a pipeline.

    The state is whether there is a beat, a bit for each step of the pipeline, the first one lowest,
    and whether a result waits. The positions are those of folds and of parts.

    Args:
        inputs: steps until a part of the result is on its way.
        parts: of a result.
        depth: steps from there until the part is there.
        keep_beat: whether a beat is taken before its first step, and not with its last.
        at_once: as in `control.SteppedBody.end`.
    """

    state: tuple[bool, int, bool]

    def __init__(
        self, inputs: int, parts: int, depth: int, *, keep_beat: bool, at_once: bool
    ) -> None:
        column = (*[0] * (inputs - 1), _PART)
        folds = bytes((*column * (parts - 1), *column[:-1], _PART | _BEAT))
        super().__init__((False, 0, False), folds, bytes((*[0] * (parts - 1), 1)))
        self.inputs, self.parts, self.depth = inputs, parts, depth
        self.keep_beat, self.at_once = keep_beat, at_once
        self.last = 1 << depth >> 1
        self.enable = self.works = True

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """Whether a result is whole."""
        del inputs
        return (self.state[2],)

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether the stage is idle or takes its last step."""
        busy, pipeline, result = self.state
        self.works = busy if self.keep_beat else inputs[0]
        leaves = self.at_once and outputs[0]
        self.enable = not (pipeline & self.last and result and not leaves)
        at_end = self.seen(0) & _BEAT > 0
        return (self.enable and (at_end or (self.keep_beat and not busy)),)

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """Move on, where the stage is enabled."""
        busy, pipeline, result = self.state
        result = result and not outputs[0]
        if not self.enable:
            self.state = busy, pipeline, result
            return
        if pipeline & self.last:
            result = result or self.seen(1) > 0
            self.positions[1] += 1
        fold = self.seen(0)
        pipeline = (pipeline & ~self.last) << 1 | (self.works and fold & _PART > 0)
        self.positions[0] += self.works
        ends = fold & _BEAT > 0
        busy = self.keep_beat and (inputs[0] or (busy and not ends))
        self.state = busy, pipeline, result


class SerialTiming(SteppedTiming):
    """Steps through the digits of a beat; the result is whole in one step, and waits in it.

    Args:
        digits: of a beat.
        depth: steps from the last digit's until the result is whole.
        keep_beat: as for `SteppedTiming`.
    """

    def __init__(self, digits: int, depth: int, *, keep_beat: bool) -> None:
        super().__init__(digits, 1, depth, keep_beat=keep_beat, at_once=True)

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """Whether a result is whole."""
        del inputs
        return (self.state[1] & self.last > 0,)

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether the stage is idle or takes its last step."""
        busy, pipeline, _ = self.state
        self.state = busy, pipeline, pipeline & self.last > 0
        return super().ready(inputs, outputs)
