"""How frames lie in the words of a stream that is not as wide as their beats.

The bytes of a frame are those of its beats, one after another, each beat in whole bytes with zeros
above its bits. Words take them in order; a frame begins with a word of its own. Not here: the
hardware (`stages.words`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

STREAM_WIDTHS = (8, 16, 32, 64, 128, 256, 512, 1024)
"""Bits of words that there are, as AXI has them."""

_FURTHER = 4
"""A block is at most so many times as long as a word and a beat: blocks stand in registers."""


@dataclass(frozen=True)
class Framing:
    """A stream of frames.

    Attributes:
        width: bits of a word, whole bytes.
        bits: of a beat.
        beats: of a frame.
    """

    width: int
    bits: int
    beats: int

    @property
    def beat_bytes(self) -> int:
        """The bytes of a beat: as few as hold its bits, and in frames of several beats as few as
        meet with words again before long."""
        least, word = max(1, -(-self.bits // 8)), self.width // 8
        if self.beats == 1:
            return least
        sizes = range(least, least + word)
        return next(b for b in sizes if lcm(b, word) <= _FURTHER * max(b, word))

    @property
    def words(self) -> int:
        """Of a frame."""
        return -(-self.beats * self.beat_bytes * 8 // self.width)

    @property
    def words_of_block(self) -> int:
        """Words until a beat begins with one again, at most those of a frame."""
        return min(self.words, lcm(self.beat_bytes, self.width // 8) * 8 // self.width)

    @property
    def beats_of_block(self) -> int:
        """The beats in them."""
        return min(self.beats, lcm(self.beat_bytes, self.width // 8) // self.beat_bytes)

    @property
    def block(self) -> int:
        """The bits of those beats."""
        return self.beats_of_block * self.beat_bytes * 8

    @property
    def last_bytes(self) -> int:
        """The bytes of a frame that its last word has."""
        rest = self.beats * self.beat_bytes % (self.width // 8)
        return rest or self.width // 8
