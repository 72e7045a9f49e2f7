"""Names, before any evaluation: unknown, repeated, unused, and code that no run reaches.

Looks at every branch, also those that the evaluation of a program never takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .annotations import dimension_names
from .builtins import BUILTINS, COMPILE_TIME_FUNCTIONS
from .diagnostics import MAX_ERRORS, DiagnosticBag, Edit
from .expressions import member_names
from .habits import MEMBERS, MODULES, NAMES, NOTHING, nearest
from .loader import Module
from .nodes import (
    Argument,
    Assign,
    Attribute,
    Binary,
    Call,
    Const,
    ErrorDeclaration,
    ErrorStatement,
    Expression,
    ExpressionStatement,
    For,
    FunctionDef,
    If,
    Import,
    Index,
    LayerDef,
    Let,
    ListLiteral,
    Member,
    MemberIf,
    Name,
    ParamDef,
    Return,
    Slice,
    Span,
    Statement,
    TensorTypeNode,
    TritLiteral,
    TypeNode,
    Unary,
    UnknownDimension,
)
from .types import KEYWORDS

_SPECIAL = {*BUILTINS, *COMPILE_TIME_FUNCTIONS, "trit"}

Part = Expression | Slice | Argument | UnknownDimension


def parts(node: Part) -> Iterator[Expression]:
    """Every expression inside a node, itself included."""
    stack: list[Part] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, Expression):
            yield current
        match current:
            case Binary(left=left, right=right):
                stack.extend((right, left))
            case Unary(operand=inner) | TritLiteral(value=inner) | Argument(value=inner):
                stack.append(inner)
            case Attribute(base=inner):
                stack.append(inner)
            case ListLiteral(elements=elements):
                stack.extend(reversed(elements))
            case Call(callee=callee, arguments=arguments):
                stack.extend(reversed(arguments))
                stack.append(callee)
            case Index(base=base, indices=indices):
                stack.extend(reversed(indices))
                stack.append(base)
            case Slice(start=start, stop=stop, step=step):
                stack.extend(e for e in (start, stop, step) if e is not None)
            case _:
                pass


@dataclass
class _Binding:
    span: Span
    is_used: bool = False


class _Names:
    def __init__(self, module: Module, bag: DiagnosticBag, links: dict[Span, Span]) -> None:
        self.module = module
        self.bag = bag
        self.links = links
        self.outer: dict[str, Span | None] = {}
        self.sizes: set[str] = set()
        self.blocks: list[dict[str, _Binding]] = []
        self.used: set[str] = set()
        self.attributes: set[str] = set()
        self.unknown = 0

    # Top level

    def program(self) -> None:
        seen: dict[str, Span] = {}
        for definition in self.module.program.declarations:
            if isinstance(definition, Import | ErrorDeclaration):
                continue
            self._once(definition.name, definition.name_span, seen)
            imported = self.module.imported.get(definition.name)
            if definition.name in _SPECIAL:
                self.bag.warning(
                    f"'{definition.name}' hides the built-in function of that name",
                    definition.name_span,
                )
            elif imported is not None:
                self.bag.warning(
                    f"'{definition.name}' hides an imported definition", definition.name_span
                )
        self.outer = dict.fromkeys((*_SPECIAL, *self.module.broken, *self.module.names()))
        members: list[tuple[LayerDef, set[str]]] = []
        for definition in self.module.program.declarations:
            match definition:
                case Const() | Let():
                    self._type(definition.type)
                    self._expression(definition.value)
                case FunctionDef():
                    self._function(definition)
                case LayerDef():
                    members.append((definition, self._layer(definition)))
                case _:
                    pass
        for layer, used in members:
            self._unused_members(layer.members, used | self.attributes)

    def _once(self, name: str, span: Span, seen: dict[str, Span]) -> None:
        if name in seen:
            self.bag.error(
                f"'{name}' is declared twice", span, notes=[("the first is here", seen[name])]
            )
        else:
            seen[name] = span

    # Layers

    def _layer(self, layer: LayerDef) -> set[str]:
        outer = self.outer
        self.used = set()
        seen: dict[str, Span] = {}
        names: dict[str, Span | None] = {}
        for generic in layer.generics:
            self._once(generic.name, generic.span, seen)
            if generic.default is not None:
                self.outer = {**outer, **names}
                self._expression(generic.default)
            names[generic.name] = generic.name_span
        self.outer = {**outer, **names, **member_names(layer)}
        self._members(layer.members, {})
        for function in layer.functions:
            if function.name == "forward":
                self._dimensions(function)
        self._type(layer.result)
        self.outer = outer
        return self.used

    def _members(self, members: Sequence[Member], seen: dict[str, Span]) -> dict[str, Span]:
        for member in members:
            match member:
                case MemberIf():
                    self._expression(member.condition)
                    then = self._members(member.then, dict(seen))
                    seen = {**then, **self._members(member.otherwise, dict(seen))}
                    continue
                case ParamDef():
                    self._type(member.type)
                case Let():
                    self._type(member.type)
                    self._expression(member.value)
                case FunctionDef():
                    self._function(member)
                case ErrorDeclaration():
                    continue
            self._once(member.name, member.name_span, seen)
            self.links[member.name_span] = self.outer.get(member.name) or member.name_span
        return seen

    def _unused_members(self, members: Sequence[Member], used: set[str]) -> None:
        for member in members:
            if isinstance(member, MemberIf):
                self._unused_members((*member.then, *member.otherwise), used)
            elif (
                isinstance(member, ParamDef | Let)
                and member.name not in used
                and not member.name.startswith("_")
            ):
                self.bag.warning(f"'{member.name}' is never used", member.name_span)

    # Functions

    def _function(self, function: FunctionDef) -> None:
        outer = self.outer
        seen: dict[str, Span] = {}
        arguments: dict[str, _Binding] = {}
        for argument in function.arguments:
            self._once(argument.name, argument.span, seen)
            arguments[argument.name] = _Binding(argument.name_span, is_used=True)
        self.outer = dict(outer)
        self.sizes = self._dimensions(function)
        self.used |= self.sizes
        self._type(function.result)
        self.sizes = set()
        self.blocks = [arguments]
        self._block(function.body)
        self.blocks = []
        self.outer = outer

    def _dimensions(self, function: FunctionDef) -> set[str]:
        """Bind the names in the types of arguments where they mean nothing yet; all of them."""
        names: set[str] = set()
        for argument in function.arguments:
            for name in dimensions(argument.type):
                names.add(name.identifier)
                if name.identifier in ("None", "null") and name.identifier not in self.outer:
                    self.bag.error(
                        f"a dimension is a number, a name or ?, found '{name.identifier}'",
                        name.span,
                        suggestion="did you mean '?'?",
                    )
                self.outer.setdefault(name.identifier, name.span)
                self._link(name)
        return names

    def _block(self, body: Sequence[Statement], extra: dict[str, _Binding] | None = None) -> bool:
        """Check a block; whether it returns on every path."""
        own: dict[str, _Binding] = dict(extra or {})
        self.blocks.append(own)
        returned = False
        for statement in body:
            if returned:
                self.bag.warning("this statement is never reached", statement.span)
                returned = False
            returned = self._statement(statement, own)
        self.blocks.pop()
        for name, binding in own.items():
            if not binding.is_used and not name.startswith("_"):
                self.bag.warning(f"'{name}' is never used", binding.span)
        return returned

    def _statement(self, statement: Statement, own: dict[str, _Binding]) -> bool:
        match statement:
            case Let():
                self._type(statement.type)
                self._expression(statement.value)
                self._declare(statement, own)
            case Assign():
                self._expression(statement.value)
                if (known := self._local(statement.name)) is not None:
                    self.links[statement.name_span] = known.span
                else:
                    near = self._nearest(statement.name, ())
                    self.bag.error(
                        f"'{statement.name}' is not declared",
                        statement.name_span,
                        suggestion=near or f"write let {statement.name} = …",
                        edits=() if near else (Edit(statement.name_span.start, "let "),),
                    )
                    own[statement.name] = _Binding(statement.name_span, is_used=True)
            case Return():
                if statement.value is not None:
                    self._expression(statement.value)
                return True
            case If():
                self._expression(statement.condition)
                then = self._block(statement.then)
                otherwise = self._block(statement.otherwise)
                return then and otherwise
            case For():
                self._expression(statement.iterable)
                binding = _Binding(statement.name_span, is_used=True)
                self._block(statement.body, {statement.name: binding})
            case ExpressionStatement(value=Call(callee=Name(identifier="print") as callee)) if (
                callee.identifier not in self.outer
            ):
                edits = (Edit(statement.span, ""),)
                self.bag.error(
                    "there is no 'print'", statement.span, suggestion=NOTHING["print"], edits=edits
                )
            case ExpressionStatement():
                self._expression(statement.value)
            case ErrorStatement(names=names):
                for name in names:
                    own[name] = _Binding(statement.span, is_used=True)
            case _:
                pass
        return False

    def _declare(self, statement: Let, own: dict[str, _Binding]) -> None:
        name = statement.name
        if name in own:
            self.bag.error(
                f"'{name}' is declared twice",
                statement.name_span,
                suggestion=f"write {name} = … to give it another value",
                notes=[("the first is here", own[name].span)],
                edits=() if statement.type else (_between(statement.span, statement.name_span),),
            )
            return
        if any(name in block for block in self.blocks[:-1]):
            is_argument = len(self.blocks) == 2
            if not is_argument:
                self.bag.warning(
                    f"'{name}' hides an outer variable, which keeps its value",
                    statement.name_span,
                    suggestion=f"write {name} = … to give it another value",
                )
        own[name] = _Binding(statement.name_span)

    # Names

    def _type(self, node: TypeNode | None) -> None:
        if isinstance(node, TensorTypeNode) and node.kind not in NOTHING:
            for dimension in node.dimensions:
                if not isinstance(dimension, UnknownDimension):
                    self._expression(dimension)

    def _expression(self, expression: Expression) -> None:
        prefixes: set[int] = set()
        for part in parts(expression):
            if isinstance(part, Call) and self._has_no_counterpart(part.callee):
                prefixes.update(id(inner) for a in part.arguments for inner in parts(a))
            if isinstance(part, Attribute):
                self.attributes.add(part.name)
                self._foreign_prefix(part, prefixes)
            elif isinstance(part, Name) and id(part) not in prefixes:
                self._use(part)

    def _has_no_counterpart(self, callee: Expression) -> bool:
        """`Sequential(…)`: what stands in such a call needs no messages of its own."""
        name = callee.identifier if isinstance(callee, Name) else ""
        return name in NOTHING and not self._is_known(name)

    def _foreign_prefix(self, attribute: Attribute, prefixes: set[int]) -> None:
        """`self.w`, `torch.relu`: what stands before the last dot is no name here."""
        root: Expression = attribute
        while isinstance(root, Attribute):
            root = root.base
        if not isinstance(root, Name) or id(root) in prefixes:
            return
        word = root.identifier
        if word not in (*MEMBERS, *MODULES) or self._is_known(word):
            return
        prefixes.add(id(root))
        self.module.broken.add(word)
        name = attribute.name_span
        what = "members of a layer" if word in MEMBERS else "layers and functions"
        known = attribute.name in self.outer or word in MEMBERS
        near = None if known else self._nearest(attribute.name, self.outer)
        self.bag.error(
            f"there is no '{word}': {what} are named directly",
            root.span,
            suggestion=f"leave '{word}.' out" if known else near or NOTHING.get(attribute.name),
            edits=(_between(root.span, name), *([Edit(name, near.split("'")[1])] if near else [])),
        )

    def _local(self, name: str) -> _Binding | None:
        return next((block[name] for block in reversed(self.blocks) if name in block), None)

    def _is_known(self, name: str) -> bool:
        return name in self.outer or self._local(name) is not None

    def _use(self, name: Name) -> None:
        text = name.identifier
        self.used.add(text)
        if (local := self._local(text)) is not None:
            local.is_used = True
            self.links[name.span] = local.span
            return
        if text in self.outer:
            self._link(name)
            return
        self.module.broken.add(text)  # once is enough
        self.bag.error(
            f"unknown name '{text}'",
            name.span,
            suggestion=NOTHING.get(text) or self._nearest(text, self.outer) or self._sizes(),
        )

    def _sizes(self) -> str | None:
        """Which names the type of a result may have, where one is read."""
        known = ", ".join(sorted(self.sizes - {*NOTHING, *KEYWORDS.values()}))
        return f"the types of the arguments name the sizes: {known}" if known else None

    def _link(self, name: Name) -> None:
        """Note where a name that no block binds is declared, if a file declares it."""
        where = self.outer[name.identifier]
        if where is None and (found := self.module.find(name.identifier)) is not None:
            where = found[1].name_span
        if where is not None:
            self.links[name.span] = where

    def _nearest(self, name: str, outer: Iterable[str]) -> str | None:
        """What `name` may be a misspelling of: slow, so only for the errors that are shown."""
        self.unknown += 1
        if self.unknown > MAX_ERRORS:
            return None
        candidates = {*outer, *(n for block in self.blocks for n in block), "true", "false"}
        return nearest(name, candidates, NAMES)


def _between(start: Span, end: Span) -> Edit:
    """What stands from the start of one place to the start of another, left out."""
    return Edit(start.to(end.start), "")


def dimensions(node: TypeNode) -> list[Name]:
    """The names in the dimensions of a type, from left to right."""
    if not isinstance(node, TensorTypeNode):
        return []
    return [name for dimension in node.dimensions for name in dimension_names(dimension)]


def check_names(module: Module, bag: DiagnosticBag) -> dict[Span, Span]:
    """Report unknown and repeated names, and warn of unused ones and of unreachable code.

    Returns:
        Where the name at each place is declared; not those of functions that are built in.
    """
    links: dict[Span, Span] = {}
    _Names(module, bag, links).program()
    return links
