"""The table "Special values" of `docs/dialects.md`, on the interpreter and every engine.

Expected values are written by hand from the meaning. `differ` names engines whose own operator has
another result at some places, which the table says too: there they are held to all other places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, log, nan
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
    f32,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from triton_dsl.dialects import spike, tensor, ternary
from triton_dsl.dialects.elements import element_of
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.engine import run_target

Array = np.ndarray[Any, Any]

ENGINES = ("interpreter", "pytorch", "onnx", "native", "tflite")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: of the op.
        make: builds it: `make(add, *arguments)`.
        inputs: with the batch as first axis.
        wanted: the result.
        differ: engines, and whether each place of the result is their own affair.
    """

    name: str
    make: Callable[..., Any]
    inputs: Sequence[Array]
    wanted: Array
    differ: dict[str, Array] = field(default_factory=dict[str, Array])


def floats(*values: float) -> Array:
    return np.array([values], np.float32)


def constant(value: Array) -> tensor.ConstantOp:
    type: Any = TensorType(element_of(value.dtype), value.shape)
    return tensor.ConstantOp(DenseIntOrFPElementsAttr.from_list(type, value.reshape(-1).tolist()))


def apply(op: Callable[..., Any], *settings: Any, **named: Any) -> Callable[..., Any]:
    """What builds an op of all arguments."""

    def make(add: Any, *arguments: SSAValue) -> Any:
        return add(op(*arguments, *settings, **named))

    return make


def nans(wanted: Array) -> Array:
    return np.isnan(wanted)


def unary(name: str, op: Any, x: Array, wanted: Array, *differ: str, **settings: Any) -> Row:
    """A row of an op that LiteRT and others may give any value for NaN."""
    loose = {engine: nans(x) if x.shape == wanted.shape else nans(wanted) for engine in differ}
    return Row(name, apply(op, **settings), [x], wanted, loose)


X = floats(nan, inf, -inf, 0, -1, 2)
rows = [
    unary("relu", tensor.ReluOp, X, floats(nan, inf, 0, 0, 0, 2)),
    unary("relu6", tensor.Relu6Op, X, floats(nan, 6, 0, 0, 0, 2)),
    unary("clamp", tensor.ClampOp, X, floats(nan, 1, -1, 0, -1, 1), min=-1.0, max=1.0),
    unary("clamp below", tensor.ClampOp, X, floats(nan, inf, -1, 0, -1, 2), min=-1.0),
    unary("clamp above", tensor.ClampOp, X, floats(nan, 1, -inf, 0, -1, 1), max=1.0),
    unary("hard_tanh", tensor.HardTanhOp, X, floats(nan, 1, -1, 0, -1, 1)),
    unary("leaky_relu", tensor.LeakyReluOp, X, floats(nan, inf, -inf, 0, -0.5, 2), alpha=0.5),
    unary("threshold", tensor.ThresholdedReluOp, X, floats(0, inf, 0, 0, 0, 2), alpha=1.0),
    unary("sigmoid", tensor.SigmoidOp, X[:, :3], floats(nan, 1, 0)),
    unary("tanh", tensor.TanhOp, X[:, :3], floats(nan, 1, -1)),
    unary("exp", tensor.ExpOp, floats(nan, inf, -inf, 1000), floats(nan, inf, 0, inf), "tflite"),
    Row(
        "log",
        apply(tensor.LogOp),
        [floats(nan, inf, -inf, 0, -1)],
        floats(nan, inf, nan, -inf, nan),
        # LiteRT's kernel for processors with AVX2 alone gives about 88 for both.
        {"tflite": np.array([[True, True, False, False, False]])},
    ),
    unary("sqrt", tensor.SqrtOp, floats(nan, inf, -inf, 0, -1), floats(nan, inf, nan, 0, nan)),
    Row(
        "rsqrt",
        apply(tensor.RsqrtOp),
        [floats(nan, inf, -inf, 0, -1)],
        floats(nan, 0, nan, inf, nan),
        {"tflite": np.array([[0, 0, 0, 1, 0]], np.bool_)},
    ),
    Row(
        "erf",
        apply(tensor.ErfOp),
        [X[:, :3]],
        floats(nan, 1, -1),
        {"tflite": np.array([[0, 1, 1]], np.bool_)},
    ),
    unary("gelu", tensor.GeluOp, floats(nan, 0), floats(nan, 0)),
    unary("silu", tensor.SiluOp, floats(nan, 0), floats(nan, 0)),
    unary("hard_swish", tensor.HardSwishOp, floats(nan, 0), floats(nan, 0)),
    unary("abs", tensor.AbsOp, X[:, :3], floats(nan, inf, inf)),
    unary("neg", tensor.NegOp, X[:, :3], floats(nan, -inf, inf)),
    unary("sign", tensor.SignOp, X[:, :4], floats(nan, 1, -1, 0)),
    unary(
        "round",
        tensor.RoundOp,
        floats(nan, inf, -inf, 0.5, 1.5, 2.5, -0.5),
        floats(nan, inf, -inf, 0, 2, 2, 0),
    ),
    unary("floor", tensor.FloorOp, floats(nan, inf, -inf, -0.5), floats(nan, inf, -inf, -1)),
]

