"""Operators on tensors: broadcasting, promotion and the product `@`."""

from __future__ import annotations

from .annotations import DECODE_RULE, Annotations, wrapped
from .diagnostics import Edit
from .dims import Dim
from .elaborated import Value
from .nodes import Binary, Span
from .rules_linear import matmul
from .signatures import Opaque, RuleCall, RuleError
from .types import TensorType, TypeMismatch, broadcast_shapes, fits, promote, promote_number
from .values import POISON, Poison, Trit, describe, is_list

_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
"""Comparison operators and the predicates of their operations."""


class TensorOperators(Annotations):
    """Evaluates operators with a tensor on at least one side."""

    def needs_decode(
        self, symbol: str, value: Value, span: Span, operand: Span | None = None
    ) -> Poison:
        return self.error(
            f"'{symbol}' needs a dense tensor, found {value.type}: {DECODE_RULE}",
            span,
            suggestion="write decode(…)",
            edits=() if operand is None else wrapped(operand, "decode"),
        )

    def tensor_operator(self, node: Binary, left: object, right: object) -> object:
        symbol, span = node.operator, node.span
        for value, operand in ((left, node.left), (right, node.right)):
            if isinstance(value, Value):
                if value.type.kind == "spike":
                    return self.needs_decode(symbol, value, span, operand.span)
                compares = symbol in ("==", "!=")
                if value.type.element == "bool" and not compares:
                    chained = symbol in COMPARISONS and isinstance(operand, Binary)
                    hint = "compare twice: a < b && b < c" if chained else None
                    return self.error(f"'{symbol}' needs numbers, found {value.type}", span,
                               suggestion=hint)  # fmt: skip
        pair = self.operand_pair(left, right, symbol, span)
        if pair is None:
            return POISON
        a, b = pair
        if symbol in COMPARISONS:
            predicate: dict[str, object] = {"predicate": COMPARISONS[symbol]}
            return self.broadcast_operation(node, "compare", a, b, "bool", predicate)
        element = a.type.element
        if symbol == "/" and not a.type.is_float:
            element = "float32"
            a, b = self.cast(a, element, span), self.cast(b, element, span)
        return self.broadcast_operation(node, _ARITHMETIC[symbol], a, b, element)

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
                suggestion=hint if is_list(number) else None,
            )
            return None
        operand = self.number_operand(number, tensor.type.element, symbol, span)
        if operand is None:
            return None
        tensor = self.cast(tensor, operand.type.element, span)
        return (tensor, operand) if isinstance(left, Value) else (operand, tensor)

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

    def broadcast_operation(
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
            inner = (a.type.shape[-1:], b.type.shape[-2:-1])
            meant = node.operator == "*" and inner[0] == inner[1] != ()
            return self.error(
                f"'{node.operator}' cannot broadcast {a.type} and {b.type}: {error}",
                node.span,
                suggestion="write @ for the product of matrices" if meant else None,
                edits=(Edit(node.operator_span, "@"),) if meant else (),
                notes=[*self.origin(node.left, a), *self.origin(node.right, b)],
            )
        result_type = TensorType("dense", element, shape)
        return self.operation(function, (a, b), result_type, node.span, attributes)

    def tensor_product(self, node: Binary, left: object, right: object) -> object:
        if not isinstance(left, Value) or not isinstance(right, Value):
            described = f"{describe(left)} and {describe(right)}"
            return self.error(f"'@' needs two tensors, found {described}", node.span)
        call = RuleCall("matmul", {"x": left.type, "y": right.type}, {}, {}, self.assumptions)
        try:
            result = matmul(call)
        except RuleError as error:
            notes = [*self.origin(node.left, left), *self.origin(node.right, right)]
            # `y` is named where turning it round would do.
            edits = wrapped(node.right.span, "transpose") if error.argument == "y" else ()
            return self.error(
                f"'@' {error.message}",
                node.span,
                suggestion=error.suggestion,
                notes=notes,
                edits=edits,
            )
        operands = [
            self.cast(value, call.casts[name], node.span) if name in call.casts else value
            for name, value in (("x", left), ("y", right))
        ]
        return self.operation("matmul", operands, result, node.span)
