"""What is known of one `.tri` text: its messages, the value of each expression, where names lead.

The checker evaluates the program as `triton check` does; `_Notes` is its evaluator with a pencil.
Spans are those of `ir.language.nodes`. Not here: words (`described`) and the protocol (`server`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ...ir.language.arguments import Given
from ...ir.language.checker import Inspection, TypeChecker
from ...ir.language.diagnostics import Diagnostic, DiagnosticBag, Edit, apply_fix, split_lines
from ...ir.language.elaborate import Elaborator
from ...ir.language.expressions import member_names
from ...ir.language.loader import PRELUDE_FILE, definitions
from ...ir.language.nodes import (
    Assign,
    Attribute,
    Const,
    Expression,
    For,
    FunctionDef,
    If,
    LayerDef,
    Let,
    MemberIf,
    Node,
    ParamDef,
    Program,
    Span,
)
from ...ir.language.parser import TritonParser
from ...ir.language.session import Budget
from ...ir.language.values import POISON, Frame, FunctionRef, LayerInstance, LayerRef, Poison

NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Found:
    """What an evaluation notes: values by the place of the expression or the bound name."""

    values: dict[Span, object] = field(default_factory=dict[Span, object])
    links: dict[Span, Span] = field(default_factory=dict[Span, Span])
    bound: set[Span] = field(default_factory=set[Span])


class _Notes(Elaborator):
    """The evaluator of the checker; notes what it finds in a definition as it stands alone.

    Not what it finds where another layer uses the definition: that is one use of many.
    """

    def __init__(self, bag: DiagnosticBag, budget: Budget, found: Found) -> None:
        super().__init__(bag, budget, is_final=False)
        self.found = found

    def _note(self, span: Span, value: object) -> None:
        if len(self.calls) + len(self.making) <= 1 and value is not POISON:
            self.found.values.setdefault(span, value)

    def _bind(self, name: Span, value: object) -> None:
        self.found.bound.add(name)
        self._note(name, value)

    def evaluate(self, expression: Expression, frame: Frame, compile_time: bool = False) -> object:
        value = super().evaluate(expression, frame, compile_time)
        self._note(expression.span, value)
        if isinstance(expression, Attribute):
            base = self.found.values.get(expression.base.span)
            if isinstance(base, LayerInstance):
                generics = {g.name: g.name_span for g in base.definition.generics}
                names = {**generics, **member_names(base.definition)}
                if (where := names.get(expression.name)) is not None:
                    self.found.links[expression.name_span] = where
        return value

    def _assignment(self, statement: Assign, frame: Frame) -> None:
        super()._assignment(statement, frame)
        self._note(statement.name_span, self.found.values.get(statement.value.span, POISON))

    def typed_let(self, definition: Const | Let, frame: Frame) -> object:
        value = super().typed_let(definition, frame)
        self._bind(definition.name_span, value)
        return value

    def make_members(self, instance: LayerInstance) -> None:
        super().make_members(instance)
        if not self.calls and not self.making:
            for name, where in member_names(instance.definition).items():
                if where is not None and name in instance.members:
                    self._bind(where, instance.members[name])

    def make_layer(
        self, target: LayerRef, arguments: Sequence[Given], span: Span, path: str
    ) -> LayerInstance | Poison:
        self._arguments(arguments, [(g.name, g.span) for g in target.definition.generics])
        return super().make_layer(target, arguments, span, path)

    def call_function(self, target: FunctionRef, arguments: Sequence[Given], span: Span) -> object:
        self._arguments(arguments, [(a.name, a.span) for a in target.definition.arguments])
        return super().call_function(target, arguments, span)

    def _arguments(self, given: Sequence[Given], declared: Sequence[tuple[str, Span]]) -> None:
        places = dict(declared)
        for argument in (item.argument for item in given):
            if argument.name is not None and argument.name in places:
                where = places[argument.name].first(len(argument.name))
                self.found.links[argument.span.first(len(argument.name))] = where

    def run_function(self, target: FunctionRef, frame: Frame, span: Span) -> object:
        if not self.calls:
            for name, local in frame.blocks[0].items():
                if local.span is not None:
                    self._bind(local.span.first(len(name)), local.value)
        return super().run_function(target, frame, span)


@dataclass
class TriProgram:
    """One text, checked.

    Attributes:
        text: the program.
        path: its file, where it has one; imports start there.
    """

    text: str
    path: Path
    found: Found = field(default_factory=Found)
    inspection: Inspection = field(init=False)
    program: Program = field(init=False)

    def __post_init__(self) -> None:
        self.program, diagnostics = TritonParser().parse_with_recovery(self.text, self.path)
        checker = TypeChecker(evaluator=lambda bag, budget: _Notes(bag, budget, self.found))
        self.inspection = checker.inspect(self.program, diagnostics)
        self.found.links.update(self.inspection.links)

    @property
    def file(self) -> str:
        """The name that spans of this text give."""
        return self.program.span.file

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text without their ends."""
        return split_lines(self.text)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What is wrong; warnings only where nothing else is, as `triton check` has it."""
        bag = self.inspection.bag
        return bag.errors if bag.has_errors else bag.diagnostics

    def name_at(self, line: int, column: int) -> Span | None:
        """The place of the name that stands at a position, or ends there."""
        if not 0 < line <= len(self.lines):
            return None
        for match in NAME.finditer(self.lines[line - 1]):
            if match.start() < column <= match.end() + 1:
                return Span(self.file, line, match.start() + 1, line, match.end() + 1)
        return None

    def text_at(self, span: Span) -> str:
        """What stands at a place of one line."""
        lines = self.lines if span.file == self.file else self.source_lines(span.file)
        return lines[span.line - 1][span.column - 1 : span.end_column - 1]

    def source_lines(self, file: str) -> list[str]:
        """The lines of another file of the program."""
        source = self.inspection.sources.get(file)
        return split_lines(PRELUDE_FILE.read_text("utf-8") if source is None else source)

    def declaration(self, name: Span) -> Span | None:
        """Where the name at a place is declared; the place itself if it declares one."""
        where = self.found.links.get(name)
        if where is not None:
            return where
        return name if name in self._declared else None

    @cached_property
    def _declared(self) -> frozenset[Span]:
        generics = (g.name_span for layer in self.program.layers for g in layer.generics)
        own = (d.name_span for d in definitions(self.program).values())
        return frozenset({*self.found.links.values(), *self.found.bound, *own, *generics})

    def occurrences(self, declaration: Span) -> set[Span]:
        """Every place of a name, its declaration included, in all files of the program."""
        return {declaration, *(u for u, d in self.found.links.items() if d == declaration)}

    def value_at(self, name: Span) -> object:
        """The value of the name or expression at a place; `None` where there is none."""
        value = self.found.values.get(name)
        if value is None and (where := self.declaration(name)) is not None:
            value = self.found.values.get(where)
        return value

    def node_declared_at(self, where: Span) -> Node | None:
        """The layer, function or parameter whose name stands at a place, in any file."""
        module = self.inspection.module
        for name in module.names():
            found = module.find(name)
            if found is not None and found[1].name_span == where:
                return found[1]
        for layer in self.program.layers:
            for member in layer.members:
                if isinstance(member, FunctionDef | ParamDef | Let) and member.name_span == where:
                    return member
        return None

    def enclosing(self, line: int, column: int) -> list[LayerDef | FunctionDef]:
        """The layer and the function around a position, outermost first."""
        around: list[LayerDef | FunctionDef] = []
        items: Sequence[Node] = self.program.declarations
        while items:
            inside = [d for d in items if isinstance(d, LayerDef | FunctionDef)]
            found = next((d for d in inside if _holds(d.span, line, column)), None)
            if found is None:
                break
            around.append(found)
            items = found.members if isinstance(found, LayerDef) else ()
        return around

    def bound(self) -> Iterator[tuple[Span, bool]]:
        """The names that statements and members bind, each with whether its type is written."""
        stack: list[Node] = list(reversed(self.program.declarations))
        while stack:
            node = stack.pop()
            match node:
                case Let() | Const():
                    yield node.name_span, node.type is not None
                case Assign():
                    yield node.name_span, False
                case LayerDef(members=inner) | FunctionDef(body=inner) | For(body=inner):
                    stack.extend(reversed(inner))
                case If() | MemberIf():
                    stack.extend(reversed((*node.then, *node.otherwise)))
                case _:
                    pass

    def renamed(self, declaration: Span, name: str) -> list[Edit]:
        """What changes so that a declaration has another name.

        Raises:
            ValueError: the name is none, or is taken: the program would mean something else.
        """
        if not NAME.fullmatch(name):
            raise ValueError(f"'{name}' is no name")
        if declaration.file == str(PRELUDE_FILE):
            raise ValueError("standard layers keep their names")
        places = sorted(self.occurrences(declaration))
        if {span.file for span in places} != {self.file}:
            raise ValueError("the name stands in other files too; rename it there")
        edits = [Edit(span, name) for span in places]
        after = TriProgram(apply_fix(self.text, edits), self.path)
        broken = after.inspection.bag.error_count > self.inspection.bag.error_count
        if broken or self._leads(edits) != after._leads(()):
            raise ValueError(f"'{name}' means something else there already")
        return edits

    def _leads(self, edits: Sequence[Edit]) -> dict[tuple[int, int], tuple[str, tuple[int, int]]]:
        """Where each name of this text leads, both as they stand after the edits."""

        def after(span: Span) -> tuple[int, int]:
            before = [e for e in edits if e.span.line == span.line and e.span.column < span.column]
            grown = sum(len(e.text) - (e.span.end_column - e.span.column) for e in before)
            return span.line, span.column + grown

        return {
            after(use): (where.file, after(where) if where.file == self.file else (0, 0))
            for use, where in self.found.links.items()
            if use.file == self.file
        }


def _holds(span: Span, line: int, column: int) -> bool:
    return (span.line, span.column) <= (line, column) <= (span.end_line, span.end_column)
