"""How `triton-opt` reads its input: bytes, reproducers, hints in messages, and reading back."""

from __future__ import annotations

import re
from collections.abc import Callable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ..ir.errors import SourceError, TritonError, VerifyError, did_you_mean
from ..ir.printing import PrintOptions, module_text
from ..ir.upstream import our_name, upstream_name

FORMS = {
    "custom": PrintOptions(),
    "generic": PrintOptions(generic=True),
    "upstream": PrintOptions(upstream_names=True),
}
"""The forms of a module that can be read back."""

_UNREGISTERED = re.compile(r"(Operation )?'?([A-Za-z_]\w*)(\.[\w.$-]+)?'? is not registered")
_REPRODUCER = re.compile(r"\{-#\s*external_resources.*?mlir_reproducer.*?#-\}", re.DOTALL)
_PIPELINE = re.compile(r'\bpipeline\s*:\s*"((?:[^"\\]|\\.)*)"')


def decode(content: bytes, name: str, first_line: int) -> str:
    """The text of the file `name`, or of the part of it that starts at `first_line`.

    Raises:
        SourceError: there is none, or it is not UTF-8.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line = first_line + before.count(b"\n")
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise SourceError(
            f"{name}:{line}:{column}: error: not UTF-8 text (byte 0x{content[error.start]:02x})"
        ) from None
    if not text.strip():
        raise SourceError(f"{name}: error: the input is empty")
    return text


def is_comment(text: str) -> bool:
    """Whether no line holds anything but a comment."""
    return all(not line.strip() or line.lstrip().startswith("//") for line in text.split("\n"))


def without_reproducer(text: str) -> tuple[str, str | None]:
    """The text with a reproducer's resource blanked out, lines kept; the pipeline it holds."""
    reproducer = _REPRODUCER.search(text)
    pipeline = reproducer and _PIPELINE.search(reproducer[0])
    rest = _REPRODUCER.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
    return rest, re.sub(r"\\(.)", r"\1", pipeline[1]) if pipeline else None


def with_hint(message: str, context: Context) -> str:
    """The message about an unknown op or type, and which name may be meant; any other as it is."""
    first, line_break, rest = message.partition("\n")
    match = _UNREGISTERED.search(first)
    if match is None:
        return message
    written = match[2] + (match[3] or "")
    dialect, dot, _ = our_name(written).partition(".")
    known = list(context.registered_dialect_names)
    if dialect not in known:
        hint = did_you_mean(dialect, known) or " (--show-dialects lists them)"
        first += f": unknown dialect '{dialect}'{hint}; --allow-unregistered-dialect accepts it"
    elif dot:
        found_in = context.get_dialect(dialect)
        members = found_in.operations if match[1] else found_in.attributes
        names = [member.name for member in members]
        foreign = our_name(written) != written
        first += did_you_mean(written, [*map(upstream_name, names)] if foreign else names)
    return first + line_break + rest


def with_source_line(message: str, name: str, text: str, first_line: int) -> str:
    """A message about a place of the input with the line and a caret, as those of the parser."""
    place = re.match(re.escape(name) + r":(\d+):(\d+): error: [^\n]*\Z", message)
    lines = text.split("\n")
    if place is None or not 0 <= (index := int(place[1]) - first_line) < len(lines):
        return message
    line, column = lines[index].rstrip(), int(place[2]) - 1
    padding = "".join("\t" if c == "\t" else " " for c in line[:column])
    shown = "".join(
        c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line
    )
    return f"{message}\n  {shown}\n  {padding}^"


def check_roundtrip(module: ModuleOp, parse: Callable[[str], ModuleOp], context: Context) -> None:
    """Print the module in each form, read it, and compare the texts.

    Raises:
        VerifyError: a form cannot be read, or reads as another module.
    """
    expected = module_text(module, dialects=context.loaded_dialects)
    for form, options in FORMS.items():
        text = module_text(module, options, context.loaded_dialects)
        try:
            again = module_text(parse(text), dialects=context.loaded_dialects)
        except TritonError as error:
            reason = str(error).split("\n", 1)[0].split(": error: ", 1)[-1]
            raise VerifyError(
                f"--verify-roundtrip: the {form} form cannot be read: {reason}"
            ) from None
        if again != expected:
            raise VerifyError(
                f"--verify-roundtrip: the {form} form reads as another module: "
                f"{_first_difference(expected, again)}"
            )


def _first_difference(expected: str, actual: str) -> str:
    pairs = zip(expected.split("\n"), actual.split("\n"), strict=False)
    for number, (a, b) in enumerate(pairs, start=1):
        if a != b:
            return f"line {number} '{a.strip()}' became '{b.strip()}'"
    return "one text ends before the other"
