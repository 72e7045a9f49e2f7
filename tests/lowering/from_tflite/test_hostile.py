"""Broken and hostile files: one clear error, bounded time and memory."""

from __future__ import annotations

import resource
import struct
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triton_dsl.ir.errors import SourceError, TritonError, UnsupportedError
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.from_tflite.flatbuffer import Buffer, Table
from triton_dsl.lowering.to_tflite.graph import Element

LONGEST = 120.0
"""Seconds that one file may take, generously."""

NUMBERS = [0, 1, 2, 7, 2**16, 2**24, 2**30, 2**31 - 1, 2**31, 2**32 - 1]

changes = st.lists(
    st.one_of(
        st.tuples(st.just("bit"), st.floats(0, 1, exclude_max=True), st.integers(0, 7)),
        st.tuples(st.just("byte"), st.floats(0, 1, exclude_max=True), st.integers(0, 255)),
        st.tuples(st.just("number"), st.floats(0, 1, exclude_max=True), st.sampled_from(NUMBERS)),
        st.tuples(st.just("cut"), st.floats(0, 1, exclude_max=True), st.integers(1, 8)),
    ),
    min_size=1,
    max_size=4,
)


def changed(data: bytes, edits: list[tuple[str, float, int]]) -> bytes:
    """`data` with bits, bytes and numbers replaced, or bytes left out."""
    made = bytearray(data)
    for kind, share, value in edits:
        place = int(share * len(made))
        if kind == "bit":
            made[place] ^= 1 << value
        elif kind == "byte":
            made[place] = value
        elif kind == "number":
            place &= ~3
            made[place : place + 4] = value.to_bytes(4, "little")
        else:
            del made[place : place + value]
    return bytes(made)


def refused_or_read(data: bytes) -> None:
    """Read a file that may be broken: only errors of the project, soon, and in little memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    try:
        from_tflite(data)
    except TritonError as error:
        assert str(error)
    assert time.monotonic() - start < LONGEST
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2 << 20  # kilobytes


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes)
def test_mutated_files_give_one_clear_error(
    rich: bytes, edits: list[tuple[str, float, int]]
) -> None:
    refused_or_read(changed(rich, edits))


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes)
def test_mutated_real_files_give_one_clear_error(
    shared_data: Any, edits: list[tuple[str, float, int]]
) -> None:
    path = shared_data.path("models", "tflite", "kws_ref_model.tflite")
    refused_or_read(changed(path.read_bytes(), edits))


@pytest.mark.slow
def test_every_bit_of_the_structure(rich: bytes) -> None:
    for place in range(0, len(rich), 11):
        for bit in (0, 7):
            refused_or_read(changed(rich, [("bit", (place + 0.5) / len(rich), bit)]))


def test_every_truncation_is_refused(rich: bytes) -> None:
    for length in range(0, len(rich) - 1, 7):
        with pytest.raises(SourceError):
            from_tflite(rich[:length])


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 8, b"no model at all", b"\x1c\0\0\0TFL2" + b"\0" * 40]
)
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(SourceError, match="no TFLite model: it lacks the identifier TFL3"):
        from_tflite(data)


def test_a_missing_file_is_refused(tmp_path: Any) -> None:
    with pytest.raises(SourceError, match="No such file"):
        from_tflite(tmp_path / "none.tflite")


def test_numbers_outside_the_file_are_refused() -> None:
    buffer = Buffer(b"\x08\0\0\0TFL3", "file")
    with pytest.raises(SourceError, match="file: a broken file: a number outside the file"):
        buffer.root()


def table_with_list(count: int) -> Table:
    """A table whose field 0 is a list of `count` elements that are not there."""
    slots = struct.pack("<HHH", 6, 8, 4) + b"\0\0"
    body = struct.pack("<iII", 8, 4, count)
    return Table(Buffer(slots + body, "file"), len(slots))


@pytest.mark.parametrize("count", [1, 2**20, 2**32 - 1])
def test_lists_outside_the_file_are_refused(count: int) -> None:
    for read in (Table.tables, Table.text, lambda t, slot: t.numbers(slot, "i4")):
        with pytest.raises(SourceError, match=f"a list of {count} elements outside the file"):
            read(table_with_list(count), 0)


def test_lists_that_overlap_are_counted() -> None:
    """A small file whose lists all lead to the same bytes may not be read without end."""
    slots = struct.pack("<HHH", 6, 8, 4) + b"\0\0"
    data = slots + struct.pack("<iII", 8, 4, 1 << 16) + bytes(1 << 16)
    table = Table(Buffer(data, "file"), len(slots))
    with pytest.raises(SourceError, match="lists that overlap too often"):
        for _ in range(100):
            table.numbers(0, "u1")


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("PAD", [[2**30, 2**30], [2**30, 0]]),
        ("TILE", [2**30, 2**30]),
        ("RESHAPE", [-1, -1]),
        ("RESHAPE", [7, 7]),
        ("BROADCAST_TO", [2**30, 2**30, 3]),
        ("RESIZE_BILINEAR", [2**30, 2**30]),
        ("TRANSPOSE", [0, 0]),
        ("GATHER", [9, -(2**31)]),
    ],
)
def test_numbers_that_do_not_fit_are_refused(bench: Any, kind: str, numbers: Any) -> None:
    shape = (1, 2, 3, 1) if kind.startswith("RESIZE") else (2, 3)
    inputs = [bench.tensor("x", shape), bench.constant(np.array(numbers, np.int32))]
    data = bench.one_operator(kind, inputs, [bench.tensor("y", shape)], {})
    with pytest.raises(UnsupportedError, match=f"{kind} at 'y'"):
        from_tflite(data)


def test_values_that_do_not_fit_the_shape_are_refused(bench: Any) -> None:
    weight = bench.constant(np.ones((2, 3), np.float32), name="w")
    inputs = [bench.tensor("x", (2, 3)), weight]
    data = bench.one_operator("ADD", inputs, [bench.tensor("y", (2, 3))], {})
    weight.shape = (3, 3)
    wrong = bench.one_operator("ADD", inputs, [bench.tensor("y", (2, 3))], {})
    from_tflite(data)
    with pytest.raises(SourceError, match=r"'w' has 24 bytes, its shape \[3, 3\] needs 36"):
        from_tflite(wrong)


def test_a_tensor_that_nobody_computes_is_refused(bench: Any) -> None:
    x, lost = bench.tensor("x", (2,)), bench.tensor("lost", (2,), Element.FLOAT32)
    import triton_dsl.lowering.to_tflite.graph as graphs

    graph = graphs.Graph()
    made = bench.tensor("y", (2,))
    graph.inputs, graph.outputs = [x], [made]
    graph.add("ADD", [x, lost], [made], {})
    with pytest.raises(SourceError, match="tensor 'lost' is used before an operator computes it"):
        from_tflite(bench.file_of(graph))
