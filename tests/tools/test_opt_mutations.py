"""Broken IR never gives anything but a result or one message."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.tools import opt

FOLDER = Path(__file__).resolve().parent.parent / "filecheck"
PARTS = [
    part
    for path in sorted(FOLDER.rglob("*.mlir"))
    for part in path.read_text(encoding="utf-8").split("// -----")
]
TOKENS = [
    "%x", "tensor<?x4xf32>", "{", "}", "(", ")", "<", ">", '"', "0x", "-1", "9" * 20, "nan", "=",
    "!ternary.trit", "array<i64: 1, 0>", "dense<", ":", "func.func", "@f", "1e999", "i99999", "?",
    "tensor<-1xf32>", "loc(", "#tensor.store<unsaved>", "\0", "é",
]  # fmt: skip

EDITS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 12), st.sampled_from(["", *TOKENS])),
    min_size=1,
    max_size=4,
)


def run(text: bytes, *arguments: str) -> tuple[int, str, str]:
    saved = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text))
    try:
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = opt.main(arguments)
    finally:
        sys.stdin = saved
    return code, out.getvalue(), err.getvalue()


@given(st.sampled_from(PARTS), EDITS)
def test_mutated_programs(text: str, edits: list[tuple[int, int, str]]) -> None:
    for place, length, token in edits:
        at = place % (len(text) + 1)
        text = text[:at] + token + text[at + length :]
    code, out, err = run(text.encode(), "-p", "canonicalize,cse,dce", "--verify-roundtrip")
    assert "internal error" not in err
    assert "crashed" not in err
    if code:
        assert (code, out) == (1, "")
        assert len(err.splitlines()) in (1, 3)


@given(st.binary(max_size=40))
@settings(max_examples=50)
def test_any_bytes(content: bytes) -> None:
    code, _, err = run(content)
    assert code == 0 or len(err.splitlines()) in (1, 3)


@pytest.mark.parametrize("text", ['#a = "' + "x" * 5000, '"' + "ab\\" * 3000])
def test_an_open_string_is_refused_in_no_time(text: str) -> None:
    code, out, err = run(text.encode())
    assert (code, out) == (1, "")
    assert "error: End of file reached before closing string literal." in err
