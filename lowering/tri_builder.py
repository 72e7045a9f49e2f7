"""How the rules of the `.tri` front end read an operation: its types, attributes and operands.

Not here: the rules themselves, in `tri_builtins`, `tri_spiking` and `tri_trains`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects.inference import tensor_type
from ..dialects.shapes import DYNAMIC
from ..dialects.tensor.formula import Formula
from ..dialects.ternary.types import trit
from ..ir.language import elaborated
from ..ir.language.nodes import Span
from ..ir.language.types import TensorType as LanguageType
from ..ir.locations import file_location
from .ir_builder import Builder

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
        return builder.numbers(np.full(type.get_shape(), value), type.element_type)
    return Formula(builder, like).filled(value).value
