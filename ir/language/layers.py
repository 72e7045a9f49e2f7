"""The making of layers: generic arguments, parameters, sub-layers and members."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import Given
from .calls import GENERIC_TYPES, Calls
from .elaborated import ConstantValue, ParameterValue, Value
from .nodes import (
    Call,
    ErrorDeclaration,
    Expression,
    FunctionDef,
    GenericDef,
    LayerDef,
    Let,
    ListLiteral,
    Member,
    MemberIf,
    Name,
    ParamDef,
    ScalarTypeNode,
    Span,
)
from .signatures import Opaque
from .types import ScalarType
from .values import POISON, Frame, FunctionRef, LayerInstance, LayerRef, Poison, describe


class Layers(Calls):
    """Makes layers and declares their members."""

    def make_layer(
        self, target: LayerRef, arguments: Sequence[Given], span: Span, path: str
    ) -> LayerInstance | Poison:
        """A layer with its generic arguments; poison after an error."""
        definition = target.definition
        chain = [m.definition for m in self.making]
        again = next((i for i, made in enumerate(chain) if made is definition), None)
        if again is not None:
            names = [d.name for d in chain[again:]] + [definition.name]
            return self.error(f"a layer contains itself: {' -> '.join(names)}", span)
        names = [g.name for g in definition.generics]
        assigned = self.assign_arguments(arguments, names, definition.name)
        if assigned is None:
            return POISON
        for generic in definition.generics:
            if generic.name not in assigned and generic.default is None:
                return self.error(
                    f"{definition.name} needs '{generic.name}'",
                    span,
                    suggestion=f"write {generic.name}=… among the arguments",
                    notes=[(f"{definition.name} is declared here", definition.name_span)],
                )
        self.step(span, 10 + 5 * len(definition.members))
        instance = LayerInstance(definition, target.module, path, span)
        before = self.error_count
        for generic in definition.generics:
            item = assigned.get(generic.name)
            value = (
                self.default(instance, generic)
                if item is None
                else self.generic_value(instance, generic, item.value, item.span)
            )
            instance.generics[generic.name] = value
        if self.error_count == before:
            self.make_members(instance)
        instance.is_broken = self.error_count != before
        return instance

    def default(self, instance: LayerInstance, generic: GenericDef) -> object:
        """The default of a generic argument."""
        assert generic.default is not None
        frame = Frame(instance.module, instance)
        value = self.evaluate(generic.default, frame, compile_time=True)
        return self.generic_value(instance, generic, value, generic.default.span)

    def generic_value(
        self, instance: LayerInstance, generic: GenericDef, value: object, span: Span
    ) -> object:
        """A generic argument as its declared type."""
        what = f"'{generic.name}' of {instance.definition.name}"
        if not isinstance(generic.type, ScalarTypeNode) or generic.type.name not in GENERIC_TYPES:
            return self.error(
                f"a generic argument is one of {', '.join(GENERIC_TYPES)}", generic.type.span
            )
        if isinstance(value, Value):
            return self.error(
                f"{what} needs a value known while compiling, found {value.type}", span
            )
        return self.convert_scalar(value, generic.type.name, span, what)

    def make_members(self, instance: LayerInstance) -> None:
        """Declare the parameters, sub-layers, constants and functions of a layer."""
        self.making.append(instance)
        self.enter(instance.definition.name_span)
        try:
            self._members(instance.definition.members, instance, Frame(instance.module, instance))
        finally:
            self.leave()
            self.making.pop()

    def _members(self, members: Sequence[Member], instance: LayerInstance, frame: Frame) -> None:
        for member in members:
            match member:
                case ParamDef():
                    instance.members[member.name] = self._parameter(member, instance, frame)
                case Let():
                    path = f"{instance.path}.{member.name}" if instance.path else member.name
                    instance.members[member.name] = self._member_let(member, frame, path)
                case FunctionDef():
                    instance.members[member.name] = FunctionRef(member, instance.module, instance)
                case MemberIf():
                    self._member_if(member, instance, frame)
                case ErrorDeclaration(names=names):
                    self.error_count += 1
                    instance.members.update(dict.fromkeys(names, POISON))

    def _member_if(self, member: MemberIf, instance: LayerInstance, frame: Frame) -> None:
        value = self.condition(member.condition, frame)
        if value is True:
            self._members(member.then, instance, frame)
        elif value is False:
            self._members(member.otherwise, instance, frame)
        elif isinstance(value, Opaque):
            self._members(member.otherwise, instance, frame)
            self._members(member.then, instance, frame)

    def condition(self, expression: Expression, frame: Frame) -> bool | Opaque | Poison:
        """A compile-time condition."""
        value = self.evaluate(expression, frame, compile_time=True)
        if isinstance(value, bool | Poison):
            return value
        if isinstance(value, Opaque) and value.kind == "bool":
            return value
        if isinstance(value, Value):
            self.error(
                f"a condition must be known while compiling, found {value.type}",
                expression.span,
                suggestion="choose between tensors with where(condition, a, b)",
            )
        else:
            self.error(f"a condition is a bool, found {describe(value)}", expression.span)
        return POISON

    def _parameter(self, member: ParamDef, instance: LayerInstance, frame: Frame) -> object:
        declared = self.run_time_type(member.type, frame)
        if declared is None:
            return POISON
        word = "buffer" if member.is_buffer else "param"
        if isinstance(declared, ScalarType):
            if declared.is_compile_time:
                return self.error(
                    f"a {word} cannot have the compile-time type {declared}", member.type.span
                )
            declared = declared.tensor
        if declared.kind == "spike":
            return self.error(f"a {word} cannot be a SpikeTensor", member.type.span)
        for size in declared.shape:
            open_size = size.is_unknown and not self.is_final and self.assumptions.generics
            if size.constant() is None and (self.is_final or size.is_unknown) and not open_size:
                return self.error(
                    f"the shape of a {word} must be known, found {declared}", member.type.span
                )
        path = f"{instance.path}.{member.name}" if instance.path else member.name
        value = ParameterValue(declared, self.place(member.span), path, member.is_buffer)
        self.parameters.append(value)
        self.declared_at[value] = member.span
        return value

    def _member_let(self, member: Let, frame: Frame, path: str) -> object:
        if member.type is not None:
            value = self.typed_let(member, frame)
        else:
            value = self._sublayer(member.value, frame, path)
        if isinstance(value, Value) and not isinstance(value, ConstantValue):
            return self.error(
                "a 'let' of a layer is a sub-layer or a compile-time constant",
                member.value.span,
                suggestion="compute tensors inside a fn",
            )
        if isinstance(value, LayerRef):
            name = value.definition.name
            return self.error(
                f"{name} is a layer without its arguments",
                member.value.span,
                suggestion=f"write {name}(…)",
            )
        return value

    def _sublayer(self, expression: Expression, frame: Frame, path: str) -> object:
        if isinstance(expression, ListLiteral):
            self.enter(expression.span)
            items = tuple(
                self._sublayer(element, frame, f"{path}.{i}")
                for i, element in enumerate(expression.elements)
            )
            self.leave()
            return POISON if any(isinstance(i, Poison) for i in items) else items
        if isinstance(expression, Call) and isinstance(expression.callee, Name):
            name = expression.callee.identifier
            declaration = None
            if name not in frame.dims and not (
                frame.instance is not None
                and (name in frame.instance.members or name in frame.instance.generics)
            ):
                declaration = frame.module.find(name)
            if declaration is not None and isinstance(declaration[1], LayerDef):
                self.step(expression.span)
                arguments = self.evaluate_arguments(expression, frame, True)
                if any(isinstance(g.value, Poison) for g in arguments):
                    return POISON
                target = LayerRef(declaration[1], declaration[0])
                return self.make_layer(target, arguments, expression.span, path)
        return self.evaluate(expression, frame, compile_time=True)
