"""Calls of built-in functions: arguments to parameters, the type rule, the operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .diagnostics import nearest_name
from .dims import Dim, DimError
from .elaborated import Projection, Value
from .expressions import Expressions
from .habits import ARGUMENTS, nearest
from .nodes import Argument, Call, Span
from .signatures import Builtin, Opaque, Parameter, RuleCall, RuleError, Undetermined
from .types import TensorType, promote, promote_number
from .values import POISON, Frame, Poison, Range, SymbolicRange, Trit, describe, is_list

_SCALAR_KINDS = ("int", "float", "bool", "string")


@dataclass(frozen=True)
class Given:
    """An evaluated argument."""

    argument: Argument
    value: object

    @property
    def span(self) -> Span:
        """Where the value stands."""
        return self.argument.value.span


class BuiltinCalls(Expressions):
    """Evaluates calls of built-in functions."""

    def evaluate_arguments(self, expression: Call, frame: Frame, compile_time: bool) -> list[Given]:
        """Every argument of a call, evaluated in order."""
        return [
            Given(argument, self.evaluate(argument.value, frame, compile_time))
            for argument in expression.arguments
        ]

    def assign_arguments(
        self, arguments: Sequence[Given], names: Sequence[str], what: str
    ) -> dict[str, Given] | None:
        """Arguments by parameter name; `None` after an error."""
        assigned: dict[str, Given] = {}
        position = 0
        named = False
        fine = True
        for item in arguments:
            name = item.argument.name
            if name is None:
                if named:
                    self.error("a positional argument follows a named one", item.argument.span)
                    return None
                if position >= len(names):
                    takes = f"{len(names)} argument{'s' if len(names) != 1 else ''}"
                    several = names and names[-1] in ("shape", "sizes", "axes")
                    self.error(
                        f"{what} takes {takes}, found {len(arguments)}",
                        item.argument.span,
                        suggestion=f"write {names[-1]}=[…] for several numbers"
                        if several
                        else f"its arguments are {', '.join(names)}"
                        if names
                        else None,
                    )
                    return None
                name = names[position]
                position += 1
            else:
                named = True
                if name not in names:
                    free = set(names) - {g.argument.name for g in arguments}
                    longer = [n for n in free if name in n.split("_")]
                    more = {name: longer[0]} if len(longer) == 1 else {}
                    near = nearest(name, free, ARGUMENTS, more)
                    self.error(
                        f"{what} has no argument '{name}'",
                        item.argument.span.first(len(name)),
                        suggestion=near or f"its arguments are {', '.join(names)}",
                    )
                    fine = False
                    continue
            if name in assigned:
                self.error(f"argument '{name}' of {what} is given twice", item.argument.span)
                fine = False
                continue
            assigned[name] = item
        return assigned if fine else None

    def call_range(self, expression: Call, frame: Frame) -> object:
        """`range(stop)`, `range(start, stop)` or `range(start, stop, step)`."""
        arguments = self.evaluate_arguments(expression, frame, True)
        if not 1 <= len(arguments) <= 3 or any(g.argument.name is not None for g in arguments):
            return self.error("range(…) takes one to three numbers", expression.span)
        numbers: list[int] = []
        is_symbolic = False
        for item in arguments:
            value = item.value
            if isinstance(value, Dim):
                value = self.unknown_number(value, "int", item.span)
            if isinstance(value, Poison):
                return POISON
            if isinstance(value, Opaque) and value.kind == "int":
                is_symbolic = True
            elif isinstance(value, int) and not isinstance(value, bool):
                numbers.append(value)
            else:
                return self.error(f"range(…) takes ints, found {describe(value)}", item.span)
        if is_symbolic:
            return SymbolicRange()
        if len(numbers) == 3 and numbers[2] == 0:
            return self.error("the step of range(…) must not be 0", arguments[2].span)
        return Range(range(*numbers))

    def call_builtin(self, builtin: Builtin, expression: Call, frame: Frame) -> object:
        """The result of a built-in function."""
        arguments = self.evaluate_arguments(expression, frame, False)
        what = f"{builtin.name}(…)"
        grouped = self._group_tensors(builtin, arguments)
        if any(isinstance(g.value, Poison) for g in arguments):
            return POISON
        assigned = self.assign_arguments(grouped, [p.name for p in builtin.parameters], what)
        if assigned is None:
            return POISON
        missing = [p.name for p in builtin.parameters if p.is_required and p.name not in assigned]
        if missing:
            return self.error(
                f"{what} needs '{missing[0]}'",
                expression.span,
                suggestion=f"the signature is {builtin.signature}",
            )
        folded = self._fold(builtin, assigned, expression.span)
        if folded is not None:
            return folded
        return self._apply(builtin, assigned, expression)

    def _group_tensors(self, builtin: Builtin, arguments: list[Given]) -> list[Given]:
        """The arguments with the run of tensors that a `tensors` parameter takes made one."""
        index = next((i for i, p in enumerate(builtin.parameters) if p.kind == "tensors"), None)
        if index is None or index >= len(arguments) or arguments[index].argument.name is not None:
            return arguments
        if not isinstance(arguments[index].value, Value):
            return arguments
        stop = index
        while (
            stop < len(arguments)
            and arguments[stop].argument.name is None
            and isinstance(arguments[stop].value, Value)
        ):
            stop += 1
        items = tuple(g.value for g in arguments[index:stop])
        return [*arguments[:index], Given(arguments[index].argument, items), *arguments[stop:]]

    def _fold(self, builtin: Builtin, assigned: dict[str, Given], span: Span) -> object | None:
        if builtin.fold is None:
            return None
        values = [
            g.value.value if isinstance(g.value, Trit) else g.value for g in assigned.values()
        ]
        numbers: list[int | float] = []
        is_open = False
        for value in values:
            if isinstance(value, Dim):
                value = self.unknown_number(value, "float", span)
                if isinstance(value, Poison):
                    return POISON
            if isinstance(value, Opaque) and value.kind in ("int", "float"):
                is_open = True
            elif isinstance(value, int | float) and not isinstance(value, bool):
                numbers.append(value)
            else:
                return None
        if is_open:
            return Opaque("float")
        try:
            result = builtin.fold(*numbers)
        except (ValueError, OverflowError):
            return self.error(f"{builtin.name}(…) has no finite value here", span)
        return self.checked_float(result, span) if isinstance(result, float) else result

    def _apply(self, builtin: Builtin, assigned: dict[str, Given], expression: Call) -> object:
        call = RuleCall(builtin.name, {}, {}, {}, self.assumptions)
        values: dict[str, Value] = {}
        lists: dict[str, tuple[Value, ...]] = {}
        self._operands(builtin, assigned, values, expression.span)
        for parameter in builtin.parameters:
            item = assigned.get(parameter.name)
            if not self._assign(parameter, item, builtin, call, values, lists):
                return POISON
        call.types = {name: value.type for name, value in values.items()}
        call.lists = {name: tuple(v.type for v in vs) for name, vs in lists.items()}
        try:
            result = builtin.rule(call)
        except RuleError as error:
            at = assigned.get(error.argument or "")
            return self.error(
                f"{builtin.name}(…) {error.message}",
                at.span if at is not None else expression.span,
                suggestion=error.suggestion,
                notes=[
                    note
                    for g in assigned.values()
                    for note in self.origin(g.argument.value, g.value)
                ],
            )
        except DimError as error:
            return self.error(f"{builtin.name}(…): {error}", expression.span)
        except Undetermined:
            return POISON
        return self._finish(builtin, call, values, lists, result, expression.span)

    def _finish(
        self,
        builtin: Builtin,
        call: RuleCall,
        values: dict[str, Value],
        lists: dict[str, tuple[Value, ...]],
        result: TensorType | tuple[TensorType, ...],
        span: Span,
    ) -> object:
        operands: list[Value] = []
        for parameter in builtin.parameters:
            element = call.casts.get(parameter.name)
            for value in (
                [values[parameter.name]]
                if parameter.name in values
                else lists.get(parameter.name, ())
            ):
                operands.append(self.cast(value, element, span) if element else value)
            is_optional = parameter.kind == "tensor" and not parameter.is_required
            if is_optional or parameter.kind == "setting":
                call.attributes[f"has_{parameter.name}"] = parameter.name in values
        operation = self.operation(builtin.name, operands, result, span, call.attributes)
        if is_list(result):
            return tuple(
                Projection(result_type, operation.span, operation, i)
                for i, result_type in enumerate(result)
            )
        return operation

    def _operands(
        self, builtin: Builtin, assigned: dict[str, Given], values: dict[str, Value], span: Span
    ) -> None:
        """Constants for the numbers among the `operand` arguments."""
        names = [p.name for p in builtin.parameters if p.kind == "operand" and p.name in assigned]
        tensors = [v for n in names if isinstance(v := assigned[n].value, Value)]
        numbers = [assigned[n].value for n in names]
        element: str | None = None
        for value in tensors:
            element = promote(element, value.type.element) if element else value.type.element
        if element is None:
            is_float = any(
                isinstance(n, float) or (isinstance(n, Opaque) and n.kind == "float")
                for n in numbers
            )
            element = "float32" if is_float else "int64"
            if numbers and all(isinstance(n, bool) for n in numbers):
                element = "bool"
        for name in names:
            number = assigned[name].value
            if isinstance(number, Dim):
                number = self.unknown_number(number, "int", span)
            if isinstance(number, Opaque):
                number = 1.0 if number.kind == "float" else 1
            if isinstance(number, Trit):
                number = number.value
            if not isinstance(number, bool | int | float):
                continue
            beside = promote_number(element, number) if element != "bool" else element
            operand = self.number_operand(number, beside, builtin.name, assigned[name].span)
            if operand is not None:
                values[name] = operand

    def _assign(
        self,
        parameter: Parameter,
        item: Given | None,
        builtin: Builtin,
        call: RuleCall,
        values: dict[str, Value],
        lists: dict[str, tuple[Value, ...]],
    ) -> bool:
        """Put one argument where the rule finds it; `False` after an error."""
        name, kind = parameter.name, parameter.kind
        what = f"'{name}' of {builtin.name}(…)"
        if item is None:
            if kind not in ("tensor", "tensors", "operand"):
                call.attributes[name] = parameter.default
            return True
        value, span = item.value, item.span
        if kind in ("tensor", "operand"):
            if isinstance(value, Value):
                values[name] = value
                return True
            if kind == "operand" and name in values:
                return True
            absent = value is False or value == Opaque("bool")
            if absent and kind == "tensor" and not parameter.is_required:
                return True
            hint = "give the list a type first: let t: Tensor[…] = …"
            self.error(
                f"{what} needs a tensor, found {describe(value)}",
                span,
                suggestion=hint if is_list(value) else None,
            )
            return False
        if kind == "tensors":
            if is_list(value) and all(isinstance(v, Value) for v in value):
                lists[name] = tuple(v for v in value if isinstance(v, Value))
                return True
            self.error(f"{what} needs a list of tensors, found {describe(value)}", span)
            return False
        if kind == "setting":
            if isinstance(value, Value):
                values[name] = value
                call.attributes[name] = None
                return True
            converted = self.convert_scalar(value, "float", span, what)
        elif kind in _SCALAR_KINDS:
            if value is False and parameter.default is None:
                converted: object = None
            else:
                converted = self.convert_scalar(value, kind, span, what)
        else:
            converted = self._numbers(value, span, what, needs_list=kind == "shape")
        if isinstance(converted, Poison):
            return False
        if parameter.choices and isinstance(converted, str) and converted not in parameter.choices:
            listed = ", ".join(f'"{c}"' for c in parameter.choices)
            self.error(
                f'{what} must be one of {listed}, found "{converted}"',
                span,
                suggestion=_chosen(converted, parameter.choices),
            )
            return False
        call.attributes[name] = converted
        return True

    def _numbers(self, value: object, span: Span, what: str, *, needs_list: bool) -> Any:
        if is_list(value):
            items = [self.convert_scalar(v, "int", span, f"an element of {what}") for v in value]
            return POISON if any(isinstance(i, Poison) for i in items) else tuple(items)
        if needs_list:
            return self.error(
                f"{what} needs a list of sizes, found {describe(value)}",
                span,
                suggestion="write [a, b]",
            )
        return self.convert_scalar(value, "int", span, what)


def _chosen(found: str, choices: Sequence[str]) -> str:
    """Which of the choices was meant, in quotes as it is written."""
    near = nearest_name(found, choices)
    return f"did you mean '\"{near}\"'?" if near else f'write one of them, such as "{choices[0]}"'
