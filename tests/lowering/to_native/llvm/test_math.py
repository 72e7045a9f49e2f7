"""`convert-math-to-llvm`: errors in units in the last place, special cases, and calls left over."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import erf

from triton_dsl.dialects.registry import parse_module, triton_context
from triton_dsl.ir.errors import OptionError, UnsupportedError
from triton_dsl.lowering.to_native.llvm.convert_math import ConvertMathToLLVMPass
from triton_dsl.runtime.native.processor import host_features

Array = NDArray[Any]
Native = Callable[..., Callable[..., Array]]
Undefined = Callable[..., set[str]]

LANES = (1, 8)
WIDE = (
    "convert-vector-to-llvm,convert-math-to-llvm{features=avx512f,fma},convert-arith-to-llvm,"
    "convert-cf-to-llvm,convert-func-to-llvm"
)
REST = "convert-arith-to-llvm,convert-cf-to-llvm,convert-func-to-llvm"
EXTENDED = np.finfo(np.longdouble).nmant > 60
"""Whether NumPy's `longdouble` can judge results in f64."""

needs_extended = pytest.mark.skipif(not EXTENDED, reason="longdouble is no wider than double here")


needs_wide = pytest.mark.skipif(
    "avx512f" not in host_features(), reason="this processor has no AVX-512"
)


def function(op: str, type: str, count: int = 1) -> str:
    """`f` that applies a `math` op."""
    names = [f"%{name}" for name in "xyz"[:count]]
    arguments = ", ".join(f"{name}: {type}" for name in names)
    return (
        f"func.func private @f({arguments}) -> {type} {{\n"
        f"%r = math.{op} {', '.join(names)} : {type}\nfunc.return %r : {type}\n}}"
    )


@np.errstate(all="ignore")
def worst(got: Array, want: Array) -> float:
    """The largest error in units in the last place; what is not finite must be the same."""
    rounded = want.astype(got.dtype)
    finite = np.isfinite(rounded) & np.isfinite(got)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    unequal = ~finite & ~same
    # The last finite number is within an ulp of what overflows.
    assert not np.any(unequal), (got[unequal][:5], rounded[unequal][:5])
    unit = np.spacing(np.abs(rounded[finite])).astype(np.longdouble)
    error = np.abs(got[finite].astype(np.longdouble) - want[finite]) / unit
    return float(error.max())


@cache
def single_inputs() -> Array:
    """About a million f32: over all bit patterns, and where the functions change."""
    bits = np.arange(0, 1 << 32, 4999, dtype=np.uint64).astype(np.uint32)
    lines = [np.linspace(a, b, 60001) for a, b in ((-10, 10), (-104, 89), (0.5, 2), (-1.2, 1.2))]
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754942e-38]
    return np.concatenate(
        [bits.view(np.float32), *lines, edges], dtype=np.float32, casting="unsafe"
    )


