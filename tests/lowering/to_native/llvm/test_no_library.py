"""Compiled code for several processors: which functions it calls outside of itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]
Native = Callable[..., Callable[..., Array]]
Undefined = Callable[..., set[str]]

REST = "convert-arith-to-llvm,convert-cf-to-llvm,convert-func-to-llvm"


def unary(op: str, type: str) -> str:
    """`f` that applies a `math` op."""
    return (
        f"func.func private @f(%x: {type}) -> {type} {{\n"
        f"%r = math.{op} %x : {type}\nfunc.return %r : {type}\n}}"
    )


EVERY = [
    *("absf", "sqrt", "rsqrt", "floor", "ceil", "trunc", "roundeven", "round"),
    *("exp", "exp2", "log", "log2", "tanh", "erf"),
]


@pytest.mark.parametrize(
    ("type", "triple", "cpu"),
    [
        ("f16", "x86_64-linux-gnu", "x86-64"),
        ("f32", "x86_64-linux-gnu", "x86-64"),
        ("f64", "x86_64-linux-gnu", "x86-64"),
        ("f32", "x86_64-linux-gnu", "x86-64-v3"),
        ("f64", "x86_64-linux-gnu", "x86-64-v4"),
        ("f16", "aarch64-linux-gnu", "generic"),
        ("f64", "aarch64-linux-gnu", "generic"),
    ],
)
def test_nothing_outside_is_called(undefined: Undefined, type: str, triple: str, cpu: str) -> None:
    one = "\n".join(f"%{name} = math.{name} %x : {type}" for name in EVERY)
    total = "\n".join(
        f"%s{place + 1} = arith.addf %{'x' if place == 0 else f's{place}'}, %{name} : {type}"
        for place, name in enumerate(EVERY)
    )
    last = len(EVERY)
    text = (
        f"func.func private @f(%x: {type}, %y: {type}) -> {type} {{\n{one}\n{total}\n"
        f"%p = math.powf %x, %s{last} : {type}\n%m = arith.maximumf %p, %y : {type}\n"
        f"%i = arith.fptoui %m : {type} to i64\n%u = arith.uitofp %i : i64 to {type}\n"
        f"%t = arith.truncf %d : f64 to f16\n%e = arith.extf %t : f16 to f32\n"
        f"%r = arith.addf %u, %p : {type}\nfunc.return %r : {type}\n}}"
    ).replace("%t = arith.truncf", "%d = arith.constant 0.3 : f64\n%t = arith.truncf")
    for lanes in (1, 8):
        assert undefined(text, lanes, triple, cpu) == set()


def test_the_c_library_when_asked(native: Native, undefined: Undefined) -> None:
    pipeline = f"convert-math-to-llvm{{library=libm}},{REST}"
    assert undefined(unary("erf", "f32"), 1, pipeline=pipeline) == {"erff"}
    x = np.linspace(-3, 3, 100)
    for lanes in (1, 8):
        got = native(unary("sin", "f64"), lanes, pipeline)(x)
        np.testing.assert_allclose(got, np.sin(x), rtol=0, atol=2e-16)
