"""Where ready passes through many stages at once, and where buffers cut its way.

Most stages are ready when the next one is, in the same cycle, so that the way of ready through a
network is one chain of logic against the beats. A FIFO of two beats takes a beat a cycle and is
ready by a register: it cuts the chain. Not here: the buffer (`links`), how fast the logic is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Hop:
    """A stage as ready sees it.

    Attributes:
        passes: whether its inputs are ready by its outputs' ready in the same cycle.
        inputs: its channels, of which it takes beats.
        outputs: the channels that it gives beats to.
    """

    passes: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def buffered_channels(hops: Sequence[Hop], widths: Mapping[int, int], most: int) -> list[int]:
    """The channels that get a buffer, so that ready passes through at most so many stages.

    Among those of the second half of a chain that is too long the narrowest is taken.

    Args:
        hops: each after those that it takes beats from.
        widths: bits of each channel.
        most: at least 1.
    """
    makers = {channel: hop for hop in hops for channel in hop.outputs}
    lengths: dict[int, int] = {}
    buffered: list[int] = []

    def above(channel: int) -> list[int]:
        """The channels above one, as far as ready goes on."""
        chain: list[int] = []
        while (hop := makers.get(channel)) is not None and hop.passes:
            channel = min(hop.inputs)
            chain.append(channel)
        return chain

    for hop in reversed(hops):
        length = 1 + max(lengths.get(channel, 0) for channel in hop.outputs) if hop.passes else 0
        for channel in hop.inputs:
            lengths[channel] = length
            further = above(channel)
            if length + len(further) <= most or channel not in makers:
                continue
            candidates = [widths[c] for c in further[: most - length]]
            if length >= most or (
                2 * length >= most and widths[channel] < min(candidates, default=0)
            ):
                buffered.append(channel)
                lengths[channel] = 0
    return sorted(buffered)
