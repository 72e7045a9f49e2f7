"""Modules as text, with the choices that command lines offer."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    ModuleOp,
    UnitAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Data, Dialect, Operation, ParametrizedAttribute
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove

from .errors import LoweringError
from .locations import error_at
from .upstream import CUSTOM_FORM, upstream_name, upstream_op


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
        upstream_names: every op in MLIR's generic form, under names that upstream's tools read,
            see `ir.upstream`.
        upstream_prefix: our ops under `tf` besides, for readers that take unknown ops there alone.
    """

    generic: bool = False
    locations: bool = False
    properties_as_attributes: bool = False
    elide_above: int | None = None
    upstream_names: bool = False
    upstream_prefix: bool = False


_PLAIN = re.compile(rb"[ !#-\[\]-~]*")
"""Bytes that stand in a string literal as they are."""


class TextPrinter(Printer):
    """xDSL's printer, which writes a string literal at once where nothing in it is escaped."""

    def print_bytes_literal(self, bytestring: bytes) -> None:
        if _PLAIN.fullmatch(bytestring):
            self.print_string(f'"{bytestring.decode("ascii")}"')
        else:
            super().print_bytes_literal(bytestring)

    def print_op_with_default_format(self, op: Operation) -> None:
        clash = op.attributes.keys() & op.properties.keys()
        if clash and self.print_properties_as_attributes:
            names = "', '".join(sorted(clash))
            raise LoweringError(
                error_at(op, f"has an attribute and a property '{names}'; rename the attribute")
            )
        super().print_op_with_default_format(op)


class ElidingPrinter(TextPrinter):
    """A printer that leaves large constants out, as MLIR's does."""

    elide_above: int = sys.maxsize

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            constant = cast(DenseIntOrFPElementsAttr[Any], attribute)
            if len(constant) > self.elide_above and not constant.is_splat():
                self.print_string("dense_resource<__elided__> : ")
                super().print_attribute(constant.get_type())
                return
        super().print_attribute(cast(Attribute, attribute))


class UpstreamPrinter(ElidingPrinter):
    """A printer of the generic form under the names of `ir.upstream`."""

    under: bool = False

    def print_op(self, op: Operation) -> None:
        if op.name in CUSTOM_FORM:
            self.print_generic_format = False
            super().print_op(op)
            self.print_generic_format = True
            return
        name, mark = upstream_op(op, self.under)
        scope = bool(op.get_traits_of_type(IsolatedFromAbove))
        self._print_results(op)
        if scope:
            self.enter_scope()
        self.print_string(f'"{name}"')
        written = dict(op.attributes)
        if isinstance(op, UnregisteredOp):
            del op.attributes["op_name__"]
        if mark is not None:
            op.attributes[mark] = UnitAttr()
        try:
            self.print_op_with_default_format(op)
        finally:
            op.attributes.clear()
            op.attributes.update(written)
        if scope:
            self.exit_scope()

    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        super().print_attr_dict({upstream_name(key): value for key, value in attr_dict.items()})

    def print_attribute(self, attribute: Attribute) -> None:
        name = upstream_name(attribute.name)
        if name == attribute.name:
            super().print_attribute(attribute)
            return
        self.print_string(f"#{name}")
        if isinstance(attribute, Data):
            attribute.print_parameter(self)
        elif isinstance(attribute, ParametrizedAttribute):
            attribute.print_parameters(self)


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
    if options.upstream_names:
        printer_class = UpstreamPrinter
    printer = printer_class(
        stream=stream,
        print_generic_format=options.generic or options.upstream_names,
        print_properties_as_attributes=options.properties_as_attributes,
        print_debuginfo=options.locations,
    )
    if isinstance(printer, ElidingPrinter) and options.elide_above is not None:
        printer.elide_above = options.elide_above
    if isinstance(printer, UpstreamPrinter):
        printer.under = options.upstream_prefix
    printer.print_op(op)
    printer.print_metadata(dialects)
    return stream.getvalue()
