"""Elements of fewer than 8 bits and floats of 8: how the IR holds them.

Integers of 2 and 4 bits are `i8` or `ui8` of the same value. Small floats are their codes as `ui8`:
the bits as they stand in a file, a byte each. Ops that move elements keep the format (`moved`). Not
here: numbers of codes and codes of numbers as ops (`rules_conversion`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, Signedness, i8
from xdsl.ir import Attribute, Operation

from ...dialects import tensor
from ...ir.arrays import Array, Dtype
from ..problems import ProblemError

UI8: Attribute = IntegerType(8, Signedness.UNSIGNED)


@dataclass(frozen=True)
class Format:
    """An element type of the standard that the IR holds in bytes.

    Attributes:
        name: as NumPy calls it.
        shown: as the standard calls it.
        bits: of one element.
        signed: whether there are negative values.
        is_float: whether bytes are codes; else they are the values.
        nan: the code of what is no number, of floats.
    """

    name: str
    shown: str
    bits: int
    signed: bool
    is_float: bool = False
    nan: int = 0

    @property
    def dtype(self) -> Dtype:
        """The type of `ml_dtypes`."""
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, self.name))

    @property
    def element(self) -> Attribute:
        """The element type of the IR."""
        return i8 if self.signed and not self.is_float else UI8

    @property
    def storage(self) -> Dtype:
        """The NumPy dtype of `element`."""
        return np.dtype(np.int8 if self.signed and not self.is_float else np.uint8)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest of integers."""
        count = 1 << self.bits
        return (-count // 2, count // 2 - 1) if self.signed else (0, count - 1)

    def stored(self, array: Array) -> Array:
        """Elements of `dtype` as bytes."""
        return array.view(np.uint8) if self.is_float else array.astype(self.storage)

    def restored(self, array: Array) -> Array:
        """Bytes as elements of `dtype`; the inverse of `stored`."""
        return array.view(self.dtype) if self.is_float else array.astype(self.dtype)

    def unpacked(self, data: NDArray[np.uint8], count: int) -> Array:
        """The first `count` elements in bytes of a file, lowest bits first, as `dtype`."""
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)
        codes = ((data[:, None] >> shifts) & ((1 << self.bits) - 1)).reshape(-1)[:count]
        if self.signed and not self.is_float:
            codes = (codes.astype(np.int8) ^ (1 << (self.bits - 1))) - np.int8(1 << self.bits - 1)
        return self.restored(codes)

    def values(self) -> NDArray[np.float64]:
        """The value of each code of a float, NaN for those that are none."""
        codes = np.arange(1 << self.bits, dtype=np.uint8)
        return codes.view(self.dtype).astype(np.float64)


_TYPES = (
    Format("int4", "int4", 4, signed=True),
    Format("uint4", "uint4", 4, signed=False),
    Format("int2", "int2", 2, signed=True),
    Format("uint2", "uint2", 2, signed=False),
    Format("float8_e4m3fn", "float8e4m3fn", 8, True, is_float=True, nan=0x7F),
    Format("float8_e4m3fnuz", "float8e4m3fnuz", 8, True, is_float=True, nan=0x80),
    Format("float8_e5m2", "float8e5m2", 8, True, is_float=True, nan=0x7E),
    Format("float8_e5m2fnuz", "float8e5m2fnuz", 8, True, is_float=True, nan=0x80),
    Format("float8_e8m0fnu", "float8e8m0", 8, False, is_float=True, nan=0xFF),
    # There is no NaN of 4 bits: ml_dtypes makes -0 of it.
    Format("float4_e2m1fn", "float4e2m1", 4, True, is_float=True, nan=0x8),
)

FORMATS = {format.name: format for format in _TYPES}
"""By the name of the NumPy dtype."""


FORMAT_ATTRIBUTE = "onnx.type"
"""Says of an argument or result of a program what its bytes are: `Format.shown`."""


def format_of(dtype: Dtype) -> Format | None:
    """The format of a NumPy dtype; `None` for one whose elements the IR has itself."""
    return FORMATS.get(dtype.name)


