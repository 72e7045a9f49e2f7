"""What native kernels and those who call them agree on: names, arguments, layouts and sizes.

`to_native.kernels` generates functions of this shape, `runtime.native` calls them; neither
imports the other. Not here: how a kernel computes.

Weights, for an [outs, ins] matrix of trits, always 2 bits a trit:

- `rows`: row-major, `row_bytes(ins)` bytes a row, value k in bits 2(k mod 4) of byte k div 4, as
  the biased code u = trit + 1.
- `stored`: the same with the storage codes of `ir.trits`. Packed trits whose `ins` is a multiple
  of 256 already have this layout, and are read where they lie.
- `panels`: 64 rows together. Panel n div 64, then step k div 4, then 64 bytes: byte 4r + t holds,
  in its bits 2p, the biased code of value t of the step in row 16p + r of the panel.
- `sparse`: the same without blocks of zeros, see `abi.sparse`.

Each layout and kind of activations makes a module of its own with three functions. `linear`
computes y = f(x · Wᵀ) for x [rows, ins]. `prepare` and `compute` are its two halves, for a range of
rows and a range of outputs, so that threads can share one call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VERSION = 2
BLOCK = 256
"""Values of one row that are prepared together; rows of weights are padded to it."""
PANEL = 64
"""Rows of one panel; ranges of outputs start at a multiple of it."""
GROUP = 256
"""Rows of weights that have their nonzero steps in common in the layout `sparse`."""
STEP = 4
"""Values of each row that stand together in a panel."""
MAX_INS = 1 << 17
"""Longest row: field 3 of a byte counts 64-fold, so that four values add at most 4 · 128 · 128 to a
sum of one lane, and so many stay inside int32."""

RAW_ROWS = 6
"""Rows of raw results that scratch memory has room for: the highest tile of any recipe."""

Layout = Literal["rows", "stored", "panels", "sparse"]
Order = Literal["planar", "natural"]
Activations = Literal["i8", "u8", "i16", "i32", "f32", "f32x3"]
LAYOUTS: tuple[Layout, ...] = ("rows", "stored", "panels", "sparse")

TABLES = ("scale", "bias", "table", "shift")
"""What steps after a product read."""
LINEAR_ARGUMENTS = ("x", "weights", "y", "scratch", *TABLES, "rows", "ins", "outs")
"""`linear`: eight pointers, three int64. What stands in `scale`, `bias`, `table` and `shift`, if
anything, is told by `to_native.kernels.epilogue.Epilogue`."""
PREPARE_ARGUMENTS = ("x", "scratch", "rows", "ins", "first", "end")
"""`prepare`: two pointers, four int64; handles the rows from `first` to `end`."""
COMPUTE_ARGUMENTS = ("weights", "y", "scratch", *TABLES, "rows", "ins", "outs", "n0", "n1")
"""`compute`: seven pointers, five int64; writes the outputs from `n0`, a multiple of `PANEL`, to
`n1`."""

ARRAYS = "linear_arrays"
"""Takes the address of the `LINEAR_ARGUMENTS`, eight bytes each, where `x` and `y` are addresses of
NumPy's array objects; these hold the address of their data `ARRAY_DATA` bytes further."""
ARRAY_DATA = 16


@dataclass(frozen=True)
class Kind:
    """How activations come in.

    Attributes:
        activations: the name.
        bytes: of one activation.
        digits: int8 values that an activation is split in.
        floating: whether activations and sums are float32; else sums are int32.
        offset: what activations are lowered by to fit their digits. The caller adds `offset` times
            Σ of the trits of each output to the bias.
    """

    activations: Activations
    bytes: int
    digits: int
    floating: bool = False
    offset: int = 0


KINDS: tuple[Kind, ...] = (
    Kind("i8", 1, 1),
    Kind("u8", 1, 1, offset=128),
    Kind("i16", 2, 2, offset=128),
    Kind("i32", 4, 4),
    Kind("f32", 4, 1, floating=True),
    Kind("f32x3", 4, 3, floating=True),
)
"""Integers give sums that are exact modulo 2^32. `f32` quantises each row to int8 (scale =
max|x| / 127, round half to even); `f32x3` splits each row in three int8 digits in base
`DIGIT_BASE` (scale a power of two), which keeps the accuracy of float32."""

KIND_NAMED: dict[Activations, Kind] = {kind.activations: kind for kind in KINDS}

Precision = Literal["dynamic-int8", "float32"]
PRECISIONS: dict[Precision, Activations] = {"float32": "f32x3", "dynamic-int8": "f32"}
"""How float activations are multiplied."""

DIGIT_BASE = 254.0
"""A remainder of at most 1/2, times this, still rounds to an int8."""


def order_of(layout: Layout) -> Order:
    """The order of prepared activations that a layout of weights is multiplied with.

    `planar`: in each block of 256, value 4j + p stands at 64p + j, beside the field p of byte j.
    """
    return "natural" if layout in ("panels", "sparse") else "planar"


def round_up(value: int, multiple: int) -> int:
    """The least multiple of `multiple` that is not below `value`."""
    return -(-value // multiple) * multiple


def row_bytes(ins: int) -> int:
    """Bytes of a row of weights in the layouts `rows` and `stored`."""
    return round_up(ins, BLOCK) // 4


def weight_bytes(layout: Layout, ins: int, outs: int) -> int:
    """Bytes of the whole matrix; for `sparse` they depend on its zeros.

    Raises:
        ValueError: for the layout `sparse`.
    """
    if layout == "sparse":
        raise ValueError("the size of a sparse matrix depends on its zeros")
    if layout == "panels":
        return round_up(outs, PANEL) * round_up(ins, STEP) // 4
    return outs * row_bytes(ins)


def activation_stride(ins: int) -> int:
    """Bytes between prepared rows; 64 more than a row, so that rows do not share cache sets."""
    return round_up(ins, BLOCK) + 64


def raw_stride(outs: int) -> int:
    """int32 between raw rows: no power of two, so that rows do not share cache sets."""
    return round_up(outs, GROUP) + 16


def scratch_bytes(rows: int, ins: int, outs: int, digits: int) -> int:
    """Bytes of scratch memory: sums and scales, prepared activations, raw int32 results."""
    count = rows * digits
    return (
        2 * round_up(4 * count, 64)
        + count * activation_stride(ins)
        + RAW_ROWS * raw_stride(outs) * 4
    )
