"""Types as written: to types, and values to the types they are declared with."""

from __future__ import annotations

import math

from .diagnostics import Edit
from .dims import UNKNOWN, Dim, DimError, solve
from .elaborated import ConstantData, Value
from .habits import ELEMENTS, NOTHING, TENSORS, TYPES, nearest
from .nodes import (
    Binary,
    Dimension,
    Expression,
    Name,
    ScalarTypeNode,
    Span,
    TensorTypeNode,
    TypeNode,
    Unary,
    UnknownDimension,
)
from .session import Session
from .signatures import Opaque
from .types import (
    DENSE_ELEMENTS,
    FLOATS,
    INTEGERS,
    KEYWORDS,
    SCALARS,
    ScalarType,
    TensorType,
    Type,
    fits,
    shapes_equal,
)
from .values import POISON, Frame, Poison, Trit, describe, is_list

_KINDS = {keyword: kind for kind, keyword in KEYWORDS.items()}

TRIT_RULE = "a trit is -1, 0 or 1"
ONE_PACK = "only one dimension of a type may stand for several"
TERNARIZE_RULE = "a TernaryTensor takes a dense value only through ternarize(…)"
DECODE_RULE = "a SpikeTensor is used as a dense tensor only through decode(…)"


def wrapped(span: Span, function: str, more: str = "") -> tuple[Edit, Edit]:
    """The edits that make what stands at a place the argument of a function."""
    return Edit(span.start, f"{function}("), Edit(span.end, f"{more})")


def is_pack(name: str) -> bool:
    """Whether a dimension name stands for any number of axes."""
    return name.startswith("_")