def double_inputs() -> Array:
    """Random f64: all bit patterns, and where the functions change."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 64, 100_000, dtype=np.uint64).view(np.float64)
    ends = ((-750, 712), (-1080, 1026), (0.5, 2), (-20, 20), (-1.2, 1.2))
    ranges = [rng.uniform(a, b, 50_000) for a, b in ends]
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.2e-308, 1.7e308]
    return np.concatenate([bits, *ranges, edges])


def reference_erf(x: Array) -> Array:
    """erf in f64, enough for f32."""
    return erf(x.astype(np.float64)).astype(np.longdouble)


FUNCTIONS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 1.1),
    "exp2": (np.exp2, 1.1),
    "log": (np.log, 0.9),
    "log2": (np.log2, 2.0),
    "tanh": (np.tanh, 1.4),
    "erf": (reference_erf, 1.3),
}
"""What they must be, and the greatest error in units in the last place."""


@pytest.mark.parametrize("name", FUNCTIONS)
@np.errstate(all="ignore")
def test_functions_of_f32(native: Native, name: str) -> None:
    reference, bound = FUNCTIONS[name]
    x = single_inputs()
    got = native(function(name, "f32"), 16)(x)
    assert worst(got, reference(x.astype(np.longdouble))) <= bound
    step = len(x) // 5000
    scalar = native(function(name, "f32"))(x[::step])
    np.testing.assert_array_equal(bits(scalar), bits(got[::step]))


@needs_wide
@np.errstate(all="ignore")
def test_tables_and_powers_in_registers(native: Native) -> None:
    """Other formulas for AVX-512: erf is closer, and of exp each bit is the same."""
    x = single_inputs()
    found = {
        (name, lanes): native(function(name, "f32"), lanes, WIDE)(x)
        for name in ("erf", "exp")
        for lanes in (1, 6, 16, 17, 32)
    }
    erfs = [values for (name, _), values in found.items() if name == "erf"]
    normal = np.abs(x) > 1e-37  # below, results have fewer digits
    assert worst(erfs[0][normal], reference_erf(x[normal].astype(np.longdouble))) <= 0.6
    for values in erfs[1:]:
        np.testing.assert_array_equal(bits(values), bits(erfs[0]))
    plain = native(function("exp", "f32"), 16)(x)
    for lanes in (1, 6, 16, 17, 32):
        np.testing.assert_array_equal(bits(found["exp", lanes]), bits(plain))
    zeros = native(function("erf", "f32"), 16, WIDE)(np.array([0.0, -0.0], "f4"))
    assert np.signbit(zeros).tolist() == [False, True]


@needs_extended
@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "tanh"])
@np.errstate(all="ignore")
def test_functions_of_f64(native: Native, name: str) -> None:
    reference, bound = FUNCTIONS[name]
    x = double_inputs()
    for lanes in LANES:
        got = native(function(name, "f64"), lanes)(x)
        assert worst(got, reference(x.astype(np.longdouble))) <= bound


def test_erf_of_f64(native: Native) -> None:
    """The C library's erf is within one unit itself."""
    rng = np.random.default_rng(0)
    x = np.concatenate([double_inputs()[::20], rng.uniform(-6.5, 6.5, 20000)])
    want = np.array([math.erf(v) for v in x])
    for lanes in LANES:
        got = native(function("erf", "f64"), lanes)(x)
        assert worst(got, want.astype(np.longdouble)) <= 2


def test_zeros_keep_their_sign(native: Native) -> None:
    x = np.array([0.0, -0.0], "f4")
    for name in ("tanh", "erf", "floor", "ceil", "trunc", "round", "roundeven", "sqrt"):
        for lanes in LANES:
            got = native(function(name, "f32"), lanes)(x)
            assert got.tolist() == [0, 0] and np.signbit(got).tolist() == [False, True], name


def power_inputs(kind: str) -> tuple[Array, Array]:
    """Bases of all sizes, and exponents that lead to results of all sizes."""
    rng = np.random.default_rng(0)
    limit, spread = (740, 300) if kind == "f8" else (100, 80)
    bases = [np.exp(rng.uniform(-spread, spread, 40000)), rng.uniform(0.9, 1.1, 40000)]
    bases += [np.exp(rng.uniform(-5, 5, 40000)), 1 + rng.uniform(-1e-6, 1e-6, 40000)]
    x = np.concatenate(bases).astype(kind)
    with np.errstate(all="ignore"):
        y = (rng.uniform(-limit, limit, len(x)) / np.log(x.astype(np.longdouble))).astype(kind)
    return x, y


@needs_extended
@pytest.mark.parametrize("kind", ["f4", "f8"])
@np.errstate(all="ignore")
def test_powers(native: Native, kind: str) -> None:
    x, y = power_inputs(kind)
    got = native(function("powf", f"f{8 * int(kind[1])}", 2), 8)(x, y)
    want = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    assert worst(got, want) <= (0.6 if kind == "f4" else 1.5)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", ["f4", "f8"])
@np.errstate(all="ignore")
def test_special_powers(native: Native, kind: str, lanes: int) -> None:
    info = np.finfo(np.dtype(kind))
    sizes = [0, 0.3, 0.5, 1, 1.5, 2, 3, 7, 33, 1e10, 2.0**53 - 1, 2.0**53, np.inf]
    sizes += [float(v) for v in (info.max, info.tiny, info.smallest_subnormal, 1 + info.eps)]
    values = np.array([s * v for v in sizes for s in (1, -1)] + [np.nan], kind)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    got = native(function("powf", f"f{8 * int(kind[1])}", 2), lanes)(x, y)
    want = np.power(x, y)
    np.testing.assert_allclose(got, want, rtol=4 * float(info.eps), atol=0)
    signs = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[signs]), np.signbit(want[signs]))


ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "roundeven": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x)) + (np.abs(x) % 1 >= 0.5), x),
}


