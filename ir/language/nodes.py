"""The syntax tree of the `.tri` language: one frozen dataclass a construct, each with its span.

Built by `parser`, read by `format` and `checker`. The tree holds what the text says and nothing
more: no types are resolved here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar, cast, dataclass_transform

T = TypeVar("T")


class Span(NamedTuple):
    """A range of source text; lines and columns are 1-based, the end column is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def start(self) -> Span:
        """The empty place where it begins."""
        return self.first(0)

    @property
    def end(self) -> Span:
        """The empty place right behind it."""
        return self.last(0)

    def first(self, length: int) -> Span:
        """So many characters from where it begins."""
        return Span(self.file, self.line, self.column, self.line, self.column + length)

    def last(self, length: int) -> Span:
        """So many characters before its end."""
        line, column = self.end_line, self.end_column
        return Span(self.file, line, column - length, line, column)

    def to(self, last: Span) -> Span:
        """The place from its start to the end of `last`."""
        return Span(self.file, self.line, self.column, last.end_line, last.end_column)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def construct(cls: type[T]) -> type[T]:
    """A frozen dataclass to type checkers, and one of two methods when it runs: a program makes
    thousands of nodes, and starts by making forty such classes."""
    return dataclass(eq=False, repr=False)(cls)


@cache
def _compared_fields(node: type[Node]) -> list[str]:
    """The names of what takes part in equality."""
    return [f.name for f in fields(node) if f.compare]


@construct
class Node:
    """Anything with a place in the source. Spans take no part in equality."""

    span: Span = field(compare=False, kw_only=True, repr=False)

    def _compared(self) -> list[object]:
        return [getattr(self, name) for name in _compared_fields(type(self))]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._compared() == cast(Node, other)._compared()

    def __hash__(self) -> int:
        return hash((type(self), *self._compared()))

    def __repr__(self) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
        return f"{type(self).__name__}({', '.join(shown)})"


@construct
class Named(Node):
    """What binds a name, and where that stands."""

    name: str
    name_span: Span = field(compare=False, kw_only=True, repr=False)


# Expressions


@construct
class Expression(Node):
    """A value."""


@construct
class IntegerLiteral(Expression):
    """`42`, `0x2A`, `0b101010`; `text` keeps the spelling."""

    value: int
    text: str


@construct
class FloatLiteral(Expression):
    """`1.5`, `1e-3`; `text` keeps the spelling."""

    value: float
    text: str


@construct
class BoolLiteral(Expression):
    """`true` or `false`."""

    value: bool


@construct
class StringLiteral(Expression):
    """`"rate"`; `value` is unescaped."""

    value: str


@construct
class TritLiteral(Expression):
    """`trit(-1)`; the checker refuses values outside {-1, 0, 1}."""

    value: Expression


@construct
class ListLiteral(Expression):
    """`[a, b, c]`."""

    elements: tuple[Expression, ...]


@construct
class Name(Expression):
    """A reference to a binding."""

    identifier: str


@construct
class Unary(Expression):
    """`-x` or `!x`."""

    operator: str
    operand: Expression


@construct
class Binary(Expression):
    """`a OP b`; the operators are those of language.md."""

    operator: str
    left: Expression
    right: Expression
    operator_span: Span = field(compare=False, kw_only=True, repr=False)


@construct
class Argument(Node):
    """One call argument; `name` is `None` for a positional one."""

    name: str | None
    value: Expression


@construct
class Call(Expression):
    """`callee(arguments)`: a built-in, a function, a layer constructor or a sub-layer."""

    callee: Expression
    arguments: tuple[Argument, ...]


@construct
class Slice(Node):
    """`start:stop:step` inside an index; each part may be absent."""

    start: Expression | None
    stop: Expression | None
    step: Expression | None


@construct
class Index(Expression):
    """`base[i, a:b]`."""

    base: Expression
    indices: tuple[Expression | Slice, ...]


@construct
class Attribute(Expression):
    """`base.name`: a member of a sub-layer (`block.conv`)."""

    base: Expression
    name: str

    @property
    def name_span(self) -> Span:
        """The place of the name behind the last dot."""
        return self.span.last(len(self.name))


# Types


@construct
class UnknownDimension(Node):
    """The dimension `?`."""


Dimension = Expression | UnknownDimension


@construct
class TypeNode(Node):
    """A type as written."""


@construct
class ScalarTypeNode(TypeNode):
    """`int`, `float`, `trit`, `int8`, `float32`, ..."""

    name: str


@construct
class TensorTypeNode(TypeNode):
    """`Tensor[..]`, `Tensor<int8>[..]`, `TernaryTensor[..]`, `SpikeTensor[T, ..]`.

    `element` is `None` where the text gives none. The long form `Tensor<int8, [dims]>` gives the
    same node with `long_form` set, so that the formatter keeps the user's spelling.
    """

    kind: str
    element: str | None
    dimensions: tuple[Dimension, ...]
    long_form: bool = False
    element_span: Span | None = field(default=None, compare=False, kw_only=True, repr=False)


