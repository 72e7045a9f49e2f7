"""Texts of a circuit's folder that are the same for all circuits but for words, as `<name>`.

Verilog, tests, scripts: Jinja's templates, with `<% for … %>` and `<| expression |>` where a word
is not enough. Not here: Verilog of circuits (`printer`).
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<|",
        variable_end_string="|>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(_text),
    )


def _text(template: str) -> str:
    text = files(__name__).joinpath(template).read_text(encoding="utf-8")
    return re.sub(r"<([\w.]+)>", r"<|\1|>", text)


def filled(template: str, **words: object) -> str:
    """A template, by the name of its file, with words in the places of their names.

    Raises:
        jinja2.UndefinedError: a word is missing.
    """
    return _environment().get_template(template).render(words)