class Annotations(Session):
    """Evaluates type nodes and converts values to declared types."""

    def tensor_kind(self, node: TensorTypeNode) -> tuple[str, str] | None:
        """Kind and element type of a tensor type node, or `None` after an error."""
        kind = _KINDS.get(node.kind)
        if kind is None:
            element = ELEMENTS.get(node.kind, node.kind)
            dense = {node.kind: f"Tensor<{element}>"} if element in DENSE_ELEMENTS else {}
            near = nearest(node.kind, _KINDS, TENSORS, TYPES, dense)
            self.error(
                f"unknown type '{node.kind}'",
                node.span.first(len(node.kind)),
                suggestion=NOTHING.get(node.kind) or near,
            )
            return None
        element = node.element
        if kind == "dense":
            if element == "trit":
                return "ternary", "trit"
            if element is not None and element not in DENSE_ELEMENTS:
                self.error(
                    f"unknown element type '{element}'",
                    node.element_span or node.span,
                    suggestion=nearest(element, [*DENSE_ELEMENTS, "trit"], ELEMENTS),
                )
                return None
            return kind, element or "float32"
        own = "trit" if kind == "ternary" else "bool"
        if element not in (None, own):
            self.error(
                f"a {node.kind} has elements of type {own}, found {element}",
                node.element_span or node.span,
                suggestion=f"did you mean '{own}'?",
            )
            return None
        return kind, own

    def scalar_type(self, node: ScalarTypeNode) -> ScalarType | None:
        """The scalar type of a node, or `None` after an error."""
        if node.name in SCALARS:
            return ScalarType(node.name)
        if node.name in _KINDS:
            self.error(
                f"'{node.name}' needs dimensions", node.span, suggestion=f"write {node.name}[…]"
            )
        else:
            self.error(
                f"unknown type '{node.name}'",
                node.span,
                suggestion=NOTHING.get(node.name)
                or nearest(node.name, [*SCALARS, *_KINDS], TYPES, ELEMENTS),
            )
        return None

    def run_time_type(self, node: TypeNode, frame: Frame) -> Type | None:
        """The type of a node whose names must all be known; `None` after an error."""
        if isinstance(node, ScalarTypeNode):
            return self.scalar_type(node)
        assert isinstance(node, TensorTypeNode)
        kind = self.tensor_kind(node)
        if kind is None:
            return None  # what stands in its brackets may be no sizes
        shape: list[Dim] = []
        broken = False
        for dimension in node.dimensions:
            pack = self._bound_pack(dimension, frame)
            if pack is not None:
                shape.extend(pack)
                continue
            size = self.dimension(dimension, frame)
            if size is None:
                broken = True
            else:
                shape.append(size)
        if broken:
            return None
        return self._tensor(kind, shape, node.span)

    def _tensor(self, kind: tuple[str, str], shape: list[Dim], span: Span) -> TensorType | None:
        name, element = kind
        if name == "spike" and not shape:
            self.error("a SpikeTensor needs a time axis", span)
            return None
        tensor = TensorType(name, element, tuple(shape))  # pyright: ignore[reportArgumentType]
        self.check_size(tensor, span)
        return tensor

    def _bound_pack(self, dimension: Dimension, frame: Frame) -> tuple[Dim, ...] | None:
        if isinstance(dimension, Name) and is_pack(dimension.identifier):
            bound = frame.dims.get(dimension.identifier)
            return bound if isinstance(bound, tuple) else None
        return None

    def dimension(self, dimension: Dimension, frame: Frame) -> Dim | None:
        """The size a dimension stands for; `None` after an error."""
        if isinstance(dimension, UnknownDimension):
            return UNKNOWN
        value = self.evaluate(dimension, frame, compile_time=True)
        if isinstance(value, Poison):
            return None
        if isinstance(value, Opaque):
            return UNKNOWN
        if isinstance(value, bool) or not isinstance(value, int | Dim):
            hint = "write a whole number, a name or ?"
            if isinstance(value, float) and value.is_integer() and value >= 1:
                hint = f"did you mean '{int(value)}'?"
            self.error(
                f"a dimension is an int, found {describe(value)}", dimension.span, suggestion=hint
            )
            return None
        if isinstance(value, int) and value < 1:
            self.error(
                f"a dimension must be at least 1, found {value}",
                dimension.span,
                suggestion="write the size, or a name or ? for one that is known at run time alone",
            )
            return None
        return Dim.lift(value)

    # Signatures

    def bind_symbols(self, node: TypeNode, frame: Frame, known: set[str]) -> None:
        """Make a symbolic dimension of every name in an argument's type that means nothing yet.

        Args:
            node: the type.
            frame: takes the dimensions.
            known: names that mean something outside the signature.
        """
        if isinstance(node, TensorTypeNode):
            packs = [d for d in node.dimensions if isinstance(d, Name) and is_pack(d.identifier)]
            if len(packs) > 1:
                self.error(ONE_PACK, packs[1].span)
            for dimension in node.dimensions:
                for name in dimension_names(dimension):
                    if name.identifier in known or name.identifier in frame.dims:
                        continue
                    if is_pack(name.identifier):
                        frame.dims[name.identifier] = (Dim.symbol(name.identifier),)
                    else:
                        frame.dims[name.identifier] = Dim.symbol(name.identifier)

    def match(
        self, node: TensorTypeNode, actual: TensorType, frame: Frame, known: set[str]
    ) -> str | None:
        """Bind the plain dimension names of an argument's type to an actual shape.

        Returns:
            Why the ranks cannot agree, or `None`.
        """
        dims = node.dimensions
        packs = [i for i, d in enumerate(dims) if isinstance(d, Name) and is_pack(d.identifier)]
        sizes: list[Dim | tuple[Dim, ...]] = list(actual.shape)
        if packs:
            first = packs[0]
            after = len(dims) - first - 1
            if len(packs) > 1:
                return ONE_PACK
            if len(sizes) < len(dims) - 1:
                return f"it needs at least {len(dims) - 1} axes"
            stop = len(sizes) - after
            middle = actual.shape[first:stop]
            sizes[first:stop] = [middle]
        if len(sizes) != len(dims):
            return f"it needs {len(dims)} axes and has {len(sizes)}"
        for dimension, size in zip(dims, sizes, strict=True):
            if isinstance(dimension, Name):
                name = dimension.identifier
                if name not in known and name not in frame.dims:
                    frame.dims[name] = size
        return None

    def solve_rest(
        self, node: TensorTypeNode, actual: TensorType, frame: Frame, known: set[str]
    ) -> None:
        """Bind names that occur only inside arithmetic, such as `M` of `Tensor[2 * M]`."""
        if len(node.dimensions) != actual.rank:
            return
        for dimension, size in zip(node.dimensions, actual.shape, strict=True):
            free = {
                n.identifier
                for n in dimension_names(dimension)
                if n.identifier not in known and n.identifier not in frame.dims
            }
            if len(free) != 1 or isinstance(dimension, UnknownDimension):
                continue
            (name,) = free
            frame.dims[name] = Dim.symbol("\0")
            value = self.evaluate(dimension, frame, compile_time=True)
            del frame.dims[name]
            solution = solve(value, "\0", size) if isinstance(value, Dim) else None
            frame.dims[name] = UNKNOWN if solution is None else solution

    # Conversion

    def convert_scalar(self, value: object, name: str, span: Span, what: str) -> object:
        """A compile-time value as a scalar type; `POISON` after an error."""
        if isinstance(value, Poison):
            return POISON
        if isinstance(value, Opaque):
            same = {value.kind, name} <= {"int", "float"} or value.kind == name
            if same or (value.kind in ("int", "trit") and name in (*INTEGERS, "trit", *FLOATS)):
                return value if name != "float" else Opaque("float")
            if value.kind == "float" and name in FLOATS:
                return value
            return self._not_convertible(value, name, span, what)
        number = value.value if isinstance(value, Trit) else value
        if name == "trit":
            if isinstance(value, Trit):
                return value
            if isinstance(number, int) and not isinstance(number, bool):
                return self.trit(number, span)
            if isinstance(number, Dim):
                return Opaque("trit")
            if isinstance(number, float):
                return self.error(f"{TRIT_RULE}, found {number}", span)
        elif (name == "bool" and isinstance(number, bool)) or (
            name == "string" and isinstance(number, str)
        ):
            return number
        elif name == "float" or name in FLOATS:
            if isinstance(number, Dim):
                return self.unknown_number(number, "float", span)
            if isinstance(number, int | float) and not isinstance(number, bool):
                return float(number)
        elif (name == "int" or name in INTEGERS) and not isinstance(number, bool):
            if isinstance(number, Dim):
                return number
            if isinstance(number, int):
                if name != "int" and not fits(number, name):
                    return self.error(f"{number} does not fit {name}", span)
                return number
        return self._not_convertible(value, name, span, what)

    def _not_convertible(self, value: object, name: str, span: Span, what: str) -> Poison:
        description = describe(value)
        hint = None
        if isinstance(value, float) and value.is_integer() and name in ("int", *INTEGERS):
            hint = f"did you mean '{int(value)}'?"
        return self.error(f"{what} needs {name}, found {description}", span, suggestion=hint)

    def trit(self, number: int, span: Span) -> object:
        """A trit literal's value."""
        if number not in (-1, 0, 1):
            hint = f"did you mean '{max(-1, min(1, number))}'?"
            return self.error(f"{TRIT_RULE}, found {number}", span, suggestion=hint)
        return Trit(number)

    def unknown_number(self, size: Dim, kind: str, span: Span) -> object:
        """A symbolic size where a known number is needed."""
        size = self.assumptions.normalise(size)
        value = size.constant()
        if value is not None:
            return float(value) if kind == "float" else value
        if not self.is_final or size.symbols() & self.assumptions.generics:
            return Opaque(kind)
        return self.error(f"the size {size} is known only at run time", span)

    def convert(self, value: object, declared: Type, span: Span, what: str) -> object:
        """A value as its declared type; `POISON` after an error.

        Args:
            value: what was computed.
            declared: the type it must have.
            span: what to point at.
            what: the beginning of the message, such as "'y'".
        """
        if isinstance(value, Poison):
            return POISON
        if isinstance(declared, ScalarType):
            if not isinstance(value, Value):
                return self.convert_scalar(value, declared.name, span, what)
            if declared.is_compile_time:
                return self.error(
                    f"{what} needs {declared}, known while compiling, found {value.type}", span
                )
            declared = declared.tensor
        if is_list(value):
            return self.tensor_constant(value, declared, span, what)
        if isinstance(value, Opaque):
            return POISON
        if not isinstance(value, Value):
            if not declared.shape and isinstance(value, bool | int | float | Trit):
                number = self.convert_scalar(value, declared.element, span, what)
                if isinstance(number, Trit):
                    number = number.value
                if isinstance(number, bool | int | float):
                    return self.constant(number, declared, span)
                return POISON
            return self.error(f"{what} needs {declared}, found {describe(value)}", span)
        return self._convert_tensor(value, declared, span, what)

    def _convert_tensor(self, value: Value, declared: TensorType, span: Span, what: str) -> object:
        actual = value.type
        if actual.kind != declared.kind:
            if declared.kind == "ternary":
                return self.error(
                    f"{what} needs {declared}, found {actual}: {TERNARIZE_RULE}",
                    span,
                    suggestion="write ternarize(…)",
                    edits=wrapped(span, "ternarize"),
                )
            if actual.kind == "spike":
                return self.error(
                    f"{what} needs {declared}, found {actual}: {DECODE_RULE}",
                    span,
                    suggestion="write decode(…)",
                    edits=wrapped(span, "decode"),
                )
            if declared.kind == "spike":
                return self.error(
                    f"{what} needs {declared}, found {actual}",
                    span,
                    suggestion="make spikes with encode(…) or a neuron such as lif(…)",
                )
        elif actual.element != declared.element:
            return self.error(
                f"{what} needs {declared}, found {actual}",
                span,
                suggestion=f'write cast(…, dtype="{declared.element}")',
                edits=wrapped(span, "cast", f', dtype="{declared.element}"'),
            )
        if not shapes_equal(actual.shape, declared.shape, self.assumptions):
            return self.error(
                f"{what} needs {declared}, found {actual}{self._difference(actual, declared)}",
                span,
                suggestion=f"write {actual} where {declared} is declared, or compute that",
            )
        if actual.kind != declared.kind:
            if declared.element == "bool":
                return self.error(f"{what} needs {declared}, found {actual}", span)
            return self.cast(value, declared.element, span)
        return value

    def _difference(self, actual: TensorType, declared: TensorType) -> str:
        if actual.rank != declared.rank:
            return f" ({actual.rank} axes, not {declared.rank})"
        for axis, (a, b) in enumerate(zip(actual.shape, declared.shape, strict=True)):
            if not self.assumptions.equal(a, b):
                return f" (axis {axis} is {a}, not {b})" if actual.rank > 1 else ""
        return ""

    def tensor_constant(
        self, items: tuple[object, ...], declared: TensorType, span: Span, what: str
    ) -> object:
        """A nested list of numbers as a constant tensor."""
        if declared.kind == "spike":
            return self.error(f"{what} needs {declared}, found a list", span)
        shape = [Dim.of(size) for size in _list_shape(items)]
        if not shapes_equal(shape, declared.shape, self.assumptions):
            listed = ", ".join(str(d) for d in shape)
            return self.error(f"{what} needs {declared}, found a list of shape [{listed}]", span)
        data = self._constant_data(items, len(shape), declared.element, span, what)
        if data is None:
            return POISON
        return self.constant(data, TensorType(declared.kind, declared.element, tuple(shape)), span)

    def _constant_data(
        self, item: object, depth: int, element: str, span: Span, what: str
    ) -> ConstantData | None:
        if depth == 0:
            value = self.convert_scalar(item, element, span, f"an element of {what}")
            value = value.value if isinstance(value, Trit) else value
            return value if isinstance(value, bool | int | float) else None
        if not is_list(item):
            self.error(f"the rows of {what} differ in length", span)
            return None
        rows: list[ConstantData] = []
        length: int | None = None
        for part in item:
            row = self._constant_data(part, depth - 1, element, span, what)
            if row is None:
                return None
            size = len(row) if isinstance(row, tuple) else -1
            if length is not None and size != length:
                self.error(f"the rows of {what} differ in length", span)
                return None
            length = size
            rows.append(row)
        return tuple(rows)

    def exact_quotient(self, a: int | Dim, b: int | Dim, span: Span) -> object:
        """`a / b` of compile-time integers."""
        try:
            quotient = Dim.lift(a) / Dim.lift(b)
        except DimError as error:
            whole = isinstance(b, int) and b == 0
            return self.error(
                f"{error}" if whole else f"{error}: '/' of ints is exact",
                span,
                suggestion=None if whole else "write one side as a float",
            )
        self.assumptions.assume_whole(quotient)
        return quotient.simplified()

    def checked_int(self, value: int, span: Span) -> object:
        """A compile-time integer of at most 64 bits."""
        if not -(2**63) <= value < 2**63:
            return self.error("the number does not fit in 64 bits", span)
        return value

    def checked_float(self, value: float, span: Span) -> object:
        """A compile-time float that is finite."""
        if not math.isfinite(value):
            return self.error("the number is not finite", span)
        return value


def _list_shape(items: object) -> list[int]:
    shape: list[int] = []
    while is_list(items):
        shape.append(len(items))
        if not items:
            break
        items = items[0]
    return shape


def dimension_names(dimension: Dimension) -> list[Name]:
    """The names in a dimension, from left to right."""
    names: list[Name] = []
    stack: list[Expression | UnknownDimension] = [dimension]
    while stack:
        node = stack.pop()
        if isinstance(node, Name):
            names.append(node)
        elif isinstance(node, Binary):
            stack.extend((node.right, node.left))
        elif isinstance(node, Unary):
            stack.append(node.operand)
    return names
