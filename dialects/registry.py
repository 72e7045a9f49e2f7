"""Reading textual IR: the dialects this compiler knows, and text to a verified module.

Dialects are imported when their first op or type is met, so that short programs start fast. Every
failure to read or verify is a `SourceError` or `VerifyError` that says `file:line:col: error: …`;
ops carry the place they were read from. Options of command lines are the business of `tools`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects import get_all_dialects as get_upstream_dialects
from xdsl.dialects.builtin import (
    AnyFloat,
    ModuleOp,
    UnknownLoc,
)
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation
from xdsl.parser import AttrParser, Parser, ParserState
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from ..ir.errors import ParameterError, SourceError, TritonError, VerifyError
from ..ir.locations import error_at, file_location, location_text, one_line
from ..ir.upstream import NAMES, our_name, restored_names


def get_all_dialects() -> dict[str, Callable[[], Dialect]]:
    """A getter for every dialect by name: xDSL's own, `tensor` extended, and ours."""

    def get_tensor() -> Dialect:
        from .tensor import Tensor

        return Tensor

    def get_ternary() -> Dialect:
        from .ternary import Ternary

        return Ternary

    def get_spike() -> Dialect:
        from .spike import Spike

        return Spike

    def get_fabric() -> Dialect:
        from .fabric import Fabric

        return Fabric

    dialects = get_upstream_dialects()
    dialects.update(tensor=get_tensor, ternary=get_ternary, spike=get_spike, fabric=get_fabric)
    return dialects


def triton_context(*, allow_unregistered: bool = False) -> Context:
    """A context that knows every dialect, each loaded when first used."""
    context = Context(allow_unregistered=allow_unregistered)
    for name, getter in get_all_dialects().items():
        context.register_dialect(name, getter)
    return context


class LinearLexer(MLIRLexer):
    """xDSL's lexer, in linear time: its own pattern takes exponential time on an open string.

    A string of any characters reads as it was printed: xDSL prints those beyond ASCII as escapes,
    and takes every string with such escapes for bytes.
    """

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind is not MLIRTokenKind.BYTES_LIT:
            return token
        try:
            StringLiteral(
                token.span.start, token.span.end, token.span.input
            ).bytes_contents.decode()
        except UnicodeDecodeError:
            return token
        return MLIRToken(MLIRTokenKind.STRING_LIT, token.span)


MAX_DENSE = 2**26
"""The most elements of a `dense<…>` in text: xDSL expands one that repeats a number in memory."""


