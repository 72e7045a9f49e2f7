"""Values of strangers are of their kind and within bounds, or refused by name."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.ir.errors import OptionError, SourceError
from triton_dsl.ir.settings import LARGEST, Settings

ANY = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.none())
)


@given(ANY)
def test_a_value_is_what_is_asked_for_or_refused(value: Any) -> None:
    """Beside what JSON says of types: true is no number, and 1.0 no whole one."""
    given_, word = Settings({"a": value}), json.dumps(value)
    is_whole = word.lstrip("-").isdigit()
    is_number = is_whole or (isinstance(value, float) and math.isfinite(value))
    cases = (
        (lambda: given_.whole("a"), is_whole and 1 <= value <= LARGEST),
        (lambda: given_.whole("a", None, -2, 2), is_whole and -2 <= value <= 2),
        (lambda: given_.number("a", None, (-1, 1)), is_number and -1 <= value <= 1),
        (lambda: given_.number("a"), is_number and 0 < value < 1.7e308),
        (lambda: given_.flag("a"), word in ("true", "false", "null")),
    )
    for read, fits in cases:
        if fits:
            assert read() == (value or 0)
        else:
            with pytest.raises(SourceError, match=r"^'a' is .*, expected "):
                read()


def test_defaults_and_parts() -> None:
    settings = Settings({"inner": {"a": 3}, "none": None}, "file: ", OptionError)
    assert settings.whole("b", 7) == settings.whole("none", 7) == 7 and not settings.flag("b")
    assert settings.part("inner").whole("a") == 3 and not settings.part("b").values
    with pytest.raises(OptionError, match=r"^file: 'a' is 3, expected a whole number from 1 to 2$"):
        settings.part("inner").whole("a", high=2)
    with pytest.raises(OptionError, match=r"^file: 'b' is None, expected a number above 0$"):
        settings.number("b")
    with pytest.raises(OptionError, match=r"^file: 'none' is \[None\], expected an object$"):
        Settings({"none": [None]}, "file: ", OptionError).part("none")


def test_long_values_are_shown_in_part() -> None:
    with pytest.raises(SourceError) as caught:
        Settings({"a": "x" * 10**6}).whole("a")
    assert len(str(caught.value)) < 200