PAIRS = [floats(nan, 1, nan, inf, -inf), floats(1, nan, nan, 1, 1)]
ANY_NAN = {"tflite": np.array([[1, 1, 1, 0, 0]], np.bool_)}
rows += [
    Row("maximum", apply(tensor.MaximumOp), PAIRS, floats(nan, nan, nan, inf, 1), ANY_NAN),
    Row("minimum", apply(tensor.MinimumOp), PAIRS, floats(nan, nan, nan, 1, -inf), ANY_NAN),
    Row(
        "div",
        apply(tensor.DivOp),
        [floats(1, -1, 0, inf, inf, nan, 1), floats(0, 0, 0, inf, 0, 1, inf)],
        floats(inf, -inf, nan, nan, inf, nan, 0),
    ),
    Row(
        "mul",
        apply(tensor.MulOp),
        [floats(0, inf, nan, inf), floats(inf, -1, 0, inf)],
        floats(nan, -inf, nan, inf),
    ),
    Row(
        "add",
        apply(tensor.AddOp),
        [floats(inf, inf, nan), floats(-inf, 1, 0)],
        floats(nan, inf, nan),
    ),
    Row(
        "pow",
        apply(tensor.PowOp),
        [floats(nan, 1, 0, -8, inf, 2, 0, nan), floats(0, nan, -1, 1 / 3, -1, inf, 0, 1)],
        floats(1, 1, inf, nan, 0, inf, 1, nan),
    ),
    Row(
        "mod",
        apply(tensor.ModOp),
        [floats(1, inf, nan, 5, -5, 1, -1), floats(0, 2, 2, 3, 3, inf, inf)],
        floats(nan, nan, nan, 2, 1, 1, inf),
    ),
]
COMPARED = {
    "eq": (0, 0, 1, 0, 0),
    "ne": (1, 1, 0, 1, 1),
    "lt": (0, 0, 0, 0, 1),
    "le": (0, 0, 1, 0, 1),
    "gt": (0, 0, 0, 1, 0),
    "ge": (0, 0, 1, 1, 0),
}
rows += [
    Row(
        f"compare {predicate}",
        apply(tensor.CompareOp, predicate=predicate),
        [floats(nan, nan, inf, inf, -inf), floats(nan, 1, inf, -inf, inf)],
        np.array([wanted], np.bool_),
    )
    for predicate, wanted in COMPARED.items()
]
rows.append(
    Row(
        "where",
        apply(tensor.WhereOp),
        [np.array([[True, False, True]]), floats(1, nan, nan), floats(nan, 2, 1)],
        floats(1, 2, nan),
    )
)

for element in (i8, i16, i32, i64):
    dtype = np.dtype(f"int{element.width.data}")
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max

    def whole(*values: int, dtype: Any = dtype) -> Array:
        return np.array([values], dtype)

    given = floats(nan, inf, -inf, 1e30, -1e30, 1.9, -1.9)
    ends = whole(0, most, least, most, least, 1, -1)
    divided = [whole(least, 7, -7, 7, -7, 0, least), whole(-1, -2, 2, 0, 0, 0, 0)]
    rows += [
        Row(f"convert to {element}", apply(tensor.ConvertOp, element), [given], ends),
        Row(f"div {element}", apply(tensor.DivOp), divided, whole(least, -3, -3, 0, 0, 0, 0)),
        Row(f"mod {element}", apply(tensor.ModOp), divided, whole(0, -1, 1, 0, 0, 0, 0)),
        Row(f"abs {element}", apply(tensor.AbsOp), [whole(least, -1)], whole(least, 1)),
        Row(f"neg {element}", apply(tensor.NegOp), [whole(least, -1)], whole(least, 1)),
    ]