def bits(x: Array) -> Array:
    """Bit patterns, one for all NaN."""
    return np.where(np.isnan(x), 0, x.view(f"u{x.dtype.itemsize}"))


@pytest.mark.parametrize("features", ["", "{features=avx2,fma}"])
@pytest.mark.parametrize("type", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", ROUNDINGS)
@np.errstate(all="ignore")
def test_rounding(native: Native, name: str, type: str, features: str) -> None:
    kind = f"f{int(type[1:]) // 8}"
    rng = np.random.default_rng(0)
    digits = np.finfo(np.dtype(kind)).nmant
    halves = np.arange(-40, 41) / 4
    large = 2.0 ** np.arange(-3, digits + 3)[:, None] + np.array([-0.5, -0.25, 0, 0.25, 0.5, 1])
    random = rng.integers(0, 1 << 8 * int(kind[1]), 4000, f"u{kind[1]}").view(kind)
    x = np.concatenate([halves, large.ravel(), -large.ravel()]).astype(kind)
    x = np.concatenate([x, random, np.array([np.inf, -np.inf, np.nan, 0, -0.0], kind)])
    pipeline = f"convert-math-to-llvm{features},{REST}"
    for lanes in LANES:
        got = native(function(name, type), lanes, pipeline)(x)
        np.testing.assert_array_equal(bits(got), bits(ROUNDINGS[name](x)))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("type", ["f32", "f64"])
@np.errstate(all="ignore")
def test_roots_and_signs(native: Native, type: str, lanes: int) -> None:
    kind = f"f{int(type[1:]) // 8}"
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 1 << 8 * int(kind[1]), 4000, f"u{kind[1]}").view(kind) for _ in "xy")
    x[:4] = [0, -0.0, np.inf, np.nan]
    for name, want in (("sqrt", np.sqrt(x)), ("rsqrt", 1 / np.sqrt(x)), ("absf", np.abs(x))):
        np.testing.assert_array_equal(
            bits(native(function(name, type), lanes)(x)), bits(want.astype(kind))
        )
    got = native(function("copysign", type, 2), lanes)(x, y)
    np.testing.assert_array_equal(got.view(f"u{kind[1]}"), np.copysign(x, y).view(f"u{kind[1]}"))


@pytest.mark.parametrize("lanes", LANES)
def test_f16_is_computed_in_f32(native: Native, lanes: int) -> None:
    x = np.arange(1 << 16, dtype="u2").view("f2")
    with np.errstate(all="ignore"):
        want = np.exp(x.astype("f8")).astype("f2")
    got = native(function("exp", "f16"), lanes)(x)
    away = np.abs(bits(got).astype("i4") - bits(want).astype("i4"))
    # The error in f32 decides only where e^x is next to the middle of two f16.
    assert away.max() <= 1 and np.count_nonzero(away) < 10


@pytest.mark.parametrize("type", ["i8", "i32", "i64"])
def test_bit_counts(native: Native, type: str) -> None:
    width = int(type[1:])
    x = np.array([0, 1, -1, 2, -(1 << (width - 1)), 100, -100], f"i{width // 8}")
    patterns = [f"{int(v) & ((1 << width) - 1):0{width}b}" for v in x]
    expected = {
        "ctlz": [len(p) - len(p.lstrip("0")) for p in patterns],
        "cttz": [len(p) - len(p.rstrip("0")) for p in patterns],
        "ctpop": [p.count("1") for p in patterns],
    }
    for lanes in LANES:
        for name, want in expected.items():
            assert native(function(name, type), lanes)(x).tolist() == want
        np.testing.assert_array_equal(native(function("absi", type), lanes)(x), np.abs(x))


FMA = """
func.func private @f(%x: f32, %y: f32, %z: f32) -> f32 {
  %r = math.fma %x, %y, %z : f32
  func.return %r : f32
}"""


def exact_fma(x: Array, y: Array, z: Array) -> Array:
    """x·y + z in integers, rounded once by Python's division of integers."""
    results: list[float] = []
    for a, b, c in zip(x, y, z, strict=True):
        (p, q), (r, s), (t, u) = (float(v).as_integer_ratio() for v in (a, b, c))
        top, bottom = p * r * u + t * q * s, q * s * u
        results.append(single_quotient(top, bottom))
    return np.array(results, "f4")