# Statements


@construct
class Statement(Node):
    """One step of a function body."""


@construct
class Let(Named, Statement):
    """`let name: type = value`; at top level or in a layer, a constant or sub-layer."""

    type: TypeNode | None
    value: Expression


@construct
class Assign(Named, Statement):
    """`name = value`: rebinding."""

    value: Expression


@construct
class Return(Statement):
    """`return value`."""

    value: Expression | None


@construct
class If(Statement):
    """`if condition { … } else { … }`; `else if` nests an `If` in `otherwise`."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@construct
class For(Named, Statement):
    """`for name in iterable { … }`, unrolled at compile time."""

    iterable: Expression
    body: tuple[Statement, ...]


@construct
class ExpressionStatement(Statement):
    """An expression alone on a line; the checker refuses it (no effect)."""

    value: Expression


@construct
class ErrorStatement(Statement):
    """A statement with a syntax error, which is reported already.

    Only a tree from `TritonParser.parse_with_recovery` holds one. `names` are those the statement
    would have bound, so that later uses of them need no second message.
    """

    names: tuple[str, ...] = ()


# Declarations


@construct
class Declaration(Node):
    """A top-level item or a layer member."""


@construct
class ErrorDeclaration(Declaration):
    """A top-level item or a member with a syntax error; the counterpart of `ErrorStatement`."""

    names: tuple[str, ...] = ()


@construct
class Import(Declaration):
    """`import "path.tri"`."""

    path: str


@construct
class Const(Named, Declaration):
    """`const NAME: int = 10`."""

    type: TypeNode | None
    value: Expression


@construct
class GenericDef(Node):
    """A generic argument of a layer: `channels: int`, `stride: int = 1`."""

    name: str
    type: TypeNode
    default: Expression | None

    @property
    def name_span(self) -> Span:
        """The place of the name."""
        return self.span.first(len(self.name))


@construct
class ArgumentDef(Node):
    """An argument of a function: `x: Tensor[N, 784]`."""

    name: str
    type: TypeNode

    @property
    def name_span(self) -> Span:
        """The place of the name."""
        return self.span.first(len(self.name))


@construct
class ParamDef(Named, Declaration):
    """`param weights: TernaryTensor[784, 10]` or `buffer …`.

    `param_type` and `shape` are the short view that custom back ends read.
    """

    type: TypeNode
    is_buffer: bool = False

    @property
    def param_type(self) -> str:
        """`"TernaryTensor"`, `"Tensor"`, `"SpikeTensor"` or a scalar type's name."""
        if isinstance(self.type, TensorTypeNode):
            return self.type.kind
        assert isinstance(self.type, ScalarTypeNode)
        return self.type.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The literal dimensions; `()` for a scalar or where a dimension is not a literal."""
        if not isinstance(self.type, TensorTypeNode):
            return ()
        dims = self.type.dimensions
        if not all(isinstance(d, IntegerLiteral) for d in dims):
            return ()
        return tuple(d.value for d in dims if isinstance(d, IntegerLiteral))


@construct
class FunctionDef(Named, Declaration):
    """`fn forward(x: T) -> U { … }`."""

    arguments: tuple[ArgumentDef, ...]
    result: TypeNode | None
    body: tuple[Statement, ...]


@construct
class MemberIf(Declaration):
    """`if bias { param … }` around members of a layer; the condition is a compile-time one."""

    condition: Expression
    then: tuple[Member, ...]
    otherwise: tuple[Member, ...]


Member = ParamDef | Let | FunctionDef | MemberIf | ErrorDeclaration


@construct
class LayerDef(Named, Declaration):
    """`layer Name(generics) -> Type { members }`."""

    generics: tuple[GenericDef, ...]
    result: TypeNode | None
    members: tuple[Member, ...]

    @property
    def params(self) -> tuple[ParamDef, ...]:
        """The `param` and `buffer` members written directly in the layer, in order."""
        return tuple(m for m in self.members if isinstance(m, ParamDef))

    @property
    def functions(self) -> tuple[FunctionDef, ...]:
        """The `fn` members, in order."""
        return tuple(m for m in self.members if isinstance(m, FunctionDef))


TopLevel = Import | Const | Let | FunctionDef | LayerDef | ErrorDeclaration


@construct
class Program(Node):
    """A whole file.

    `source` and `path` are kept for diagnostics and imports; `path` is `None` for text that came
    from no file.
    """

    declarations: tuple[TopLevel, ...]
    source: str = field(compare=False, repr=False)
    path: Path | None = field(default=None, compare=False)

    @property
    def layers(self) -> Sequence[LayerDef]:
        """The layers of this file, in order."""
        return [d for d in self.declarations if isinstance(d, LayerDef)]
