"""Evaluation of names, literals, operators, indices and members."""

from __future__ import annotations

import operator
from collections.abc import Callable

from .annotations import DECODE_RULE, Annotations
from .builtins import BUILTINS, COMPILE_TIME_FUNCTIONS
from .diagnostics import suggest
from .dims import Dim, DimError
from .elaborated import Value
from .nodes import (
    Attribute,
    Binary,
    BoolLiteral,
    Call,
    Expression,
    FloatLiteral,
    FunctionDef,
    Index,
    IntegerLiteral,
    LayerDef,
    ListLiteral,
    Name,
    Slice,
    Span,
    StringLiteral,
    TritLiteral,
    Unary,
)
from .rules_linear import matmul
from .rules_shape import slice_size
from .signatures import Opaque, RuleCall, RuleError, Undetermined
from .types import (
    TensorType,
    TypeMismatch,
    broadcast_shapes,
    fits,
    promote,
    promote_number,
)
from .values import (
    POISON,
    BuiltinRef,
    Condition,
    Frame,
    FunctionRef,
    LayerInstance,
    LayerRef,
    Poison,
    Range,
    Trit,
    describe,
)

Number = bool | int | float | Trit

_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_COMPARE: dict[str, Callable[[object, object], bool]] = {
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


class Expressions(Annotations):
    """Evaluates every expression except calls."""

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
                        self.error(
                            f"trit(…) takes a compile-time number, found {value.type}",
                            inner.span,
                            suggestion="use ternarize(…) or sign(…)",
                        )
                        return POISON
                    return self.convert_scalar(value, "trit", inner.span, "trit(…)")
                case ListLiteral(elements=elements):
                    items = tuple(self.evaluate(e, frame, compile_time) for e in elements)
                    return POISON if any(isinstance(i, Poison) for i in items) else items
                case Unary():
                    return self._unary(expression, frame, compile_time)
                case Binary():
                    return self._binary_chain(expression, frame, compile_time)
                case Index():
                    return self._index(expression, frame, compile_time)
                case Attribute():
                    return self._attribute(expression, frame, compile_time)
                case Call():
                    return self.call(expression, frame, compile_time)
                case _:
                    self.error("this expression is not understood here", expression.span)
                    return POISON
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
                self.error(
                    f"'{name}' stands for several dimensions and is no number", expression.span
                )
                return POISON
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
        found = frame.module.find(name)
        if found is not None:
            module, definition = found
            if isinstance(definition, LayerDef):
                return LayerRef(definition, module)
            if isinstance(definition, FunctionDef):
                return FunctionRef(definition, module, None)
            return self.module_constant(name, frame)
        if name in BUILTINS or name in COMPILE_TIME_FUNCTIONS:
            return BuiltinRef(name, BUILTINS.get(name))
        self.error(
            f"unknown name '{name}'",
            expression.span,
            suggestion=suggest(name, self.visible_names(frame)),
        )
        return POISON

    def visible_names(self, frame: Frame) -> set[str]:
        """Every name that means something in a frame."""
        names = {*frame.dims, *BUILTINS, *COMPILE_TIME_FUNCTIONS, *frame.module.names()}
        for block in frame.blocks:
            names |= block.keys()
        if frame.instance is not None:
            names |= frame.instance.generics.keys() | frame.instance.members.keys()
            names |= member_names(frame.instance.definition)
        return names

    def _attribute(self, expression: Attribute, frame: Frame, compile_time: bool) -> object:
        base = self.evaluate(expression.base, frame, compile_time)
        if isinstance(base, Poison):
            return POISON
        if not isinstance(base, LayerInstance):
            self.error(
                f"only a layer has members, found {describe(base)}",
                expression.span,
                suggestion="index the list first" if isinstance(base, tuple) else None,
            )
            return POISON
        for table in (base.members, base.generics):
            if expression.name in table:
                return table[expression.name]
        if base.is_broken:
            return POISON
        self.error(
            f"layer {base.definition.name} has no member '{expression.name}'",
            expression.span,
            suggestion=suggest(expression.name, [*base.members, *base.generics]),
            notes=[(f"{base.definition.name} is declared here", base.definition.name_span)],
        )
        return POISON

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
            if isinstance(value, Value) and value.type.element == "bool":
                if value.type.kind == "dense":
                    return self.operation("not", (value,), value.type, span)
            self.error(f"'!' needs a bool, found {describe(value)}", span)
            return POISON
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
                    self._needs_decode("-", value, span)
                    return POISON
                if value.type.element != "bool":
                    return self.operation("neg", (value,), value.type, span)
            case _:
                pass
        self.error(f"'-' needs a number, found {describe(value)}", span)
        return POISON

    def _needs_decode(self, symbol: str, value: Value, span: Span) -> None:
        self.error(
            f"'{symbol}' needs a dense tensor, found {value.type}: {DECODE_RULE}",
            span,
            suggestion="write decode(…)",
        )

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
            if {left.type.element, right.type.element} == {"bool"} and (
                left.type.kind == right.type.kind == "dense"
            ):
                return self._broadcast(node, "and" if is_and else "or", left, right, "bool")
        elif isinstance(left, bool) and isinstance(right, bool | Opaque):
            if isinstance(right, bool) or right.kind == "bool":
                return right
        elif isinstance(left, Opaque) and left.kind == "bool":
            if isinstance(right, bool):
                return left if right == is_and else right
            if isinstance(right, Opaque) and right.kind == "bool":
                return Opaque("bool")
        found = f"{describe(left)} and {describe(right)}"
        self.error(f"'{node.operator}' needs two bools, found {found}", node.span)
        return POISON

    def _binary(self, node: Binary, left: object, right: object) -> object:
        if isinstance(left, Poison) or isinstance(right, Poison):
            return POISON
        symbol = node.operator
        if isinstance(left, Value) or isinstance(right, Value):
            if symbol == "@":
                return self._matmul(node, left, right)
            return self._tensor_operator(node, left, right)
        if symbol == "@":
            found = f"{describe(left)} and {describe(right)}"
            self.error(f"'@' needs two tensors, found {found}", node.span)
            return POISON
        if symbol in _COMPARISONS:
            return self._compare(node, left, right)
        return self._number_operator(node, left, right)

    def _number_operator(self, node: Binary, left: object, right: object) -> object:
        symbol, span = node.operator, node.span
        a = left.value if isinstance(left, Trit) else left
        b = right.value if isinstance(right, Trit) else right
        for value in (a, b):
            bad = isinstance(value, bool) or not isinstance(value, int | float | Dim | Opaque)
            if bad or (isinstance(value, Opaque) and value.kind not in ("int", "float", "trit")):
                found = f"{describe(left)} and {describe(right)}"
                self.error(f"'{symbol}' needs two numbers, found {found}", span)
                return POISON
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
                self.error("division by zero", span)
                return POISON
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
            self.error(str(error), span)
            return POISON
        return result.simplified()

    def _remainder(self, a: int | Dim, b: int | Dim, span: Span) -> object:
        if isinstance(b, int) and b == 0:
            self.error("division by zero", span)
            return POISON
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        x, y = self.assumptions.normalise(Dim.lift(a)), self.assumptions.normalise(Dim.lift(b))
        try:
            rest = x - self.assumptions.floor_divide(x, y) * y
        except DimError as error:
            self.error(str(error), span)
            return POISON
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
        found = f"{describe(left)} and {describe(right)}"
        self.error(f"'{symbol}' cannot compare {found}", span)
        return POISON

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
            return self._open(node, difference)
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
        self.error(
            f"the size {size} is known only at run time, so it cannot be compared while compiling",
            node.span,
            suggestion="give the dimension a number in the type of the argument",
        )
        return POISON

    # Tensors

    def _tensor_operator(self, node: Binary, left: object, right: object) -> object:
        symbol, span = node.operator, node.span
        for value in (left, right):
            if isinstance(value, Value):
                if value.type.kind == "spike":
                    self._needs_decode(symbol, value, span)
                    return POISON
                compares = symbol in ("==", "!=")
                if value.type.element == "bool" and not compares:
                    self.error(f"'{symbol}' needs numbers, found {value.type}", span)
                    return POISON
        pair = self.operand_pair(left, right, symbol, span)
        if pair is None:
            return POISON
        a, b = pair
        if symbol in _COMPARISONS:
            predicate = {"predicate": _COMPARISONS[symbol]}
            return self._broadcast(node, "compare", a, b, "bool", predicate)
        element = a.type.element
        if symbol == "/" and not a.type.is_float:
            element = "float32"
            a, b = self.cast(a, element, span), self.cast(b, element, span)
        return self._broadcast(node, _ARITHMETIC[symbol], a, b, element)

    def operand_pair(
        self, left: object, right: object, symbol: str, span: Span
    ) -> tuple[Value, Value] | None:
        """Two operands, one of them a tensor, with one element type; `None` after an error."""
        if isinstance(left, Value) and isinstance(right, Value):
            a, b = left.type.element, right.type.element
            if (a == "bool") != (b == "bool"):
                self.error(f"'{symbol}' cannot mix {left.type} and {right.type}", span)
                return None
            element = promote(a, b)
            return self.cast(left, element, span), self.cast(right, element, span)
        tensor, number = (left, right) if isinstance(left, Value) else (right, left)
        assert isinstance(tensor, Value)
        if isinstance(number, Dim):
            number = self.unknown_number(number, "int", span)
        if isinstance(number, Opaque) and number.kind in ("int", "float", "trit"):
            number = 1.0 if number.kind == "float" else 1
        if isinstance(number, Trit):
            number = number.value
        if isinstance(number, Poison):
            return None
        if not isinstance(number, bool | int | float):
            hint = "give the list a type first: let t: Tensor[…] = …"
            self.error(
                f"'{symbol}' needs tensors or numbers, found {describe(left)} and "
                f"{describe(right)}",
                span,
                suggestion=hint if isinstance(number, tuple) else None,
            )
            return None
        made = self.number_operand(number, tensor.type.element, symbol, span)
        if made is None:
            return None
        tensor = self.cast(tensor, made.type.element, span)
        return (tensor, made) if isinstance(left, Value) else (made, tensor)

    def number_operand(
        self, number: bool | int | float, beside: str, symbol: str, span: Span
    ) -> Value | None:
        """A compile-time number as a rank-0 constant that suits a tensor of `beside`."""
        if isinstance(number, bool) != (beside == "bool"):
            kind = "a bool" if isinstance(number, bool) else "a number"
            self.error(f"'{symbol}' cannot mix {kind} and elements of {beside}", span)
            return None
        element = promote_number(beside, number)
        if element.startswith("int"):
            assert isinstance(number, int)
            if not fits(number, element):
                self.error(f"{number} does not fit {element}", span)
                return None
            value: bool | int | float = number
        else:
            value = number if element == "bool" else float(number)
        return self.constant(value, TensorType("dense", element, ()), span)

    def _broadcast(
        self,
        node: Binary,
        function: str,
        a: Value,
        b: Value,
        element: str,
        attributes: dict[str, object] | None = None,
    ) -> object:
        try:
            shape = broadcast_shapes(a.type.shape, b.type.shape, self.assumptions)
        except TypeMismatch as error:
            self.error(
                f"'{node.operator}' cannot broadcast {a.type} and {b.type}: {error}",
                node.span,
                notes=[*self.origin(node.left, a), *self.origin(node.right, b)],
            )
            return POISON
        found = TensorType("dense", element, shape)
        return self.operation(function, (a, b), found, node.span, attributes)

    def _matmul(self, node: Binary, left: object, right: object) -> object:
        if not isinstance(left, Value) or not isinstance(right, Value):
            found = f"{describe(left)} and {describe(right)}"
            self.error(f"'@' needs two tensors, found {found}", node.span)
            return POISON
        call = RuleCall(
            "matmul", {"x": left.type, "y": right.type}, {}, {}, self.assumptions
        )
        try:
            result = matmul(call)
        except RuleError as error:
            notes = [*self.origin(node.left, left), *self.origin(node.right, right)]
            self.error(
                f"'@' {error.message}", node.span, suggestion=error.suggestion, notes=notes
            )
            return POISON
        operands = [
            self.cast(value, call.casts[name], node.span) if name in call.casts else value
            for name, value in (("x", left), ("y", right))
        ]
        return self.operation("matmul", operands, result, node.span)

    # Indexing

    def _index(self, expression: Index, frame: Frame, compile_time: bool) -> object:
        base = self.evaluate(expression.base, frame, compile_time)
        if isinstance(base, Poison):
            return POISON
        if isinstance(base, Range):
            base = tuple(base.numbers) if len(base.numbers) <= 10_000 else base
        if isinstance(base, tuple):
            return self._index_list(base, expression, frame)
        if not isinstance(base, Value):
            self.error(f"cannot index {describe(base)}", expression.span)
            return POISON
        return self._index_tensor(base, expression, frame)

    def _index_list(
        self, items: tuple[object, ...], expression: Index, frame: Frame
    ) -> object:
        if len(expression.indices) != 1:
            self.error("a list has one index", expression.span)
            return POISON
        (index,) = expression.indices
        if isinstance(index, Slice):
            parts = self._slice_parts(index, frame)
            if parts is None:
                return POISON
            start, stop, step = parts
            if isinstance(stop, Dim) or step == 0:
                self.error("a list needs bounds known while compiling", index.span)
                return POISON
            return items[slice(start, stop, step)]
        number = self._index_number(index, frame)
        if not isinstance(number, int):
            return POISON
        if not -len(items) <= number < len(items):
            self.error(f"index {number} is out of range for a list of {len(items)}", index.span)
            return POISON
        return items[number]

    def _index_number(self, node: Expression, frame: Frame) -> int | None:
        value = self.evaluate(node, frame, compile_time=True)
        if isinstance(value, Dim):
            value = self.unknown_number(value, "int", node.span)
        if isinstance(value, Trit):
            value = value.value
        if isinstance(value, Poison | Opaque):
            return None
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        self.error(
            f"an index is an int known while compiling, found {describe(value)}",
            node.span,
            suggestion="use gather(…)" if isinstance(value, Value) else None,
        )
        return None

    def _slice_parts(
        self, node: Slice, frame: Frame
    ) -> tuple[int | None, int | Dim | None, int] | None:
        start: int | None = None
        stop: int | Dim | None = None
        step = 1
        if node.start is not None:
            start = self._index_number(node.start, frame)
            if start is None:
                return None
        if node.stop is not None:
            value = self.evaluate(node.stop, frame, compile_time=True)
            if isinstance(value, Dim):
                stop = value
            else:
                number = self._index_number(node.stop, frame)
                if number is None:
                    return None
                stop = number
        if node.step is not None:
            found = self._index_number(node.step, frame)
            if found is None:
                return None
            step = found
        return start, stop, step

    def _index_tensor(self, base: Value, expression: Index, frame: Frame) -> object:
        found = base.type
        if len(expression.indices) > found.rank:
            self.error(
                f"{len(expression.indices)} indices for {found}, which has {found.rank} axes",
                expression.span,
            )
            return POISON
        starts: list[int] = []
        stops: list[int | Dim | None] = []
        steps: list[int] = []
        sizes: list[Dim] = []
        dropped: list[int] = []
        call = RuleCall("slice", {"x": found}, {}, {}, self.assumptions)
        for axis, size in enumerate(found.shape):
            item = expression.indices[axis] if axis < len(expression.indices) else None
            try:
                if item is None:
                    bounds = (None, None, 1)
                elif isinstance(item, Slice):
                    parts = self._slice_parts(item, frame)
                    if parts is None:
                        return POISON
                    bounds = parts
                else:
                    number = self._index_number(item, frame)
                    if number is None:
                        return POISON
                    known = size.constant()
                    if known is not None and not -known <= number < known:
                        self.error(
                            f"index {number} is out of range for axis {axis} of {found}", item.span
                        )
                        return POISON
                    bounds = (number, number + 1 if number != -1 else None, 1)
                    dropped.append(axis)
                start, stop, length = slice_size(call, size, *bounds)
            except RuleError as error:
                self.error(error.message, item.span if item is not None else expression.span)
                return POISON
            except Undetermined:
                return POISON
            starts.append(start)
            stops.append(stop)
            steps.append(bounds[2])
            sizes.append(Dim.of(1) if axis in dropped else length)
        if found.kind == "spike" and 0 in dropped:
            self.error(
                f"an index takes the time axis of {found} away: {DECODE_RULE}",
                expression.span,
                suggestion="write decode(…)",
            )
            return POISON
        value: Value = base
        if tuple(sizes) != found.shape or any(s != 1 for s in steps):
            value = self.operation(
                "slice",
                (base,),
                found.with_shape(sizes),
                expression.span,
                {"starts": tuple(starts), "stops": tuple(stops), "steps": tuple(steps)},
            )
        if dropped:
            kept = [d for i, d in enumerate(sizes) if i not in dropped]
            value = self.operation(
                "squeeze",
                (value,),
                found.with_shape(kept),
                expression.span,
                {"axes": tuple(dropped)},
            )
        return value


def member_names(definition: LayerDef) -> set[str]:
    """The names of every member of a layer, in all branches."""
    from .nodes import MemberIf

    names: set[str] = set()
    stack = list(definition.members)
    while stack:
        member = stack.pop()
        if isinstance(member, MemberIf):
            stack.extend((*member.then, *member.otherwise))
        else:
            names.add(member.name)
    return names
