"""`convert-arith-to-llvm` on floats, against NumPy: every op and conversion, at every edge."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects import arith

Array = NDArray[Any]
Native = Callable[..., Callable[..., Array]]
Body = Callable[..., str]
Edges = Callable[[int], Array]
Pairs = Callable[[Array], tuple[Array, Array]]

LANES = (1, 8)
WIDTHS = (8, 16, 32, 64)


def floats(kind: str, rng: np.random.Generator) -> Array:
    """Zeros, subnormals, ends, infinities, NaN, and random bits."""
    dtype = np.dtype(kind)
    info = np.finfo(dtype)
    chosen = [0, info.smallest_subnormal, info.tiny, info.eps, 0.5, 1, 1.5, 2, 3, info.max, np.inf]
    values = np.array([s * v for v in chosen for s in (1, -1)] + [np.nan], dtype)
    bits = rng.integers(0, 1 << 8 * dtype.itemsize, 60, f"u{dtype.itemsize}")
    return np.concatenate([values, bits.view(dtype)])


def same(got: Array, want: Array) -> None:
    """Equal numbers, zeros with their signs; NaN for NaN."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    numbers = ~np.isnan(want)
    unsigned = f"u{want.dtype.itemsize}"
    np.testing.assert_array_equal(got[numbers].view(unsigned), want[numbers].view(unsigned))


def ordered(predicate: str, x: Array, y: Array) -> Array:
    """A float comparison by its definition in IEEE 754."""
    unordered = np.isnan(x) | np.isnan(y)
    if predicate in ("false", "true", "ord", "uno"):
        always = np.full(x.shape, predicate == "true")
        return {"ord": ~unordered, "uno": unordered}.get(predicate, always)
    compare = {
        "eq": x == y,
        "ne": (x < y) | (x > y),
        "lt": x < y,
        "le": x <= y,
        "gt": x > y,
        "ge": x >= y,
    }[predicate[1:]]
    return compare | unordered if predicate[0] == "u" else compare


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
@pytest.mark.parametrize("predicate", arith.CMPF_COMPARISON_OPERATIONS)
def test_float_comparisons(
    native: Native, predicate: str, kind: str, lanes: int, function: Body, pairs: Pairs
) -> None:
    x, y = pairs(floats(kind, np.random.default_rng(0)))
    type = f"f{8 * int(kind[1])}"
    body = f"%c = arith.cmpf {predicate}, %x, %y : {type}\n%r = arith.extui %c : i1 to i8"
    got = native(function(body, type, type, "i8"), lanes)(x, y)
    np.testing.assert_array_equal(got.astype(bool), ordered(predicate, x, y))


def lesser(x: Array, y: Array) -> Array:
    """IEEE 754-2019 minimum: NaN if either is, -0 before +0."""
    result = np.where(x == y, np.where(np.signbit(x), x, y), np.minimum(x, y))
    return result.astype(x.dtype)


FLOAT_OPS: dict[str, Callable[[Array, Array], Array]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "minimumf": lesser,
    "maximumf": lambda x, y: -lesser(-x, -y),
}


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", FLOAT_OPS)
@np.errstate(all="ignore")
def test_floats(
    native: Native, name: str, kind: str, lanes: int, function: Body, pairs: Pairs
) -> None:
    x, y = pairs(floats(kind, np.random.default_rng(0)))
    type = f"f{8 * int(kind[1])}"
    got = native(function(f"%r = arith.{name} %x, %y : {type}", type, type, type), lanes)(x, y)
    same(got, FLOAT_OPS[name](x, y))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", ["minnumf", "maxnumf"])
def test_minimum_that_prefers_numbers(
    native: Native, name: str, lanes: int, function: Body, pairs: Pairs
) -> None:
    x, y = pairs(floats("f4", np.random.default_rng(0)))
    got = native(function(f"%r = arith.{name} %x, %y : f32", "f32", "f32", "f32"), lanes)(x, y)
    want = (np.fmin if name == "minnumf" else np.fmax)(x, y)
    # Zeros of either sign are allowed.
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
def test_negation_turns_every_sign(native: Native, kind: str, lanes: int, function: Body) -> None:
    x = floats(kind, np.random.default_rng(0))
    type = f"f{8 * int(kind[1])}"
    got = native(function(f"%r = arith.negf %x : {type}", type, type), lanes)(x)
    unsigned = f"u{kind[1]}"
    top = 1 << (8 * int(kind[1]) - 1)
    np.testing.assert_array_equal(got.view(unsigned), x.view(unsigned) ^ np.array(top, unsigned))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("type", ["i8", "i64", "f16", "f32", "f64"])
