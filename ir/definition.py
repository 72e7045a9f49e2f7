"""The decorator of op classes: xDSL's, but that it reads no assembly format before it is needed.

A dialect defines a hundred ops, of which a program has a few; reading all their formats takes as
long as the rest of loading them.
"""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from xdsl.irdl import IRDLOperation
from xdsl.irdl import irdl_op_definition as define
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer

OpT = TypeVar("OpT", bound=IRDLOperation)


def irdl_op_definition(cls: type[OpT]) -> type[OpT]:
    """Define an op; a fault in its format is told when the first such op is read or printed."""
    text, cls.assembly_format = cls.assembly_format, None
    define(cls)
    if text is None:
        return cls
    definition = cls.get_irdl_definition()
    definition.assembly_format = cls.assembly_format = text

    @cache
    def program() -> FormatProgram:
        return FormatProgram.from_str(text, definition)

    def parse(cls: type[OpT], parser: Parser) -> OpT:
        return program().parse(parser, cls)

    def print(self: OpT, printer: Printer) -> None:
        program().print(printer, self)

    cls.parse = classmethod(parse)  # pyright: ignore[reportAttributeAccessIssue]
    cls.print = print
    return cls
