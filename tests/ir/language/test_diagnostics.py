"""Drawing and collecting diagnostics."""

import pytest

from triton_dsl.ir.errors import CompilationError
from triton_dsl.ir.language.diagnostics import (
    MAX_ERRORS,
    Diagnostic,
    DiagnosticBag,
    render,
    suggest,
)
from triton_dsl.ir.language.nodes import Span

MNIST = """layer M {
    param weights: TernaryTensor[748, 10]
    param bias: Tensor[10]


    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        return x @ weights + bias
    }
}
"""


def test_the_sample_of_the_specification():
    diagnostic = Diagnostic(
        "error",
        "'@' needs equal inner dimensions: Tensor[N, 784] @ TernaryTensor[748, 10]",
        Span("mnist.tri", 7, 16, 7, 27),
        notes=(("'weights' is declared here", Span("mnist.tri", 2, 5, 2, 42)),),
    )
    assert render(diagnostic, {"mnist.tri": MNIST}) == (
        "mnist.tri:7:16: error: "
        "'@' needs equal inner dimensions: Tensor[N, 784] @ TernaryTensor[748, 10] [E0501]\n"
        "    7 |         return x @ weights + bias\n"
        "      |                ^^^^^^^^^^^\n"
        "note: 'weights' is declared here: mnist.tri:2:5\n"
        "    2 |     param weights: TernaryTensor[748, 10]\n"
        "      |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    )


def draw(source: str, line: int, column: int, end_line: int, end_column: int) -> list[str]:
    span = Span("f", line, column, end_line, end_column)
    return render(Diagnostic("error", "m", span), {"f": source}).split("\n")[1:]


def test_a_suggestion_stands_on_its_own_line():
    text = render(Diagnostic("warning", "m", None, suggestion="did you mean 'x'?"), {})
    assert text == "warning: m\nhelp: did you mean 'x'?"


def test_tabs_keep_the_carets_in_place():
    assert draw("\t\tx y", 1, 5, 1, 6) == ["    1 | \t\tx y", "      | \t\t  ^"]


def test_wide_and_combining_characters_keep_the_carets_in_place():
    assert draw("三 x", 1, 3, 1, 4) == ["    1 | 三 x", "      |    ^"]
    assert draw("e\N{COMBINING ACUTE ACCENT} x", 1, 4, 1, 5)[1] == "      |   ^"


def test_a_span_of_several_lines_underlines_the_first():
    assert draw("ab cd  \nef", 1, 4, 2, 2) == ["    1 | ab cd", "      |    ^^"]


def test_an_empty_span_still_shows_a_caret():
    assert draw("ab", 1, 3, 1, 3) == ["    1 | ab", "      |   ^"]
    assert draw("", 1, 1, 1, 1) == ["    1 |", "      | ^"]


def test_lines_are_counted_as_the_lexer_does():
    assert draw("a\u2028b\x0cc\r\nd\re", 3, 1, 3, 2) == ["    3 | e", "      | ^"]


def test_control_characters_do_not_reach_the_terminal():
    assert draw("a\x1b[31m\0", 1, 1, 1, 2)[0] == "    1 | a\N{REPLACEMENT CHARACTER}[31m�"


def test_a_long_line_is_cut_around_the_caret():
    shown, carets = draw("x" * 5000 + "!" + "y" * 5000, 1, 5001, 1, 5002)
    assert len(shown) < 200
    assert shown[carets.index("^")] == "!"


def test_line_numbers_of_any_size_keep_the_gutter_straight():
    shown, carets = draw("\n" * 99_999 + "x", 100_000, 1, 100_000, 2)
    assert shown == "100000 | x"
    assert carets == "       | ^"


def test_a_place_outside_the_source_gives_no_excerpt():
    assert draw("a", 9, 1, 9, 2) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [("weigths", "weights"), ("Weights", "weights"), ("bais", "bias"), ("q", None), ("", None)],
)
def test_suggest(name: str, expected: str | None):
    found = suggest(name, ["weights", "bias", "x"])
    assert found == (None if expected is None else f"did you mean '{expected}'?")


def test_suggest_never_offers_the_name_itself():
    assert suggest("x", ["x"]) is None


def test_a_bag_sorts_and_drops_duplicates():
    bag = DiagnosticBag()
    bag.error("second", Span("f", 2, 1, 2, 2))
    bag.error("first", Span("f", 1, 9, 1, 10), suggestion="did you mean 'x'?")
    bag.error("second", Span("f", 2, 1, 2, 2))
    bag.warning("aside", Span("f", 1, 1, 1, 2))
    with pytest.raises(CompilationError) as caught:
        bag.raise_if_errors({"f": "a\nb"})
    error = caught.value
    assert (error.line, error.column, error.suggestion) == (1, 9, "did you mean 'x'?")
    assert [d.message for d in bag.diagnostics] == ["aside", "first", "second"]
    assert [d.message for d in bag.warnings] == ["aside"]
    assert len(error.diagnostics) == 3
    assert str(error).startswith("f:1:1: warning: aside\n")


def test_a_bag_shows_the_first_twenty_errors_and_counts_the_rest():
    bag = DiagnosticBag()
    for line in reversed(range(1, 31)):
        bag.error("m", Span("f", line, 1, line, 2))
    assert bag.is_full
    assert [d.span.line for d in bag.errors if d.span] == list(range(1, MAX_ERRORS + 1))
    with pytest.raises(CompilationError, match="10 more error"):
        bag.raise_if_errors({})


def test_warnings_alone_raise_nothing():
    bag = DiagnosticBag([Diagnostic("warning", "m", None)])
    bag.raise_if_errors({})
    assert not bag.has_errors
