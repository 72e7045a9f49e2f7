"""What a type is in the `llvm` dialect, and parts of types."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
    VectorType,
    f32,
    i16,
    i64,
)
from xdsl.dialects.llvm import LLVMArrayType, LLVMPointerType, LLVMStructType
from xdsl.ir import Attribute

NO_TYPE = "has no counterpart in the llvm dialect"


def llvm_type(type: Attribute) -> Attribute | None:
    """The type of the `llvm` dialect that stands for `type`; `None` if there is none.

    Sizes and places (`index`) are i64. A bf16 is the i16 with its bits, as the translation to LLVM
    IR has no other. Vectors have one dimension. A type that stands for itself is given back as the
    same object.
    """
    form = _FORMS.get(type.__class__)
    return None if form is None else form(type)


def _itself(type: Attribute) -> Attribute:
    return type


def _integer(type: IntegerType) -> Attribute | None:
    return type if type.signedness.data == Signedness.SIGNLESS else None


def _vector(type: VectorType[Attribute]) -> Attribute | None:
    if type.get_num_dims() != 1 or type.get_num_scalable_dims():
        return None
    element = llvm_type(type.element_type)
    if element is None:
        return None
    return type if element is type.element_type else like(type, element)


# A table, not a chain of `isinstance`: conversions ask for the type of every value.
_FORMS: dict[type[Attribute], Callable[[Any], Attribute | None]] = {
    IntegerType: _integer,
    Float16Type: _itself,
    Float32Type: _itself,
    Float64Type: _itself,
    LLVMArrayType: _itself,
    LLVMPointerType: _itself,
    LLVMStructType: _itself,
    IndexType: lambda _: i64,
    BFloat16Type: lambda _: i16,
    VectorType: _vector,
}


def converted(type: Attribute) -> Attribute:
    """`llvm_type` of a type that has one."""
    result = llvm_type(type)
    assert result is not None
    return result


def lanes(type: Attribute) -> int | None:
    """The number of elements of a vector, `None` for a scalar."""
    if not isinstance(type, VectorType):
        return None
    return cast("VectorType[Attribute]", type).get_shape()[0]


def element(type: Attribute) -> Attribute:
    """The element of a vector; a scalar itself."""
    if not isinstance(type, VectorType):
        return type
    return cast("VectorType[Attribute]", type).element_type


@cache
def vector(element: Attribute, count: int) -> VectorType[Attribute]:
    """The type of `count` elements in a register."""
    return VectorType(element, [count])


def like(type: Attribute, element: Attribute) -> Attribute:
    """The scalar, or the vector of as many elements as `type` has, of `element`."""
    count = lanes(type)
    return element if count is None else vector(element, count)


def width(type: Attribute) -> int:
    """The bits of an integer or a float, or of an element."""
    scalar = element(type)
    assert isinstance(scalar, IntegerType | AnyFloat)
    return cast("IntegerType[int] | AnyFloat", scalar).bitwidth


def integers(type: Attribute, bits: int | None = None) -> Attribute:
    """Integers with the shape of `type`, as wide as its elements unless told."""
    return like(type, IntegerType(width(type) if bits is None else bits))


def is_half(type: Attribute) -> bool:
    """Whether the elements are f16 or bf16: computed in f32."""
    return isinstance(element(type), Float16Type | BFloat16Type)


def computed_in(type: Attribute) -> Attribute:
    """The type that arithmetic on `type` is done in: f32 for f16 and bf16."""
    return like(type, f32) if is_half(type) else type


def suffix(type: Attribute) -> str:
    """How LLVM writes a type in the name of an intrinsic: `v16i32`, `f32`, `p0`."""
    if isinstance(type, LLVMPointerType):
        return "p0"
    count = lanes(type)
    scalar = element(type)
    name = f"{'i' if isinstance(scalar, IntegerType) else 'f'}{width(type)}"
    return name if count is None else f"v{count}{name}"
