"""`expected-error` comments against reported messages."""

import pytest

from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.expectations import Reported, check, expectations


def problems(text: str, *reported: Reported) -> list[str]:
    return check(expectations(text), reported, "f.mlir")


def error(text: str, line: int | None) -> Reported:
    return Reported("error", text, line)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("// expected-error {{bad}}", 1),
        ("op // expected-error {{bad}}", 1),
        ("// expected-error@+1 {{bad}}\nop", 2),
        ("// expected-error @+1 {{bad}}\nop", 2),
        ("op\n// expected-error@-1 {{bad}}", 1),
        ("// expected-error@below {{bad}}\nop", 2),
        ("op\n// expected-error@above {{bad}}", 1),
        ("// expected-error@below {{bad}}\n// expected-note@below * {{more}}\nop", 3),
        ("// expected-error@unknown {{bad}}", None),
        ("// expected-error-re {{b{{[aeiou]}}d}}", 1),
        ("// expected-error 1 {{bad}}", 1),
        ("// expected-error * {{bad}}", 1),
        ("// expected-error {{bad {{x}}}}", None),
    ],
)
def test_what_is_expected_and_reported_is_fine(text: str, line: int | None) -> None:
    if "{{x}}" in text:
        assert problems(text, error("a bad {{x}}!", 1)) == []
    else:
        assert problems(text, error("a bad thing", line)) == []


def test_nothing_expected_and_nothing_reported_is_fine() -> None:
    assert problems("op\n// write expected-error comments here") == []


def test_a_missing_message() -> None:
    assert problems("\n// expected-error@+1 {{bad}}") == [
        'f.mlir:2: error: expected error "bad" at line 3 was not produced'
    ]


def test_an_unexpected_message() -> None:
    assert problems("", error("bad", 3)) == ["f.mlir:3: error: unexpected error: bad"]
    assert problems("", error("bad", None)) == ["f.mlir:unknown: error: unexpected error: bad"]


def test_a_wrong_message_names_what_was_expected() -> None:
    assert problems("// expected-error {{good}}", error("bad", 1)) == [
        "f.mlir:1: error: unexpected error: bad (expected: good)",
        'f.mlir:1: error: expected error "good" at line 1 was not produced',
    ]


@pytest.mark.parametrize(
    "reported", [error("bad", 2), error("bad", None), Reported("warning", "bad", 1)]
)
def test_line_and_kind_must_agree(reported: Reported) -> None:
    assert len(problems("// expected-error {{bad}}", reported)) == 2


def test_a_count_is_exact() -> None:
    text = "// expected-error 2 {{bad}}"
    assert len(problems(text, error("bad", 1))) == 1
    assert problems(text, error("bad", 1), error("bad", 1)) == []
    assert len(problems(text, *[error("bad", 1)] * 3)) == 1


def test_a_star_takes_none_too() -> None:
    assert problems("// expected-error * {{bad}}") == []


def test_plain_text_is_no_pattern() -> None:
    assert len(problems("// expected-error {{b.d}}", error("bad", 1))) == 2


def test_lines_count_from_the_start_of_the_file() -> None:
    (found,) = expectations("// expected-error {{bad}}", first_line=10)
    assert found.line == 10


def test_several_on_a_line() -> None:
    text = "op // expected-error {{one}} expected-note@+1 {{two}}"
    assert problems(text, error("one", 1), Reported("note", "two", 2)) == []


@pytest.mark.parametrize(
    "text", ["// expected-error {bad}", "// expected-error@up {{bad}}", "// expected-error @+1 bad"]
)
def test_a_comment_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(OptionError, match="line 1: cannot read 'expected-error"):
        expectations(text)


def test_a_bad_regular_expression_is_an_error() -> None:
    with pytest.raises(OptionError, match="line 1: bad regular expression"):
        expectations("// expected-error-re {{a {{(}} b}}")


@pytest.mark.parametrize(
    ("message", "reported"),
    [
        ("a.mlir:3:4: error: 'x' bad\n  x\n  ^", error("'x' bad", 3)),
        ("a.mlir:3:4: warning: odd", Reported("warning", "odd", 3)),
        ("/a:b/c.mlir:3:4: error: bad: 1:2: x", error("bad: 1:2: x", 3)),
        ("unknown: error: bad", error("bad", None)),
        ("pass 'x': bad", error("pass 'x': bad", None)),
    ],
)
def test_messages_are_taken_apart(message: str, reported: Reported) -> None:
    assert Reported.of(message) == reported
