"""`convert-vector-to-llvm`: what the compiled ops compute, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]
Native = Callable[..., Callable[..., Array]]

FOUR = """
  %v0 = vector.broadcast %x : {type} to vector<4x{type}>
  %v1 = vector.insert %y, %v0 [1] : {type} into vector<4x{type}>
  %v2 = vector.insert %z, %v1 [2] : {type} into vector<4x{type}>
  %p = arith.constant 3 : index
  %s = arith.{plus} %x, %z : {type}
  %v = vector.insert %s, %v2 [%p] : {type} into vector<4x{type}>
"""
"""%v holds x, y, z, x + z."""


def function(body: str, type: str) -> str:
    """`f` of three numbers, whose four lanes are %v, to %r."""
    four = FOUR.format(type=type, plus="addf" if type[0] == "f" else "addi")
    return (
        f"func.func private @f(%x: {type}, %y: {type}, %z: {type}) -> {type} "
        f"{{{four}{body}\n  func.return %r : {type}\n}}"
    )


def samples(type: str) -> tuple[Array, Array, Array, Array]:
    """Three columns, and the four lanes of each row."""
    rng = np.random.default_rng(1)
    kind = f"{type[0]}{int(type[1:]) // 8}"
    if type[0] == "f":
        columns = rng.normal(0, 1, (3, 64)).astype(kind)
        columns[:, :3] = [[0, np.nan, -0.0], [-0.0, 1, 0], [0, 2, 0]]
    else:
        columns = rng.integers(-100, 100, (3, 64), kind)
    x, y, z = columns
    return x, y, z, np.stack([x, y, z, x + z], axis=1)


@pytest.mark.parametrize("type", ["i8", "i32", "i64", "f16", "f32", "f64"])
@pytest.mark.parametrize("place", range(4))
def test_lanes(native: Native, type: str, place: int) -> None:
    x, y, z, lanes = samples(type)
    known = f"  %r = vector.extract %v[{place}] : {type} from vector<4x{type}>"
    unknown = (
        f"  %q = arith.constant {place} : index\n"
        f"  %r = vector.extract %v[%q] : {type} from vector<4x{type}>"
    )
    for body in (known, unknown):
        got = native(function(body, type))(x, y, z)
        np.testing.assert_array_equal(got, lanes[:, place])


@pytest.mark.parametrize("mask", [[3, 0], [2, 4, 7, 1], [-1, 5]])
def test_shuffle(native: Native, mask: list[int]) -> None:
    x, y, z, lanes = samples("i32")
    last = len(mask) - 1
    body = (
        "  %w = vector.shuffle %v, %v [0, 1] : vector<4xi32>, vector<4xi32>\n"
        f"  %u = vector.shuffle %v, %w {mask} : vector<4xi32>, vector<2xi32>\n"
        f"  %r = vector.extract %u[{last}] : i32 from vector<{len(mask)}xi32>"
    )
    if max(mask) > 5:
        body = body.replace("%v, %w", "%v, %v").replace(
            "vector<4xi32>, vector<2xi32>", "vector<4xi32>, vector<4xi32>"
        )
    got = native(function(body, "i32"))(x, y, z)
    np.testing.assert_array_equal(got, lanes[:, mask[last] % 4])


def test_shuffle_of_a_shorter_and_a_longer_vector(native: Native) -> None:
    x, y, z, lanes = samples("i32")
    body = (
        "  %w = vector.shuffle %v, %v [1, 3] : vector<4xi32>, vector<4xi32>\n"
        "  %u = vector.shuffle %w, %v [1, 4] : vector<2xi32>, vector<4xi32>\n"
        "  %r = vector.reduction <xor>, %u : vector<2xi32> into i32"
    )
    got = native(function(body, "i32"))(x, y, z)
    np.testing.assert_array_equal(got, lanes[:, 3] ^ lanes[:, 2])


REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "add": lambda v: v.sum(1, dtype=v.dtype),
    "mul": lambda v: v.prod(1, dtype=v.dtype),
    "and": lambda v: np.bitwise_and.reduce(v, 1),
    "or": lambda v: np.bitwise_or.reduce(v, 1),
    "xor": lambda v: np.bitwise_xor.reduce(v, 1),
    "minsi": lambda v: v.min(1),
    "maxsi": lambda v: v.max(1),
    "minui": lambda v: v.view(f"u{v.dtype.itemsize}").min(1).view(v.dtype),
    "maxui": lambda v: v.view(f"u{v.dtype.itemsize}").max(1).view(v.dtype),
}


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("type", ["i8", "i32", "i64"])
def test_reductions_of_integers(native: Native, type: str, kind: str) -> None:
    x, y, z, lanes = samples(type)
    body = f"  %r = vector.reduction <{kind}>, %v : vector<4x{type}> into {type}"
    np.testing.assert_array_equal(native(function(body, type))(x, y, z), REDUCTIONS[kind](lanes))
    body = f"  %r = vector.reduction <{kind}>, %v, %y : vector<4x{type}> into {type}"
    want = REDUCTIONS[kind](np.concatenate([lanes, y[:, None]], axis=1))
    np.testing.assert_array_equal(native(function(body, type))(x, y, z), want)


@pytest.mark.parametrize("type", ["f32", "f64"])
def test_sums_of_floats_in_order_or_by_halves(native: Native, type: str) -> None:
    x, y, z, lanes = samples(type)
    a, b, c, d = lanes.T
    for flags, start, want in (
        ("", "", ((a + b) + c) + d),
        ("", ", %y", (((y + a) + b) + c) + d),
        (" fastmath<reassoc>", "", (a + c) + (b + d)),
        (" fastmath<reassoc>", ", %y", ((a + c) + (b + d)) + y),
    ):
        body = f"  %r = vector.reduction <add>, %v{start}{flags} : vector<4x{type}> into {type}"
        np.testing.assert_array_equal(native(function(body, type))(x, y, z), want)


@pytest.mark.parametrize("type", ["f16", "f32", "f64"])
@pytest.mark.parametrize("kind", ["minimumf", "maximumf", "minnumf", "maxnumf"])
def test_extrema_of_floats(native: Native, type: str, kind: str) -> None:
    x, y, z, lanes = samples(type)
    body = f"  %r = vector.reduction <{kind}>, %v : vector<4x{type}> into {type}"
    got = native(function(body, type))(x, y, z)
    reduce = {
        "minimumf": np.minimum,
        "maximumf": np.maximum,
        "minnumf": np.fmin,
        "maxnumf": np.fmax,
    }[kind]
    np.testing.assert_array_equal(got, reduce.reduce(lanes, 1))


def test_bitcast_and_mask(native: Native) -> None:
    x, y, z, lanes = samples("i32")
    body = (
        "  %b = vector.bitcast %v : vector<4xi32> to vector<16xi8>\n"
        "  %n = arith.index_cast %x : i32 to index\n"
        "  %m = vector.create_mask %n : vector<16xi1>\n"
        "  %c = vector.bitcast %b : vector<16xi8> to vector<4xi32>\n"
        "  %k = vector.bitcast %m : vector<16xi1> to vector<1xi16>\n"
        "  %o = vector.extract %k[0] : i16 from vector<1xi16>\n"
        "  %w = arith.extui %o : i16 to i32\n"
        "  %t = vector.reduction <add>, %c : vector<4xi32> into i32\n"
        "  %r = arith.addi %t, %w : i32"
    )
    got = native(function(body, "i32"))(x, y, z)
    set_lanes = np.clip(x, 0, 16)
    want = lanes.sum(1, dtype="i4") + ((1 << set_lanes) - 1).astype("i4")
    np.testing.assert_array_equal(got, want)
