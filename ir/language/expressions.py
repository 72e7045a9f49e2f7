"""Evaluation of names, literals, operators, indices and members."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .builtins import BUILTINS, COMPILE_TIME_FUNCTIONS
from .diagnostics import Edit, suggest
from .dims import Dim, DimError
from .elaborated import Value
from .habits import METHODS
from .indexing import Indexing
from .nodes import (
    Attribute,
    Binary,
    BoolLiteral,
    Call,
    ErrorDeclaration,
    Expression,
    FloatLiteral,
    FunctionDef,
    Index,
    IntegerLiteral,
    LayerDef,
    ListLiteral,
    MemberIf,
    Name,
    Span,
    StringLiteral,
    TritLiteral,
    Unary,
)
from .signatures import Opaque
from .tensor_operators import COMPARISONS
from .values import (
    POISON,
    BuiltinRef,
    Condition,
    Frame,
    FunctionRef,
    LayerInstance,
    LayerRef,
    Poison,
    Trit,
    describe,
    is_list,
)

Number = bool | int | float | Trit

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLOAT_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}


class Expressions(Indexing):
    """Evaluates every expression except calls."""

    called: Call | None = None
    """The call whose callee is evaluated, for what a method is called here."""

    def evaluate(self, expression: Expression, frame: Frame, compile_time: bool = False) -> object:
        """The value of an expression.

        Args:
            expression: what to evaluate.
            frame: where names are looked up.
            compile_time: whether a name that means both a generic and a member means the generic.
        """
        self.step(expression.span)
        match expression:
            case IntegerLiteral(value=value):
                return self.checked_int(value, expression.span)
            case FloatLiteral(value=value):
                return self.checked_float(value, expression.span)
            case BoolLiteral(value=value) | StringLiteral(value=value):
                return value
            case Name():
                return self.name(expression, frame, compile_time)
            case _:
                pass
        self.enter(expression.span)
        try:
            match expression:
                case TritLiteral(value=inner):
                    value = self.evaluate(inner, frame, compile_time)
                    if isinstance(value, Value):
                        return self.error(
                            f"trit(…) takes a compile-time number, found {value.type}",
                            inner.span,
                            suggestion="use ternarize(…) or sign(…)",
                        )
                    return self.convert_scalar(value, "trit", inner.span, "trit(…)")
                case ListLiteral(elements=elements):
                    items = tuple(self.evaluate(e, frame, compile_time) for e in elements)
                    return POISON if any(isinstance(i, Poison) for i in items) else items
                case Unary():
                    return self._unary(expression, frame, compile_time)
                case Binary():
                    return self._binary_chain(expression, frame, compile_time)
                case Index():
                    return self.index(expression, frame, compile_time)
                case Attribute():
                    return self._attribute(expression, frame, compile_time)
                case Call():
                    return self.call(expression, frame, compile_time)
                case _:
                    return self.error("this expression is not understood here", expression.span)
        finally:
            self.leave()

    def call(self, expression: Call, frame: Frame, compile_time: bool) -> object:
        """The value of a call."""
        raise NotImplementedError

    def module_constant(self, name: str, frame: Frame) -> object:
        """The value of a top-level constant."""
        raise NotImplementedError

    # Names

    def name(self, expression: Name, frame: Frame, compile_time: bool) -> object:
        """What a name means; `POISON` after an error."""
        name = expression.identifier
        instance = frame.instance
        for block in reversed(frame.blocks):
            if name in block:
                value = block[name].value
                hidden = compile_time and isinstance(value, Value)
                if hidden and instance is not None and name in instance.generics:
                    break
                return value
        if name in frame.dims and (compile_time or not self._is_member(name, frame)):
            bound = frame.dims[name]
            if isinstance(bound, tuple):
                return self.error(
                    f"'{name}' stands for several dimensions and is no number", expression.span
                )
            return bound if bound.is_unknown else self.assumptions.normalise(bound).simplified()
        if instance is not None:
            tables = (instance.members, instance.generics)
            for table in reversed(tables) if compile_time or frame.function is None else tables:
                if name in table:
                    value = table[name]
                    if isinstance(value, Dim):
                        return self.assumptions.normalise(value).simplified()
                    return value
            if instance.is_broken and name in member_names(instance.definition):
                return POISON
        return self._global_name(expression, frame)

    def _is_member(self, name: str, frame: Frame) -> bool:
        return frame.instance is not None and name in frame.instance.members

    def _global_name(self, expression: Name, frame: Frame) -> object:
        name = expression.identifier
        declaration = frame.module.find(name)
        if declaration is not None:
            module, definition = declaration
            if isinstance(definition, LayerDef):
                return LayerRef(definition, module)
            if isinstance(definition, FunctionDef):
                return FunctionRef(definition, module, None)
            return self.module_constant(name, frame)
        if name in frame.module.broken:
            return POISON
        if name in BUILTINS or name in COMPILE_TIME_FUNCTIONS:
            return BuiltinRef(name, BUILTINS.get(name))
        return self.error(
            f"unknown name '{name}'",
            expression.span,
            suggestion=suggest(name, self.visible_names(frame)),
        )

    def visible_names(self, frame: Frame) -> set[str]:
        """Every name that means something in a frame."""
        names = {*frame.dims, *BUILTINS, *COMPILE_TIME_FUNCTIONS, *frame.module.names()}
        for block in frame.blocks:
            names |= block.keys()
        if frame.instance is not None:
            names |= frame.instance.generics.keys() | frame.instance.members.keys()
            names.update(member_names(frame.instance.definition))
        return names

    def _attribute(self, expression: Attribute, frame: Frame, compile_time: bool) -> object:
        called = self.called
        base = self.evaluate(expression.base, frame, compile_time)
        if isinstance(base, Poison):
            return POISON
        if not isinstance(base, LayerInstance):
            hint, edits = self._as_function(expression, base, called)
            return self.error(
                f"only a layer has members, found {describe(base)}",
                expression.span,
                suggestion="index the list first" if is_list(base) else hint,
                edits=edits,
            )
        for table in (base.members, base.generics):
            if expression.name in table:
                return table[expression.name]
        if base.is_broken:
            return POISON
        return self.error(
            f"layer {base.definition.name} has no member '{expression.name}'",
            expression.span,
            suggestion=(near := suggest(expression.name, [*base.members, *base.generics])),
            edits=() if near is None else (Edit(expression.name_span, near.split("'")[1]),),
            notes=[(f"{base.definition.name} is declared here", base.definition.name_span)],
        )

    def _as_function(
        self, member: Attribute, base: object, call: Call | None
    ) -> tuple[str | None, tuple[Edit, ...]]:
        """What a method or property of a tensor elsewhere is here: a function of the tensor."""
        if not isinstance(base, Value):
            return None, ()
        if member.name in ("shape", "size", "ndim"):
            sizes = ", ".join(map(str, base.type.shape))
            return f"its sizes are {sizes}: write the one that is meant", ()
        name = METHODS.get(member.name, member.name)
        if name not in BUILTINS:
            return "functions of tensors are called by name: f(x)", ()
        first, dot = Edit(member.span.start, f"{name}("), member.span.last(len(member.name) + 1)
        if call is None or call.callee is not member:
            return f"write {name}(…)", (first, Edit(dot, ")"))
        given = call.arguments
        if not given:
            return f"write {name}(…)", (first, Edit(dot.to(call.span), ")"))
        opened = dot.to(given[0].span.start)
        is_shape = name in ("reshape", "permute", "expand")
        loose = is_shape and not isinstance(given[0].value, ListLiteral) and given[0].name is None
        edits = (first, Edit(opened, ", [" if loose else ", "))
        return f"write {name}(…, …)", (*edits, Edit(given[-1].span.end, "]")) if loose else edits

    # Operators

    def _unary(self, expression: Unary, frame: Frame, compile_time: bool) -> object:
        if expression.operator == "-" and isinstance(expression.operand, IntegerLiteral):
            self.step(expression.span)
            return self.checked_int(-expression.operand.value, expression.span)
        value = self.evaluate(expression.operand, frame, compile_time)
        span = expression.span
        if isinstance(value, Poison):
            return POISON
        if expression.operator == "!":
            if isinstance(value, bool):
                return not value
            if isinstance(value, Condition):
                return Condition("bool", value.symbol, value.value, not value.is_equal)
            if isinstance(value, Opaque) and value.kind == "bool":
                return value
            if isinstance(value, Value) and value.type.is_dense_bool:
                return self.operation("not", (value,), value.type, span)
            return self.error(f"'!' needs a bool, found {describe(value)}", span)
        match value:
            case bool():
                pass
            case int():
                return self.checked_int(-value, span)
            case float():
                return -value
            case Trit(value=trit):
                return Trit(-trit)
            case Dim():
                return (-value).simplified()
            case Opaque(kind="int" | "float" | "trit"):
                return value
            case Value():
                if value.type.kind == "spike":
                    return self.needs_decode("-", value, span)
                if value.type.element != "bool":
                    return self.operation("neg", (value,), value.type, span)
            case _:
                pass
        return self.error(f"'-' needs a number, found {describe(value)}", span)

    def _binary_chain(self, expression: Binary, frame: Frame, compile_time: bool) -> object:
        spine = [expression]
        while isinstance(spine[-1].left, Binary):
            spine.append(spine[-1].left)
        left = self.evaluate(spine[-1].left, frame, compile_time)
        for node in reversed(spine):
            self.step(node.span)
            if node.operator in ("&&", "||"):
                left = self._logical(node, left, frame, compile_time)
            else:
                right = self.evaluate(node.right, frame, compile_time)
                left = self._binary(node, left, right)
        return left

    def _logical(self, node: Binary, left: object, frame: Frame, compile_time: bool) -> object:
        is_and = node.operator == "&&"
        if isinstance(left, bool) and left != is_and:
            return left
        right = self.evaluate(node.right, frame, compile_time)
        if isinstance(left, Poison) or isinstance(right, Poison):
            return POISON
        if isinstance(left, Value) and isinstance(right, Value):
            if left.type.is_dense_bool and right.type.is_dense_bool:
                return self.broadcast_operation(
                    node, "and" if is_and else "or", left, right, "bool"
                )
        elif isinstance(left, bool) and isinstance(right, bool | Opaque):
            if isinstance(right, bool) or right.kind == "bool":
                return right
        elif isinstance(left, Opaque) and left.kind == "bool":
            if isinstance(right, bool):
                return left if right == is_and else right
            if isinstance(right, Opaque) and right.kind == "bool":
                return Opaque("bool")
        operands = f"{describe(left)} and {describe(right)}"
        return self.error(f"'{node.operator}' needs two bools, found {operands}", node.span)

    def _binary(self, node: Binary, left: object, right: object) -> object:
        if isinstance(left, Poison) or isinstance(right, Poison):
            return POISON
        symbol = node.operator
        if isinstance(left, Value) or isinstance(right, Value):
            if symbol == "@":
                return self.tensor_product(node, left, right)
            return self.tensor_operator(node, left, right)
        if symbol == "@":
            operands = f"{describe(left)} and {describe(right)}"
            return self.error(f"'@' needs two tensors, found {operands}", node.span)
        if symbol in COMPARISONS:
            return self._compare(node, left, right)
        return self._number_operator(node, left, right)

    def _number_operator(self, node: Binary, left: object, right: object) -> object:
        symbol, span = node.operator, node.span
        a = left.value if isinstance(left, Trit) else left
        b = right.value if isinstance(right, Trit) else right
        for value in (a, b):
            bad = isinstance(value, bool) or not isinstance(value, int | float | Dim | Opaque)
            if bad or (isinstance(value, Opaque) and value.kind not in ("int", "float", "trit")):
                operands = f"{describe(left)} and {describe(right)}"
                return self.error(f"'{symbol}' needs two numbers, found {operands}", span)
        if isinstance(a, Opaque) or isinstance(b, Opaque):
            kinds = {v.kind if isinstance(v, Opaque) else describe(v) for v in (a, b)}
            return Opaque("float" if kinds & {"float", "a float"} else "int")
        if isinstance(a, float) or isinstance(b, float):
            a = self.unknown_number(a, "float", span) if isinstance(a, Dim) else a
            b = self.unknown_number(b, "float", span) if isinstance(b, Dim) else b
            if isinstance(a, Poison) or isinstance(b, Poison):
                return POISON
            if isinstance(a, Opaque) or isinstance(b, Opaque):
                return Opaque("float")
            assert isinstance(a, int | float) and isinstance(b, int | float)
            try:
                return self.checked_float(_FLOAT_OPERATORS[symbol](float(a), float(b)), span)
            except ZeroDivisionError:
                return self.error("division by zero", span)
        assert isinstance(a, int | Dim) and isinstance(b, int | Dim)
        if symbol == "/":
            return self.exact_quotient(a, b, span)
        if symbol == "%":
            return self._remainder(a, b, span)
        if isinstance(a, int) and isinstance(b, int):
            value = a + b if symbol == "+" else a - b if symbol == "-" else a * b
            return self.checked_int(value, span)
        x, y = Dim.lift(a), Dim.lift(b)
        try:
            result = x + y if symbol == "+" else x - y if symbol == "-" else x * y
        except DimError as error:
            return self.error(str(error), span)
        return result.simplified()

    def _remainder(self, a: int | Dim, b: int | Dim, span: Span) -> object:
        if isinstance(b, int) and b == 0:
            return self.error("division by zero", span)
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        x, y = self.assumptions.normalise(Dim.lift(a)), self.assumptions.normalise(Dim.lift(b))
        try:
            rest = x - self.assumptions.floor_divide(x, y) * y
        except DimError as error:
            return self.error(str(error), span)
        return rest.simplified()

    def _compare(self, node: Binary, left: object, right: object) -> object:
        symbol, span = node.operator, node.span
        a = left.value if isinstance(left, Trit) else left
        b = right.value if isinstance(right, Trit) else right
        numbers = (int, float, Dim)
        is_number = (
            isinstance(a, numbers)
            and isinstance(b, numbers)
            and not isinstance(a, bool)
            and not isinstance(b, bool)
        )
        if is_number:
            if isinstance(a, Dim) or isinstance(b, Dim):
                return self._compare_sizes(node, a, b)
            return _COMPARE[symbol](a, b)
        equality = symbol in ("==", "!=")
        for kind, name in ((bool, "bool"), (str, "string")):
            sides = [isinstance(v, kind) or v == Opaque(name) for v in (a, b)]
            if all(sides) and equality:
                if isinstance(a, Opaque) or isinstance(b, Opaque):
                    return Opaque("bool")
                return _COMPARE[symbol](a, b)
        if isinstance(a, Opaque) or isinstance(b, Opaque):
            numeric = ("int", "float", "trit")
            good = [
                v.kind in numeric if isinstance(v, Opaque) else isinstance(v, numbers)
                for v in (a, b)
            ]
            if all(good):
                return Opaque("bool")
        operands = f"{describe(left)} and {describe(right)}"
        return self.error(f"'{symbol}' cannot compare {operands}", span)

    def _compare_sizes(self, node: Binary, a: object, b: object) -> object:
        symbol = node.operator
        if isinstance(a, float) or isinstance(b, float):
            return Opaque("bool")
        assert isinstance(a, int | Dim) and isinstance(b, int | Dim)
        x, y = self.assumptions.normalise(Dim.lift(a)), self.assumptions.normalise(Dim.lift(b))
        if x.is_unknown or y.is_unknown:
            return self._open(node, x if x.is_unknown else y)
        difference = x - y
        value = difference.constant()
        if value is not None:
            return _COMPARE[symbol](value, 0)
        if self.is_final and not difference.symbols() & self.assumptions.generics:
            return self._open(node, y if x.constant() is not None else x)
        if symbol in ("==", "!="):
            for name, other in ((x, y), (y, x)):
                symbols = name.symbols()
                if len(symbols) == 1 and name == Dim.symbol(next(iter(symbols))):
                    (text,) = symbols
                    if text not in other.symbols():
                        return Condition("bool", text, other, symbol == "==")
        return Opaque("bool")

    def _open(self, node: Binary, size: Dim) -> object:
        if not self.is_final:
            return Opaque("bool")
        return self.error(
            f"the size {size} is known only at run time, so it cannot be compared while compiling",
            node.span,
            suggestion="give the dimension a number in the type of the argument",
        )


def member_names(definition: LayerDef) -> dict[str, Span | None]:
    """The names of every member of a layer, in all branches, and where each is first declared."""
    names: dict[str, Span | None] = {}
    stack = list(reversed(definition.members))
    while stack:
        member = stack.pop()
        if isinstance(member, MemberIf):
            stack.extend(reversed((*member.then, *member.otherwise)))
        elif isinstance(member, ErrorDeclaration):
            names.update(dict.fromkeys(member.names))
        else:
            names.setdefault(member.name, member.name_span)
    return names
