"""What kernels on bit planes and those who call them agree on: layouts, sizes, arguments.

They give C [rows, outs] int32 = A [rows, ins] · B [ins, outs] with trits B, and A either trits, or
bits that stand for {0, 1} or {-1, +1}. How they compute is in `to_native.kernels.bitplanes`;
`group`, here and there, is the number of steps of the sum that are looked up at once: 3 where a
table of 27 bytes fits an instruction, else 2, or 1 without tables.

- planes (A): 8 rows together, an octet. For each octet and plane, `plane_stride` bytes: byte k
  holds value k of row i of the octet in its bit i. Trits have the planes `x != 0` and `x < 0`,
  bits the plane `x > 0`.
- codes (B): 64 columns together, a panel. For each panel and group of steps, 64 bytes with
  Σ 3^t · (trit t + 1). Where `group` is 1, 128 bytes: 64 masks (0 or 255) of `trit != 0`, 64 of
  `trit < 0`.
- base: int32 for each column, padded to whole panels: what is added to `factor` times the count of
  a kernel, see `column_bases`.

`column_codes` and `column_bases` make them from arrays; kernels make the planes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .linear import PANEL, round_up

VERSION = 1
OCTET = 8
"""Rows of a byte of a plane."""
STEP_GROUPS = 16
"""Groups that a loop handles together; sums are padded to a multiple of them."""
CHUNK_STEPS = 8
"""Steps whose tables are made together, and then serve all panels of a block."""
BLOCK_PANELS = 64
"""Panels that share tables."""
BLOCK_OCTETS = 4
"""Octets that share a pass over the codes of a block."""
PIECE_OCTETS = 8
"""Octets that `product` packs and multiplies together."""
COUNT_BITS = 16
"""Bits of the counters; longer sums are made in parts."""
TABLE_BYTES = 96
"""Most bytes of the tables of one octet and group."""

Operand = Literal["trits", "bits"]
Values = Literal["trits", "bits", "signs"]
OPERANDS: tuple[Operand, ...] = ("trits", "bits")
PLANES: dict[Operand, int] = {"trits": 2, "bits": 1}
VALUES: dict[Values, tuple[Operand, int]] = {
    "trits": ("trits", 1),
    "bits": ("bits", 1),
    "signs": ("bits", 2),
}
"""What A holds, {-1, 0, 1}, {0, 1} or {-1, 1}: the kernels that multiply it, and `factor`."""

PACK_COLUMNS_ARGUMENTS = ("x", "codes", "ins", "outs", "first", "end")
"""`pack_columns`: two pointers, four int64; int8 B [ins, outs] to the panels in that range."""
PRODUCT_ARGUMENTS = (
    "x",
    "codes",
    "base",
    "y",
    "scratch",
    "factor",
    "rows",
    "ins",
    "outs",
    "first",
    "end",
)
"""`product`: five pointers, six int64; int8 A [rows, ins] to the rows of C of the octets from
`first` to `end`. `ins` and `outs` are at least 1. Each thread has `product_scratch` bytes."""


@dataclass(frozen=True)
class Sizes:
    """Sizes in bytes for one `group`."""

    group: int

    def groups(self, ins: int) -> int:
        """Groups of a sum, padded to whole steps."""
        return round_up(-(-ins // self.group), STEP_GROUPS)

    def padded(self, ins: int) -> int:
        """Steps of a sum with the padding."""
        return self.groups(ins) * self.group

    def plane_stride(self, ins: int) -> int:
        """Bytes of one plane of one octet."""
        return round_up(self.padded(ins), 64)

    def planes(self, operand: Operand, rows: int, ins: int) -> int:
        """Bytes of A; the last 64 are only there to be read."""
        return round_up(rows, OCTET) // OCTET * PLANES[operand] * self.plane_stride(ins) + 64

    def codes(self, ins: int, outs: int) -> int:
        """Bytes of B."""
        return round_up(outs, PANEL) * self.groups(ins) * (2 if self.group == 1 else 1)

    def product_scratch(self, operand: Operand, ins: int, outs: int) -> int:
        """Bytes of scratch memory of a thread in `product`, for any number of rows."""
        planes = self.planes(operand, PIECE_OCTETS * OCTET, ins)
        return planes + multiply_scratch(outs)


def multiply_scratch(outs: int) -> int:
    """Bytes of scratch memory of a thread in `multiply`: tables, then the bits of the counters."""
    panels = min(round_up(outs, PANEL) // PANEL, BLOCK_PANELS)
    tables = BLOCK_OCTETS * CHUNK_STEPS * STEP_GROUPS * TABLE_BYTES
    return tables + BLOCK_OCTETS * panels * COUNT_BITS * PANEL


def column_codes(trits: NDArray[np.int8], group: int) -> NDArray[np.uint8]:
    """The codes of B [ins, outs]; `trits` are not checked."""
    ins, outs = trits.shape
    panels, groups = round_up(outs, PANEL) // PANEL, Sizes(group).groups(ins)
    padded = np.zeros((groups * group, panels * PANEL), np.int8)
    padded[:ins, :outs] = trits
    steps = padded.reshape(groups, group, panels, PANEL)
    if group == 1:
        codes = np.where(np.concatenate([steps != 0, steps < 0], axis=1), 255, 0).astype(np.uint8)
    else:
        weights = 3 ** np.arange(group, dtype=np.uint8)[:, None, None]
        codes = ((steps + 1).astype(np.uint8) * weights).sum(axis=1, dtype=np.uint8, keepdims=True)
    return np.ascontiguousarray(codes.transpose(2, 0, 1, 3)).reshape(-1)


def column_bases(trits: NDArray[np.int8], values: Values, group: int) -> NDArray[np.int32]:
    """The base of B [ins, outs], for an A that holds `values`.

    A product of trits counts one too many in each step, that of a bit in the steps whose trit is
    negative; a sign is twice a bit less one.
    """
    ins, outs = trits.shape
    result = np.full(round_up(outs, PANEL), -Sizes(group).padded(ins), np.int32)
    if values != "trits":
        counted = trits < 0 if values == "bits" else trits != 0
        result[:outs] = -counted.sum(axis=0, dtype=np.int32)
    return result