rows.append(
    Row(
        "convert to i1",
        apply(tensor.ConvertOp, i1),
        [floats(nan, inf, 0, -0.0)],
        np.array([[True, True, False, False]]),
    )
)

LINES = np.array([[1, nan, 2], [inf, 1, -inf], [-inf, -inf, -inf], [1, 2, 3]], np.float32)
FIRST = np.array([True, False, False, False])
for name, op, wanted, loose in (
    ("reduce_max", tensor.ReduceMaxOp, (nan, inf, -inf, 3), ("onnx", "tflite")),
    ("reduce_min", tensor.ReduceMinOp, (nan, -inf, -inf, 1), ("onnx", "tflite")),
    ("reduce_sum", tensor.ReduceSumOp, (nan, nan, -inf, 6), ()),
    ("reduce_mean", tensor.ReduceMeanOp, (nan, nan, -inf, 2), ()),
):
    differ = dict.fromkeys(loose, FIRST)
    rows.append(Row(name, apply(op, [1]), [LINES], np.array(wanted, np.float32), differ))

PICKED = np.array([[1, nan, 2], [nan, 3, nan], [inf, 1, inf], [-inf] * 3, [1, 3, 3]], np.float32)
HAS_NAN = np.array([True, True, False, False, False])
rows += [
    Row(
        "argmax",
        apply(tensor.ArgmaxOp, 1),
        [PICKED],
        np.array([1, 0, 0, 0, 1], np.int64),
        {"onnx": HAS_NAN, "tflite": HAS_NAN},
    ),
    Row(
        "softmax",
        apply(tensor.SoftmaxOp, 1),
        [np.array([[-inf] * 3, [inf, 0, 0], [nan, 0, 0], [-inf, 0, 0]], np.float32)],
        np.array([[nan] * 3, [nan] * 3, [nan] * 3, [0, 0.5, 0.5]], np.float32),
    ),
    Row(
        "log_softmax",
        apply(tensor.LogSoftmaxOp, 1),
        [np.array([[-inf] * 3, [nan, 0, 0], [-inf, 0, 0]], np.float32)],
        np.array([[nan] * 3, [nan] * 3, [-inf, -log(2), -log(2)]], np.float32),
    ),
]
IMAGES = floats(1, nan, 2, 3, nan, 1, 2, 3, 1, inf, -inf, 3, *[-inf] * 4).reshape(4, 1, 2, 2)
NAN_IMAGES = np.array([True, True, False, False]).reshape(4, 1, 1, 1)
WINDOW = {"kernel": (2, 2), "strides": (2, 2), "padding": (0, 0, 0, 0)}
rows += [
    Row(
        "max_pool",
        apply(tensor.MaxPoolOp, **WINDOW),
        [IMAGES],
        np.array([nan, nan, inf, -inf], np.float32).reshape(4, 1, 1, 1),
        {
            "onnx": NAN_IMAGES | np.isneginf(IMAGES).all((1, 2, 3), keepdims=True),
            "tflite": NAN_IMAGES,
        },
    ),
    Row(
        "max_pool with pads",
        apply(tensor.MaxPoolOp, **{**WINDOW, "padding": (1, 1, 1, 1)}),
        [IMAGES[2:]],
        IMAGES[2:],
        {"onnx": np.isneginf(IMAGES[2:])},
    ),
    Row(
        "avg_pool",
        apply(tensor.AvgPoolOp, **WINDOW),
        [IMAGES],
        np.array([nan, nan, nan, -inf], np.float32).reshape(4, 1, 1, 1),
        {"tflite": np.array([True, True, True, False]).reshape(4, 1, 1, 1)},
    ),
]


def quantize(low: int, high: int, zero: int) -> Callable[..., Any]:
    def make(add: Any, x: SSAValue) -> Any:
        scale, zero_point = (
            add(constant(np.array(0.5, np.float32))),
            add(constant(np.array(zero, np.int8))),
        )
        return add(tensor.QuantizeOp(x, scale, zero_point, low=low, high=high))

    return make


GIVEN = floats(nan, inf, -inf, 1e30, -1e30, 0.25, 0.75)
FIRST_OF_GIVEN = {engine: np.arange(7)[None] == 0 for engine in ("onnx", "tflite")}
rows += [
    Row(
        f"quantize to {low} … {high}",
        quantize(low, high, zero),
        [GIVEN],
        np.array([wanted], np.int8),
        FIRST_OF_GIVEN,
    )
    for low, high, zero, wanted in (
        (-128, 127, 0, (0, 127, -128, 127, -128, 0, 2)),
        (-8, 7, 3, (0, 7, -8, 7, -8, 3, 5)),
        (10, 20, 15, (10, 20, 10, 20, 10, 15, 17)),
    )
]


