"""Statements, and the evaluation of a whole layer: to a graph, or only to its diagnostics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .annotations import wrapped
from .calls import GENERIC_TYPES, Flow
from .diagnostics import DiagnosticBag, Edit, suggest
from .dims import UNKNOWN, Dim
from .elaborated import ConstantData, ConstantValue, Elaborated, InputValue, Value
from .habits import TYPES, nearest
from .layers import Layers
from .loader import Module
from .nodes import (
    Assign,
    Const,
    ErrorStatement,
    ExpressionStatement,
    For,
    FunctionDef,
    If,
    LayerDef,
    Let,
    Name,
    Return,
    ScalarTypeNode,
    Statement,
    TypeNode,
)
from .session import Budget
from .signatures import Opaque
from .types import TensorType
from .values import (
    POISON,
    BuiltinRef,
    Condition,
    Frame,
    FunctionRef,
    LayerInstance,
    LayerRef,
    Local,
    Poison,
    Range,
    SymbolicRange,
    Trit,
    describe,
    is_list,
)

GenericValue = bool | int | float | str

_GOES_ON = Flow(False)


class Elaborator(Layers):
    """Evaluates statements and layers."""

    def __init__(self, bag: DiagnosticBag, budget: Budget, *, is_final: bool) -> None:
        super().__init__(bag, budget, is_final=is_final)
        self._constants = {}
        self._evaluating = []

    # Statements

    def execute(self, body: Sequence[Statement], frame: Frame) -> Flow:
        """Run statements up to the first `return`."""
        for statement in body:
            self.step(statement.span)
            flow = self._statement(statement, frame)
            if flow.returned:
                return flow
        return _GOES_ON

    def _statement(self, statement: Statement, frame: Frame) -> Flow:
        match statement:
            case Let():
                value = self._storable(self.typed_let(statement, frame), statement)
                frame.blocks[-1][statement.name] = Local(value, statement.type, statement.span)
            case Assign():
                self._assignment(statement, frame)
            case Return():
                return self._return(statement, frame)
            case If():
                return self._if(statement, frame)
            case For():
                return self._for(statement, frame)
            case ErrorStatement(names=names):
                self._broken(names, frame)
            case ExpressionStatement():
                self.error(
                    "this expression has no effect",
                    statement.span,
                    suggestion="write return … or let name = …",
                    edits=(Edit(statement.span.start, "return "),),
                )
            case _:
                self.error("this statement is not understood here", statement.span)
        return _GOES_ON

    def _broken(self, names: Sequence[str], frame: Frame) -> None:
        """Silence what depends on a statement with a syntax error."""
        self.error_count += 1
        for name in names:
            blocks = [block for block in frame.blocks if name in block]
            (blocks or frame.blocks)[-1][name] = Local(POISON)

    def _storable(self, value: object, statement: Let | Assign) -> object:
        if isinstance(value, LayerRef | BuiltinRef):
            return self.error(f"{describe(value)} is not a value", statement.value.span)
        return value

    def _assignment(self, statement: Assign, frame: Frame) -> None:
        value = self._storable(self.evaluate(statement.value, frame), statement)
        for block in reversed(frame.blocks):
            local = block.get(statement.name)
            if local is None:
                continue
            if local.type is not None:
                declared = self.run_time_type(local.type, frame)
                if declared is not None:
                    what = f"'{statement.name}'"
                    value = self.convert(value, declared, statement.value.span, what)
            block[statement.name] = Local(value, local.type, local.span)
            return
        names = {name for block in frame.blocks for name in block}
        self.error(
            f"'{statement.name}' is not declared",
            statement.name_span,
            suggestion=suggest(statement.name, names) or f"write let {statement.name} = …",
        )
        frame.blocks[-1][statement.name] = Local(value, None, statement.span)

    def _return(self, statement: Return, frame: Frame) -> Flow:
        if statement.value is None:
            self.error("'return' needs a value", statement.span)
            return Flow(True, POISON)
        value = self.evaluate(statement.value, frame)
        if isinstance(value, LayerRef | BuiltinRef | FunctionRef | LayerInstance):
            named = statement.value.identifier if isinstance(statement.value, Name) else ""
            self.error(
                f"a function cannot return {describe(value)}",
                statement.value.span,
                suggestion=f"call it: {named}(…)" if named else None,
            )
            return Flow(True, POISON)
        for declared in frame.results:
            if frame.function is None:
                break
            name = frame.function.name
            value = self.convert(value, declared, statement.value.span, f"the result of {name}")
        return Flow(True, value)

    def _block(self, body: Sequence[Statement], frame: Frame) -> Flow:
        frame.blocks.append({})
        self.enter(body[0].span if body else frame.module.program.span)
        try:
            return self.execute(body, frame)
        finally:
            self.leave()
            frame.blocks.pop()

    def _if(self, statement: If, frame: Frame) -> Flow:
        value = self.condition(statement.condition, frame)
        if value is True:
            return self._block(statement.then, frame)
        if value is False:
            return self._block(statement.otherwise, frame)
        if isinstance(value, Poison):
            value = Opaque("bool")
        return self._both(statement, value, frame)

    def _both(self, statement: If, condition: Opaque, frame: Frame) -> Flow:
        """Check both branches of a condition that is not known yet, then join what they leave."""
        start = [dict(block) for block in frame.blocks]
        then = self._branch(statement.then, condition, True, frame)
        after_then = frame.blocks
        frame.blocks = start
        otherwise = self._branch(statement.otherwise, condition, False, frame)
        if then.returned and otherwise.returned:
            return then if not isinstance(then.value, Poison) else otherwise
        if not isinstance(condition, Condition):
            self.assumptions.doubt += 1
        elif then.returned != otherwise.returned and condition.is_equal == otherwise.returned:
            # Only the branch in which the two are equal goes on.
            known = {condition.symbol: condition.value}
            self.assumptions.values = {**self.assumptions.values, **known}
        if otherwise.returned:
            frame.blocks = after_then
        elif not then.returned:
            self._join(frame.blocks, after_then)
        return _GOES_ON

    def _branch(
        self, body: Sequence[Statement], condition: Opaque, runs: bool, frame: Frame
    ) -> Flow:
        assumptions = self.assumptions
        doubt, values = assumptions.doubt, assumptions.values
        if isinstance(condition, Condition):
            if condition.is_equal == runs:
                assumptions.values = {**values, condition.symbol: condition.value}
        else:
            assumptions.doubt += 1
        try:
            return self._block(body, frame)
        finally:
            assumptions.doubt, assumptions.values = doubt, values

    def _join(self, blocks: list[dict[str, Local]], others: list[dict[str, Local]]) -> None:
        for block, other in zip(blocks, others, strict=True):
            for name, local in block.items():
                counterpart = other.get(name, local)
                if counterpart.value is not local.value:
                    block[name] = Local(
                        _joined(local.value, counterpart.value), local.type, local.span
                    )

    def _for(self, statement: For, frame: Frame) -> Flow:
        items = self.evaluate(statement.iterable, frame, compile_time=True)
        if is_list(items):
            return self._passes(statement, items, frame)
        match items:
            case Range(numbers=numbers):
                return self._passes(statement, numbers, frame)
            case SymbolicRange():
                return self._symbolic_for(statement, frame)
            case Poison():
                return self._symbolic_for(statement, frame, POISON)
            case _:
                self.error(
                    f"'for' runs over a range(…) or a list, found {describe(items)}",
                    statement.iterable.span,
                    suggestion="write range(…)" if isinstance(items, int | Dim) else None,
                    edits=wrapped(statement.iterable.span, "range")
                    if isinstance(items, int | Dim)
                    else (),
                )
                return self._symbolic_for(statement, frame, POISON)

    def _passes(self, statement: For, values: Sequence[object], frame: Frame) -> Flow:
        for value in values:
            self.iteration(statement.span)
            frame.blocks.append({statement.name: Local(value, None, statement.name_span)})
            try:
                flow = self._block(statement.body, frame)
            finally:
                frame.blocks.pop()
            if flow.returned:
                return flow
        return _GOES_ON

    def _symbolic_for(self, statement: For, frame: Frame, value: object = None) -> Flow:
        """Check the body of a loop once, for passes whose number is not known yet."""
        start = [dict(block) for block in frame.blocks]
        if value is None:
            value = self.open_generic("int", statement.name)
        self.assumptions.doubt += 1
        frame.blocks.append({statement.name: Local(value, None, statement.name_span)})
        self._block(statement.body, frame)
        frame.blocks.pop()
        self.assumptions.doubt -= 1
        self._join(frame.blocks, start)
        return _GOES_ON

    # Whole programs

    def check_constant(self, definition: Const | Let, module: Module) -> None:
        """Report what is wrong with a top-level constant."""
        if module.own.get(definition.name) is definition:
            self.module_constant(definition.name, Frame(module))

    def check_function(self, definition: FunctionDef, module: Module) -> None:
        """Report what is wrong with a free function, for any arguments."""
        self._check(FunctionRef(definition, module, None))

    def _check(self, target: FunctionRef) -> None:
        frame = Frame(target.module, target.instance, target.definition)
        if self.open_arguments(target, frame) is not None:
            self.run_function(target, frame, target.definition.name_span)

    def check_layer(self, definition: LayerDef, module: Module) -> None:
        """Report what is wrong with a layer, with defaults or symbols for its generics."""
        instance = LayerInstance(definition, module, "", definition.name_span)
        for generic in definition.generics:
            if not isinstance(generic.type, ScalarTypeNode) or (
                generic.type.name not in GENERIC_TYPES
            ):
                self.error(
                    f"a generic argument is one of {', '.join(GENERIC_TYPES)}",
                    generic.type.span,
                    suggestion=nearest(_type_name(generic.type), GENERIC_TYPES, TYPES),
                )
                value: object = POISON
            elif generic.default is not None:
                value = self.default(instance, generic)
            else:
                value = self.open_generic(generic.type.name, generic.name)
            instance.generics[generic.name] = value
        before = self.error_count
        self.make_members(instance)
        instance.is_broken = self.error_count != before
        for member in list(instance.members.values()):
            if isinstance(member, FunctionRef):
                self._check(member)

    def elaborate(
        self, definition: LayerDef, module: Module, generics: Mapping[str, GenericValue]
    ) -> Elaborated | None:
        """The graph of a layer; `None` after an error."""
        span = definition.name_span
        instance = LayerInstance(definition, module, "", span)
        names = [g.name for g in definition.generics]
        for name in generics:
            if name not in names:
                self.error(
                    f"{definition.name} has no generic argument '{name}'",
                    span,
                    suggestion=suggest(name, names),
                )
        for generic in definition.generics:
            if generic.name in generics:
                value = self.generic_value(instance, generic, generics[generic.name], span)
            elif generic.default is not None:
                value = self.default(instance, generic)
            else:
                self.error(f"{definition.name} needs a value for '{generic.name}'", span)
                value = POISON
            instance.generics[generic.name] = value
        if self.bag.has_errors:
            return None
        self.make_members(instance)
        forward = instance.members.get("forward")
        if not isinstance(forward, FunctionRef):
            if not self.bag.has_errors:
                self.error(f"layer {definition.name} has no fn forward", span)
            return None
        if self.bag.has_errors:
            return None
        frame = Frame(module, instance, forward.definition)
        inputs = self.open_arguments(forward, frame)
        if inputs is None:
            return None
        dimensions = list(frame.dims)
        result = self.run_function(forward, frame, forward.definition.name_span)
        outputs = self._outputs(result, forward)
        if self.bag.has_errors or outputs is None:
            return None
        return Elaborated(
            definition.name,
            tuple(inputs),
            outputs,
            tuple(self.parameters),
            tuple(str(_first(frame.dims[name])) for name in dimensions),
            span,
        )

    def _outputs(self, result: object, forward: FunctionRef) -> tuple[Value, ...] | None:
        span = forward.definition.name_span
        items: tuple[object, ...] = result if is_list(result) else (result,)
        outputs: list[Value] = []
        for item in items:
            value = self._constant_output(item, forward)
            if value is None:
                if not self.bag.has_errors:
                    self.error(f"forward must return tensors, found {describe(item)}", span)
                return None
            outputs.append(value)
        if not outputs and not self.bag.has_errors:
            self.error("forward returns nothing", span)
        return tuple(outputs)

    def _constant_output(self, item: object, forward: FunctionRef) -> Value | None:
        if isinstance(item, Value):
            return item
        data: ConstantData
        match item:
            case Trit(value=value):
                data, constant_type = value, TensorType("ternary", "trit", ())
            case bool():
                data, constant_type = item, TensorType("dense", "bool", ())
            case int():
                data, constant_type = item, TensorType("dense", "int64", ())
            case float():
                data, constant_type = item, TensorType("dense", "float32", ())
            case _:
                return None
        return ConstantValue(constant_type, forward.definition.span, data)


def _first(bound: Dim | tuple[Dim, ...]) -> Dim:
    return bound[0] if isinstance(bound, tuple) else bound


def _joined(a: object, b: object) -> object:
    """What stands for either of two values after branches meet."""
    if isinstance(a, Value) and isinstance(b, Value):
        x, y = a.type, b.type
        if (x.kind, x.element, x.rank) != (y.kind, y.element, y.rank):
            return POISON
        shape = [p if p == q else UNKNOWN for p, q in zip(x.shape, y.shape, strict=True)]
        return InputValue(x.with_shape(shape), a.span, "")
    if isinstance(a, Value | Poison) or isinstance(b, Value | Poison):
        return POISON
    if a == b:
        return a
    kinds = {_kind(a), _kind(b)}
    if len(kinds) == 1 and (kind := kinds.pop()) is not None:
        return Opaque(kind)
    return POISON


def _kind(value: object) -> str | None:
    match value:
        case bool():
            return "bool"
        case int() | Dim():
            return "int"
        case float():
            return "float"
        case str():
            return "string"
        case Opaque(kind=kind):
            return kind
        case _:
            return None


def _type_name(node: TypeNode) -> str:
    return node.name if isinstance(node, ScalarTypeNode) else ""
