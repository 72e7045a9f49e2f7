"""Chats as one text, by the template that a model comes with: a program in Jinja, of a stranger.

It runs in Jinja's sandbox as in `transformers`, sees the chat and nothing else, and may write so
much and count so far. Not here: where templates stand in files (`lowering.from_checkpoint`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from ..ir.errors import OptionError, refuse

MOST = 1 << 24
"""Characters that a template may have, or write."""

_TURNS = 1_000_000
"""Numbers that one rendering may count through."""

Message = Mapping[str, Any]
"""`role` and `content`, both texts; more where a template knows it."""


def chat_text(template: str, special: Mapping[str, str], messages: Sequence[Message]) -> str:
    """A chat, up to where the next answer begins.

    Args:
        template: of the model.
        special: tokens as texts, by the names that the template has for them.
        messages: in order.

    Raises:
        OptionError: the template refuses the chat, is broken, or goes beyond its limits.
    """
    from jinja2 import TemplateError

    refuse(len(template) > MOST, f"the chat template is longer than {MOST} characters")
    parts: list[str] = []
    left = MOST
    given = {"messages": messages, "add_generation_prompt": True, "tools": None, **special}
    try:
        for part in _compiled(template).generate(given, range=_counting()):
            parts.append(part)
            left -= len(part)
            refuse(left < 0, f"the chat is longer than {MOST} characters")
    except TemplateError as error:
        raise OptionError(f"the model's chat template refuses this chat: {error}") from None
    except OptionError:
        raise
    except Exception as error:  # whatever a program of a stranger raises
        kind = type(error).__name__
        raise OptionError(f"the model's chat template fails: {kind}: {error}") from None
    return "".join(parts)


@lru_cache(8)
def _compiled(template: str) -> Any:
    """The template, with what `transformers` lets templates use."""
    from jinja2.exceptions import SecurityError, TemplateError
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Marks for training around an answer, which are nothing here."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            """See Jinja."""
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    class Bounded(ImmutableSandboxedEnvironment):
        """Products and powers stay small."""

        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            """See Jinja."""
            power = operator == "**" and abs(right) > 64
            if power or (operator == "*" and _size(left) * _size(right) > MOST):
                raise SecurityError(f"the result of {operator} is too large")
            return super().call_binop(context, operator, left, right)

    def refuse(message: str) -> NoReturn:
        raise TemplateError(message)

    def as_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    def now(form: str) -> str:
        return datetime.now().strftime(form)

    extensions = ["jinja2.ext.loopcontrols", Generation]
    environment = Bounded(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    names: dict[str, Any] = environment.globals
    del names["lipsum"]
    names.update(raise_exception=refuse, strftime_now=now)
    environment.filters["tojson"] = as_json
    return environment.from_string(template)


def _size(value: Any) -> Any:
    """The length of what has one, else the value."""
    return len(value) if hasattr(value, "__len__") else value


def _counting() -> Any:
    """A `range` that counts so far and not further, however often it is asked."""
    left = _TURNS

    def bounded(*arguments: int) -> range:
        nonlocal left
        numbers = range(*arguments)
        left -= len(numbers)
        refuse(left < 0, f"the chat template counts further than {_TURNS}")
        return numbers

    return bounded
