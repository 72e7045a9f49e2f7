"""Every op of the `tensor` dialect: the interpreter beside LiteRT."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

from triton_dsl.dialects import tensor
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.dialects.tensor.shape import SLICE_END
from triton_dsl.ir.errors import UnsupportedError

Array = np.ndarray[Any, Any]
FLOATS = (f32, f16)
INTEGERS = (i8, i16, i32, i64)
ANY = DYNAMIC
SETTINGS = settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def values(element: Attribute, shape: Sequence[int], seed: int = 0) -> Array:
    """Typical numbers, and for integers both ends of the range."""
    random = np.random.default_rng(seed)
    dtype = numpy_dtype(element)
    if dtype == np.bool_:
        return random.random(shape) < 0.5
    if dtype.kind != "i":
        return (random.standard_normal(shape) * 3).astype(dtype)
    info = np.iinfo(dtype)
    array = random.integers(info.min, info.max, shape, dtype, endpoint=True)
    flat = array.reshape(-1)
    extremes = [info.min, info.max, 0, -1, 1, info.min + 1][: flat.size]
    flat[: len(extremes)] = extremes
    return array


def unary_case(bench: Any, kind: Callable[..., Any], element: Attribute) -> None:
    module = bench.build([TensorType(element, [ANY, 5])], lambda add, x: add(kind(x)))
    bench.check(module, [values(element, (3, 5))])


@pytest.mark.parametrize("element", FLOATS, ids=str)
@pytest.mark.parametrize(
    "kind",
    [
        tensor.AbsOp,
        tensor.NegOp,
        tensor.SignOp,
        tensor.ExpOp,
        tensor.RoundOp,
        tensor.FloorOp,
        tensor.ErfOp,
        tensor.ReluOp,
        tensor.Relu6Op,
        tensor.SigmoidOp,
        tensor.SiluOp,
        tensor.TanhOp,
        tensor.HardSwishOp,
        tensor.HardTanhOp,
        tensor.SoftmaxOp,
        tensor.LogSoftmaxOp,
        tensor.GeluOp,
        lambda x: tensor.LeakyReluOp(x, 0.3),
        lambda x: tensor.SoftmaxOp(x, axis=0),
        lambda x: tensor.LogSoftmaxOp(x, axis=0),
        lambda x: tensor.GeluOp(x, "tanh"),
        lambda x: tensor.ClampOp(x, min=-1.5),
        lambda x: tensor.ClampOp(x, min=-0.5, max=0.25),
    ],
)
def test_float_unary(bench: Any, kind: Callable[..., Any], element: Attribute) -> None:
    unary_case(bench, kind, element)


KERNELS: dict[str, Callable[..., Any]] = {
    "CEIL": tensor.CeilOp,
    "CUMSUM": lambda x: tensor.CumsumOp(x, 0),
    "ELU": tensor.EluOp,
    "REDUCE_PROD": lambda x: tensor.ReduceProdOp(x, [1]),
}


@pytest.mark.parametrize(
    ("name", "element"),
    [
        *itertools.product(KERNELS, FLOATS),
        *itertools.product(("CUMSUM", "REDUCE_PROD"), INTEGERS),
    ],
    ids=str,
)
def test_what_litert_has_is_one_operator(bench: Any, name: str, element: Attribute) -> None:
    type = TensorType(element, [ANY, 5])
    module = bench.build([type], lambda add, x: add(KERNELS[name](x)))
    data = bench.check(module, [values(element, (3, 5))])
    assert [kind for kind in bench.kinds(data) if kind != "CAST"] == [name]


@pytest.mark.parametrize("alpha", [0.3, -2.0])
def test_elu_of_another_alpha(bench: Any, alpha: float) -> None:
    unary_case(bench, lambda x: tensor.EluOp(x, alpha), f32)


@pytest.mark.parametrize("slope", [(5,), (3, 1), (), (2, 3, 5)])
def test_prelu_broadcasts(bench: Any, slope: Sequence[int]) -> None:
    types = [TensorType(f32, [ANY, 3, 5]), TensorType(f32, slope)]
    module = bench.build(types, lambda add, x, y: add(tensor.PreluOp(x, y)))
    data = bench.check(module, [values(f32, (2, 3, 5)), values(f32, slope, 1)])
    assert bench.kinds(data) == ["PRELU"]


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("element", (*FLOATS, *INTEGERS), ids=str)
def test_top_k(bench: Any, element: Attribute, axis: int, largest: bool) -> None:
    def build(add: Any, x: Any) -> Any:
        op = tensor.TopKOp(x, 3, axis, largest=largest)
        add(op)
        return op.results

    module = bench.build([TensorType(element, [ANY, 4, 6])], build)
    x = values(element, (2, 4, 6))
    x[:, 1] = x[:, 2]  # of equal ones the first comes first
    assert "TOPK_V2" in bench.kinds(bench.check(module, [x]))


def test_a_running_sum_over_a_free_axis(bench: Any) -> None:
    module = bench.build([TensorType(f32, [2, ANY])], lambda add, x: add(tensor.CumsumOp(x, 1)))
    bench.check(module, [values(f32, (2, 7))])


@pytest.mark.parametrize("kind", [tensor.LogOp, tensor.SqrtOp, tensor.RsqrtOp])
def test_positive_unary(bench: Any, kind: Callable[..., Any]) -> None:
    module = bench.build([TensorType(f32, [ANY])], lambda add, x: add(kind(x)))
    bench.check(module, [np.abs(values(f32, (9,))) + np.float32(0.1)])


def test_the_error_function_at_zero(bench: Any) -> None:
    module = bench.build([TensorType(f32, [5])], lambda add, x: add(tensor.ErfOp(x)))
    bench.check(module, [np.array([0.0, -0.0, 1e-4, -1e-3, 9.0], np.float32)])


@pytest.mark.parametrize("element", INTEGERS, ids=str)
@pytest.mark.parametrize(
    "kind",
    [
        tensor.AbsOp,
        tensor.NegOp,
        tensor.SignOp,
        tensor.ReluOp,
        tensor.Relu6Op,
        lambda x: tensor.ClampOp(x, min=-7.0, max=99.0),
        lambda x: tensor.ClampOp(x, min=-1e30),
    ],
)
def test_integer_unary(bench: Any, kind: Callable[..., Any], element: Attribute) -> None:
    unary_case(bench, kind, element)


BINARY = [
    tensor.AddOp,
    tensor.SubOp,
    tensor.MulOp,
    tensor.DivOp,
    tensor.ModOp,
    tensor.MaximumOp,
    tensor.MinimumOp,
    *[lambda x, y, p=p: tensor.CompareOp(x, y, p) for p in ("eq", "ne", "lt", "le", "gt", "ge")],
]


@pytest.mark.parametrize("element", (*FLOATS, *INTEGERS), ids=str)
@pytest.mark.parametrize("kind", BINARY)
def test_binary_broadcasts(bench: Any, kind: Callable[..., Any], element: Attribute) -> None:
    types = [TensorType(element, [ANY, 1, 5]), TensorType(element, [3, 5])]
    module = bench.build(types, lambda add, x, y: add(kind(x, y)))
    divisor = values(element, (3, 5), 1)
    divisor[divisor == 0] = 1
    bench.check(module, [values(element, (2, 1, 5)), divisor])


@pytest.mark.parametrize("kind", [tensor.DivOp, tensor.ModOp])
def test_the_least_integer_by_minus_one_does_not_trap(bench: Any, kind: Callable[..., Any]) -> None:
    module = bench.build([TensorType(i32, [3])] * 2, lambda add, x, y: add(kind(x, y)))
    least = np.array([-(2**31), -(2**31), 7], np.int32)
    bench.check(module, [least, np.array([-1, 1, -1], np.int32)])


def test_long_integers_divide_exactly(bench: Any) -> None:
    numbers = np.random.default_rng(5).integers(-(2**63), 2**63, (2, 400))
    numbers = np.concatenate([numbers, numbers >> np.arange(400) % 63], 1)
    ends = [-(2**63), 2**63 - 1, 1 - 2**63, 0, -1, 1, 2**62, 3]
    pairs = np.array([(x, y) for x in ends for y in ends]).T
    x, y = np.concatenate([numbers, numbers[::-1], pairs], 1)
    y[y == 0] = 3
    module = bench.build([TensorType(i64, [len(x)])] * 2, lambda add, x, y: add(tensor.DivOp(x, y)))
    bench.check(module, [x, y])


@pytest.mark.parametrize("element", INTEGERS, ids=str)
@pytest.mark.parametrize("kind", [tensor.AndOp, tensor.OrOp, tensor.XorOp])
def test_logic_of_bits(bench: Any, kind: Callable[..., Any], element: Attribute) -> None:
    module = bench.build([TensorType(element, [20])] * 2, lambda add, x, y: add(kind(x, y)))
    bench.check(module, [values(element, (20,)), values(element, (20,), 1)])


def test_power_logic_and_choice(bench: Any) -> None:
    def body(add: Any, x: Any, y: Any, c: Any, d: Any) -> list[Any]:
        return [
            add(tensor.PowOp(x, y)),
            add(tensor.AndOp(c, d)),
            add(tensor.OrOp(c, d)),
            add(tensor.NotOp(c)),
            add(tensor.WhereOp(c, x, y)),
        ]

    types = [TensorType(f32, [ANY, 4]), TensorType(f32, [4]), TensorType(i1, [ANY, 4])]
    module = bench.build([*types, TensorType(i1, [4])], body)
    x = np.abs(values(f32, (3, 4))) + np.float32(0.5)
    bench.check(module, [x, values(f32, (4,), 1), values(i1, (3, 4)), values(i1, (4,), 1)])


@pytest.mark.parametrize("target", (f32, f16, i1, *INTEGERS), ids=str)
@pytest.mark.parametrize("source", (f32, f16, i1, *INTEGERS), ids=str)
def test_conversions(bench: Any, source: Attribute, target: Attribute) -> None:
    if source == target:
        return
    module = bench.build([TensorType(source, [8])], lambda add, x: add(tensor.ConvertOp(x, target)))
    x = values(source, (8,))
    if numpy_dtype(source).kind == "f":
        extremes = [np.nan, np.inf, -np.inf, 300.7, -300.7]
        x[:5] = extremes
        if numpy_dtype(target).kind == "f":
            x[:3] = 1
    with np.errstate(over="ignore", invalid="ignore"):
        bench.check(module, [x])


@SETTINGS
@given(st.data())
def test_float_to_integer_saturates(bench: Any, data: Any) -> None:
    number = st.floats(width=32, allow_nan=True, allow_infinity=True)
    x = np.array(data.draw(st.lists(number, min_size=4, max_size=4)), np.float32)
    element = data.draw(st.sampled_from(INTEGERS))
    module = bench.build([TensorType(f32, [4])], lambda add, x: add(tensor.ConvertOp(x, element)))
    bench.check(module, [x])


IMAGE = [ANY, 3, 4, 5]
MOVES: list[Callable[..., Any]] = [
    lambda x: tensor.ReshapeToOp(x, [-2, 12, 5]),
    lambda x: tensor.ReshapeToOp(x, [-1, 5]),
    lambda x: tensor.FlattenOp(x),
    lambda x: tensor.FlattenOp(x, 2, 3),
    lambda x: tensor.PermuteOp(x, [0, 2, 3, 1]),
    lambda x: tensor.PermuteOp(x, [3, 0, 2, 1]),
    lambda x: tensor.ConcatenateOp([x, x], 1),
    lambda x: tensor.ConcatenateOp([x, x], -1),
    lambda x: tensor.SplitOp(x, 1, [1, 2]),
    lambda x: tensor.SliceOp(x, [0, -2, 1, 0], [SLICE_END, 3, -1, SLICE_END], [1, 1, 1, 2]),
    lambda x: tensor.PadToOp(x, [0, 1, 0, 2], [0, 0, 1, 1]),
    lambda x: tensor.PadToOp(x, [0, 1, 0, 2], [0, 0, 1, 1], 2.0),
    lambda x: tensor.UnsqueezeOp(x, [1, 3]),
    lambda x: tensor.ExpandOp(x, [2, -1, -1, -1, -1]),
    lambda x: tensor.ReduceMaxOp(x, [1, 3]),
    lambda x: tensor.ReduceMinOp(x, [-1], keepdims=True),
    lambda x: tensor.ReduceSumOp(x, [2]),
    lambda x: tensor.ReduceSumOp(x, []),
]


@pytest.mark.parametrize("element", (f32, f16, i8, i32, i64), ids=str)
@pytest.mark.parametrize("kind", MOVES)
def test_moves(bench: Any, kind: Callable[..., Any], element: Attribute) -> None:
    module = bench.build([TensorType(element, IMAGE)], lambda add, x: add(kind(x)))
    bench.check(module, [values(element, (2, 3, 4, 5))], 3.0)


@pytest.mark.parametrize("kind", MOVES)
def test_moves_of_what_a_window_made(bench: Any, kind: Callable[..., Any]) -> None:
    """The pool leaves its result in the order N, H, W, C."""

    def body(add: Any, x: Any) -> Any:
        return add(kind(add(tensor.MaxPoolOp(x, [1, 1]))))

    bench.check(bench.build([TensorType(f32, IMAGE)], body), [values(f32, (2, 3, 4, 5))])


EMPTY: list[Callable[..., Any]] = [
    *(lambda x, s=s: tensor.SplitOp(x, 1, s) for s in ([0, 3], [3, 0], [1, 0, 2])),
    lambda x: tensor.SliceOp(x, [0] * 4, [SLICE_END, 0, SLICE_END, SLICE_END], [1] * 4),
    lambda x: tensor.SliceOp(x, [0, 2, 0, 0], [SLICE_END, 1, SLICE_END, SLICE_END], [1] * 4),
]


@pytest.mark.parametrize("batch", (2, ANY))
@pytest.mark.parametrize("element", (f32, i8), ids=str)
@pytest.mark.parametrize("kind", EMPTY)
def test_parts_without_elements(
    bench: Any, kind: Callable[..., Any], element: Attribute, batch: int
) -> None:
    module = bench.build([TensorType(element, [batch, *IMAGE[1:]])], lambda add, x: add(kind(x)))
    bench.check(module, [values(element, (2, 3, 4, 5))])


STEPS = ("pool", "permute", "relu", "pad", "slice", "join", "add", "row", "sum", "split", "softmax")


@SETTINGS
@given(st.lists(st.sampled_from(STEPS), max_size=7), st.integers(0, 23), st.booleans())
def test_orders_travel_through_any_chain(
    bench: Any, steps: list[str], which: int, flat: bool
) -> None:
    """Windows, permutes and what works along axes, one after the other; then a linear layer."""
    perm = list(itertools.permutations(range(4)))[which]

    def applied(add: Any, x: Any, step: str) -> Any:
        shape = x.type.get_shape()
        match step:
            case "pool":
                return add(tensor.MaxPoolOp(x, [2, 1], [1, 1]))
            case "permute":
                return add(tensor.PermuteOp(x, perm))
            case "pad":
                return add(tensor.PadToOp(x, [0, 1, 2, 0], [1, 0, 0, 1]))
            case "slice":
                return add(tensor.SliceOp(x, [0, 1, 0, 0], [SLICE_END] * 4, [1, 1, 2, 1]))
            case "join":
                return add(tensor.ConcatenateOp([x, add(tensor.ReluOp(x))], 1))
            case "add":
                return add(tensor.AddOp(x, add(tensor.ReduceMeanOp(x, [2], keepdims=True))))
            case "row":
                row = tensor.SliceOp(x, [0] * 4, [1, *[SLICE_END] * 3], [1] * 4)
                return add(tensor.MulOp(add(tensor.SqueezeOp(add(row), [0])), x))
            case "sum":
                total = add(tensor.ReduceSumOp(x, [1]))
                return add(tensor.UnsqueezeOp(total, [2]))
            case "split":
                pieces = add(tensor.SplitOp(x, 3, [1, shape[3] - 1]))
                return add(tensor.ConcatenateOp(pieces[::-1], 3))
            case "softmax":
                return add(tensor.SoftmaxOp(x, 1))
            case _:
                return add(tensor.ReluOp(x))

    def body(add: Any, x: Any) -> Any:
        for step in steps:
            shape = x.type.get_shape()
            grows = step in ("pool", "slice", "split")
            if grows and min(shape) < 3:
                continue
            x = applied(add, x, step)
        if not flat:
            return x
        x = add(tensor.FlattenOp(x))
        store["w"] = values(f32, (x.type.get_shape()[1], 3), 1)
        w = add(tensor.ParameterOp("w", TensorType(f32, store["w"].shape)))
        return add(tensor.MatmulOp(add(tensor.ReluOp(x)), w))

    store: dict[str, Array] = {}
    module = bench.build([TensorType(f32, [3, 4, 5, 6])], body, store)
    x = np.round(values(f32, (3, 4, 5, 6)) * 4) / np.float32(16)
    (want,), (got,) = run_module(module, [x]), bench.run(bench.bytes_of(module), [x])
    np.testing.assert_allclose(got, want, 1e-4, 1e-4 * max(1.0, float(np.abs(want).max())))


def test_shapes_with_two_unknown_sizes(bench: Any) -> None:
    def body(add: Any, x: Any) -> list[Any]:
        unsqueezed = add(tensor.UnsqueezeOp(x, [1]))
        return [
            add(tensor.ReshapeToOp(x, [-2, -3, 2, 3])),
            add(tensor.SqueezeOp(unsqueezed, [1])),
            add(tensor.ExpandOp(unsqueezed, [-1, 4, -1, -1])),
        ]

    module = bench.build([TensorType(f32, [ANY, ANY, 6])], body)
    bench.check(module, [values(f32, (2, 3, 6))])


@pytest.mark.parametrize("index", (i8, i32, i64), ids=str)
def test_rows_of_a_table(bench: Any, index: Attribute) -> None:
    types = [TensorType(f32, [7, 3]), TensorType(index, [ANY, 2])]
    module = bench.build(types, lambda add, t, i: add(tensor.GatherRowsOp(t, i)))
    picks = np.array([[0, 6], [3, 3]]).astype(numpy_dtype(index))
    bench.check(module, [values(f32, (7, 3)), picks])


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [1, -1])
def test_the_first_maximum(bench: Any, axis: int, keepdims: bool) -> None:
    def body(add: Any, x: Any) -> list[Any]:
        pooled = add(tensor.MaxPoolOp(x, [2, 2]))
        return [
            add(tensor.ArgmaxOp(x, axis, keepdims=keepdims)),
            add(tensor.ArgmaxOp(pooled, axis, keepdims=keepdims)),
        ]

    module = bench.build([TensorType(f32, IMAGE)], body)
    bench.check(module, [np.round(values(f32, (2, 3, 4, 5)))])


@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0), (0, 0, 1, 1)])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (1, 3)])
def test_pools(bench: Any, padding: tuple[int, ...], strides: tuple[int, ...]) -> None:
    def body(add: Any, x: Any) -> list[Any]:
        window = ([3, 2], strides, padding)
        return [
            add(tensor.MaxPoolOp(x, *window)),
            add(tensor.AvgPoolOp(x, *window)),
            add(tensor.AvgPoolOp(x, *window, count_include_pad=False)),
            add(tensor.GlobalAvgPoolOp(x)),
        ]

    module = bench.build([TensorType(f32, [ANY, 3, 6, 7])], body)
    bench.check(module, [values(f32, (2, 3, 6, 7))])


def test_pools_of_signals(bench: Any) -> None:
    def body(add: Any, x: Any) -> list[Any]:
        return [
            add(tensor.MaxPoolOp(x, [3], [2], [1, 1])),
            add(tensor.AvgPoolOp(x, [3], [1], [1, 0], count_include_pad=False)),
        ]

    bench.check(bench.build([TensorType(f32, [ANY, 3, 8])], body), [values(f32, (2, 3, 8))])


@pytest.mark.parametrize("element", (i8, i16), ids=str)
def test_integer_pools(bench: Any, element: Attribute) -> None:
    module = bench.build(
        [TensorType(element, IMAGE)],
        lambda add, x: add(tensor.MaxPoolOp(x, [3, 3], [1, 1], [1, 1, 1, 1])),
    )
    bench.check(module, [values(element, (2, 3, 4, 5))])


def test_normalisations(bench: Any) -> None:
    store = {n: values(f32, (3,), i) for i, n in enumerate(("s", "b", "m"))}
    store["v"] = np.abs(values(f32, (3,), 9)) + np.float32(0.1)
    rows = {"ls": values(f32, (5,), 5), "lb": values(f32, (5,), 6), "l2": values(f32, (4, 5), 7)}

    def body(add: Any, x: Any) -> list[Any]:
        def stored(key: str, *shape: int) -> Any:
            return add(tensor.ParameterOp(key, TensorType(f32, shape)))

        norm = [stored(key, 3) for key in ("s", "b", "m", "v")]
        pooled = add(tensor.MaxPoolOp(x, [1, 1]))
        return [
            add(tensor.BatchNormOp(x, *norm)),
            add(tensor.BatchNormOp(pooled, *norm)),
            add(tensor.LayerNormOp(x, stored("ls", 5), stored("lb", 5))),
            add(tensor.LayerNormOp(pooled, stored("l2", 4, 5))),
            add(tensor.RmsNormOp(x, stored("ls", 5))),
        ]

    module = bench.build([TensorType(f32, IMAGE)], body, {**store, **rows})
    bench.check(module, [values(f32, (2, 3, 4, 5))], 5.0)


def test_quantisation_is_exact(bench: Any) -> None:
    store = {
        "scale": np.array([0.1, 0.37, 1.5], np.float32),
        "zero": np.array([0, -3, 7], np.int8),
        "m": np.array([1 << 30, 12345, 3], np.int32),
        "shift": np.array([31, 20, 1], np.int32),
        "z": np.array(5, np.int8),
    }

    def body(add: Any, x: Any, a: Any) -> list[Any]:
        def stored(key: str, element: Attribute, *shape: int) -> Any:
            return add(tensor.ParameterOp(key, TensorType(element, shape)))

        grid = [stored("scale", f32, 3), stored("zero", i8, 3)]
        q = add(tensor.QuantizeOp(x, *grid, low=-7, high=100))
        to: list[Any] = [stored("m", i32, 3), stored("shift", i32, 3), stored("z", i8)]
        return [q, add(tensor.DequantizeOp(q, *grid)), add(tensor.RequantizeOp(a, *to))]

    module = bench.build([TensorType(f32, [ANY, 3, 4]), TensorType(i32, [ANY, 3, 4])], body, store)
    x = np.round(values(f32, (2, 3, 4)) * 4) * np.float32(0.05)
    bench.check(module, [x, values(i32, (2, 3, 4))])


@SETTINGS
@given(st.data())
def test_requantize_is_exact(bench: Any, data: Any) -> None:
    whole = st.integers(-(2**31), 2**31 - 1)
    x = np.array(data.draw(st.lists(whole, min_size=6, max_size=6)), np.int32).reshape(2, 3)
    multiplier = np.array(data.draw(st.lists(whole, min_size=3, max_size=3)), np.int32)
    shift = np.array(data.draw(st.lists(st.integers(1, 62), min_size=3, max_size=3)), np.int32)
    element, bits = data.draw(st.sampled_from([(i8, 7), (i16, 15), (i32, 31)]))
    zero = np.array(data.draw(st.integers(-9, 9)), numpy_dtype(element))
    store = {"m": multiplier, "s": shift, "z": zero}

    def body(add: Any, x: Any) -> Any:
        m, s = (add(tensor.ParameterOp(k, TensorType(i32, [3]))) for k in ("m", "s"))
        z = add(tensor.ParameterOp("z", TensorType(element, [])))
        return add(tensor.RequantizeOp(x, m, s, z, low=-(2**bits), high=2**bits - 1))

    bench.check(bench.build([TensorType(i32, [2, 3])], body, store), [x])


@pytest.mark.parametrize("count", [0, 2, 7])
@pytest.mark.parametrize("rows", [1, 3])
def test_thresholds_are_counted(bench: Any, rows: int, count: int) -> None:
    levels = np.sort(values(i32, (rows, count)), axis=1)

    def body(add: Any, x: Any, image: Any) -> list[Any]:
        t = add(tensor.ParameterOp("t", TensorType(i32, [rows, count])))
        return [add(tensor.MultiThresholdOp(v, t)) for v in (x, image)]

    types = [TensorType(i32, [ANY, 3]), TensorType(i32, IMAGE)]
    module = bench.build(types, body, {"t": levels})
    bench.check(module, [values(i32, (2, 3)), values(i32, (2, 3, 4, 5))])


@pytest.mark.parametrize(
    ("element", "kind"),
    [
        (f64, tensor.ReluOp),
        (bf16, tensor.ReluOp),
        (f64, lambda x: tensor.PadToOp(x, [0, 1, 0, 0], [0, 0, 0, 0], 2.0)),
        (i64, tensor.ArgmaxOp),
        (i32, lambda x: tensor.MaxPoolOp(x, [1, 1])),
    ],
)
def test_what_litert_lacks_is_named(
    bench: Any, element: Attribute, kind: Callable[..., Any]
) -> None:
    def body(add: Any, x: Any) -> list[Any]:
        return [add(kind(x)), add(kind(x))]

    module = bench.build([TensorType(element, [2, 3, 4, 4])], body)
    with pytest.raises(UnsupportedError, match=r"(?s)cannot express 2 operation.*LiteRT"):
        bench.bytes_of(module)


def test_a_result_of_too_many_axes_to_transpose_is_named(bench: Any) -> None:
    def body(add: Any, x: Any) -> list[Any]:
        return [add(tensor.PermuteOp(x, [6, 5, 4, 3, 2, 1, 0])), add(tensor.SigmoidOp(x))]

    module = bench.build([TensorType(f32, [2] * 7)], body)
    with pytest.raises(UnsupportedError, match=r"func.return.*: result 'y': .*up to 6 axes"):
        bench.bytes_of(module)


def test_in_float64_the_ops_of_the_program_are_refused_and_not_their_parts(bench: Any) -> None:
    def body(add: Any, x: Any) -> list[Any]:
        return [add(tensor.SinOp(add(tensor.AcosOp(x))))]

    with pytest.raises(UnsupportedError) as refusal:
        bench.bytes_of(bench.build([TensorType(f64, [2, 3])], body))
    named = [line.split()[0] for line in str(refusal.value).splitlines()[1:]]
    assert named == ["tensor.acos", "tensor.sin"]
