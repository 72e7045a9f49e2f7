"""Every op of the `tensor` dialect: the interpreter beside ONNX Runtime, on each opset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    IntegerType,
    Signedness,
    TensorType,
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
from xdsl.ir import Attribute

from triton_dsl.dialects import tensor
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.lowering.engine import run_target

Array = np.ndarray[Any, Any]
FLOATS = (f32, f64, f16)
INTEGERS = (i8, i16, i32, i64)
UNSIGNED = tuple(IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16, 32, 64))
ANY = DYNAMIC


def values(element: Attribute, shape: Sequence[int], *, seed: int = 0) -> Array:
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


def unary_case(bench: Any, opset: int, kind: Callable[..., Any], element: Attribute) -> None:
    type = TensorType(element, [ANY, 5])
    module = bench.build([type], lambda add, x: add(kind(x)))
    bench.check(module, [values(element, (3, 5))], opset)


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_a_bound_behind_relu(bench: Any, opset: int, element: Attribute) -> None:
    type = TensorType(element, [ANY, 5])
    module = bench.build(
        [type], lambda add, x: add(tensor.ClampOp(add(tensor.ReluOp(x)), min=-0.5, max=1.5))
    )
    bench.check(module, [values(element, (3, 5))], opset)


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
        tensor.ReluOp,
        tensor.Relu6Op,
        tensor.SigmoidOp,
        tensor.SiluOp,
        tensor.TanhOp,
        tensor.HardSwishOp,
        tensor.HardTanhOp,
        tensor.SoftmaxOp,
        tensor.LogSoftmaxOp,
        tensor.LeakyReluOp,
        lambda x: tensor.LeakyReluOp(x, 0.3),
        lambda x: tensor.SoftmaxOp(x, axis=0),
        lambda x: tensor.GeluOp(x, "tanh"),
        lambda x: tensor.ClampOp(x, min=-1.5),
        lambda x: tensor.ClampOp(x, max=2.0),
        lambda x: tensor.ClampOp(x, min=-0.5, max=0.25),
    ],
)
def test_float_unary(bench: Any, opset: int, kind: Callable[..., Any], element: Attribute) -> None:
    unary_case(bench, opset, kind, element)


@pytest.mark.parametrize("kind", [tensor.ErfOp, tensor.GeluOp])
@pytest.mark.parametrize("element", (f32, f16), ids=str)
def test_error_function(
    bench: Any, opset: int, kind: Callable[..., Any], element: Attribute
) -> None:
    unary_case(bench, opset, kind, element)


@pytest.mark.parametrize("kind", [tensor.LogOp, tensor.SqrtOp, tensor.RsqrtOp])
@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_positive_unary(
    bench: Any, opset: int, kind: Callable[..., Any], element: Attribute
) -> None:
    module = bench.build([TensorType(element, [ANY])], lambda add, x: add(kind(x)))
    bench.check(module, [np.abs(values(element, (9,))) + numpy_dtype(element).type(0.1)], opset)


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
def test_integer_unary(
    bench: Any, opset: int, kind: Callable[..., Any], element: Attribute
) -> None:
    unary_case(bench, opset, kind, element)


BINARY = [
    tensor.AddOp,
    tensor.SubOp,
    tensor.MulOp,
    tensor.DivOp,
    tensor.ModOp,
    tensor.MaximumOp,
    tensor.MinimumOp,
]


@pytest.mark.parametrize("element", (*FLOATS, *INTEGERS), ids=str)
@pytest.mark.parametrize("kind", BINARY)
def test_binary_broadcasts(
    bench: Any, opset: int, kind: Callable[..., Any], element: Attribute
) -> None:
    types = [TensorType(element, [ANY, 1, 4]), TensorType(element, [3, 4])]
    module = bench.build(types, lambda add, x, y: add(kind(x, y)))
    x, y = values(element, (2, 1, 4)), values(element, (3, 4), seed=1)
    if kind in (tensor.DivOp, tensor.ModOp):
        y[y == 0] = 7
    bench.check(module, [x, y], opset)


@pytest.mark.parametrize(
    "kind",
    [
        *BINARY,
        lambda x, y: tensor.ClampOp(x, min=3.0, max=60000.0),
        lambda x, y: tensor.ReluOp(x),
        lambda x, y: tensor.NegOp(x),
        lambda x, y: tensor.ReduceSumOp(x, [1]),
        lambda x, y: tensor.ReduceMaxOp(x, [1]),
        lambda x, y: tensor.ArgmaxOp(x, 1),
        lambda x, y: tensor.CompareOp(x, y, "lt"),
        lambda x, y: tensor.PadToOp(x, [1, 0], [0, 1], 7.0),
        lambda x, y: tensor.ConcatenateOp([x, y], 0),
        lambda x, y: tensor.PermuteOp(x, [1, 0]),
        lambda x, y: tensor.ConvertOp(x, f32),
        lambda x, y: tensor.ConvertOp(x, i8),
    ],
)
def test_unsigned_integers_of_16_bits(bench: Any, opset: int, kind: Callable[..., Any]) -> None:
    type = TensorType(IntegerType(16, Signedness.UNSIGNED), [ANY, 3])
    module = bench.build([type, type], lambda add, x, y: add(kind(x, y)))
    x = np.array([[0, 65535, 40000], [1, 32768, 7]], np.uint16)
    bench.check(module, [x, np.array([[9, 65535, 3], [65534, 2, 50000]], np.uint16)], opset)


@pytest.mark.parametrize("element", INTEGERS, ids=str)
@pytest.mark.parametrize("kind", [tensor.DivOp, tensor.ModOp])
def test_the_least_integer_divided_by_minus_one_wraps(
    bench: Any, opset: int, kind: Callable[..., Any], element: Attribute
) -> None:
    type = TensorType(element, [2])
    module = bench.build([type, type], lambda add, x, y: add(kind(x, y)))
    least = np.iinfo(numpy_dtype(element)).min
    x = np.array([least, 7], numpy_dtype(element))
    bench.check(module, [x, np.array([-1, -1], x.dtype)], opset)


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_pow(bench: Any, opset: int, element: Attribute) -> None:
    types = [TensorType(element, [ANY]), TensorType(element, [])]
    module = bench.build(types, lambda add, x, y: add(tensor.PowOp(x, y)))
    bench.check(module, [np.abs(values(element, (6,))), np.array(2.5, numpy_dtype(element))], opset)


def test_nan_spreads_through_maximum_and_comparisons(bench: Any, opset: int) -> None:
    type = TensorType(f32, [4])
    module = bench.build(
        [type, type],
        lambda add, x, y: [
            add(tensor.MaximumOp(x, y)),
            add(tensor.MinimumOp(x, y)),
            add(tensor.CompareOp(x, y, "ne")),
            add(tensor.CompareOp(x, y, "ge")),
        ],
    )
    nan = np.nan
    x, y = np.array([nan, 1, nan, 2], "f"), np.array([1, nan, nan, 3], "f")
    bench.check(module, [x, y], opset)


@pytest.mark.parametrize("predicate", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("element", (*FLOATS, *INTEGERS), ids=str)
def test_compare(bench: Any, opset: int, predicate: str, element: Attribute) -> None:
    type = TensorType(element, [ANY, 3])
    module = bench.build([type, type], lambda add, x, y: add(tensor.CompareOp(x, y, predicate)))
    x, y = values(element, (4, 3)), values(element, (4, 3), seed=1)
    y[0] = x[0]
    bench.check(module, [x, y], opset)


def test_logic(bench: Any, opset: int) -> None:
    type = TensorType(i1, [ANY])
    module = bench.build(
        [type, type],
        lambda add, x, y: [
            add(tensor.AndOp(x, y)),
            add(tensor.OrOp(x, y)),
            add(tensor.NotOp(x)),
            add(tensor.CompareOp(x, y, "eq")),
        ],
    )
    x = np.array([True, True, False, False])
    bench.check(module, [x, np.array([True, False, True, False])], opset)


@pytest.mark.parametrize("element", (*INTEGERS, *UNSIGNED), ids=str)
@pytest.mark.parametrize("kind", [tensor.AndOp, tensor.OrOp, tensor.XorOp])
def test_logic_of_bits(
    bench: Any, opset: int, kind: Callable[..., Any], element: Attribute
) -> None:
    type = TensorType(element, [20])
    module = bench.build([type, type], lambda add, x, y: [add(kind(x, y)), add(tensor.NotOp(x))])
    drawn = np.random.default_rng(0).integers(0, 256, (2, 160), np.uint8)
    x, y = drawn.view(numpy_dtype(element))[:, :20]
    bench.check(module, [x, y], opset)


@pytest.mark.parametrize("element", (*FLOATS, *INTEGERS, *UNSIGNED, i1), ids=str)
def test_where(bench: Any, opset: int, element: Attribute) -> None:
    types = [TensorType(i1, [ANY, 1]), TensorType(element, [3]), TensorType(element, [1])]
    module = bench.build(types, lambda add, c, x, y: add(tensor.WhereOp(c, x, y)))
    inputs = [np.array([[True], [False]]), values(element, (3,)), values(element, (1,), seed=1)]
    bench.check(module, inputs, opset)


@pytest.mark.parametrize("target", (*FLOATS, *INTEGERS, i1), ids=str)
@pytest.mark.parametrize("source", (*FLOATS, *INTEGERS, i1), ids=str)
def test_convert(bench: Any, opset: int, source: Attribute, target: Attribute) -> None:
    module = bench.build(
        [TensorType(source, [ANY])], lambda add, x: add(tensor.ConvertOp(x, target))
    )
    x = values(source, (12,))
    if x.dtype.kind == "f":
        extremes = [np.nan, np.inf, -np.inf, 0.0, -0.0, 2.9, -2.9, 1e30, -1e30, 127.9, -128.9, 0.4]
        with np.errstate(over="ignore"):
            x = np.array(extremes).astype(x.dtype)
    if numpy_dtype(target) == np.float16:
        x = np.clip(x, -60000, 60000) if x.dtype.itemsize > 2 or x.dtype.kind == "f" else x
    bench.check(module, [x], opset)


@pytest.mark.parametrize(
    "kind",
    [
        tensor.ReluOp,
        tensor.SigmoidOp,
        tensor.GeluOp,
        tensor.HardSwishOp,
        tensor.SoftmaxOp,
        tensor.LeakyReluOp,
        lambda x: tensor.AddOp(x, x),
        lambda x: tensor.ModOp(x, x),
        lambda x: tensor.MaximumOp(x, x),
        lambda x: tensor.ReduceSumOp(x, [1]),
        lambda x: tensor.PermuteOp(x, [1, 0]),
        lambda x: tensor.PadToOp(x, [1, 0], [0, 1], 0.5),
        lambda x: tensor.ExpandOp(x, [2, 4, 4]),
        lambda x: tensor.ClampOp(x, min=0.0),
        lambda x: tensor.MatmulOp(x, x),
    ],
)
def test_bfloat16_between_conversions(bench: Any, opset: int, kind: Callable[..., Any]) -> None:
    def body(add: Any, x: Any) -> Any:
        return add(tensor.ConvertOp(add(kind(add(tensor.ConvertOp(x, bf16)))), f32))

    module = bench.build([TensorType(f32, [4, 4])], body)
    bench.check(module, [values(f32, (4, 4))], opset, scale=800.0)


def test_bfloat16_goes_in_and_out(bench: Any) -> None:
    """NumPy's bfloat16 is a type that the runtime does not know."""
    types = [TensorType(bf16, [4, 4]), TensorType(f32, [4, 4])]

    def body(add: Any, x: Any, y: Any) -> Any:
        return add(tensor.MatmulOp(x, add(tensor.ConvertOp(y, bf16))))

    module = bench.build(types, body)
    x, y = values(bf16, (4, 4)), values(f32, (4, 4))
    _, (found,), _ = run_target(module, "onnx", [x, y])
    assert found.dtype == x.dtype
    wanted = x.astype(np.float32) @ y.astype(x.dtype).astype(np.float32)
    np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=1e-2, atol=1e-2)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_int64_near_powers_of_two(bench: Any, data: st.DataObject) -> None:
    """ONNX Runtime's own Max, Min, Clip, Sign, ReduceMax and ReduceMin fail here."""
    near = st.tuples(st.integers(0, 62), st.integers(-2, 2), st.sampled_from([-1, 1]))
    number = near.map(lambda t: t[2] * ((1 << t[0]) + t[1]))
    x, y = (np.array(data.draw(st.lists(number, min_size=12, max_size=12)), np.int64) for _ in "xy")
    type = TensorType(i64, [ANY, 4])
    module = bench.build(
        [type, type],
        lambda add, x, y: [
            add(tensor.MaximumOp(x, y)),
            add(tensor.MinimumOp(x, y)),
            add(tensor.SignOp(x)),
            add(tensor.ReluOp(x)),
            add(tensor.ClampOp(x, min=-128.0, max=127.0)),
            add(tensor.ReduceMaxOp(x, [0])),
            add(tensor.ReduceMinOp(x, [1, 0], keepdims=True)),
            add(tensor.ReduceSumOp(x, [0, 1])),
            add(tensor.ArgmaxOp(x)),
        ],
    )
    bench.check(module, [x.reshape(3, 4), y.reshape(3, 4)], data.draw(st.sampled_from([13, 21])))
