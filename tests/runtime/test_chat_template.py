"""Chats as `transformers` writes them (`record.py`), and templates that mean harm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime import chat_template
from triton_dsl.runtime.chat_template import chat_text

from ..lowering.from_checkpoint.checkpoints import MESSAGES, SPECIAL, TEMPLATES

RECORDS = np.load(Path(__file__).parents[1] / "lowering/from_checkpoint/records.npz")
ONE = MESSAGES["one"]


@pytest.mark.parametrize("chat", MESSAGES)
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_chat_is_the_text_of_transformers(template: str, chat: str) -> None:
    expected = str(RECORDS[f"chat.{template}.{chat}"])
    assert chat_text(TEMPLATES[template], SPECIAL, MESSAGES[chat]) == expected


HOSTILE = [
    ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "is unsafe"),
    ("{{ messages.append(1) }}", "is not safely callable|is unsafe"),
    ("{{ cycler.__init__.__globals__ }}", "is unsafe"),
    ("{% include '/etc/passwd' %}", "no loader"),
    ("{{ lipsum(n=10**6) }}", "'lipsum' is undefined"),
    ("{{ 'a' * 10**9 }}", r"the result of \* is too large"),
    ("{{ 9 ** (9 ** 9) }}", r"the result of \*\* is too large"),
    ("{% for i in range(10**9) %}{% endfor %}", "counts further than"),
    ("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}", "counts"),
    ("{% for i in range(900) %}{{ messages[0].content * 1000 }}{% endfor %}", "is longer than"),
    ("{% for i in", "unexpected"),
    ("{{ 1 / 0 }}", "ZeroDivisionError"),
    ("{{ raise_exception('roles must alternate') }}", "refuses this chat: roles must alternate"),
]


@pytest.mark.parametrize(("template", "words"), HOSTILE)
def test_a_template_does_no_harm(
    template: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_template, "MOST", 1 << 20)
    with pytest.raises(OptionError, match=words):
        chat_text(template, SPECIAL, [{"role": "user", "content": "x" * 100}])


def test_a_template_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MOST", 10)
    with pytest.raises(OptionError, match="longer than 10 characters"):
        chat_text("{# a comment #}", SPECIAL, ONE)
