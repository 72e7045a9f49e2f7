"""How `triton-opt` reads its input."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.registry import parse_module, triton_context
from triton_dsl.ir.errors import SourceError, VerifyError
from triton_dsl.ir.instrument import reproducer_text
from triton_dsl.tools.opt_reading import (
    check_roundtrip,
    decode,
    is_comment,
    with_hint,
    without_reproducer,
)

ONE = "func.func @one() { func.return }"
TWO = "func.func @two() { func.return }"


def test_round_trip() -> None:
    context = triton_context()
    check_roundtrip(parse_module(ONE), lambda text: parse_module(text, ctx=context), context)


def test_a_round_trip_to_another_module() -> None:
    with pytest.raises(VerifyError) as caught:
        check_roundtrip(parse_module(ONE), lambda _: parse_module(TWO), triton_context())
    assert str(caught.value) == (
        "--verify-roundtrip: the custom form reads as another module: "
        "line 2 'func.func @one() {' became 'func.func @two() {'"
    )


def test_a_form_that_cannot_be_read() -> None:
    def parse(text: str) -> ModuleOp:
        return parse_module(text.replace('"builtin.module"', '"builtin.mod'))

    with pytest.raises(VerifyError, match="the generic form cannot be read: "):
        check_roundtrip(parse_module(ONE), parse, triton_context())


@pytest.mark.parametrize("content", [b"", b" \n\t"])
def test_no_text(content: bytes) -> None:
    with pytest.raises(SourceError, match=r"^f: error: the input is empty$"):
        decode(content, "f", 1)


def test_places_of_bad_bytes_count_from_the_first_line() -> None:
    with pytest.raises(SourceError, match=r"^f:12:3: error: not UTF-8 text \(byte 0xc3\)$"):
        decode("ä\n  ".encode() + b"\xc3(", "f", 11)


def test_comments() -> None:
    assert is_comment("// a\n\n  // b")
    assert not is_comment("// a\nb // c")


def test_reproducers() -> None:
    text = ONE + reproducer_text([])
    rest, pipeline = without_reproducer(text + "tail")
    assert pipeline == "builtin.module()"
    assert rest.split() == [*ONE.split(), "tail"]
    assert rest.count("\n") == text.count("\n")
    assert without_reproducer(ONE) == (ONE, None)


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("Operation arith.add is not registered", "; did you mean 'arith.addi'?"),
        ("Operation arith.zzzzzz is not registered", ""),
        ("Operation return is not registered", ": unknown dialect 'return'"),
        ("'ternary.tri' is not registered", "; did you mean 'ternary.trit'?"),
        (
            "'ternery.trit' is not registered",
            ": unknown dialect 'ternery'; did you mean 'ternary'?",
        ),
        ("anything else", ""),
    ],
)
def test_hints(message: str, hint: str) -> None:
    first, rest = with_hint(f"{message}\n  text", triton_context()).split("\n")
    assert first.startswith(message + hint)
    assert rest == "  text"
    assert bool(hint) == (first != message)
