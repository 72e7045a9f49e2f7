"""Tests of error messages: `// expected-error@+1 {{text}}` comments against what was reported.

The comments are MLIR's: `expected-error`, `-warning`, `-note` or `-remark`; `@+N`, `@-N`, `@above`,
`@below` for another line, `@unknown` for a message without a place; `expected-error-re` where
`{{…}}` inside the text is a regular expression; a number or `*` before the text for how often.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .errors import InputError

_COMMENT = re.compile(
    r"expected-(?P<kind>error|warning|note|remark)(?P<regex>-re)?[ ]*"
    r"(?P<place>@[ ]*(?:[-+]\d+|above|below|unknown))?[ ]*(?P<count>\d+|\*)?[ ]*"
    r"\{\{(?P<text>.*?)\}\}(?P<rest>[^\n]*)"
)
_STARTED = re.compile(r"expected-(?:error|warning|note|remark)(?:-re)?\s*[@{\d*][^\n]*")
_PLACED = re.compile(
    r"(?P<file>[^\n]*?):(?P<line>\d+):(?P<column>\d+): (?:(?P<kind>error|warning|note|remark): )?"
)


@dataclass(frozen=True)
class Reported:
    """A message that the compiler gave: its kind, its text, and its line if it has one."""

    kind: str
    text: str
    line: int | None

    @staticmethod
    def of(message: str, kind: str = "error") -> Reported:
        """The message in the form `file:line:col: error: text`, or without a place."""
        first = message.split("\n", 1)[0]
        if placed := _PLACED.match(first):
            return Reported(placed["kind"] or kind, first[placed.end() :], int(placed["line"]))
        first = re.sub(r"^(?:[^\s:]+: )?(?:error|warning): ", "", first)
        return Reported(kind, first, None)


@dataclass(frozen=True)
class Expectation:
    """One comment: the kind, line (`None`: unknown), pattern, and the least and most matches."""

    kind: str
    line: int | None
    shown: str
    pattern: re.Pattern[str]
    comment_line: int
    least: int = 1
    most: int | None = 1


def expectations(text: str, *, first_line: int = 1) -> list[Expectation]:
    """The expectations that the comments of `text` state.

    Raises:
        OptionError: a comment begins as an expectation and is none.
    """
    expected: list[Expectation] = []
    for number, content in enumerate(text.split("\n"), first_line):
        comment = content.find("//")
        if comment < 0:
            continue
        position = comment
        while started := _STARTED.search(content, position):
            match = _COMMENT.match(content, started.start())
            if match is None:
                raise InputError(
                    f"line {number}: cannot read '{started[0].strip()}'; "
                    "write expected-error@+1 {{text}}"
                )
            shown, end = _balanced(content, match.start("text"))
            position = end
            expected.append(_expectation(match, shown, number, text, first_line))
    return expected


def _balanced(content: str, start: int) -> tuple[str, int]:
    """The text from `start` to the `}}` that closes it, and where it ends."""
    depth, position = 1, start
    while position < len(content):
        if content.startswith("{{", position):
            depth, position = depth + 1, position + 2
        elif content.startswith("}}", position):
            depth -= 1
            if not depth:
                while content.startswith("}", position + 2):
                    position += 1
                return content[start:position], position + 2
            position += 2
        else:
            position += 1
    end = content.find("}}", start)
    return content[start:end], end + 2


def _expectation(
    match: re.Match[str], shown: str, number: int, text: str, first_line: int
) -> Expectation:
    place = (match["place"] or "").lstrip("@ ")
    lines = text.split("\n")
    line: int | None = number
    if place == "unknown":
        line = None
    elif place in ("above", "below"):
        step = -1 if place == "above" else 1
        line = number + step
        while 0 <= (index := line - first_line) < len(lines) and _only_expects(lines[index]):
            line += step
    elif place:
        line = number + int(place)
    if match["regex"]:
        parts = re.split(r"\{\{(.*?)\}\}", shown)
        source = "".join(p if i % 2 else re.escape(p) for i, p in enumerate(parts))
    else:
        source = re.escape(shown)
    try:
        pattern = re.compile(source)
    except re.error as error:
        raise InputError(f"line {number}: bad regular expression '{shown}': {error}") from None
    count = match["count"]
    least = 0 if count == "*" else int(count or 1)
    most = None if count == "*" else least
    return Expectation(match["kind"], line, shown, pattern, number, least, most)


def _only_expects(line: str) -> bool:
    return line.lstrip().startswith("//") and _STARTED.search(line) is not None


def check(expected: Sequence[Expectation], reported: Iterable[Reported], file: str) -> list[str]:
    """What does not fit: one located line for each unexpected and each missing message."""
    problems: list[str] = []
    matches = [0] * len(expected)
    for message in reported:
        near: Expectation | None = None
        for index, expectation in enumerate(expected):
            if expectation.line != message.line or expectation.kind != message.kind:
                continue
            if expectation.pattern.search(message.text):
                if expectation.most is None or matches[index] < expectation.most:
                    matches[index] += 1
                    break
            elif matches[index] < expectation.least:
                near = expectation
        else:
            place = f"{file}:{message.line}" if message.line is not None else f"{file}:unknown"
            instead = f" (expected: {near.shown})" if near else ""
            problems.append(f"{place}: error: unexpected {message.kind}: {message.text}{instead}")
    for expectation, count in zip(expected, matches, strict=True):
        if count < expectation.least:
            where = "without a place" if expectation.line is None else f"at line {expectation.line}"
            problems.append(
                f"{file}:{expectation.comment_line}: error: expected {expectation.kind} "
                f'"{expectation.shown}" {where} was not produced'
            )
    return problems
