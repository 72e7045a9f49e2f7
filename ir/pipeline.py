"""Pass pipelines as text: `p1{a=1 b=2,3},p2`, also inside MLIR's anchors `builtin.module(…)`.

Text becomes passes and passes become text again. Every xDSL pass works on the module, so an anchor
(`builtin.module(…)`, `func.func(…)`) only groups: it is accepted anywhere and changes nothing.
Running the passes is the business of `instrument`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeAlias, Union, get_args, get_origin, get_type_hints

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, ParameterType, parse_spec
from xdsl.utils.exceptions import ArgSpecParseError

from .errors import OptionError, did_you_mean

PassTable: TypeAlias = Mapping[str, Callable[[], type[ModulePass]]]
"""Pass names and the functions that import the pass classes."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BARE = re.compile(r'[^\s,{}()="]+')
_SPACE = re.compile(r"\s*")
_INTEGER = re.compile(r"[-+]?\d+")
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(inf|nan)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
MAXIMUM_NESTING = 100


@dataclass(frozen=True)
class Word:
    """One option value as written: its text without quotes, and whether it had some."""

    text: str
    quoted: bool = False


@dataclass(frozen=True)
class PassText:
    """One pass of a pipeline as written."""

    name: str
    options: Mapping[str, tuple[Word, ...]]
    arguments: str | None = None
    """What stood in `name[…]`, the notation of xDSL's `mlir-opt` pass."""


def parse_pipeline(text: str, available: PassTable) -> tuple[ModulePass, ...]:
    """The passes that `text` names.

    Raises:
        OptionError: bad syntax, unknown pass, unknown or wrong option; the message names the place
            and the nearest name.
    """
    elements = split_pipeline(text)
    for element in elements:
        if element.name not in available:
            raise OptionError(
                f"unknown pass '{element.name}'{did_you_mean(element.name, available)}"
            )
    return tuple(build_pass(available[element.name](), element) for element in elements)


def split_pipeline(text: str) -> tuple[PassText, ...]:
    """The passes of a pipeline as written, anchors removed.

    Raises:
        OptionError: bad syntax.
    """
    return _PipelineParser(text).parse()


def build_pass(pass_class: type[ModulePass], element: PassText) -> ModulePass:
    """An instance of `pass_class` with the written options; passes do not change, so it is kept.

    Raises:
        OptionError: no such option, a missing one, or a value of the wrong type.
    """
    return _built(pass_class, element.name, tuple(element.options.items()), element.arguments)


@lru_cache(maxsize=1024)
def _built(
    pass_class: type[ModulePass],
    name: str,
    options: tuple[tuple[str, tuple[Word, ...]], ...],
    arguments: str | None,
) -> ModulePass:
    try:
        if arguments is not None:
            return pass_class.from_pass_spec(parse_spec(f"{name}[{arguments}]"))
        types = option_types(pass_class)
        parameters: dict[str, tuple[ParameterType, ...]] = {}
        for key, words in options:
            field = key.replace("-", "_")
            if field not in types:
                shown = [option.replace("_", "-") for option in types]
                known = f" (options: {', '.join(shown)})" if shown else " (it has none)"
                hint = did_you_mean(key, shown) or known
                raise OptionError(f"pass '{name}' has no option '{key}'{hint}")
            values = convert_words(words, types[field])
            if values is None:
                shown = ",".join(word.text for word in words)
                raise OptionError(
                    f"option '{key}' of pass '{name}': expected {type_text(types[field])}, "
                    f"got '{shown}'"
                )
            parameters[field] = values
        for option in fields(pass_class):
            if option.name in types and option.name not in parameters and _required(option):
                raise OptionError(f"pass '{name}' needs option '{option.name.replace('_', '-')}'")
        return pass_class.from_pass_spec(ArgSpec(name, parameters))
    except (ArgSpecParseError, ValueError, TypeError) as error:
        if isinstance(error, OptionError):
            raise
        reason = " ".join(str(error).split())
        raise OptionError(f"pass '{name}': {reason}") from None


def option_types(pass_class: type[ModulePass]) -> dict[str, Any]:
    """The options of a pass and their types."""
    hints = get_type_hints(pass_class)
    return {f.name: hints[f.name] for f in fields(pass_class) if f.init and f.name != "name"}


def pipeline_text(passes: Sequence[ModulePass], *, anchor: bool = True) -> str:
    """The passes as text that `parse_pipeline` reads; options with their default are left out."""
    flat = ",".join(_pass_text(p) for p in passes)
    return f"builtin.module({flat})" if anchor else flat


