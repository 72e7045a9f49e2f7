"""Calls of functions and layers, and the making of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .annotations import dimension_names
from .arguments import BuiltinCalls, Given
from .dims import Dim
from .elaborated import ConstantValue, InputValue, Value
from .habits import NOTHING
from .nodes import (
    ArgumentDef,
    Call,
    Const,
    Let,
    Name,
    Span,
    Statement,
    TensorTypeNode,
)
from .session import Activation
from .signatures import Opaque
from .types import ScalarType, TensorType
from .values import (
    POISON,
    BuiltinRef,
    Frame,
    FunctionRef,
    LayerInstance,
    LayerRef,
    Local,
    Poison,
    describe,
    is_list,
)

GENERIC_TYPES = ("int", "float", "bool", "string", "trit")


@dataclass(frozen=True)
class Flow:
    """How a block ended: whether it returned on every path, and with what."""

    returned: bool
    value: object = None


class Calls(BuiltinCalls):
    """Evaluates calls, makes layers, and evaluates constants."""

    _constants: dict[tuple[int, str], object]
    _evaluating: list[tuple[int, str]]

    def execute(self, body: Sequence[Statement], frame: Frame) -> Flow:
        """Run the statements of a function."""
        raise NotImplementedError

    # Constants

    def module_constant(self, name: str, frame: Frame) -> object:
        """The value of a top-level constant; evaluated once."""
        constant = frame.module.find(name)
        assert constant is not None
        module, definition = constant
        assert isinstance(definition, Const | Let)
        key = (id(module), name)
        if key in self._constants:
            return self._constants[key]
        if key in self._evaluating:
            return self.error(f"the constant '{name}' is defined by itself", definition.name_span)
        self._evaluating.append(key)
        self.enter(definition.name_span)
        try:
            value = self.typed_let(definition, Frame(module))
        finally:
            self.leave()
            self._evaluating.pop()
        if isinstance(value, Value) and not isinstance(value, ConstantValue):
            self.error("a constant needs a value known while compiling", definition.value.span)
            value = POISON
        if isinstance(value, LayerRef | FunctionRef | BuiltinRef | LayerInstance):
            self.error(
                f"a constant cannot be {describe(value)}",
                definition.value.span,
                suggestion="declare sub-layers inside a layer",
            )
            value = POISON
        self._constants[key] = value
        return value

    def typed_let(self, definition: Const | Let, frame: Frame) -> object:
        """The value of a `let` or `const` as its declared type."""
        value = self.evaluate(definition.value, frame, compile_time=frame.function is None)
        if definition.type is None:
            return value
        declared = self.run_time_type(definition.type, frame)
        if declared is None:
            return POISON
        return self.convert(value, declared, definition.value.span, f"'{definition.name}'")

    # Calls

    def call(self, expression: Call, frame: Frame, compile_time: bool) -> object:
        """The value of a call."""
        callee = expression.callee
        is_trit = isinstance(callee, Name) and callee.identifier == "trit"
        if is_trit and frame.module.find("trit") is None:
            return self._trit_call(expression, frame)
        self.called = expression
        target = self.evaluate(callee, frame, compile_time)
        match target:
            case BuiltinRef(builtin=None):
                return self.call_range(expression, frame)
            case BuiltinRef(builtin=builtin) if builtin is not None:
                return self.call_builtin(builtin, expression, frame)
            case FunctionRef():
                arguments = self.evaluate_arguments(expression, frame, compile_time)
                return self.call_function(target, arguments, expression.span)
            case LayerInstance():
                arguments = self.evaluate_arguments(expression, frame, compile_time)
                return self.call_layer(target, arguments, expression.span)
            case LayerRef():
                self.evaluate_arguments(expression, frame, compile_time)
                name = target.definition.name
                return self.error(
                    f"a layer is made in a 'let' of a layer, not here: {name}(…)",
                    expression.span,
                    suggestion=f"write let {name.lower()} = {name}(…) beside the functions",
                )
            case Poison():
                # What stands in a call that has no counterpart needs no messages of its own.
                if not (isinstance(callee, Name) and callee.identifier in NOTHING):
                    self.evaluate_arguments(expression, frame, compile_time)
                return POISON
            case _:
                hint = None
                if is_list(target):
                    hint = "call its elements: for layer in list { … }"
                return self.error(f"cannot call {describe(target)}", callee.span, suggestion=hint)

    def _trit_call(self, expression: Call, frame: Frame) -> object:
        if len(expression.arguments) != 1 or expression.arguments[0].name is not None:
            return self.error("trit(…) takes one number", expression.span)
        inner = expression.arguments[0].value
        return self.convert_scalar(
            self.evaluate(inner, frame, compile_time=True), "trit", inner.span, "trit(…)"
        )

    def call_layer(self, instance: LayerInstance, arguments: Sequence[Given], span: Span) -> object:
        """The result of a layer's `forward`."""
        forward = instance.members.get("forward")
        if not isinstance(forward, FunctionRef):
            if not instance.is_broken:
                self.error(
                    f"layer {instance.definition.name} has no fn forward",
                    span,
                    notes=[("it is declared here", instance.definition.name_span)],
                )
            return POISON
        return self.call_function(forward, arguments, span)

    def call_function(self, target: FunctionRef, arguments: Sequence[Given], span: Span) -> object:
        """The result of a function for evaluated arguments."""
        function = target.definition
        what = self._title(target)
        for active in self.calls:
            if active.function is function and active.instance is target.instance:
                return self.error(f"{what} calls itself", span)
        names = [a.name for a in function.arguments]
        assigned = self.assign_arguments(arguments, names, what)
        if assigned is None:
            return POISON
        missing = [n for n in names if n not in assigned]
        if missing:
            return self.error(
                f"{what} needs '{missing[0]}'",
                span,
                suggestion=f"write {missing[0]}=… among the arguments",
                notes=[(f"{what} is declared here", function.name_span)],
            )
        if any(isinstance(g.value, Poison) for g in arguments):
            return self._stand_in(target, span)
        frame = Frame(target.module, target.instance, function)
        known = self.known_names(frame)
        self.step(span, 5)
        self.enter(span)
        try:
            for pass_ in (self._match_argument, self._solve_argument, self._convert_argument):
                for argument in function.arguments:
                    if not pass_(argument, assigned[argument.name], frame, known, what):
                        return POISON
            return self.run_function(target, frame, span)
        finally:
            self.leave()

    def _title(self, target: FunctionRef) -> str:
        name = target.definition.name
        if target.instance is None:
            return f"{name}(…)"
        layer = target.instance.definition.name
        return layer if name == "forward" else f"{layer}.{name}(…)"

    def _stand_in(self, target: FunctionRef, span: Span) -> object:
        """A value of the declared result type where that needs no argument, else poison."""
        node = target.definition.result
        if not isinstance(node, TensorTypeNode):
            return POISON
        frame = Frame(target.module, target.instance, target.definition)
        known = self.known_names(frame)
        names = {n.identifier for d in node.dimensions for n in dimension_names(d)}
        if names - known:
            return POISON
        parameter_type = self.run_time_type(node, frame)
        return (
            InputValue(parameter_type, span, "")
            if isinstance(parameter_type, TensorType)
            else POISON
        )

    def _match_argument(
        self, argument: ArgumentDef, item: Given, frame: Frame, known: set[str], what: str
    ) -> bool:
        node = argument.type
        if not isinstance(node, TensorTypeNode) or not isinstance(item.value, Value):
            return True
        reason = self.match(node, item.value.type, frame, known)
        if reason is not None:
            self.error(
                f"'{argument.name}' of {what} has the wrong rank: {reason}, "
                f"found {item.value.type}",
                item.span,
                notes=[("the argument is declared here", argument.span)],
            )
            return False
        return True

    def _solve_argument(
        self, argument: ArgumentDef, item: Given, frame: Frame, known: set[str], what: str
    ) -> bool:
        if isinstance(argument.type, TensorTypeNode) and isinstance(item.value, Value):
            self.solve_rest(argument.type, item.value.type, frame, known)
        return True

    def _convert_argument(
        self, argument: ArgumentDef, item: Given, frame: Frame, known: set[str], what: str
    ) -> bool:
        if isinstance(argument.type, TensorTypeNode) and not isinstance(item.value, Value):
            self.bind_symbols(argument.type, frame, known)
        declared = self.run_time_type(argument.type, frame)
        if declared is None:
            return False
        before = self.error_count
        value = self.convert(item.value, declared, item.span, f"'{argument.name}' of {what}")
        frame.blocks[0][argument.name] = Local(value, None, argument.span)
        return self.error_count == before

    def run_function(self, target: FunctionRef, frame: Frame, span: Span) -> object:
        """Run a function whose arguments are bound."""
        function = target.definition
        before = self.error_count
        nodes = [function.result]
        if function.name == "forward" and target.instance is not None:
            nodes.append(target.instance.definition.result)
        for node in nodes:
            if node is not None:
                declared = self.run_time_type(node, frame)
                if declared is not None:
                    frame.results.append(declared)
        self.calls.append(Activation(span, self._title(target), function, target.instance))
        doubt, values = self.assumptions.doubt, self.assumptions.values
        try:
            frame.blocks.append({})
            flow = self.execute(function.body, frame)
        finally:
            self.assumptions.doubt, self.assumptions.values = doubt, values
            self.calls.pop()
        if not flow.returned and self.error_count == before:
            self.error(
                f"{self._title(target)} can end without 'return'",
                function.name_span,
                suggestion="end the function with return …",
            )
        value = flow.value
        if is_list(value) or isinstance(value, Value | bool | int | float | Opaque | Dim):
            return value
        for declared in frame.results:
            if isinstance(declared, TensorType):
                return InputValue(declared, self.place(span), "")
        return POISON if value is None else value

    def known_names(self, frame: Frame) -> set[str]:
        """Names that, in a signature, are no new dimensions."""
        known: set[str] = set()
        if frame.instance is not None:
            known |= frame.instance.generics.keys()
            known |= {
                name
                for name, value in frame.instance.members.items()
                if isinstance(value, int | Dim) and not isinstance(value, bool)
            }
        tables: tuple[Mapping[str, object], ...] = (frame.module.own, frame.module.imported)
        for table in tables:
            for name, entry in table.items():
                definition = entry[1] if isinstance(entry, tuple) else entry
                if isinstance(definition, Const | Let):
                    known.add(name)
        return known

    def open_arguments(self, target: FunctionRef, frame: Frame) -> list[InputValue] | None:
        """Bind a function's arguments to inputs with symbolic dimensions; `None` after an error."""
        inputs: list[InputValue] = []
        known = self.known_names(frame)
        function = target.definition
        fine = True
        for argument in function.arguments:
            self.bind_symbols(argument.type, frame, known)
        for argument in function.arguments:
            value: object = POISON
            declared = self.run_time_type(argument.type, frame)
            if isinstance(declared, ScalarType):
                if declared.is_compile_time:
                    value = self.open_generic(declared.name, argument.name)
                    fine = fine and not self.is_final
                    if self.is_final:
                        self.error(
                            f"'{argument.name}' of {function.name} needs a value while compiling",
                            argument.span,
                        )
                else:
                    declared = declared.tensor
            if isinstance(declared, TensorType):
                value = InputValue(declared, argument.span, argument.name)
                inputs.append(value)
            fine = fine and declared is not None
            frame.blocks[0][argument.name] = Local(value, None, argument.span)
        return inputs if fine else None

    def open_generic(self, kind: str, name: str) -> object:
        """The stand-in of a generic argument without a value."""
        if kind in ("int", "trit"):
            self.assumptions.generics |= {name}
            return Dim.symbol(name) if kind == "int" else Opaque("trit")
        return Opaque(kind)
