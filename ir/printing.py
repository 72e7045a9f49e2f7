"""Modules as text, with the choices that command lines offer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO
from typing import Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.printer import Printer


def value_name(name: str) -> str | None:
    """How a value called `name` elsewhere is called in text: in the characters that it has.

    `None` where that is a number alone, as `0` and `_0`: xDSL numbers values itself, and takes the
    numbers at the end of a name away, one with each copy.
    """
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return cleaned if re.fullmatch(r"(?!(_\d+)*$)[A-Za-z_]\w*", cleaned) else None


@dataclass(frozen=True)
class PrintOptions:
    """How a module is written.

    Attributes:
        generic: every op in MLIR's generic form.
        locations: a `loc(…)` after every op.
        properties_as_attributes: properties in the attribute dictionary, as older MLIR wants it.
        elide_above: dense constants of more elements become `dense_resource<__elided__>`; such
            text cannot be read back.
    """

    generic: bool = False
    locations: bool = False
    properties_as_attributes: bool = False
    elide_above: int | None = None


_PLAIN = re.compile(rb"[ !#-\[\]-~]*")
"""Bytes that stand in a string literal as they are."""


class TextPrinter(Printer):
    """xDSL's printer, which writes a string literal at once where nothing in it is escaped."""

    def print_bytes_literal(self, bytestring: bytes) -> None:
        if _PLAIN.fullmatch(bytestring):
            self.print_string(f'"{bytestring.decode("ascii")}"')
        else:
            super().print_bytes_literal(bytestring)


class ElidingPrinter(TextPrinter):
    """A printer that leaves large constants out, as MLIR's does."""

    elide_above: int = 0

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            constant = cast(DenseIntOrFPElementsAttr[Any], attribute)
            if len(constant) > self.elide_above and not constant.is_splat():
                self.print_string("dense_resource<__elided__> : ")
                super().print_attribute(constant.get_type())
                return
        super().print_attribute(cast(Attribute, attribute))


def module_text(
    module: ModuleOp, options: PrintOptions | None = None, dialects: Iterable[Dialect] = ()
) -> str:
    """`module` as text that ends in a line break.

    `dialects` are those that may hold resources (`{-# … #-}` at the end of the text).
    """
    return op_text(module, options, dialects) + "\n"


def op_text(
    op: Operation, options: PrintOptions | None = None, dialects: Iterable[Dialect] = ()
) -> str:
    """An op as text, without a final line break."""
    options = options or PrintOptions()
    stream = StringIO()
    printer_class = TextPrinter if options.elide_above is None else ElidingPrinter
    printer = printer_class(
        stream=stream,
        print_generic_format=options.generic,
        print_properties_as_attributes=options.properties_as_attributes,
        print_debuginfo=options.locations,
    )
    if isinstance(printer, ElidingPrinter):
        printer.elide_above = options.elide_above or 0
    printer.print_op(op)
    printer.print_metadata(dialects)
    return stream.getvalue()