class _PipelineParser:
    """Recursive descent over one pipeline text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def parse(self) -> tuple[PassText, ...]:
        passes = self.elements(0)
        if self.position < len(self.text):
            self.fail(f"unexpected '{self.text[self.position]}'")
        return tuple(passes)

    def elements(self, depth: int) -> list[PassText]:
        passes: list[PassText] = []
        self.skip_space()
        if self.position == len(self.text) or self.text[self.position] == ")":
            return passes
        while True:
            passes += self.element(depth)
            self.skip_space()
            if not self.accept(","):
                return passes
            self.skip_space()

    def element(self, depth: int) -> list[PassText]:
        start = self.position
        name = self.match(_NAME, "expected a pass name")
        if self.accept("("):
            if depth == MAXIMUM_NESTING:
                self.fail(f"anchors nest deeper than {MAXIMUM_NESTING}", start)
            inner = self.elements(depth + 1)
            if not self.accept(")"):
                self.fail("expected ')'")
            return inner
        if self.accept("["):
            end = self.text.find("]", self.position)
            if end < 0:
                self.fail("expected ']'", len(self.text))
            arguments = self.text[self.position : end]
            self.position = end + 1
            return [PassText(name, {}, arguments)]
        return [PassText(name, self.options() if self.accept("{") else {})]

    def options(self) -> dict[str, tuple[Word, ...]]:
        options: dict[str, tuple[Word, ...]] = {}
        while True:
            self.skip_space()
            if self.accept("}"):
                return options
            start = self.position
            key = self.match(_NAME, "expected an option name or '}'")
            if key.replace("-", "_") in (other.replace("-", "_") for other in options):
                self.fail(f"option '{key}' is given twice", start)
            words: list[Word] = []
            if self.accept("="):
                words.append(self.word())
                while self.accept(","):
                    words.append(self.word())
            options[key] = tuple(words)

    def word(self) -> Word:
        if quoted := _STRING.match(self.text, self.position):
            self.position = quoted.end()
            unescape = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), quoted[1], flags=re.S)
            return Word(unescape, quoted=True)
        return Word(self.match(_BARE, "expected a value"))

    def skip_space(self) -> None:
        space = _SPACE.match(self.text, self.position)
        assert space is not None
        self.position = space.end()

    def accept(self, character: str) -> bool:
        if self.text.startswith(character, self.position):
            self.position += 1
            return True
        return False

    def match(self, pattern: re.Pattern[str], problem: str) -> str:
        token = pattern.match(self.text, self.position)
        if token is None:
            self.fail(problem)
        self.position = token.end()
        return token[0]

    def fail(self, problem: str, position: int | None = None) -> NoReturn:
        at = self.position if position is None else position
        shown = " ".join(self.text.split())
        if shown != self.text or not shown.isprintable() or len(shown) > 200:
            raise OptionError(f"pass pipeline, character {at + 1}: {problem}")
        raise OptionError(
            f"pass pipeline, character {at + 1}: {problem}\n  {self.text}\n  {' ' * at}^"
        )


def _required(option: Any) -> bool:
    optional = get_origin(option.type) in (Union, UnionType) and NoneType in get_args(option.type)
    if isinstance(option.type, str):
        optional = "None" in option.type
    return option.default is MISSING and option.default_factory is MISSING and not optional


def convert_words(words: tuple[Word, ...], hint: Any) -> tuple[ParameterType, ...] | None:
    """The values of an option of type `hint`; `None` where the words have another type.

    Without words the value is true for a flag, and nothing for what may be left out.
    """
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if not words:
        if NoneType in members or bool not in members:
            return ()
        return (True,)
    for member in members:
        is_tuple = get_origin(member) is tuple
        if len(words) > 1 and not is_tuple:
            continue
        element = get_args(member)[0] if is_tuple else member
        values = tuple(_convert_word(word, element) for word in words)
        if all(value is not None for value in values):
            return tuple(value for value in values if value is not None)
    return None


def _convert_word(word: Word, hint: Any) -> ParameterType | None:
    text = word.text
    if get_origin(hint) is Literal:
        return next((choice for choice in get_args(hint) if str(choice) == text), None)
    if get_origin(hint) in (Union, UnionType):
        readings = (_convert_word(word, member) for member in get_args(hint))
        return next((value for value in readings if value is not None), None)
    if hint is str:
        return text
    if word.quoted:
        return None
    if hint is bool:
        return {"true": True, "false": False, "1": True, "0": False}.get(text)
    if hint is int:
        return int(text) if _INTEGER.fullmatch(text) and len(text) < 1000 else None
    if hint is float:
        return float(text) if _FLOAT.fullmatch(text) else None
    return None


def type_text(hint: Any) -> str:
    """A type as a user reads it: `int`, `one of twn, absmean`, `list of float`."""
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if get_origin(hint) is tuple:
        return f"list of {type_text(get_args(hint)[0])}"
    if get_origin(hint) in (Union, UnionType):
        members = [type_text(m) for m in get_args(hint) if m is not NoneType]
        return " or ".join(members)
    return {bool: "true or false", int: "an integer", float: "a number", str: "text"}.get(
        hint, getattr(hint, "__name__", str(hint))
    )


def _pass_text(p: ModulePass) -> str:
    parameters = p.pipeline_pass_spec().parameters
    if not parameters:
        return p.name
    written = " ".join(option_text(key, values) for key, values in parameters.items())
    return f"{p.name}{{{written}}}"


def option_text(name: str, values: Sequence[ParameterType]) -> str:
    """`name=a,b`, as `split_pipeline` reads it."""
    written = name.replace("_", "-")
    return f"{written}={','.join(map(_value_text, values))}" if values else written


def _value_text(value: ParameterType) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if isinstance(value, str) and not _BARE.fullmatch(text):
        for letter, character in [("\\", "\\"), ('"', '"'), *_ESCAPES.items()]:
            text = text.replace(character, f"\\{letter}")
        return f'"{text}"'
    return text
