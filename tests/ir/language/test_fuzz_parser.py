"""Generated programs and mutations of them: the parser and the formatter never do anything else
than what they promise."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from triton_dsl.ir.errors import CompilationError
from triton_dsl.ir.language import nodes
from triton_dsl.ir.language.diagnostics import DiagnosticBag
from triton_dsl.ir.language.format import format_source
from triton_dsl.ir.language.parser import TritonParser, tokenize

WORDS = ["layer", "fn", "let", "if", "else", "x", "1", "\n", *"{}()[],:=;"]
Programs = SearchStrategy[tuple[nodes.Program, str]]

FEW = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
MANY = settings(max_examples=5000, suppress_health_check=[HealthCheck.too_slow])


def comments(text: str) -> list[str]:
    tokens = tokenize(text, "", DiagnosticBag())
    return [comment.text.rstrip() for token in tokens for comment in token.comments]


def walk(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for value in vars(node).values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, nodes.Node):
                yield from walk(item)


def check_program(tree: nodes.Program, text: str) -> None:
    """The text parses to the tree; its format too, with every comment, and is final."""
    parser = TritonParser()
    assert parser.parse(text) == tree
    formatted = format_source(text)
    assert parser.parse(formatted) == tree
    assert comments(formatted) == comments(text)
    assert format_source(formatted) == formatted


def check_text(text: str) -> None:
    """Any text is a program or an error, never both and nothing else."""
    program, diagnostics = TritonParser().parse_with_recovery(text)
    broken = (nodes.ErrorDeclaration, nodes.ErrorStatement)
    if not diagnostics:
        assert not any(isinstance(node, broken) for node in walk(program))
        check_program(program, text)
        return
    assert 0 < len(diagnostics) <= 20
    with pytest.raises(CompilationError) as caught:
        TritonParser().parse(text)
    error = caught.value
    assert error.diagnostics == tuple(diagnostics)
    lines = str(error).split("\n")
    assert lines[0].startswith(f"<string>:{error.line}:{error.column}: error: ")
    assert all(line.isprintable() or "\t" in line for line in lines)


@given(data=st.data())
@FEW
def test_generated_programs(program_texts: Programs, data: DataObject):
    check_program(*data.draw(program_texts))


@given(data=st.data())
@FEW
def test_mutated_programs(mutated_texts: SearchStrategy[str], data: DataObject):
    check_text(data.draw(mutated_texts))


@given(text=st.text(max_size=60))
@settings(max_examples=100)
def test_any_text(text: str):
    check_text(text)


@given(
    words=st.lists(
        st.sampled_from(
            [
                "layer",
                "fn",
                "let",
                "if",
                "else",
                "{",
                "}",
                "(",
                ")",
                "[",
                "]",
                ",",
                ":",
                "=",
                "x",
                "1",
                "\n",
                ";",
            ]
        )
    )
)
@settings(max_examples=150)
def test_any_tokens(words: list[str]):
    check_text(" ".join(words))


@pytest.mark.slow
@given(data=st.data())
@MANY
def test_many_generated_programs(program_texts: Programs, data: DataObject):
    check_program(*data.draw(program_texts))


@pytest.mark.slow
@given(data=st.data())
@MANY
def test_many_mutated_programs(mutated_texts: SearchStrategy[str], data: DataObject):
    check_text(data.draw(mutated_texts))
