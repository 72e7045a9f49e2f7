"""`convert-arith-to-llvm` on integers, against NumPy and Python: every op, at every edge."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects import arith

Array = NDArray[Any]
Native = Callable[..., Callable[..., Array]]
Body = Callable[..., str]
Edges = Callable[[int], Array]
Pairs = Callable[[Array], tuple[Array, Array]]

LANES = (1, 8)
WIDTHS = (8, 16, 32, 64)


INTEGER_OPS: dict[str, Callable[[Array, Array], Array]] = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "minsi": np.minimum,
    "maxsi": np.maximum,
}
UNSIGNED_OPS: dict[str, Callable[[Array, Array], Array]] = {
    "minui": np.minimum,
    "maxui": np.maximum,
}


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", [*INTEGER_OPS, *UNSIGNED_OPS])
def test_integers(
    native: Native, name: str, bits: int, lanes: int, function: Body, edges: Edges, pairs: Pairs
) -> None:
    x, y = pairs(edges(bits))
    type = f"i{bits}"
    got = native(function(f"%r = arith.{name} %x, %y : {type}", type, type, type), lanes)(x, y)
    if name in UNSIGNED_OPS:
        unsigned = f"u{bits // 8}"
        want = UNSIGNED_OPS[name](x.view(unsigned), y.view(unsigned)).view(x.dtype)
    else:
        want = INTEGER_OPS[name](x, y)
    np.testing.assert_array_equal(got, want)


def quotient(name: str, x: int, y: int, bits: int) -> int:
    """Division by Python's integers; a divisor that has no result counts as 1."""
    least = -(1 << (bits - 1))
    if name.endswith("ui"):
        x, y = x % (1 << bits), y % (1 << bits)
    if y == 0 or (name.endswith("si") and y == -1 and x == least):
        y = 1
    toward_zero = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    result = {
        "div": toward_zero,
        "rem": x - toward_zero * y,
        "floordiv": x // y,
        "ceildiv": -(-x // y),
    }[name[:-2]]
    return (result - least) % (1 << bits) + least


DIVISIONS = ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", DIVISIONS)
def test_division_rounds_its_way_and_never_traps(
    native: Native, name: str, bits: int, lanes: int, function: Body
) -> None:
    type = f"i{bits}"
    run = native(function(f"%r = arith.{name} %x, %y : {type}", type, type, type), lanes)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    integers = st.sampled_from([0, 1, -1, 2, -2, 3, low, low + 1, high]) | st.integers(low, high)

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.tuples(integers, integers), min_size=1, max_size=32))
    def check(cases: list[tuple[int, int]]) -> None:
        x, y = (np.array(column, f"i{bits // 8}") for column in zip(*cases, strict=True))
        want = [quotient(name, a, b, bits) for a, b in cases]
        assert run(x, y).tolist() == want

    check()


