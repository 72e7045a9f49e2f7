"""What the constructor of an op takes: its operands and properties, read off its definition.

Not here: the types of results, which `inference` computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    f64,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    OptOperandDef,
    OptPropertyDef,
    PropertyDef,
    VarResultDef,
)

from .shapes import integer, ints

Value: TypeAlias = SSAValue | Operation
"""What a builder accepts as an operand: a value, or an op with a single result."""

_ATTRIBUTES: dict[type[Attribute], Callable[[Any], Attribute]] = {
    DenseArrayBase: ints,
    FloatAttr: lambda value: FloatAttr(float(value), f64),
    IntegerAttr: integer,
    StringAttr: StringAttr,
    SymbolRefAttr: SymbolRefAttr,
}


class _Fields(NamedTuple):
    """The fields of an op.

    Attributes:
        operands: for each, whether it may be absent.
        properties: the definition of each, those of base classes first.
        results: for each, whether there may be none, or several.
        required: operands and properties without which there is no op.
    """

    operands: Mapping[str, bool]
    properties: Mapping[str, PropertyDef]
    results: Mapping[str, bool]
    required: Sequence[str]


class Parts(NamedTuple):
    """What an op is built of: `None` stands for an absent operand."""

    operands: list[Value | Sequence[Value] | None]
    properties: dict[str, Attribute | None]
    results: list[int]


def parts(op: IRDLOperation, given: Sequence[Any], named: Mapping[str, Any]) -> Parts:
    """The parts of an op, from its operands and then its properties, in their order or by name.

    An optional operand is passed over where no value stands in its place, so that properties can
    follow; a variadic one is a sequence. Properties are attributes, or the numbers, words and lists
    that they hold; those of a base class come before its own. What is left out, or `None`, has its
    default. Of an optional or variadic result, by name, the number is given.

    Raises:
        TypeError: a field is missing, given twice or not there.
    """
    fields = _fields_of(type(op))
    values, names = dict(named), [*fields.operands, *fields.properties]
    taken = f"{op.name} takes {', '.join(names)}"
    for value in given:
        if not isinstance(value, SSAValue | Operation | None):
            while names and fields.operands.get(names[0]):
                del names[0]
        name = names.pop(0) if names else ""
        if not name or name in values:
            raise TypeError(f"{taken}, got {len(given)} by position")
        values[name] = value
    if missing := [name for name in fields.required if values.get(name) is None]:
        raise TypeError(f"{taken}, got no {', '.join(missing)}")
    varied = [name for name, varies in fields.results.items() if varies]
    if unknown := values.keys() - {*fields.operands, *fields.properties, *varied}:
        raise TypeError(f"{taken}, got {', '.join(sorted(unknown))}")
    return Parts(
        [values.get(name) for name in fields.operands],
        {name: property_of(values.get(name), field) for name, field in fields.properties.items()},
        [int(values.get(n) or 0) if varies else 1 for n, varies in fields.results.items()],
    )


@cache
def _fields_of(kind: type[IRDLOperation]) -> _Fields:
    definition, bases = kind.get_irdl_definition(), kind.__mro__[::-1]

    def depth(name: str) -> int:
        return next((i for i, base in enumerate(bases) if name in vars(base)), len(bases))

    names = [n for n in definition.properties if not n.endswith("SegmentSizes")]
    properties = {name: definition.properties[name] for name in sorted(names, key=depth)}
    operands = {name: isinstance(field, OptOperandDef) for name, field in definition.operands}
    results = {name: isinstance(field, VarResultDef) for name, field in definition.results}
    required = [name for name, is_optional in operands.items() if not is_optional]
    for name, field in properties.items():
        if field.default_value is None and not isinstance(field, OptPropertyDef):
            required.append(name)
    return _Fields(operands, properties, results, required)


def property_of(value: Any, field: PropertyDef) -> Attribute | None:
    """A number, a word or a list as the attribute of a property; its default for `None`."""
    default = field.default_value
    if value is None or isinstance(value, Attribute):
        return default if value is None else value
    if isinstance(default, IntegerAttr) and default.type == i1:
        return BoolAttr.from_bool(value)
    (base,) = field.constr.get_bases() or (StringAttr,)
    return _ATTRIBUTES[base](value)
