"""Random `.tri` programs: a syntax tree, and a text of it with random spaces and comments.

The fixtures give hypothesis strategies; a test draws from one with `data.draw(...)`:

    @given(data=st.data())
    def test_x(program_texts, data):
        tree, text = data.draw(program_texts)

The programs are right by the grammar, not by the type rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from triton_dsl.ir.language import nodes

NOWHERE = nodes.Span("", 1, 1, 1, 1)
NAMES = ("x", "y", "w1", "N", "conv", "scale", "mode", "layers", "fn_", "trits", "forward", "_")
OPERATORS = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
    "@": 6,
}
PREFIX, POSTFIX = 7, 8
SEP = "\0"

T = TypeVar("T")
Inner = Callable[[], nodes.Expression]


class TreeMaker:
    """Random syntax trees."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def some(self, make: Callable[[], T], low: int, high: int) -> tuple[T, ...]:
        return tuple(make() for _ in range(self.random.randint(low, high)))

    def name(self) -> str:
        return self.random.choice(NAMES)

    def maybe(self, make: Callable[[], T]) -> T | None:
        return make() if self.random.random() < 0.5 else None

    def program(self) -> nodes.Program:
        declarations = self.some(self.declaration, 0, 3)
        return nodes.Program(declarations, "", span=NOWHERE)

    def declaration(self) -> nodes.TopLevel:
        kind = self.random.randint(0, 5)
        if kind == 0:
            return nodes.Import(self.random.choice(("a.tri", 'q"\\.tri', "ü/é.tri")), span=NOWHERE)
        if kind == 1:
            name, annotation, value = self.name(), self.maybe(self.type), self.expression(2)
            return nodes.Const(name, annotation, value, span=NOWHERE, name_span=NOWHERE)
        if kind == 2:
            return self.let()
        if kind == 3:
            return self.function()
        generics = self.some(self.generic, 0, 2)
        result, members = self.maybe(self.type), self.some(self.member, 0, 3)
        return nodes.LayerDef(
            self.name(), generics, result, members, span=NOWHERE, name_span=NOWHERE
        )

    def generic(self) -> nodes.GenericDef:
        default = self.maybe(lambda: self.expression(1))
        return nodes.GenericDef(self.name(), self.type(), default, span=NOWHERE)

    def let(self) -> nodes.Let:
        name, annotation, value = self.name(), self.maybe(self.type), self.expression(3)
        return nodes.Let(name, annotation, value, span=NOWHERE, name_span=NOWHERE)

    def member(self) -> nodes.Member:
        kind = self.random.randint(0, 4)
        if kind <= 1:
            buffer = self.random.random() < 0.3
            return nodes.ParamDef(self.name(), self.type(), buffer, span=NOWHERE, name_span=NOWHERE)
        if kind == 2:
            return self.let()
        if kind == 3:
            return self.function()
        return self.member_if()

    def member_if(self) -> nodes.MemberIf:
        condition, then = self.expression(1), self.some(self.member, 0, 1)
        otherwise = self.some(self.member, 0, 1)
        return nodes.MemberIf(condition, then, otherwise, span=NOWHERE)

    def function(self) -> nodes.FunctionDef:
        arguments = self.some(
            lambda: nodes.ArgumentDef(self.name(), self.type(), span=NOWHERE), 0, 3
        )
        result, body = self.maybe(self.type), self.some(lambda: self.statement(2), 0, 3)
        return nodes.FunctionDef(
            self.name(), arguments, result, body, span=NOWHERE, name_span=NOWHERE
        )

    def statement(self, depth: int) -> nodes.Statement:
        kind = self.random.randint(0, 6 if depth else 4)
        if kind <= 1:
            return self.let()
        if kind == 2:
            value = self.expression(3)
            return nodes.Assign(self.name(), value, span=NOWHERE, name_span=NOWHERE)
        if kind == 3:
            return nodes.Return(self.maybe(lambda: self.expression(3)), span=NOWHERE)
        if kind == 4:
            return nodes.ExpressionStatement(self.expression(2), span=NOWHERE)
        body = self.some(lambda: self.statement(depth - 1), 0, 2)
        if kind == 5:
            otherwise = self.some(lambda: self.statement(depth - 1), 0, 2)
            return nodes.If(self.expression(1), body, otherwise, span=NOWHERE)
        return nodes.For(self.name(), self.expression(1), body, span=NOWHERE, name_span=NOWHERE)

    def type(self) -> nodes.TypeNode:
        if self.random.random() < 0.4:
            return nodes.ScalarTypeNode(self.random.choice(("int", "trit", "x")), span=NOWHERE)
        element = self.random.choice((None, "int8", "trit"))
        long_form = element is not None and self.random.random() < 0.5
        kind = self.random.choice(("Tensor", "TernaryTensor", "SpikeTensor"))
        dimensions = self.some(self.dimension, 0, 3)
        return nodes.TensorTypeNode(kind, element, dimensions, long_form, span=NOWHERE)

    def dimension(self) -> nodes.Dimension:
        if self.random.random() < 0.2:
            return nodes.UnknownDimension(span=NOWHERE)
        value = self.expression(1)
        if isinstance(value, nodes.Binary) and OPERATORS[value.operator] < 5:
            return value.left
        return value

    def expression(self, depth: int) -> nodes.Expression:
        kind = self.random.randint(0, 11 if depth else 5)
        if kind <= 2:
            return nodes.Name(self.name(), span=NOWHERE)
        if kind == 3:
            text = self.random.choice(("0", "1", "42", "0x1F", "0b101", "9223372036854775808"))
            return nodes.IntegerLiteral(int(text, 0), text, span=NOWHERE)
        if kind == 4:
            text = self.random.choice(("1.", "0.5", "1e-3", "2.5E+10", "0.10"))
            return nodes.FloatLiteral(float(text), text, span=NOWHERE)
        if kind == 5:
            if self.random.random() < 0.5:
                return nodes.BoolLiteral(self.random.random() < 0.5, span=NOWHERE)
            value = self.random.choice(("", "rate", 'a"b', "tab\t\\", "# no comment", "/* é"))
            return nodes.StringLiteral(value, span=NOWHERE)
        inner = lambda: self.expression(depth - 1)  # noqa: E731
        if kind <= 7:
            operator = self.random.choice(tuple(OPERATORS))
            return nodes.Binary(operator, inner(), inner(), span=NOWHERE, operator_span=NOWHERE)
        if kind == 8:
            return nodes.Unary(self.random.choice("-!"), inner(), span=NOWHERE)
        if kind == 9:
            return self.call(inner)
        if kind == 10:
            items = self.some(lambda: self.slice(inner), 1, 3)
            return nodes.Index(inner(), items, span=NOWHERE)
        if self.random.random() < 0.5:
            return nodes.ListLiteral(self.some(inner, 0, 3), span=NOWHERE)
        return nodes.Attribute(inner(), self.name(), span=NOWHERE)

    def call(self, inner: Inner) -> nodes.Expression:
        if self.random.random() < 0.2:
            return nodes.TritLiteral(inner(), span=NOWHERE)
        arguments = self.some(
            lambda: nodes.Argument(self.maybe(self.name), inner(), span=NOWHERE), 0, 3
        )
        return nodes.Call(inner(), arguments, span=NOWHERE)

    def slice(self, inner: Inner) -> nodes.Expression | nodes.Slice:
        if self.random.random() < 0.5:
            return inner()
        parts = (self.maybe(inner), self.maybe(inner), self.maybe(inner))
        return nodes.Slice(*parts, span=NOWHERE)


