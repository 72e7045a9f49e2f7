"""The document printer alone."""

from triton_dsl.ir.language.pretty import (
    Document,
    Group,
    Hard,
    IfBroken,
    Indent,
    Line,
    has_hard_line,
    layout,
)


def brackets(*items: str) -> Group:
    inner: Document = [Line("")]
    for number, item in enumerate(items):
        inner += ([",", Line()] if number else []) + [item]
    return Group(["(", Indent([*inner, IfBroken(",")]), Line(""), ")"])


def test_a_group_that_fits_stays_on_one_line():
    assert layout(["f", brackets("a", "b")], 0, 7) == "f(a, b)"


def test_a_group_that_does_not_fit_breaks_every_line():
    assert layout(["f", brackets("a", "b")], 0, 6) == "f(\n    a,\n    b,\n)"


def test_the_indent_counts():
    assert layout([brackets("a", "b")], 4, 9) == "(\n        a,\n        b,\n    )"


def test_what_follows_up_to_the_next_break_has_to_fit():
    assert layout([brackets("a"), "xyz"], 0, 5) == "(\n    a,\n)xyz"
    assert layout([brackets("a"), "x", brackets("b")], 0, 5) == "(a)x(\n    b,\n)"


def test_text_with_newlines_counts_its_last_line():
    assert layout(["long text\n", brackets("a", "b")], 0, 6) == "long text\n(a, b)"


def test_hard_lines_are_found_at_any_depth():
    assert has_hard_line([Indent([Hard.LINE])])
    assert has_hard_line([Group([], broken=True)])
    assert has_hard_line(["a\nb"])
    assert not has_hard_line(["a", Line(), brackets("b")])