class _Bits(Parser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """An element of a `dense<…>` in hexadecimal: the bits of a float, or an integer."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        """The element of that type."""
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        bits = int(self.to_int(parser, allow_negative=False))
        if bits.bit_length() > 8 * type.compile_time_size:
            parser.raise_error(f"{type} has not so many bits", self.span)
        return type.unpack(bits.to_bytes(type.compile_time_size, "little"), 1)[0]


class LocatingParser(Parser):
    """xDSL's parser; each op without a written location gets the place where its text starts.

    Names that our ops and attributes have for upstream's tools (`ir.upstream`) read as ours.

    Args:
        ctx: the dialects.
        text: the whole text.
        name: the file's name in locations and messages.
        first_line: the number of the first line, for a part of a larger file.
    """

    def __init__(
        self, ctx: Context, text: str, name: str = "<string>", *, first_line: int = 1
    ) -> None:
        self._file = name
        self._first_line = first_line
        self._line_starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._line_starts.append(at + 1)
            at = text.find("\n", at + 1)
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(LinearLexer(Input(text, name)))
        self._foreign: list[Operation] = []

    def line_and_column(self, position: int) -> tuple[int, int]:
        """The 1-based line and column of an offset into the text."""
        line = bisect_right(self._line_starts, position) - 1
        return self._first_line + line, position - self._line_starts[line] + 1

    @property
    def current_position(self) -> int:
        """The offset at which the next token starts."""
        return self._current_token.span.start

    def _parse_tensor_literal_element(self) -> Any:
        """xDSL writes some floats of a `dense<…>` as their bits, but reads those as a number."""
        bits = self._current_token.text[:2].lower() == "0x"
        element: Any = super()._parse_tensor_literal_element()
        return _Bits(element.is_negative, element.value, element.span) if bits else element

    def _parse_dense_literal_type(self) -> Any:
        start = self._current_token.span.start
        type = super()._parse_dense_literal_type()
        if prod(type.get_shape()) > MAX_DENSE:
            self.raise_error(
                "a dense constant holds at most 2^26 elements; name a parameter instead",
                start,
                self._current_token.span.start,
            )
        return type

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        if isinstance(op.location, UnknownLoc):
            line, column = self.line_and_column(start)
            op.location = file_location(self._file, line, column)
        if NAMES in op.attributes:
            self._foreign.append(op)
        return op

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        module = super().parse_module(allow_implicit_module)
        for part in self._foreign:
            for op, name in restored_names(part):
                _restore(op, self.ctx.get_op(name))
        return module

    def _get_op_by_name(self, name: str) -> type[Operation]:
        ours = our_name(name)
        if ours != name and self.ctx.get_optional_op(ours) is None:
            self.raise_error(f"Operation {name} is not registered")
        return super()._get_op_by_name(ours)

    def _parse_dialect_type_or_attribute_body(
        self, attr_name: str, is_type: bool, is_opaque: bool, starting_opaque_pos: int | None
    ) -> Any:
        ours = our_name(attr_name)
        if ours != attr_name and not is_type and self.ctx.get_optional_attr(ours) is None:
            self.raise_error(f"'{attr_name}' is not registered")
        return super()._parse_dialect_type_or_attribute_body(
            ours, is_type, is_opaque, starting_opaque_pos
        )

    def _parse_attribute_entry(self) -> tuple[str, Attribute]:
        name, attribute = super()._parse_attribute_entry()
        return our_name(name), attribute


def _restore(op: Operation, ours: type[Operation]) -> None:
    """Put the op of ours in the place of upstream's that stands for it, if it takes its types."""
    known = ours.get_irdl_definition().properties if issubclass(ours, IRDLOperation) else {}
    restored = ours.create(
        operands=op.operands,
        result_types=op.result_types,
        properties={key: op.properties[key] for key in known if key in op.properties},
        attributes=op.attributes,
    )
    restored.location = op.location
    for old, new in zip(op.results, restored.results, strict=True):
        new.name_hint = old.name_hint
    try:
        restored.verify()
    except VerifyException:
        restored.erase()
    else:
        Rewriter.replace_op(op, restored)


def parse_module(
    text: str,
    name: str = "<string>",
    ctx: Context | None = None,
    *,
    verify: bool = True,
    first_line: int = 1,
    implicit_module: bool = True,
    reader: Callable[..., LocatingParser] = LocatingParser,
) -> ModuleOp:
    """Read textual IR as a module; ops outside a `builtin.module` are put into one.

    Args:
        text: the IR.
        name: the file it comes from: for messages and locations, and parameter files are looked up
            in its folder.
        ctx: the dialects; all of them by default.
        verify: whether to verify the module too.
        first_line: the number of the first line, for a part of a larger file.
        implicit_module: whether ops may stand outside a `builtin.module`.
        reader: makes the parser, called as its class is; another one may take notes.

    Raises:
        SourceError: the text is not IR.
        VerifyError: it is, but breaks an invariant.
        ParameterError: it names a parameter file outside the folder of `name`.
    """
    parser: LocatingParser | None = None
    try:
        # The lexer reads the first token here and may refuse it.
        parser = reader(ctx or triton_context(), text, name, first_line=first_line)
        module = parser.parse_module(implicit_module)
    except ParseError as error:
        start = _start_of_unregistered(error, text)
        raise SourceError(_message_in_text(text, name, start, error.msg, first_line)) from None
    except RecursionError:
        raise SourceError(f"{name}: error: the text nests too deeply") from None
    except ParameterError as error:
        raise ParameterError(_at_parser(parser, text, name, error, first_line)) from None
    except TritonError:
        raise
    except Exception as error:
        # Attributes that refuse their parameters, and what xDSL forgets to catch in strange text.
        raise SourceError(_at_parser(parser, text, name, error, first_line)) from None
    if verify:
        verify_module(module)
    return module


def _start_of_unregistered(error: ParseError, text: str) -> int:
    """Where an unregistered name begins: xDSL gives the place of the token after it."""
    start = error.span.start
    match = re.fullmatch(r"(?:Operation )?'?([\w.$-]+)'? is not registered", error.msg)
    at = text.rfind(match[1], 0, start) if match else -1
    return start if at < 0 else at


def _at_parser(
    parser: LocatingParser | None, text: str, name: str, error: Exception, first_line: int
) -> str:
    position = 0 if parser is None else parser.current_position
    message = str(error) or type(error).__name__
    if not isinstance(error, VerifyException | TritonError):
        message = f"cannot be read: {type(error).__name__}: {message}"
    return _message_in_text(text, name, position, message, first_line)


def _message_in_text(text: str, name: str, position: int, message: str, first_line: int) -> str:
    position = min(position, len(text))
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    shown = text[start : len(text) if end < 0 else end]
    line = first_line + text.count("\n", 0, position)
    column = position - start
    head = f"{name}:{line}:{column + 1}: error: {one_line(message)}"
    if not shown.strip() or not shown.isprintable() or len(shown) > 200:
        return head
    return f"{head}\n  {shown}\n  {' ' * column}^"


def verify_module(module: ModuleOp) -> None:
    """Verify a module: every op's invariants, and that values are defined before their use.

    Raises:
        VerifyError: the first op that breaks an invariant, as `file:line:col: error: message`.
    """
    try:
        module.verify()
    except RecursionError:
        raise VerifyError(f"{location_text(module)}: error: the module nests too deeply") from None
    except Exception as error:
        op = _culprit(module) or module
        raise VerifyError(error_at(op, str(error))) from None
    verify_order(module)


def _culprit(module: ModuleOp) -> Operation | None:
    """The first op that does not verify by itself."""
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except Exception:
            return op
    return None


def _symbols(table: Operation) -> Iterator[Operation]:
    """The ops of a symbol table, and of those in it: elsewhere are no functions."""
    for op in (op for region in table.regions for block in region.blocks for op in block.ops):
        yield op
        if op.has_trait(SymbolTable):
            yield from _symbols(op)


def verify_order(module: ModuleOp) -> None:
    """Check that the values of functions are defined before their use.

    Raises:
        VerifyError: the first op that uses a later one, as `verify_module` tells it.
    """
    # xDSL's verifier lets an op use what a later op of its block defines. Elsewhere than in
    # functions that may be right: modules and hardware are graph regions.
    from xdsl.dialects.func import FuncOp

    for function in _symbols(module):
        if not isinstance(function, FuncOp):
            continue
        for block in function.body.blocks:
            seen: set[Operation] = set()
            for op in block.ops:
                for operand in op.operands:
                    owner = operand.owner
                    if isinstance(owner, Operation) and owner.parent is block and owner not in seen:
                        hint = f"%{operand.name_hint}" if operand.name_hint else "an operand"
                        raise VerifyError(error_at(op, f"uses {hint} before its definition"))
                seen.add(op)
