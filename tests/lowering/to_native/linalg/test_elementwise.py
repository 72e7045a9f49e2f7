"""Element-wise ops and activations, lowered and run by LLVM, against the reference interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    IntegerType,
    Signedness,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)

from triton_dsl.dialects import tensor

ui8 = IntegerType(8, Signedness.UNSIGNED)
X = "tensor<?x5xf32>"
PAIR = "tensor<?x5xf32>; tensor<5xf32>"
INTS = "tensor<?x50xi32>; tensor<?x50xi32>"

UNARY = [
    tensor.NegOp,
    tensor.AbsOp,
    tensor.SignOp,
    tensor.ExpOp,
    tensor.RoundOp,
    tensor.FloorOp,
    tensor.ErfOp,
    tensor.ReluOp,
    tensor.Relu6Op,
    tensor.LeakyReluOp,
    tensor.GeluOp,
    tensor.SiluOp,
    tensor.SigmoidOp,
    tensor.TanhOp,
    tensor.HardSwishOp,
    tensor.HardTanhOp,
    tensor.SoftmaxOp,
    tensor.LogSoftmaxOp,
]
POSITIVE = [tensor.LogOp, tensor.SqrtOp, tensor.RsqrtOp]
BINARY = [
    tensor.AddOp,
    tensor.SubOp,
    tensor.MulOp,
    tensor.DivOp,
    tensor.ModOp,
    tensor.MaximumOp,
    tensor.MinimumOp,
]
PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")


def comparing(predicate: str) -> Callable[..., Any]:
    """A builder of `tensor.compare`."""
    return lambda x, y: tensor.CompareOp(x, y, predicate)


def converting(element: Any) -> Callable[..., Any]:
    """A builder of `tensor.convert`."""
    return lambda x: tensor.ConvertOp(x, element)


def short(op: type[Any]) -> str:
    """An op's name as part of a function's name."""
    return op.name.rpartition(".")[2]


FLOAT_CASES = {
    **{short(op): (op, X) for op in UNARY},
    **{f"{short(op)}_f64": (op, "tensor<?x5xf64>") for op in UNARY},
    **{f"{short(op)}_f16": (op, "tensor<?x5xf16>") for op in (tensor.ExpOp, tensor.SoftmaxOp)},
    **{short(op): (op, PAIR) for op in BINARY},
    "mod_f64": (tensor.ModOp, "tensor<?x5xf64>; tensor<1xf64>"),
    "add_bf16": (tensor.AddOp, "tensor<4xbf16>; tensor<4xbf16>"),
    "gelu_tanh": (lambda x: tensor.GeluOp(x, "tanh"), X),
    "leaky": (lambda x: tensor.LeakyReluOp(x, 0.3), X),
    "clamp": (lambda x: tensor.ClampOp(x, min=-0.5, max=1.25), X),
    "clamp_low": (lambda x: tensor.ClampOp(x, min=-0.5), X),
    "softmax_first": (lambda x: tensor.SoftmaxOp(x, 0), "tensor<?x?xf32>"),
    "log_softmax_middle": (lambda x: tensor.LogSoftmaxOp(x, 1), "tensor<2x4x3xf32>"),
    **{f"compare_{p}": (comparing(p), PAIR) for p in PREDICATES},
    "where": (tensor.WhereOp, "tensor<?x1xi1>; tensor<5xf32>; tensor<?x5xf32>"),
    "broadcast": (tensor.AddOp, "tensor<?x1x4xf32>; tensor<1x3x1xf32>"),
    "broadcast_scalar": (tensor.MulOp, "tensor<f32>; tensor<?x2xf32>"),
    "scalars": (tensor.SubOp, "tensor<f32>; tensor<f32>"),
    "free_and_known": (tensor.AddOp, "tensor<?x5xf32>; tensor<3x5xf32>"),
    "many_free": (tensor.AddOp, "tensor<?x?xf32>; tensor<?x?xf32>"),
}

INTEGER_CASES = {
    **{f"{short(op)}_i32": (op, INTS) for op in BINARY},
    **{
        f"{short(op)}_i8": (op, "tensor<?x50xi8>")
        for op in (tensor.NegOp, tensor.AbsOp, tensor.SignOp, tensor.ReluOp, tensor.Relu6Op)
    },
    **{f"{short(op)}_small": (op, "tensor<40xi8>; tensor<40xi8>") for op in BINARY},
    **{f"compare_{p}_i32": (comparing(p), INTS) for p in PREDICATES},
    **{
        f"{short(op)}_ui8": (op, "tensor<40xui8>")
        for op in (tensor.AbsOp, tensor.SignOp, tensor.ReluOp, tensor.Relu6Op)
    },
    "clamp_ui8": (lambda x: tensor.ClampOp(x, min=-3.0, max=200.0), "tensor<40xui8>"),
    "clamp_ui8_all": (lambda x: tensor.ClampOp(x, min=7.0, max=900.0), "tensor<40xui8>"),
    "maximum_ui8": (tensor.MaximumOp, "tensor<40xui8>; tensor<40xui8>"),
    "div_ui8": (tensor.DivOp, "tensor<40xui8>; tensor<40xui8>"),
    "clamp_i8": (lambda x: tensor.ClampOp(x, min=-7.0, max=900.0), "tensor<?x50xi8>"),
    "and": (tensor.AndOp, "tensor<?x5xi1>; tensor<5xi1>"),
    "or": (tensor.OrOp, "tensor<?x5xi1>; tensor<5xi1>"),
    "not": (tensor.NotOp, "tensor<?x5xi1>"),
    **{f"to_i1_{t}": (converting(i1), f"tensor<40x{t}>") for t in ("f32", "i8", "!ternary.trit")},
    **{
        f"{kind}_to_{name}": (converting(element), f"tensor<40x{kind}>")
        for kind in ("i1", "i8", "ui8", "i32", "i64")
        for name, element in {"i8": i8, "i16": i16, "i64": i64, "f32": f32, "f64": f64}.items()
    },
    "trit_to_f32": (converting(f32), "tensor<40x!ternary.trit>"),
    "trit_to_i32": (converting(i32), "tensor<40x!ternary.trit>"),
    "f32_to_f64": (converting(f64), "tensor<40xf32>"),
    "f64_to_f32": (converting(f32), "tensor<40xf64>"),
    "f32_to_f16": (converting(f16), "tensor<40xf32>"),
    "bf16_to_f16": (converting(f16), "tensor<40xbf16>"),
    "f16_to_bf16": (converting(bf16), "tensor<40xf16>"),
}

SATURATING = {
    f"{kind}_to_{name}": (converting(element), f"tensor<?x{kind}>")
    for kind in ("f32", "f64", "f16")
    for name, element in {"i8": i8, "i16": i16, "i32": i32, "i64": i64, "ui8": ui8}.items()
}


POSITIVE_CASES = {**{short(op): (op, X) for op in POSITIVE}, "pow": (tensor.PowOp, PAIR)}


@pytest.fixture(scope="module")
def floats(compile_cases: Callable[..., Any]) -> Any:
    return compile_cases({**FLOAT_CASES, **POSITIVE_CASES})


@pytest.fixture(scope="module")
def integers(compile_cases: Callable[..., Any]) -> Any:
    return compile_cases({**INTEGER_CASES, **{f"saturating_{k}": c for k, c in SATURATING.items()}})


@pytest.mark.parametrize("name", FLOAT_CASES)
def test_floats(floats: Any, name: str) -> None:
    floats.check(name)


@pytest.mark.parametrize("name", POSITIVE_CASES)
def test_floats_on_positive_numbers(floats: Any, name: str) -> None:
    first, *rest = floats.inputs(name)
    floats.check(name, [np.abs(first) + np.float32(0.1), *rest])


@pytest.mark.parametrize("name", INTEGER_CASES)
def test_integers(integers: Any, name: str) -> None:
    inputs = integers.inputs(name)
    if name.startswith(("div", "mod")):
        inputs[1] = np.where(inputs[1] == 0, 3, inputs[1]).astype(inputs[1].dtype)
    integers.check(name, inputs)


@pytest.mark.parametrize("name", SATURATING)
def test_floats_to_integers_saturate(integers: Any, name: str) -> None:
    dtype = integers.inputs(f"saturating_{name}")[0].dtype
    edges = [2.0**k for k in (7, 8, 15, 31, 32, 63, 64)]
    signed = [sign * (edge + step) for edge in edges for sign in (-1, 1) for step in (-1, 0, 0.5)]
    numbers = [*signed, 0.0, -0.0, 0.9, -0.9, 1.5, -1.5, np.nan, np.inf, -np.inf]
    with np.errstate(over="ignore"):
        integers.check(f"saturating_{name}", [np.array(numbers).astype(dtype)])


@pytest.mark.parametrize(
    "name", ["neg", "sign", "relu", "hard_tanh", "maximum", "minimum", "where"]
)
@pytest.mark.parametrize("batch", [1, 2, 7])
def test_not_a_number_and_infinity(floats: Any, name: str, batch: int) -> None:
    inputs = floats.inputs(name, batch=batch)
    for array in inputs:
        if array.dtype.kind == "f":
            array.reshape(-1)[:3] = (np.nan, np.inf, -np.inf)
    floats.check(name, inputs)


def test_rounding_is_half_to_even(floats: Any) -> None:
    halves = np.array([[0.5, 1.5, 2.5, -0.5, -1.5]], np.float32)
    (rounded,) = floats.check("round", [halves])
    assert rounded.tolist() == [[0, 2, 2, 0, -2]]


def test_remainders_of_large_quotients_are_exact(floats: Any) -> None:
    x = np.array([[1e8, -1e8, 5.3, -5.3, 7.0]], np.float32)
    y = np.array([0.3, 0.3, -0.1, 0.1, -7.0], np.float32)
    floats.check("mod", [x, y], rtol=0, atol=0)