def thresholds(add: Any, x: SSAValue) -> Any:
    return add(tensor.MultiThresholdOp(x, add(constant(np.array([[-1, 0, 1]], np.float32)))))


rows.append(
    Row(
        "multi_threshold",
        thresholds,
        [floats(nan, inf, -inf, 0, -0.0)],
        np.array([[0, 3, 0, 2, 2]], np.int8),
    )
)


def encode(scheme: str) -> Callable[..., Any]:
    """Four steps; what is encoded has rank 2."""

    def make(add: Any, x: SSAValue) -> Any:
        seed = 1 if scheme == "rate" else None
        return add(spike.ToTensorOp(add(spike.EncodeOp(x, scheme, timesteps=4, seed=seed)), f32))

    return make


def changes(add: Any, x: SSAValue) -> Any:
    return add(spike.ToTensorOp(add(spike.EncodeOp(x, "delta", threshold=0.1)), f32))


NONE, ALL = (0, 0, 0, 0), (1, 1, 1, 1)
ENCODED = {
    "rate": (NONE, ALL, NONE),
    "regular": (NONE, ALL, NONE),
    "phase": (NONE, ALL, NONE),
    "latency": (NONE, (1, 0, 0, 0), (0, 0, 0, 1)),
}
rows += [
    Row(
        f"encode by {scheme}",
        encode(scheme),
        [floats(nan, inf, -inf)],
        np.array(wanted, np.float32).T.reshape(4, 1, 3),
    )
    for scheme, wanted in ENCODED.items()
]
rows.append(
    Row(
        "encode by delta",
        changes,
        [floats(0, nan, inf, inf, -inf, 0).reshape(6, 1)],
        np.array([0, 0, 0, 0, 0, 1], np.float32).reshape(6, 1),
    )
)


def run(module: ModuleOp, engine: str, inputs: Sequence[Array]) -> Array:
    if engine == "interpreter":
        return run_module(module, inputs)[0]
    return run_target(module, engine, inputs)[1][0]


def batch_of(inputs: Sequence[Array]) -> list[Attribute]:
    return [TensorType(element_of(x.dtype), (DYNAMIC_INDEX, *x.shape[1:])) for x in inputs]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("row", rows, ids=lambda row: row.name.replace(" ", "-"))
def test_a_line_of_the_table(row: Row, engine: str, build_module: Callable[..., ModuleOp]) -> None:
    module = build_module(batch_of(row.inputs), row.make)
    try:
        got = run(module, engine, row.inputs)
    except UnsupportedError:
        assert engine == "tflite"  # it has few operators on integers
        return
    assert got.shape == row.wanted.shape
    assert got.dtype == row.wanted.dtype
    kept = ~row.differ.get(engine, np.zeros(row.wanted.shape, np.bool_))
    np.testing.assert_allclose(got[kept], row.wanted[kept], rtol=1e-6)


TRITS = np.array([[1, 0, -1], [0, 1, 1]], np.int8)
FACTORS = np.array(
    [[1, 2], [inf, 1], [nan, 1], [-inf, 1], [inf, inf], [1, inf], [3, -4]], np.float32
)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_not_finite_never_vanishes_from_a_product_with_trits(
    engine: str, build_module: Callable[..., ModuleOp]
) -> None:
    """Where its trit is ±1 the sum is not finite; where it is 0, NaN or the sum without it.

    Rows of finite numbers are not touched.
    """

    def make(add: Any, x: SSAValue) -> Any:
        weight = add(ternary.ParameterOp("w", (2, 3)))
        return add(ternary.LinearOp(x, weight))

    store = {"w": pack_trits(TRITS)}
    type = TensorType(f32, (DYNAMIC_INDEX, 2))
    got = run(build_module([type], make, store), engine, [FACTORS])
    for row, sums in zip(FACTORS, got, strict=True):
        for column, value in zip(TRITS.T, sums, strict=True):
            wild = ~np.isfinite(row)
            rest = float((row[~wild] * column[~wild]).sum())
            if (wild & (column != 0)).any():
                assert not np.isfinite(value), (row, column, value)
            elif wild.any():
                assert np.isnan(value) or value == rest, (row, column, value)
            else:
                assert value == rest, (row, column, value)
