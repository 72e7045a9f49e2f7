"""Element types of tensors and their NumPy dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from ..ir.arrays import Array
from .ternary.types import TritType

_FLOATS: dict[type[Attribute], str] = {
    Float16Type: "float16",
    Float32Type: "float32",
    Float64Type: "float64",
}


def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """The dtype that holds `element` in memory: int8 for trits, bool for `i1`.

    Raises:
        VerifyException: the element type is none of those the `tensor` dialect has.
    """
    if isinstance(element, TritType):
        return np.dtype(np.int8)
    if isinstance(element, BFloat16Type):
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    name = _FLOATS.get(type(element))
    if name is not None:
        return np.dtype(name)
    if type(element) is IntegerType:
        width = element.width.data
        if width == 1:
            return np.dtype(np.bool_)
        if width in (8, 16, 32, 64):
            unsigned = element.signedness.data is Signedness.UNSIGNED
            return np.dtype(f"{'u' if unsigned else ''}int{width}")
    raise VerifyException(f"tensors of {element} are not supported")


def element_of(dtype: np.dtype[Any]) -> Attribute:
    """The element type of a NumPy dtype; the inverse of `numpy_dtype` but for trits.

    Raises:
        VerifyException: there is none.
    """
    name = np.dtype(dtype).name
    table: dict[str, Attribute] = {
        "float16": f16,
        "bfloat16": bf16,
        "float32": f32,
        "float64": f64,
        "bool": i1,
        "int8": i8,
        "int16": i16,
        "int32": i32,
        "int64": i64,
        "uint8": IntegerType(8, Signedness.UNSIGNED),
    }
    if name not in table:
        raise VerifyException(f"arrays of {name} have no element type")
    return table[name]


def nearest(value: float, dtype: np.dtype[Any]) -> Array:
    """`value` as an array of rank 0, rounded to a floating-point dtype.

    Beyond the ends of the type that is an infinity, as IEEE 754 rounds. Integers wrap around.
    """
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(dtype)


def holds_nan(array: Array) -> bool:
    """Whether an element is NaN; integers and booleans never are."""
    if array.dtype.kind in "iub":
        return False
    parts = np.nditer(array, ["external_loop", "buffered", "zerosize_ok"], buffersize=1 << 16)
    return any(np.isnan(part).any() for part in parts)