def test_select(native: Native, type: str, lanes: int, function: Body, edges: Edges) -> None:
    rng = np.random.default_rng(0)
    kind = f"{type[0]}{int(type[1:]) // 8}"
    x = floats(kind, rng) if type[0] == "f" else edges(int(type[1:]))
    y = x[::-1].copy()
    chosen = rng.integers(0, 2, len(x)).astype("i1")
    body = f"%c = arith.trunci %z : i8 to i1\n%r = arith.select %c, %x, %y : {type}"
    got = native(function(body, type, type, "i8", type), lanes)(x, y, chosen)
    unsigned = f"u{kind[1]}"
    want = np.where(chosen, x.view(unsigned), y.view(unsigned))
    np.testing.assert_array_equal(got.view(unsigned), want)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", ["sitofp", "uitofp"])
@np.errstate(over="ignore")
def test_integers_to_floats(
    native: Native, name: str, kind: str, bits: int, lanes: int, function: Body, edges: Edges
) -> None:
    x = edges(bits)
    source, target = f"i{bits}", f"f{8 * int(kind[1])}"
    got = native(function(f"%r = arith.{name} %x : {source} to {target}", source, target), lanes)(x)
    exact = [int(n) for n in (x.view(f"u{bits // 8}") if name == "uitofp" else x)]
    same(got, np.array([nearest(n, kind) for n in exact], kind))


def nearest(number: int, kind: str) -> float:
    """An integer rounded once to a float format, by integers alone."""
    digits = np.finfo(np.dtype(kind)).nmant + 1
    magnitude = abs(number)
    drop = max(magnitude.bit_length() - digits, 0)
    low, rest = magnitude >> drop, magnitude & ((1 << drop) - 1)
    half = (1 << drop) >> 1
    low += bool(drop) and (rest > half or (rest == half and bool(low & 1)))
    rounded = float(low << drop)
    limit = float(np.finfo(np.dtype(kind)).max)
    return float(np.copysign(np.inf if rounded > limit else rounded, number))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", ["fptosi", "fptoui"])
def test_floats_to_integers(
    native: Native, name: str, kind: str, bits: int, lanes: int, function: Body
) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([floats(kind, rng), rng.normal(0, 200, 50).astype(kind)])
    source, target = f"f{8 * int(kind[1])}", f"i{bits}"
    got = native(function(f"%r = arith.{name} %x : {source} to {target}", source, target), lanes)(x)
    low = 0 if name == "fptoui" else -(1 << (bits - 1))
    high = low + (1 << bits) - 1
    infinity = 1 << 200
    whole = [0 if np.isnan(v) else int(np.sign(v)) * infinity if np.isinf(v) else int(v) for v in x]
    want = np.array([min(max(n, low), high) & ((1 << bits) - 1) for n in whole], f"u{bits // 8}")
    np.testing.assert_array_equal(got.view(want.dtype), want)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("extf", "f16", "f32"),
        ("extf", "f16", "f64"),
        ("extf", "f32", "f64"),
        ("truncf", "f32", "f16"),
        ("truncf", "f64", "f16"),
        ("truncf", "f64", "f32"),
    ],
)
@np.errstate(all="ignore")
def test_float_widths(
    native: Native, name: str, source: str, target: str, lanes: int, function: Body
) -> None:
    rng = np.random.default_rng(0)
    x = floats(f"f{int(source[1:]) // 8}", rng)
    if source == "f16":
        x = np.arange(1 << 16, dtype="u2").view("f2")
    elif target == "f16":
        # Around every half-way point, and what lies beside it.
        halves = np.arange(0x7C00, dtype="u2").view("f2").astype("f8")
        middle = ((halves[:-1] + halves[1:]) / 2).astype(x.dtype)
        x = np.concatenate([x, middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)])
        x = np.concatenate([x, -x, np.array([65519.99, 65520, 65536, 1e30], x.dtype)])
    got = native(function(f"%r = arith.{name} %x : {source} to {target}", source, target), lanes)(x)
    same(got, x.astype(f"f{int(target[1:]) // 8}"))


