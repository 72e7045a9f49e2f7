"""One evaluation of a program: its diagnostics, limits, assumptions and the operations it makes.

The base of the evaluator. `annotations`, `expressions`, `calls` and `elaborate` add a part each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .assumptions import Assumptions
from .diagnostics import DiagnosticBag, Edit, Note
from .elaborated import ConstantData, ConstantValue, Operation, ParameterValue, Value
from .loader import PRELUDE_FILE
from .nodes import Expression, FunctionDef, Name, Span
from .types import MAX_ELEMENTS, TensorType, element_count
from .values import POISON, Frame, LayerInstance, Poison

_PRELUDE = str(PRELUDE_FILE)


@dataclass(frozen=True)
class Limits:
    """Bounds that keep a hostile or mistaken program from running for ever.

    Attributes:
        iterations: loop passes in one evaluation.
        steps: expressions evaluated; a call counts as several.
        operations: operations made.
        depth: nesting of calls and expressions.
    """

    iterations: int = 100_000
    steps: int = 1_000_000
    operations: int = 1_000_000
    depth: int = 120


@dataclass
class Budget:
    """What is left of the limits; several evaluations of one run share it."""

    limits: Limits
    iterations: int = 0
    steps: int = 0
    operations: int = 0
    is_spent: bool = False


class Abandon(Exception):
    """Ends an evaluation that hit a limit; its diagnostic has been reported."""


@dataclass(frozen=True)
class Activation:
    """A call under way: where it stands and what it calls."""

    span: Span
    what: str
    function: FunctionDef | None
    instance: LayerInstance | None


class Session:
    """State of one evaluation.

    Args:
        bag: takes the diagnostics.
        budget: bounds on the work done.
        is_final: whether generics are all known, so that the result is a program; otherwise sizes
            and generics may be symbolic and conditions on them stay open.
    """

    def __init__(self, bag: DiagnosticBag, budget: Budget, *, is_final: bool) -> None:
        self.bag = bag
        self.budget = budget
        self.limits = budget.limits
        self.is_final = is_final
        self.assumptions = Assumptions()
        self.calls: list[Activation] = []
        self.making: list[LayerInstance] = []
        self.parameters: list[ParameterValue] = []
        self.declared_at: dict[ParameterValue, Span] = {}
        self.error_count: int = 0
        self._places: set[Span] = set()
        self._depth = 0

    # Diagnostics

    def place(self, span: Span) -> Span:
        """`span`, or the call in the user's source that led to it where it is in the prelude."""
        if span.file != _PRELUDE:
            return span
        for call in reversed(self.calls):
            if call.span.file != _PRELUDE:
                return call.span
        for instance in reversed(self.making):
            if instance.span.file != _PRELUDE:
                return instance.span
        return span

    def error(
        self,
        message: str,
        span: Span,
        *,
        suggestion: str | None = None,
        notes: Sequence[Note] = (),
        edits: Sequence[Edit] = (),
    ) -> Poison:
        """Report an error, the first at a place alone; what stands for the value there."""
        self.error_count += 1
        place = self.place(span)
        notes = list(notes)
        if place != span:
            layer = next(
                (c.what for c in self.calls if c.span == place),
                next((m.definition.name for m in self.making if m.span == place), None),
            )
            if layer is not None:
                message = f"in {layer}: {message}"
            suggestion, edits = None, ()
            notes = [note for note in notes if note[1] is None or note[1].file != _PRELUDE]
        else:
            for call in reversed(self.calls[-3:]):
                is_root = call.function is not None and call.span == call.function.name_span
                if call.span.file != _PRELUDE and call.span != place and not is_root:
                    notes.append((f"in {call.what}, called here", call.span))
        if place in self._places or self.bag.has_error_at(place):
            return POISON
        self._places.add(place)
        self.bag.error(message, place, suggestion=suggestion, notes=notes, edits=edits)
        if self.bag.error_count > 200:
            raise Abandon
        return POISON

    def stop(self, message: str, span: Span) -> None:
        """Report an error that ends the evaluation."""
        self.error(message, span)
        raise Abandon

    # Limits

    def exhaust(self, message: str, span: Span) -> None:
        """Report an error that ends every evaluation of the run."""
        self.budget.is_spent = True
        self.stop(message, span)

    def step(self, span: Span, count: int = 1) -> None:
        """Count evaluated expressions."""
        self.budget.steps += count
        if self.budget.steps > self.limits.steps:
            self.exhaust(
                f"the program takes more than {self.limits.steps:,} steps to evaluate", span
            )

    def iteration(self, span: Span) -> None:
        """Count one pass of a loop."""
        self.budget.iterations += 1
        if self.budget.iterations > self.limits.iterations:
            self.exhaust(
                f"loops take more than {self.limits.iterations:,} passes in all; they are unrolled",
                span,
            )

    def enter(self, span: Span) -> None:
        """Count one level of nesting; `leave` takes it back."""
        self._depth += 1
        if self._depth > self.limits.depth:
            self.stop("nested too deeply", span)

    def leave(self) -> None:
        """End a level that `enter` began."""
        self._depth -= 1

    # Values

    def operation(
        self,
        function: str,
        operands: Sequence[Value],
        result: TensorType | tuple[TensorType, ...],
        span: Span,
        attributes: Mapping[str, object] | None = None,
    ) -> Operation:
        """A new operation, placed at the user's source."""
        self.budget.operations += 1
        if self.budget.operations > self.limits.operations:
            self.exhaust(f"the program makes more than {self.limits.operations:,} operations", span)
        types = result if isinstance(result, tuple) else (result,)
        for result_type in types:
            self.check_size(result_type, span)
        return Operation(
            types[0], self.place(span), function, tuple(operands), dict(attributes or {}), types
        )

    def check_size(self, found: TensorType, span: Span) -> None:
        """Refuse a tensor that no machine can hold."""
        if element_count(found.shape) > MAX_ELEMENTS:
            self.error(f"{found} has more than 2^48 elements", span)

    def constant(self, value: ConstantData, found: TensorType, span: Span) -> ConstantValue:
        """A new constant, placed at the user's source."""
        return ConstantValue(found, self.place(span), value)

    def cast(self, value: Value, element: str, span: Span) -> Value:
        """`value` as a dense tensor of `element`; itself where it is one."""
        source_type = value.type
        if source_type.kind == "dense" and source_type.element == element:
            return value
        if isinstance(value, ConstantValue) and not source_type.shape:
            number = value.value
            assert not isinstance(number, tuple)
            converted = (
                float(number)
                if element in ("float16", "bfloat16", "float32", "float64")
                else (number if element == "bool" else int(number))
            )
            return self.constant(converted, source_type.with_element(element), span)
        return self.operation(
            "cast", (value,), source_type.with_element(element), span, {"dtype": element}
        )

    def origin(self, expression: Expression, value: object) -> list[Note]:
        """Where the parameter that an expression names was declared."""
        if isinstance(expression, Name) and isinstance(value, ParameterValue):
            declared = self.declared_at.get(value)
            if declared is not None:
                return [(f"'{expression.identifier}' is declared here", declared)]
        return []

    # Parts supplied by the subclasses

    def evaluate(self, expression: Expression, frame: Frame, compile_time: bool = False) -> object:
        """The value of an expression; `POISON` where its error has been reported."""
        raise NotImplementedError
