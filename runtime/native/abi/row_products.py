"""A table of rows times one vector: what kernels and callers agree on.

Rows are as files of models hold them, one after the other: floats of 16 or 32 bits, or blocks
of GGUF. `Q8_0` has 32 int8 behind a float16 scale; `Q6_K` 256 values of 6 bits, a byte as the scale
of each 16 and a float16 for all. Floats meet the vector in float32. A block meets its part of the
vector in two int8 digits of 1/127 and 1/(127·254) of the largest magnitude there, with exact sums.

The function `ROWS` is one in parts (`abi.parallel`) whose things are rows. Its argument are five
words: addresses of the rows, of the vector as `runtime.native.row_products.prepared` gives it and
of the results in float32; bytes of a row, values of a row. Not here: who holds tables.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

ROWS = "rows_part"

RowKind = Literal["float32", "float16", "bfloat16", "Q8_0", "Q6_K"]

PAIR_BLOCK = 32
"""Values of `bfloat16` of which those at even places stand before those at odd ones."""
DIGITS = 2


class Block(NamedTuple):
    """A block of small integers, and its part of the vector.

    Attributes:
        values: of it.
        bytes: it takes.
        parts: of it that have an int8 as their scale; one that has none.
        digits, sums, scale: bytes of the part before its digits, the sums and the scale.
        prepared: bytes of the part.
    """

    values: int
    bytes: int
    parts: int
    digits: int
    sums: int
    scale: int
    prepared: int


BLOCKS: dict[RowKind, Block] = {
    "Q8_0": Block(32, 34, 1, 0, 64, 128, 192),
    "Q6_K": Block(256, 210, 16, 0, 512, 576, 640),
}
