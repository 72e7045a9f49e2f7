"""What an expression can stand for while a program is evaluated.

Run-time values are `elaborated.Value`s. Compile-time ones are Python's `bool int float str`,
`Dim` for a symbolic size, `Opaque` for a generic argument not known yet, `Trit`, tuples for
lists, and the references below.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import TypeIs

from .dims import UNKNOWN, Dim
from .elaborated import Value
from .loader import Module
from .nodes import FunctionDef, LayerDef, Span, TypeNode
from .signatures import Builtin, Opaque
from .types import Type


class Poison:
    """Stands for a value whose error has been reported; silences what follows from it."""

    def __repr__(self) -> str:
        return "POISON"


POISON = Poison()


@dataclass(frozen=True)
class Trit:
    """A compile-time -1, 0 or 1 of type `trit`."""

    value: int


@dataclass(frozen=True)
class Condition(Opaque):
    """The unknown outcome of `symbol == value` (or `!=`): what a branch may assume."""

    symbol: str = ""
    value: Dim = UNKNOWN
    is_equal: bool = True


@dataclass(frozen=True)
class Range:
    """`range(start, stop, step)`."""

    numbers: range


@dataclass(frozen=True)
class SymbolicRange:
    """A `range` with a bound that is not known yet."""


@dataclass(eq=False)
class LayerInstance:
    """A layer with its generic arguments.

    Attributes:
        definition: the declaration.
        module: the file it stands in.
        path: the dotted prefix of its parameters, `""` for the entry.
        generics: values of the generic arguments.
        members: parameters, sub-layers, constants and functions by name.
        span: the call that made it.
    """

    definition: LayerDef
    module: Module
    path: str
    span: Span
    generics: dict[str, object] = field(default_factory=dict[str, object])
    members: dict[str, object] = field(default_factory=dict[str, object])
    is_broken: bool = False


@dataclass(frozen=True, eq=False)
class LayerRef:
    """The name of a layer."""

    definition: LayerDef
    module: Module


@dataclass(frozen=True, eq=False)
class FunctionRef:
    """A function, of the layer `instance` or of a file."""

    definition: FunctionDef
    module: Module
    instance: LayerInstance | None


@dataclass(frozen=True)
class BuiltinRef:
    """The name of a built-in; `builtin` is `None` for `range`."""

    name: str
    builtin: Builtin | None


@dataclass
class Local:
    """A local binding; `type` is the one it was declared with."""

    value: object
    type: TypeNode | None = None
    span: Span | None = None


@dataclass(eq=False)
class Frame:
    """Where names are looked up: one function call, or the members of one layer.

    Attributes:
        module: the file.
        instance: the layer, or `None` in a free function or a constant.
        function: the function, or `None` among the members of a layer.
        dims: dimensions bound by the signature; a name that begins with `_` stands for several.
        blocks: local bindings, innermost last.
        results: the types that a returned value must have.
    """

    module: Module
    instance: LayerInstance | None = None
    function: FunctionDef | None = None
    dims: dict[str, Dim | tuple[Dim, ...]] = field(default_factory=dict[str, Dim | tuple[Dim, ...]])
    blocks: list[dict[str, Local]] = field(default_factory=lambda: [dict[str, Local]()])
    results: list[Type] = field(default_factory=list[Type])


def is_list(value: object) -> TypeIs[tuple[object, ...]]:
    """Whether a value is a list."""
    return isinstance(value, tuple)


def describe(value: object) -> str:
    """The kind of a value, for messages."""
    match value:
        case bool():
            return "a bool"
        case int() | Dim():
            return "an int"
        case float():
            return "a float"
        case str():
            return "a string"
        case Trit():
            return "a trit"
        case Opaque(kind=kind):
            return f"a value of type {kind}"
        case tuple():
            return "a list"
        case Range() | SymbolicRange():
            return "a range"
        case LayerInstance():
            return f"a layer ({value.definition.name})"
        case LayerRef():
            return f"the layer {value.definition.name}"
        case FunctionRef():
            return f"the function {value.definition.name}"
        case BuiltinRef():
            return f"the built-in function {value.name}"
        case Value():
            return str(value.type)
        case _:
            return "no value"
