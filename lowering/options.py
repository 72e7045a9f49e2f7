"""Options of targets: frozen dataclasses, read from `target{opset=17 layout=nchw}` text.

The text has the syntax of a pass with options, see `ir.pipeline`; names may be written with `-` or
`_`. Fields are `bool`, `int`, `float`, `str`, a `Literal` of strings, a tuple of those, or one of
them or `None`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from ..ir.errors import OptionError, did_you_mean, first_line
from ..ir.pipeline import PassText, Word, convert_words, split_pipeline, type_text


@dataclass(frozen=True)
class TargetOptions:
    """The options of a target; a target without options uses this class as it is."""


OptionsT = TypeVar("OptionsT", bound=TargetOptions)
DefaultT = TypeVar("DefaultT")


def option(default: DefaultT, help: str) -> DefaultT:
    """A field of `TargetOptions` with a default value and the line that `--list-targets` shows."""
    return dataclasses.field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class OptionInfo:
    """One option as a user sees it: `class-name`, `str`, its default and what it does."""

    name: str
    type: str
    default: object
    help: str


def option_infos(options_type: type[TargetOptions]) -> list[OptionInfo]:
    """Every option of a target, in order."""
    hints = get_type_hints(options_type)
    return [
        OptionInfo(
            field.name.replace("_", "-"),
            type_text(hints[field.name]),
            field.default,
            str(field.metadata.get("help", "")),
        )
        for field in dataclasses.fields(options_type)
    ]


def parse_target_spec(text: str) -> PassText:
    """`name` or `name{option=value …}`.

    Raises:
        OptionError: the text has another form.
    """
    try:
        parts = split_pipeline(text.strip())
    except OptionError as error:
        reason = first_line(error).removeprefix("pass pipeline, ")
    else:
        if len(parts) == 1 and parts[0].arguments is None:
            return parts[0]
        reason = f"expected one name with options, got {len(parts)}"
        if len(parts) > 1:
            named = " ".join(f"-t {part.name}" for part in parts)
            hint = f"where several are taken, repeat the option: {named}"
            raise OptionError(f"'{text}' is no target: {reason}; {hint}")
    raise OptionError(
        f"'{text}' is no target: {reason}; write for example 'pytorch{{class-name=Net}}'"
    )


def parse_options(
    options_type: type[OptionsT], target: str, values: Mapping[str, object]
) -> OptionsT:
    """The options of `target` from names and values: Python's, or words of the text.

    Raises:
        OptionError: an unknown name (with the nearest known one) or a value of the wrong type.
    """
    hints = get_type_hints(options_type)
    parsed: dict[str, object] = {}
    for name, value in values.items():
        key = name.replace("-", "_")
        if key not in hints:
            raise OptionError(_unknown(target, name, list(hints)))
        parsed[key] = _convert(target, name, value, hints[key])
    return options_type(**parsed)


def _unknown(target: str, name: str, known: list[str]) -> str:
    shown = [k.replace("_", "-") for k in known]
    listed = f"; it has {', '.join(shown)}" if shown else "; it has none"
    return f"target '{target}' has no option '{name}'{did_you_mean(name, shown) or listed}"


def _convert(target: str, name: str, value: object, hint: Any) -> object:
    items = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    words = tuple(item for item in items if isinstance(item, Word))
    read = convert_words(words, hint) if len(words) == len(items) else items
    try:
        if read is None:
            raise ValueError
        return _typed(read, hint)
    except ValueError:
        wrong = ",".join(_shown(item) for item in items)
        raise OptionError(
            f"target '{target}': option '{name}' expects {type_text(hint)}, got '{wrong}'"
        ) from None


def _shown(item: object) -> str:
    if isinstance(item, Word):
        return item.text
    return str(item).lower() if isinstance(item, bool) else str(item)


def _typed(items: tuple[object, ...], hint: Any) -> object:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if NoneType in arguments and items in ((None,), ()):
            return None
        for argument in arguments:
            if argument is not NoneType:
                try:
                    return _typed(items, argument)
                except ValueError:
                    continue
        raise ValueError
    if origin is tuple:
        return tuple(_typed((item,), arguments[0]) for item in items)
    if hint is bool and not items:
        return True
    if len(items) != 1:
        raise ValueError
    (item,) = items
    if origin is Literal:
        if item not in arguments:
            raise ValueError
        return item
    if hint is float and isinstance(item, int) and not isinstance(item, bool):
        return float(item)
    if hint is str and isinstance(item, int | float) and not isinstance(item, bool):
        return str(item)
    if not isinstance(item, hint) or (hint is int and isinstance(item, bool)):
        raise ValueError
    return cast(object, item)