def single_quotient(top: int, bottom: int) -> float:
    """A fraction, whose bottom is a power of two, rounded to nearest even f32."""
    size = abs(top)
    drop = max(size.bit_length() - 24, bottom.bit_length() - 1 - 149, 0)
    kept, rest = size >> drop, size & ((1 << drop) - 1)
    half = (1 << drop) >> 1
    kept += bool(drop) and (rest > half or (rest == half and bool(kept & 1)))
    value = math.ldexp(kept, drop - (bottom.bit_length() - 1)) if kept else 0.0
    return math.copysign(value if value < 2.0**128 else math.inf, top)


@pytest.mark.parametrize("lanes", LANES)
def test_fma_without_an_instruction_rounds_once(native: Native, lanes: int) -> None:
    run = native(FMA, lanes)
    finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
    near_one = st.integers(0, 1 << 12).map(lambda n: float(np.float32(1 + n * 2.0**-23)))
    numbers = finite | near_one

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=20))
    def check(cases: list[tuple[float, float, float]]) -> None:
        x, y, z = (np.array(column, "f4") for column in zip(*cases, strict=True))
        np.testing.assert_array_equal(run(x, y, z), exact_fma(x, y, z))

    check()


def test_fma_at_halves(native: Native) -> None:
    """Sums a hair beside the middle of two f32, where rounding twice goes wrong."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(1 << 23, 1 << 24, 3000).astype("f4") * np.float32(2.0**-23) for _ in "xy")
    z = (rng.normal(size=3000) * 2.0 ** rng.integers(-80, 40, 3000)).astype("f4")
    for lanes in LANES:
        np.testing.assert_array_equal(native(FMA, lanes)(x, y, z), exact_fma(x, y, z))
    special = np.array([np.inf, np.nan, 0.0, 3e38], "f4")
    got = native(FMA)(special, np.full(4, 2, "f4"), np.array([1, 1, -0.0, 0], "f4"))
    np.testing.assert_array_equal(got, np.array([np.inf, np.nan, 0, np.inf], "f4"))


def remainder(name: str, type: str) -> str:
    """`f` that calls the C library's function."""
    return (
        f"func.func private @{name}({type}, {type}) -> {type}\n"
        f"func.func private @f(%x: {type}, %y: {type}) -> {type} {{\n"
        f"%r = func.call @{name}(%x, %y) : ({type}, {type}) -> {type}\nfunc.return %r : {type}\n}}"
    )


@pytest.mark.parametrize(("name", "type"), [("fmodf", "f32"), ("fmod", "f64")])
@np.errstate(all="ignore")
def test_fmod_is_exact(native: Native, undefined: Undefined, name: str, type: str) -> None:
    kind = f"f{int(type[1:]) // 8}"
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 1 << 8 * int(kind[1]), 20000, f"u{kind[1]}").view(kind) for _ in "xy")
    ends = np.array([0, -0.0, 1, -1, 3.5, -2.25, np.inf, -np.inf, np.nan], kind)
    info = np.finfo(np.dtype(kind))
    ends = np.concatenate([ends, [info.max, info.tiny, info.smallest_subnormal, -info.max]])
    a, b = (v.ravel().astype(kind) for v in np.meshgrid(ends, ends))
    small = rng.normal(0, 10, (2, 5000)).astype(kind)
    x, y = np.concatenate([x, a, small[0]]), np.concatenate([y, b, small[1]])
    got = native(remainder(name, type))(x, y)
    np.testing.assert_array_equal(bits(got), bits(np.fmod(x, y)))
    assert undefined(remainder(name, type)) == {f"triton_{name}"}


def test_what_has_no_formula_is_refused() -> None:
    module = parse_module(
        "func.func @f(%x: f32, %y: f64) {\n%a = math.acos %x : f32\n"
        "%b = math.fma %y, %y, %y : f64\nfunc.return\n}"
    )
    with pytest.raises(UnsupportedError) as error:
        ConvertMathToLLVMPass().apply(triton_context(), module)
    assert [name for name, _, _ in error.value.problems] == ["math.acos", "math.fma"]
    assert all("library=libm" in reason for _, _, reason in error.value.problems)
    with pytest.raises(OptionError, match="library=none or library=libm"):
        ConvertMathToLLVMPass(library="blas")
