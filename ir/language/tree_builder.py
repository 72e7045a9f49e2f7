"""Grammar rules to syntax tree: one function a rule or alias of `grammar.lark`.

The parser calls a function with the children of the rule, all tokens included, as soon as the rule
is complete; nothing here is recursive, nothing here can fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

from . import nodes
from .lexer import SourceToken, unescape
from .nodes import Span

Child = SourceToken | nodes.Node
Children = list[Child]
Binding = TypeVar("Binding", nodes.Let, nodes.Const)


def _span(children: Children) -> Span:
    return children[0].span.to(children[-1].span)


def _kind(child: Child) -> str:
    return child.type if isinstance(child, SourceToken) else ""


def _token(child: Child) -> SourceToken:
    return cast(SourceToken, child)


def _type(children: Children) -> nodes.TypeNode | None:
    return next((c for c in children if isinstance(c, nodes.TypeNode)), None)


def _statements(children: Children) -> tuple[nodes.Statement, ...]:
    return tuple(c for c in children if isinstance(c, nodes.Statement))


def _members(children: Children) -> tuple[nodes.Member, ...]:
    return tuple(c for c in children if isinstance(c, nodes.Member))


def _binding(kind: type[Binding], children: Children) -> Binding:
    value = cast(nodes.Expression, children[-1])
    span, name = _span(children), children[1]
    return kind(str(name), _type(children), value, span=span, name_span=name.span)


Rule = Callable[[Children], nodes.Node]


def _unless_broken(
    error: type[nodes.ErrorDeclaration | nodes.ErrorStatement],
) -> Callable[[Rule], Rule]:
    """For what may have a made-up header: nothing but an error is made of it then."""

    def wrap(rule: Rule) -> Rule:
        def made(children: Children) -> nodes.Node:
            broken = _token(children[0]).broken
            return rule(children) if broken is None else error(broken, span=_span(children))

        return made

    return wrap


# Declarations


def program(children: Children) -> tuple[nodes.TopLevel, ...]:
    return tuple(c for c in children if isinstance(c, nodes.TopLevel))


def import_declaration(children: Children) -> nodes.Import:
    return nodes.Import(unescape(str(children[1])), span=_span(children))


def const(children: Children) -> nodes.Const:
    return _binding(nodes.Const, children)


def let(children: Children) -> nodes.Let:
    return _binding(nodes.Let, children)


@_unless_broken(nodes.ErrorDeclaration)
def layer(children: Children) -> nodes.Declaration:
    generics = tuple(c for c in children if isinstance(c, nodes.GenericDef))
    return nodes.LayerDef(
        str(children[1]),
        generics,
        _type(children),
        _members(children),
        span=_span(children),
        name_span=children[1].span,
    )


def generic(children: Children) -> nodes.GenericDef:
    default = children[-1] if isinstance(children[-1], nodes.Expression) else None
    kind = cast(nodes.TypeNode, children[2])
    return nodes.GenericDef(str(children[0]), kind, default, span=_span(children))


def param(children: Children) -> nodes.ParamDef:
    return nodes.ParamDef(
        str(children[1]),
        cast(nodes.TypeNode, children[3]),
        _kind(children[0]) == "BUFFER",
        span=_span(children),
        name_span=children[1].span,
    )


@_unless_broken(nodes.ErrorDeclaration)
def member_if(children: Children) -> nodes.Declaration:
    then, otherwise = _branches(children)
    condition = cast(nodes.Expression, children[1])
    return nodes.MemberIf(condition, _members(then), _members(otherwise), span=_span(children))


@_unless_broken(nodes.ErrorDeclaration)
def function(children: Children) -> nodes.Declaration:
    arguments = tuple(c for c in children if isinstance(c, nodes.ArgumentDef))
    return nodes.FunctionDef(
        str(children[1]),
        arguments,
        _type(children),
        _statements(children),
        span=_span(children),
        name_span=children[1].span,
    )


def argument_def(children: Children) -> nodes.ArgumentDef:
    kind = cast(nodes.TypeNode, children[2])
    return nodes.ArgumentDef(str(children[0]), kind, span=_span(children))


def error_declaration(children: Children) -> nodes.ErrorDeclaration:
    return nodes.ErrorDeclaration(_token(children[0]).broken or (), span=children[0].span)


# Statements


def assign(children: Children) -> nodes.Assign:
    value = cast(nodes.Expression, children[2])
    name_span = children[0].span
    return nodes.Assign(str(children[0]), value, span=_span(children), name_span=name_span)


def return_statement(children: Children) -> nodes.Return:
    value = cast(nodes.Expression, children[1]) if len(children) > 1 else None
    return nodes.Return(value, span=_span(children))


@_unless_broken(nodes.ErrorStatement)
def if_statement(children: Children) -> nodes.Statement:
    then, otherwise = _branches(children)
    condition = cast(nodes.Expression, children[1])
    return nodes.If(condition, _statements(then), _statements(otherwise), span=_span(children))


@_unless_broken(nodes.ErrorStatement)
def for_statement(children: Children) -> nodes.Statement:
    return nodes.For(
        str(children[1]),
        cast(nodes.Expression, children[3]),
        _statements(children[4:]),
        span=_span(children),
        name_span=children[1].span,
    )


def expression_statement(children: Children) -> nodes.ExpressionStatement:
    value = cast(nodes.Expression, children[0])
    return nodes.ExpressionStatement(value, span=value.span)


def error_statement(children: Children) -> nodes.ErrorStatement:
    return nodes.ErrorStatement(_token(children[0]).broken or (), span=children[0].span)


# Types


def scalar_type(children: Children) -> nodes.ScalarTypeNode:
    return nodes.ScalarTypeNode(str(children[0]), span=children[0].span)


def tensor_type(children: Children) -> nodes.TensorTypeNode:
    return _tensor_type(children, None)


def element_tensor_type(children: Children) -> nodes.TensorTypeNode:
    return _tensor_type(children, str(children[2]))


def long_tensor_type(children: Children) -> nodes.TensorTypeNode:
    return _tensor_type(children, str(children[2]), long_form=True)


def unknown_dimension(children: Children) -> nodes.UnknownDimension:
    return nodes.UnknownDimension(span=children[0].span)


# Expressions


def binary(children: Children) -> nodes.Binary:
    left, operator, right = children
    return nodes.Binary(
        str(operator),
        cast(nodes.Expression, left),
        cast(nodes.Expression, right),
        span=_span(children),
        operator_span=operator.span,
    )


def unary(children: Children) -> nodes.Unary:
    operand = cast(nodes.Expression, children[1])
    return nodes.Unary(str(children[0]), operand, span=_span(children))


def call(children: Children) -> nodes.Expression:
    callee = cast(nodes.Expression, children[0])
    span = _span(children)
    arguments = tuple(c for c in children if isinstance(c, nodes.Argument))
    is_trit = isinstance(callee, nodes.Name) and callee.identifier == "trit"
    if is_trit and len(arguments) == 1 and arguments[0].name is None:
        return nodes.TritLiteral(arguments[0].value, span=span)
    return nodes.Call(callee, arguments, span=span)


def argument(children: Children) -> nodes.Argument:
    name = str(children[0]) if len(children) == 3 else None
    return nodes.Argument(name, cast(nodes.Expression, children[-1]), span=_span(children))


def index(children: Children) -> nodes.Index:
    kinds = (nodes.Expression, nodes.Slice)
    indices = tuple(c for c in children[2:] if isinstance(c, kinds))
    return nodes.Index(cast(nodes.Expression, children[0]), indices, span=_span(children))


def slice_item(children: Children) -> nodes.Slice:
    parts: list[nodes.Expression | None] = [None, None, None]
    position = 0
    for child in children:
        if isinstance(child, nodes.Expression):
            parts[position] = child
        else:
            position += 1
    return nodes.Slice(*parts, span=_span(children))


def attribute(children: Children) -> nodes.Attribute:
    base = cast(nodes.Expression, children[0])
    return nodes.Attribute(base, str(children[2]), span=_span(children))


def integer(children: Children) -> nodes.IntegerLiteral:
    text = str(children[0])
    return nodes.IntegerLiteral(int(text, 0), text, span=children[0].span)


def float_literal(children: Children) -> nodes.FloatLiteral:
    text = str(children[0])
    return nodes.FloatLiteral(float(text), text, span=children[0].span)


def string(children: Children) -> nodes.StringLiteral:
    return nodes.StringLiteral(unescape(str(children[0])), span=children[0].span)


def boolean(children: Children) -> nodes.BoolLiteral:
    return nodes.BoolLiteral(_kind(children[0]) == "TRUE", span=children[0].span)


def name(children: Children) -> nodes.Name:
    return nodes.Name(str(children[0]), span=children[0].span)


def list_literal(children: Children) -> nodes.ListLiteral:
    elements = tuple(c for c in children if isinstance(c, nodes.Expression))
    return nodes.ListLiteral(elements, span=_span(children))


def group(children: Children) -> nodes.Expression:
    """The expression in parentheses; its place takes them in."""
    return replace(cast(nodes.Expression, children[1]), span=_span(children))


def _branches(children: Children) -> tuple[Children, Children]:
    """The children of an `if` before and after its `else`."""
    for position, child in enumerate(children):
        if _kind(child) == "ELSE":
            return children[2:position], children[position + 1 :]
    return children[2:], []


def _tensor_type(
    children: Children, element: str | None, *, long_form: bool = False
) -> nodes.TensorTypeNode:
    kinds = (nodes.Expression, nodes.UnknownDimension)
    dimensions = tuple(c for c in children if isinstance(c, kinds))
    return nodes.TensorTypeNode(
        str(children[0]),
        element,
        dimensions,
        long_form,
        span=_span(children),
        element_span=None if element is None else children[2].span,
    )