def to_bfloat16(x: Array) -> Array:
    """The bits of float64 values rounded once to bf16, NaN as 0x7fc0; by exact scaling."""
    _, exponent = np.frexp(np.abs(x))
    exponent = np.maximum(exponent, -125)  # 8 digits, subnormals below 2^-126
    with np.errstate(all="ignore"):
        steps = np.rint(np.ldexp(np.abs(x), 8 - exponent))
        rounded = np.ldexp(steps, exponent - 8)
    rounded = np.where(np.isinf(x), np.inf, rounded)
    with np.errstate(over="ignore"):
        bits = (rounded.astype("f4").view("u4") >> 16).astype("u2")
    bits = np.where(np.isnan(x), 0x7FC0, np.minimum(bits, 0x7F80))
    return (bits | np.where(np.signbit(x), 0x8000, 0)).astype("u2")


@pytest.mark.parametrize("lanes", LANES)
@np.errstate(all="ignore")
def test_bfloat16_from_and_to_wider_floats(native: Native, lanes: int, function: Body) -> None:
    every = np.arange(1 << 16, dtype="u2")
    value = (every.astype("u4") << 16).view("f4")
    for type in ("f32", "f64"):
        body = f"%b = arith.bitcast %x : i16 to bf16\n%r = arith.extf %b : bf16 to {type}"
        same(
            native(function(body, "i16", type), lanes)(every.view("i2")),
            value.astype(type_of(type)),
        )
        numbers = value[np.isfinite(value) & (value >= 0)].astype("f8")
        middle = (numbers[:-1] + numbers[1:]) / 2
        x = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf), value])
        x = x.astype(type_of(type))
        x = np.concatenate([x, -x])
        body = f"%b = arith.truncf %x : {type} to bf16\n%r = arith.bitcast %b : bf16 to i16"
        got = native(function(body, type, "i16"), lanes)(x).view("u2")
        numbers_only = ~np.isnan(x)
        want = to_bfloat16(x.astype("f8"))
        np.testing.assert_array_equal(got[numbers_only], want[numbers_only])
        assert np.all((got[~numbers_only] & 0x7FFF) > 0x7F80)


def type_of(type: str) -> str:
    """NumPy's name of a type."""
    return f"{type[0]}{int(type[1:]) // 8}"


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", ["sitofp", "uitofp"])
def test_integers_to_bfloat16(
    native: Native, name: str, bits: int, lanes: int, function: Body, edges: Edges
) -> None:
    x = edges(bits)
    # Half-way points of 8 digits, and their neighbours.
    half = [(257 << n) + d for n in range(max(bits - 9, 0)) for d in (-1, 0, 1)]
    x = np.concatenate([x, np.array([n for n in half if n < 1 << (bits - 1)], x.dtype)])
    body = f"%b = arith.{name} %x : i{bits} to bf16\n%r = arith.bitcast %b : bf16 to i16"
    got = native(function(body, f"i{bits}", "i16"), lanes)(x).view("u2")
    for number, result in zip(x.view(f"u{bits // 8}") if name == "uitofp" else x, got, strict=True):
        magnitude = abs(int(number))
        drop = max(magnitude.bit_length() - 8, 0)
        low, rest = magnitude >> drop, magnitude & ((1 << drop) - 1)
        middle = (1 << drop) >> 1
        low += bool(drop) and (rest > middle or (rest == middle and bool(low & 1)))
        want = np.float32(np.copysign(float(low << drop), int(number)))
        assert int(result) == int(want.view("u4")) >> 16, number


@pytest.mark.parametrize("lanes", LANES)
@np.errstate(all="ignore")
def test_bfloat16_arithmetic_rounds_once(native: Native, lanes: int, function: Body) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 1 << 16, 4000, "u2") for _ in range(2))
    body = (
        "%a = arith.bitcast %x : i16 to bf16\n%b = arith.bitcast %y : i16 to bf16\n"
        "%c = arith.mulf %a, %b : bf16\n%r = arith.bitcast %c : bf16 to i16"
    )
    got = native(function(body, "i16", "i16", "i16"), lanes)(x.view("i2"), y.view("i2")).view("u2")
    a, b = ((v.astype("u4") << 16).view("f4").astype("f8") for v in (x, y))
    with np.errstate(all="ignore"):
        exact = a * b
    numbers = ~np.isnan(exact)
    np.testing.assert_array_equal(got[numbers], to_bfloat16(exact)[numbers])