@pytest.mark.parametrize("divisor", [1, 3, -1, -7, 0])
@pytest.mark.parametrize("name", ["divsi", "remsi", "floordivsi", "ceildivsi"])
def test_division_by_a_constant(
    native: Native, name: str, divisor: int, function: Body, edges: Edges
) -> None:
    x = edges(32)
    body = f"%y = arith.constant {divisor} : i32\n%r = arith.{name} %x, %y : i32"
    for lanes in LANES:
        got = native(function(body, "i32", "i32"), lanes)(x)
        assert got.tolist() == [quotient(name, int(a), divisor, 32) for a in x]


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", ["shli", "shrsi", "shrui"])
def test_shifts(
    native: Native, name: str, bits: int, lanes: int, function: Body, edges: Edges
) -> None:
    values = edges(bits)
    x = np.repeat(values, bits)
    y = np.tile(np.arange(bits, dtype=x.dtype), len(values))
    type = f"i{bits}"
    got = native(function(f"%r = arith.{name} %x, %y : {type}", type, type, type), lanes)(x, y)
    unsigned = f"u{bits // 8}"
    want = {
        "shli": lambda: np.left_shift(x, y),
        "shrsi": lambda: np.right_shift(x, y),
        "shrui": lambda: np.right_shift(x.view(unsigned), y.view(unsigned)).view(x.dtype),
    }[name]()
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("predicate", arith.CMPI_COMPARISON_OPERATIONS)
def test_integer_comparisons(
    native: Native, predicate: str, lanes: int, function: Body, edges: Edges, pairs: Pairs
) -> None:
    x, y = pairs(edges(16))
    body = f"%c = arith.cmpi {predicate}, %x, %y : i16\n%r = arith.extui %c : i1 to i8"
    got = native(function(body, "i16", "i16", "i8"), lanes)(x, y)
    a, b = (v.view("u2") if predicate[0] == "u" else v for v in (x, y))
    compare = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    np.testing.assert_array_equal(got.astype(bool), compare[predicate[-2:]])


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("extsi", "i8", "i64"),
        ("extsi", "i16", "i32"),
        ("extui", "i8", "i32"),
        ("extui", "i32", "i64"),
        ("trunci", "i64", "i8"),
        ("trunci", "i32", "i16"),
    ],
)
def test_widths(
    native: Native, name: str, source: str, target: str, lanes: int, function: Body, edges: Edges
) -> None:
    bits = int(source[1:])
    x = edges(bits)
    got = native(function(f"%r = arith.{name} %x : {source} to {target}", source, target), lanes)(x)
    wide = x.view(f"u{bits // 8}") if name == "extui" else x
    np.testing.assert_array_equal(got, wide.astype(f"i{int(target[1:]) // 8}"))


def test_extended_sums_and_products(
    native: Native, function: Body, edges: Edges, pairs: Pairs
) -> None:
    x, y = pairs(edges(32))
    a, b = (v.view("u4").astype(object) for v in (x, y))
    for lanes in LANES:
        body = (
            "%s, %c = arith.addui_extended %x, %y : i32, i1\n%w = arith.extui %c : i1 to i32\n"
            "%r = arith.xori %s, %w : i32"
        )
        got = native(function(body, "i32", "i32", "i32"), lanes)(x, y).view("u4")
        total = a + b
        np.testing.assert_array_equal(got, ((total & 0xFFFFFFFF) ^ (total >> 32)).astype("u4"))
        for name, p, q in (("mului", a, b), ("mulsi", x.astype(object), y.astype(object))):
            body = f"%l, %h = arith.{name}_extended %x, %y : i32\n%r = arith.xori %l, %h : i32"
            got = native(function(body, "i32", "i32", "i32"), lanes)(x, y).view("u4")
            product = p * q
            want = (product & 0xFFFFFFFF) ^ ((product >> 32) & 0xFFFFFFFF)
            np.testing.assert_array_equal(got, want.astype("u4"))


def test_index_is_64_bits(native: Native, function: Body, edges: Edges) -> None:
    x = edges(64)
    body = (
        "%c = arith.constant 5 : index\n%w = arith.muli %x, %c : index\n"
        "%n = arith.index_cast %w : index to i32\n%r = arith.index_cast %n : i32 to index"
    )
    got = native(function(body, "index", "index"))(x)
    np.testing.assert_array_equal(got, (x * 5).astype("i4").astype("i8"))


def test_truth_values_are_one_bit(native: Native, function: Body) -> None:
    x = np.array([0, 1, 0, 1], "i1")
    y = np.array([0, 0, 1, 1], "i1")
    for name, want in (("maxui", x | y), ("minui", x & y), ("xori", x ^ y), ("addi", x ^ y)):
        for lanes in LANES:
            body = (
                "%a = arith.trunci %x : i8 to i1\n%b = arith.trunci %y : i8 to i1\n"
                f"%c = arith.{name} %a, %b : i1\n%r = arith.extui %c : i1 to i8"
            )
            got = native(function(body, "i8", "i8", "i8"), lanes)(x, y)
            np.testing.assert_array_equal(got, want)
