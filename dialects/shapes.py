"""Shape and element-type arithmetic of ranked tensors with static or dynamic dimensions.

Pure functions over `TensorType` and tuples; nothing here knows an op. A dynamic dimension is
`DYNAMIC`, which agrees with everything.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from math import prod
from typing import TypeAlias, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BFloat16Type,
    BytesAttr,
    DenseArrayBase,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerAttr,
    IntegerType,
    ShapedType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

AnyTensor: TypeAlias = TensorType[Attribute]
Shape: TypeAlias = tuple[int, ...]

DYNAMIC = DYNAMIC_INDEX


class ShapeError(VerifyException):
    """Shapes, element types or properties that do not fit together."""


class SizedType(ShapedType, ABC):
    """A type other than a builtin tensor whose sizes may be `?`; it has nothing but its sizes."""

    @abstractmethod
    def with_shape(self, shape: Sequence[int]) -> Attribute:
        """The same type with another shape."""


def ints(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """`array<i64: …>` of `values`."""
    try:
        # As `from_list` packs them, which looks at each number's range for twenty times as long.
        return DenseArrayBase(i64, BytesAttr(struct.pack(f"<{len(values)}q", *values)))
    except struct.error:
        return DenseArrayBase.from_list(i64, values)


def integer(value: int) -> IntegerAttr[IntegerType]:
    """`value : i64`."""
    return IntegerAttr(value, i64)


def with_shape(type: AnyTensor, shape: Sequence[int]) -> AnyTensor:
    """`type` with another shape."""
    return TensorType(type.element_type, shape, type.encoding)


def with_element(type: AnyTensor, element: Attribute) -> AnyTensor:
    """`type` with another element type."""
    return TensorType(element, type.get_shape(), type.encoding)


def is_float(type: AnyTensor) -> bool:
    """Whether the elements are floating-point numbers."""
    return isinstance(type.element_type, AnyFloat)


@cache
def bits_type(width: int) -> IntegerType:
    """iN."""
    return IntegerType(width)


def bit_width(element: Attribute) -> int | None:
    """The number of bits of an integer type; `None` for other types."""
    # A final class: `isinstance` of it takes longer, and every value of a circuit is asked.
    if type(element) is not IntegerType:
        return None
    return element.width.data


def is_integer(type: AnyTensor) -> bool:
    """Whether the elements are integers of more than one bit."""
    width = bit_width(type.element_type)
    return width is not None and width > 1


def check_element(type: AnyTensor) -> None:
    """Refuse elements that are none of f16, bf16, f32, f64 and integers of 1 to 64 bits."""
    element = type.element_type
    if isinstance(element, Float16Type | BFloat16Type | Float32Type | Float64Type):
        return
    if bit_width(element) not in (1, 8, 16, 32, 64):
        raise ShapeError(f"expects f16, bf16, f32, f64, i1, i8, i16, i32 or i64, got {type}")


def compatible(actual: Attribute, expected: Attribute) -> bool:
    """Whether two types agree in rank, element type and every dimension that both know."""
    if isinstance(actual, SizedType) and isinstance(expected, SizedType):
        return type(actual) is type(expected) and _sizes_agree(
            actual.get_shape(), expected.get_shape()
        )
    if not (isinstance(actual, TensorType) and isinstance(expected, TensorType)):
        return actual == expected
    a_type, e_type = cast(AnyTensor, actual), cast(AnyTensor, expected)
    return a_type.element_type == e_type.element_type and _sizes_agree(
        a_type.get_shape(), e_type.get_shape()
    )


def _sizes_agree(a: Shape, e: Shape) -> bool:
    return len(a) == len(e) and all(x == y or DYNAMIC in (x, y) for x, y in zip(a, e, strict=True))


def merge_dim(a: int, b: int, what: str) -> int:
    """The one size that two dimensions share."""
    if a == DYNAMIC:
        return b
    if b not in (a, DYNAMIC):
        raise ShapeError(f"expects equal {what}, got {a} and {b}")
    return a


def broadcast(*shapes: Shape) -> Shape:
    """NumPy's broadcasting rule; a dynamic dimension gives way to a known one above 1."""
    rank = max(len(s) for s in shapes)
    result: list[int] = []
    for axis in range(-rank, 0):
        dims = [s[axis] for s in shapes if len(s) >= -axis]
        known = {d for d in dims if d not in (1, DYNAMIC)}
        if len(known) > 1:
            shown = " and ".join(map(show_shape, shapes))
            raise ShapeError(f"cannot broadcast shapes {shown} together")
        result.append(known.pop() if known else DYNAMIC if DYNAMIC in dims else 1)
    return tuple(result)


def show_shape(shape: Shape) -> str:
    """`shape` as in a type: `?x8`; "scalar" for rank 0."""
    return "x".join("?" if d == DYNAMIC else str(d) for d in shape) or "scalar"


def broadcasts_to(shape: Shape, target: Shape) -> bool:
    """Whether `shape` broadcasts to exactly `target`."""
    try:
        return len(shape) <= len(target) and all(
            r == t or DYNAMIC in (r, t)
            for r, t in zip(broadcast(shape, target), target, strict=True)
        )
    except ShapeError:
        return False


def axis_index(axis: int, rank: int, what: str = "axis") -> int:
    """`axis` counted from the front; negative ones count from the back."""
    if not -rank <= axis < rank:
        raise ShapeError(f"expects {what} in [{-rank}, {rank}), got {axis}")
    return axis % rank


def axes_behind(axis: int, rank: int) -> int:
    """How many axes stand behind one, which a vector along it broadcasts to; 0 for one number."""
    return rank - 1 - axis % rank if rank else 0


def element_count(shape: Shape) -> int | None:
    """The number of elements, or `None` with a dynamic dimension."""
    return None if DYNAMIC in shape else prod(shape)


def window_output(size: int, kernel: int, stride: int, low: int, high: int, dilation: int) -> int:
    """Output length of a sliding window: floor((n + pads - d·(k - 1) - 1) / s) + 1."""
    if DYNAMIC in (size, kernel):
        return DYNAMIC
    span = dilation * (kernel - 1) + 1
    if size + low + high < span:
        raise ShapeError(f"expects a window of at most {size + low + high}, got {span}")
    return (size + low + high - span) // stride + 1


def matmul_shape(lhs: Shape, rhs: Shape) -> Shape:
    """NumPy's `matmul` for operands of rank 1 or more, batch dimensions broadcast."""
    if not lhs or not rhs:
        raise ShapeError("expects operands of rank 1 or more, got a scalar")
    rows = () if len(lhs) == 1 else (lhs[-2],)
    columns = () if len(rhs) == 1 else (rhs[-1],)
    inner = rhs[max(len(rhs) - 2, 0)]
    merge_dim(lhs[-1], inner, "inner dimensions")
    batch = broadcast(lhs[:-2], rhs[:-2]) if len(lhs) > 2 or len(rhs) > 2 else ()
    return (*batch, *rows, *columns)