class Unparser:
    """A tree to tokens; `SEP` stands where a statement ends. Written apart from the formatter."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.out: list[str] = []

    def put(self, *words: str) -> None:
        self.out += words

    def listed(
        self, opener: str, items: Sequence[T], emit: Callable[[T], None], closer: str
    ) -> None:
        self.put(opener)
        for number, item in enumerate(items):
            if number:
                self.put(",")
            emit(item)
        if items and self.random.random() < 0.2:
            self.put(",")
        self.put(closer)

    def block(self, items: Sequence[nodes.Node]) -> None:
        self.put("{")
        for item in items:
            self.item(item)
        self.put("}")

    def item(self, node: nodes.Node) -> None:
        getattr(self, "put_" + type(node).__name__)(node)
        self.put(SEP)

    def put_Import(self, node: nodes.Import) -> None:
        self.put("import", quote(node.path))

    def put_Const(self, node: nodes.Const) -> None:
        self.binding("const", node)

    def put_Let(self, node: nodes.Let) -> None:
        self.binding("let", node)

    def binding(self, word: str, node: nodes.Const | nodes.Let) -> None:
        self.put(word, node.name)
        if node.type is not None:
            self.put(":")
            self.type(node.type)
        self.put("=")
        self.expression(node.value)

    def put_ParamDef(self, node: nodes.ParamDef) -> None:
        self.put("buffer" if node.is_buffer else "param", node.name, ":")
        self.type(node.type)

    def put_LayerDef(self, node: nodes.LayerDef) -> None:
        self.put("layer", node.name)
        if node.generics or self.random.random() < 0.2:
            self.listed("(", node.generics, self.generic, ")")
        if node.result is not None:
            self.put("->")
            self.type(node.result)
        self.block(node.members)

    def generic(self, node: nodes.GenericDef) -> None:
        self.put(node.name, ":")
        self.type(node.type)
        if node.default is not None:
            self.put("=")
            self.expression(node.default)

    def put_FunctionDef(self, node: nodes.FunctionDef) -> None:
        self.put("fn", node.name)
        self.listed("(", node.arguments, self.argument_def, ")")
        if node.result is not None:
            self.put("->")
            self.type(node.result)
        self.block(node.body)

    def argument_def(self, node: nodes.ArgumentDef) -> None:
        self.put(node.name, ":")
        self.type(node.type)

    def put_MemberIf(self, node: nodes.MemberIf | nodes.If) -> None:
        self.put("if")
        self.expression(node.condition)
        if isinstance(node, nodes.MemberIf):
            then, otherwise = node.then, node.otherwise
        else:
            then, otherwise = node.then, node.otherwise
        self.block(then)
        if not otherwise:
            return
        self.put("else")
        if len(otherwise) == 1 and isinstance(otherwise[0], type(node)):
            self.put_MemberIf(otherwise[0])
        else:
            self.block(otherwise)

    put_If = put_MemberIf

    def put_For(self, node: nodes.For) -> None:
        self.put("for", node.name, "in")
        self.expression(node.iterable)
        self.block(node.body)

    def put_Assign(self, node: nodes.Assign) -> None:
        self.put(node.name, "=")
        self.expression(node.value)

    def put_Return(self, node: nodes.Return) -> None:
        self.put("return")
        if node.value is not None:
            self.expression(node.value)

    def put_ExpressionStatement(self, node: nodes.ExpressionStatement) -> None:
        self.expression(node.value)

    def type(self, node: nodes.TypeNode) -> None:
        if isinstance(node, nodes.ScalarTypeNode):
            self.put(node.name)
            return
        assert isinstance(node, nodes.TensorTypeNode)
        self.put(node.kind)
        if node.element is not None:
            self.put("<", node.element, "," if node.long_form else ">")
        self.listed("[", node.dimensions, self.dimension, "]")
        if node.long_form:
            self.put(">")

    def dimension(self, node: nodes.Dimension) -> None:
        if isinstance(node, nodes.UnknownDimension):
            self.put("?")
        else:
            self.expression(node, 5)

    def expression(self, node: nodes.Expression, level: int = 0) -> None:
        strength = POSTFIX
        if isinstance(node, nodes.Binary):
            strength = OPERATORS[node.operator]
        elif isinstance(node, nodes.Unary):
            strength = PREFIX
        if strength < level or self.random.random() < 0.1:
            self.put("(")
            self.expression(node)
            self.put(")")
            return
        getattr(self, "put_" + type(node).__name__)(node)

    def put_Binary(self, node: nodes.Binary) -> None:
        level = OPERATORS[node.operator]
        self.expression(node.left, level)
        self.put(node.operator)
        self.expression(node.right, level + 1)

    def put_Unary(self, node: nodes.Unary) -> None:
        self.put(node.operator)
        self.expression(node.operand, PREFIX)

    def put_Name(self, node: nodes.Name) -> None:
        self.put(node.identifier)

    def put_IntegerLiteral(self, node: nodes.IntegerLiteral | nodes.FloatLiteral) -> None:
        self.put(node.text)

    put_FloatLiteral = put_IntegerLiteral

    def put_BoolLiteral(self, node: nodes.BoolLiteral) -> None:
        self.put("true" if node.value else "false")

    def put_StringLiteral(self, node: nodes.StringLiteral) -> None:
        self.put(quote(node.value))

    def put_TritLiteral(self, node: nodes.TritLiteral) -> None:
        self.put("trit")
        self.listed("(", [node.value], self.expression, ")")

    def put_ListLiteral(self, node: nodes.ListLiteral) -> None:
        self.listed("[", node.elements, self.expression, "]")

    def put_Call(self, node: nodes.Call) -> None:
        self.expression(node.callee, POSTFIX)
        self.listed("(", node.arguments, self.argument, ")")

    def argument(self, node: nodes.Argument) -> None:
        if node.name is not None:
            self.put(node.name, "=")
        self.expression(node.value)

    def put_Index(self, node: nodes.Index) -> None:
        self.expression(node.base, POSTFIX)
        self.listed("[", node.indices, self.index_item, "]")

    def index_item(self, node: nodes.Expression | nodes.Slice) -> None:
        if not isinstance(node, nodes.Slice):
            self.expression(node)
            return
        parts = (node.start, node.stop, node.step)
        for number, part in enumerate(parts):
            if number == 1 or (number == 2 and (part or self.random.random() < 0.2)):
                self.put(":")
            if part is not None:
                self.expression(part)

    def put_Attribute(self, node: nodes.Attribute) -> None:
        self.expression(node.base, POSTFIX)
        self.put(".", node.name)


def quote(text: str) -> str:
    """A string literal; JSON's escapes are a subset of the language's for these texts."""
    return json.dumps(text, ensure_ascii=False)


BLOCK_COMMENTS = ("/* c */", "/**/", "/* two\n   lines */", "/* # // */")
LINE_COMMENTS = ("# c", "// d", "#", "// /* e", "# trailing   ")


class Spacer:
    """Tokens to text, with random spaces, newlines and comments between them."""

    def __init__(self, random: Random, comments: float) -> None:
        self.random = random
        self.comments = comments

    def text(self, tokens: list[str]) -> str:
        depth = 0
        parts: list[str] = [self.lines()] if self.random.random() < 0.3 else []
        for number, token in enumerate(tokens):
            following = tokens[number + 1] if number + 1 < len(tokens) else ""
            if token == SEP:
                parts.append(self.end(following))
                continue
            parts.append(token)
            depth += (token in ("(", "[")) - (token in (")", "]"))
            if depth:
                parts.append(self.lines() if self.random.random() < 0.15 else self.gap())
            elif (token == "{" and self.random.random() < 0.8) or (
                following in ("{", "else") and self.random.random() < 0.2
            ):
                parts.append(self.lines())
            else:
                parts.append(self.gap())
        return "".join(parts)

    def gap(self) -> str:
        if self.random.random() < self.comments:
            return " " + self.random.choice(BLOCK_COMMENTS) + " "
        return self.random.choice((" ", " ", " ", "  ", "\t"))

    def lines(self) -> str:
        """White space with at least one newline."""
        text = ""
        for _ in range(self.random.randint(1, 3)):
            text += self.gap()
            if self.random.random() < self.comments:
                text += self.random.choice(LINE_COMMENTS)
            text += self.random.choice(("\n", "\n", "\r\n"))
        return text + self.gap()

    def end(self, following: str) -> str:
        if following == "}" and self.random.random() < 0.3:
            return self.gap()
        if self.random.random() < 0.2:
            return self.gap() + ";" + self.gap()
        return self.lines()


def make_text(random: Random) -> tuple[nodes.Program, str]:
    """A random program and a text that must parse to it."""
    tree = TreeMaker(random).program()
    unparser = Unparser(random)
    for declaration in tree.declarations:
        unparser.item(declaration)
    comments = random.choice((0.0, 0.05, 0.3))
    return tree, Spacer(random, comments).text(unparser.out)


JUNK = (
    *("", "{", "}", "(", ")", "[", "]", "\n", ";", ",", ":", "=", "->", ".", '"', "'", "/*", "*/"),
    *("layer", "fn", "let", "return", "if", "else", "for", "in", "import", "param", "retrun"),
    *("@", "!", "&", "0x", "1e999", "9" * 60, "1_0", "\0", "\ufeff", "\u2028", "é", "−", "\x1b"),
    *("(" * 300, "-" * 300, "{" * 250, "x+" * 300, "x." * 120, "f(" * 120, "#", "//", "\\", "\t"),
)


def mutate(random: Random, text: str) -> str:
    """The text with a few things done to it that people and transmission errors do to texts."""
    for _ in range(random.randint(1, 3)):
        start = random.randint(0, len(text))
        stop = min(len(text), start + random.choice((0, 0, 1, 1, 3, 10)))
        kind = random.randint(0, 4)
        if kind == 0:
            text = text[:start]
        elif kind == 1:
            text = text[:start] + text[stop:]
        elif kind == 2:
            text = text[:start] + text[start:stop] * 2 + text[stop:]
        else:
            text = text[:start] + random.choice(JUNK) + text[stop:]
    return text


RANDOMS = st.integers(0, 2**63 - 1).map(Random)


@pytest.fixture(scope="session")
def program_texts() -> SearchStrategy[tuple[nodes.Program, str]]:
    """Strategy of pairs: a syntax tree, and a text with comments that parses to it."""
    return RANDOMS.map(make_text)


@pytest.fixture(scope="session")
def mutated_texts() -> SearchStrategy[str]:
    """Strategy of texts that are almost programs."""

    def make(random: Random) -> str:
        return mutate(random, make_text(random)[1])

    return RANDOMS.map(make)
