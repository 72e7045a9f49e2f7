"""What the rules of the `.tri` frontend insert ops with, and how they read an operation.

Not here: the rules themselves, in `tri_builtins`, `tri_spiking` and `tri_trains`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import SupportsInt

import numpy as np
from xdsl.dialects.builtin import (
    FileLineColLoc,
    TensorType,
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
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import tensor
from ..dialects.elements import numpy_dtype
from ..dialects.inference import tensor_type
from ..dialects.parameters import dense_constant
from ..dialects.shapes import DYNAMIC
from ..dialects.tensor.storage import INLINE_LIMIT
from ..dialects.ternary.types import trit
from ..ir.arrays import Array
from ..ir.language import elaborated
from ..ir.language.nodes import Span
from ..ir.language.types import TensorType as LanguageType
from ..ir.locations import file_location
from ..ir.store import ParameterStore

ELEMENTS: dict[str, Attribute] = {
    "float16": f16,
    "bfloat16": bf16,
    "float32": f32,
    "float64": f64,
    "int8": i8,
    "int16": i16,
    "int32": i32,
    "int64": i64,
    "bool": i1,
    "trit": trit,
}


def ir_type(type: LanguageType) -> TensorType[Attribute]:
    """The builtin tensor type of a language type; symbolic dimensions become dynamic."""
    shape = [DYNAMIC if size is None else size for size in type.static_shape()]
    return TensorType(ELEMENTS[type.element], shape)


def location(span: Span) -> FileLineColLoc:
    """`loc("file":line:column)`."""
    return file_location(span.file, span.line, span.column)


@dataclass
class Builder:
    """Inserts ops at the end of `block`, each with the location of the value being lowered."""

    block: Block
    store: ParameterStore
    span: Span

    def add(self, op: Operation) -> SSAValue:
        """Insert `op`; its first result."""
        op.location = location(self.span)
        self.block.add_op(op)
        return op.results[0]

    def constant(self, values: Array, element: Attribute) -> SSAValue:
        """A constant of any size: inline where small or uniform, else in the parameter store."""
        array = np.asarray(values, dtype=numpy_dtype(element), order="C")
        type = TensorType(element, array.shape)
        uniform = array.size > 0 and (array == array.reshape(-1)[0]).all()
        if array.size <= INLINE_LIMIT or uniform:
            return self.add(dense_constant(array, element))
        return self.add(tensor.ParameterOp(self.store.add("constant", array), type, buffer=True))

    def scalar(self, value: float, element: Attribute) -> SSAValue:
        """A constant of rank 0."""
        return self.constant(np.array(value), element)

    def convert(self, value: SSAValue, element: Attribute) -> SSAValue:
        """`value` with another element type."""
        if tensor_type(value).element_type == element:
            return value
        return self.add(tensor.ConvertOp(value, element))


Rule = Callable[[Builder, elaborated.Operation, list[SSAValue]], SSAValue | list[SSAValue]]


def simple(kind: type[Operation], **names: str) -> Rule:
    """A rule for an op whose constructor takes the operands and, by name, some attributes."""

    def rule(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
        options = {option: op.attributes[attribute] for option, attribute in names.items()}
        return builder.add(kind(*operands, **options))  # pyright: ignore[reportArgumentType]

    return rule


def optional(
    op: elaborated.Operation, operands: list[SSAValue], names: Sequence[str]
) -> dict[str, SSAValue | None]:
    """The trailing operands by name, `None` where the call leaves one out."""
    present = [name for name in names if op.attributes[f"has_{name}"]]
    values: dict[str, SSAValue | None] = dict.fromkeys(names)
    if present:
        values.update(zip(present, operands[-len(present) :], strict=True))
    return values


def ints(values: Iterable[SupportsInt]) -> tuple[int, ...]:
    """Sizes that have become known, as numbers."""
    return tuple(map(int, values))


def filled(builder: Builder, like: SSAValue, value: float) -> SSAValue:
    """A tensor of the type of `like`, every element `value`."""
    type = tensor_type(like)
    if DYNAMIC not in type.get_shape():
        return builder.constant(np.full(type.get_shape(), value), type.element_type)
    number = builder.scalar(value, type.element_type)
    same = builder.add(tensor.CompareOp(like, like, predicate="eq"))
    return builder.add(tensor.WhereOp(same, number, number))