@dataclass(frozen=True)
class Rounding:
    """How numbers become codes of a float.

    The code of a number is how many thresholds are at most its magnitude, and the sign's bit.

    Attributes:
        thresholds: ascending, of the dtype of the numbers; the last one is where a number is too
            great, if that does not saturate.
        above: the code of magnitudes that are too great; `None` where they saturate.
        sign: what a negative number's code has more, 0 without signs.
        zero_has_sign: whether there is a negative zero.
        least: numbers of a smaller magnitude are no numbers; `None` where they saturate.
    """

    thresholds: Array
    above: int | None
    sign: int
    zero_has_sign: bool
    least: float | None


@cache
def rounding(format: Format, dtype: Dtype, saturate: bool, mode: str) -> Rounding:
    """To the nearest value, ties to even codes, or as `mode` says for e8m0.

    Args:
        format: a float.
        dtype: float32 or float64, of the numbers.
        saturate: whether what is too great becomes the greatest finite value.
        mode: one of `ROUND_MODES`, for e8m0 alone.
    """
    sign = 1 << (format.bits - 1) if format.signed else 0
    values = format.values()
    magnitudes = values[: sign or None]
    finite = magnitudes[np.isfinite(magnitudes)]
    steps = [float(value) for value in finite]
    open_ended = not saturate and bool(np.isnan(values).any())
    if open_ended:
        # One step past the greatest value: where a greater exponent or mantissa would be.
        steps.append(2 * steps[-1] - (steps[-2] if format.signed else 0))
    pick = _PICKED["even" if format.signed else mode]
    thresholds = [
        pick(low, high, code, dtype)
        for code, (low, high) in enumerate(itertools.pairwise(steps), 1)
    ]
    return Rounding(
        np.array(thresholds, dtype),
        above=len(finite) if open_ended else None,
        sign=sign,
        zero_has_sign=bool(sign) and bool(values[sign] == 0),
        least=float(finite[0]) if open_ended and not format.signed else None,
    )


def _even(low: float, high: float, code: int, dtype: Dtype) -> Array:
    """Half way, where a tie goes to the even one of two codes."""
    middle = _as(dtype, (low + high) / 2)
    return middle if code % 2 == 0 else _behind(middle)


def _as(dtype: Dtype, value: float) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(dtype)


def _behind(value: Array) -> Array:
    """The number after `value`."""
    return np.nextafter(value, np.asarray(np.inf, value.dtype))


_PICKED: dict[str, Callable[[float, float, int, Dtype], Array]] = {
    "even": _even,
    "nearest": lambda low, high, code, dtype: _as(dtype, (low + high) / 2),
    "down": lambda low, high, code, dtype: _as(dtype, high),
    "up": lambda low, high, code, dtype: _behind(_as(dtype, low)),
}
"""The least number that gets the upper one of two codes."""

ROUND_MODES = ("up", "down", "nearest")
"""How numbers are rounded to e8m0."""

_MOVING: dict[type[Operation], slice] = {
    tensor.ConcatenateOp: slice(None),
    tensor.ExpandOp: slice(1),
    tensor.FlattenOp: slice(1),
    tensor.GatherRowsOp: slice(1),
    tensor.PadToOp: slice(1),
    tensor.PermuteOp: slice(1),
    tensor.ReshapeToOp: slice(1),
    tensor.SliceOp: slice(1),
    tensor.SplitOp: slice(1),
    tensor.SqueezeOp: slice(1),
    tensor.UnsqueezeOp: slice(1),
    tensor.WhereOp: slice(1, 3),
}
"""Ops that move elements, whatever these are, and the operands that hold them."""


def moved(op: Operation, formats: Sequence[Format | None]) -> Format | None:
    """The format of the results of an op for those of its operands.

    Raises:
        ProblemError: it would compute with codes.
    """
    if not any(formats):
        return None
    data = _MOVING.get(type(op))
    known = {*formats} if data is None else {*formats[data]}
    codes = sorted(format.shown for format in known if format is not None and format.is_float)
    if data is not None and len(known) == 1:
        return next(iter(known))
    if codes:
        raise ProblemError(f"it computes with elements of {codes[0]}; cast them first")
    return None
