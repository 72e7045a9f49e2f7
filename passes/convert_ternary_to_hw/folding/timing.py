"""How a stage of several steps a beat moves beats: the model of `control` and `folded_stage`."""

from __future__ import annotations

from collections.abc import Sequence


class SteppedTiming:
    """Steps through the folds of a beat; parts of a result come out of a pipeline.

    Args:
        inputs: steps until a part of the result is on its way.
        parts: of a result.
        depth: steps from there until the part is there.
        keep_beat: whether a beat is taken before its first step, and not with its last.
        at_once: as in `control.SteppedBody.end`.
    """

    def __init__(
        self, inputs: int, parts: int, depth: int, *, keep_beat: bool, at_once: bool
    ) -> None:
        self.inputs, self.parts, self.depth = inputs, parts, depth
        self.keep_beat, self.at_once = keep_beat, at_once
        self.busy = False
        self.fold = self.part = 0
        self.pipeline = [False] * depth
        self.result = False
        self.enable = True

    def copy(self) -> SteppedTiming:
        """The model after reset."""
        return SteppedTiming(
            self.inputs,
            self.parts,
            self.depth,
            keep_beat=self.keep_beat,
            at_once=self.at_once,
        )

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """Whether a result is whole."""
        if not self.keep_beat:
            self.busy = inputs[0]
        return (self.result,)

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether the stage is idle or takes its last step."""
        leaves = self.at_once and outputs[0]
        if not self.keep_beat:
            self.busy = inputs[0]
        self.enable = not (self.pipeline[-1] and self.result and not leaves)
        at_end = self.fold == self.inputs * self.parts - 1
        return (self.enable and (at_end or (self.keep_beat and not self.busy)),)

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """Move on, where the stage is enabled."""
        self.result = self.result and not outputs[0]
        if not self.enable:
            return
        if self.pipeline[-1]:
            self.part = (self.part + 1) % self.parts
            self.result = self.result or self.part == 0
        comes = self.busy and self.fold % self.inputs == self.inputs - 1
        self.pipeline = [comes, *self.pipeline[:-1]]
        if self.busy:
            self.fold = (self.fold + 1) % (self.inputs * self.parts)
        if self.keep_beat:
            self.busy = inputs[0] or (self.busy and self.fold != 0)


class SerialTiming(SteppedTiming):
    """Steps through the digits of a beat; the result is whole in one step, and waits in it.

    Args:
        digits: of a beat.
        depth: steps from the last digit's until the result is whole.
        keep_beat: as for `SteppedTiming`.
    """

    def __init__(self, digits: int, depth: int, *, keep_beat: bool) -> None:
        super().__init__(digits, 1, depth, keep_beat=keep_beat, at_once=True)

    def copy(self) -> SerialTiming:
        """The model after reset."""
        return SerialTiming(self.inputs, self.depth, keep_beat=self.keep_beat)

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """Whether a result is whole."""
        self.result = False
        super().valid(inputs)
        return (self.pipeline[-1],)

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether the stage is idle or takes its last step."""
        self.result = self.pipeline[-1]
        return super().ready(inputs, outputs)
