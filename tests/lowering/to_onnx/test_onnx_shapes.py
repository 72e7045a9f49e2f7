"""Shape changes, reductions, pooling and normalisation: the interpreter beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

from triton_dsl.dialects import tensor
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.dialects.tensor.shape import SLICE_END
from triton_dsl.ir.errors import UnsupportedError

Array = np.ndarray[Any, Any]
ANY = DYNAMIC
EVERY = (f16, f32, f64, i8, i16, i32, i64, i1)
INTEGERS = (i8, i16, i32, i64)


def values(element: Attribute, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Random numbers; integers over their whole range."""
    random = np.random.default_rng(seed)
    dtype = numpy_dtype(element)
    if dtype == np.bool_:
        return random.random(shape) < 0.5
    if dtype.kind == "i":
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, shape, dtype, endpoint=True)
    return random.standard_normal(shape).astype(dtype)


MOVES: list[Callable[[Any], Any]] = [
    lambda x: tensor.ReshapeToOp(x, [-2, 12]),
    lambda x: tensor.ReshapeToOp(x, [-1, 2, 6]),
    lambda x: tensor.ReshapeToOp(x, [6, -1]),
    lambda x: tensor.ReshapeToOp(x, [-3, -2, -4]),
    lambda x: tensor.ReshapeToOp(x, [1, -2, -1]),
    lambda x: tensor.FlattenOp(x),
    lambda x: tensor.FlattenOp(x, 0, -1),
    lambda x: tensor.FlattenOp(x, 0, 1),
    lambda x: tensor.FlattenOp(x, 1, 1),
    lambda x: tensor.PermuteOp(x, [2, 0, 1]),
    lambda x: tensor.ConcatenateOp([x, x, x], 0),
    lambda x: tensor.ConcatenateOp([x], -1),
    lambda x: tensor.SliceOp(x, [0, -2, 1], [SLICE_END, SLICE_END, -1], [1, 1, 2]),
    lambda x: tensor.SliceOp(x, [0, 0, 0], [SLICE_END, SLICE_END, SLICE_END], [1, 1, 1]),
    lambda x: tensor.SliceOp(x, [1, 5, 0], [100, 9, 4], [2, 1, 3]),
    lambda x: tensor.PadToOp(x, [0, 1, 2], [0, 3, 0], 1.0),
    lambda x: tensor.PadToOp(x, [0, 0, 0], [0, 0, 0]),
    lambda x: tensor.UnsqueezeOp(x, [0, -1]),
    lambda x: tensor.UnsqueezeOp(x, []),
    lambda x: tensor.SqueezeOp(x, []),
    lambda x: tensor.ExpandOp(x, [2, -1, 3, 4]),
]


@pytest.mark.parametrize("batch", [1, 5, 0])
@pytest.mark.parametrize("kind", MOVES)
def test_moves(bench: Any, opset: int, kind: Callable[[Any], Any], batch: int) -> None:
    module = bench.build([TensorType(f32, [ANY, 3, 4])], lambda add, x: add(kind(x)))
    bench.check(module, [values(f32, (batch, 3, 4))], opset)


@pytest.mark.parametrize("element", EVERY, ids=str)
def test_moves_of_every_element_type(bench: Any, opset: int, element: Attribute) -> None:
    kinds = [MOVES[i] for i in (0, 5, 9, 10, 12, 15, 17, 20)]
    module = bench.build(
        [TensorType(element, [ANY, 3, 4])], lambda add, x: [add(kind(x)) for kind in kinds]
    )
    bench.check(module, [values(element, (2, 3, 4))], opset)


@pytest.mark.parametrize(("leading", "kind"), [(ANY, "Gather"), (16, "Gather"), (17, "Slice")])
def test_a_row_of_few(bench: Any, opset: int, leading: int, kind: str) -> None:
    """A Gather takes less time, and an unknown size counts as one."""
    end = [SLICE_END, SLICE_END]
    module = bench.build(
        [TensorType(f32, [leading, 4])],
        lambda add, x: add(tensor.SliceOp(x, [0, -1], end, [1, 1])),
    )
    for batch in (5, 0) if leading == ANY else (leading,):
        data = bench.check(module, [values(f32, (batch, 4))], opset)
        (node,) = onnx.load_from_string(data).graph.node
        assert node.op_type == kind


@pytest.mark.parametrize("shape", [[-3, -2, -4], [-2, -4, -3], [-2, -2, -1]])
def test_reshape_keeps_several_dynamic_axes(bench: Any, opset: int, shape: list[int]) -> None:
    type = TensorType(f32, [ANY, ANY, 4])
    module = bench.build([type], lambda add, x: add(tensor.ReshapeToOp(x, shape)))
    bench.check(module, [values(f32, (2, 6, 4))], opset)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_reshape_of_any_shape(bench: Any, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    known = [size if data.draw(st.booleans()) else ANY for size in shape]
    axes = data.draw(st.permutations(range(len(shape))))
    cut = data.draw(st.integers(0, len(shape)))
    target = [-2 - axis if data.draw(st.booleans()) else shape[axis] for axis in axes[:cut]]
    target.append(-1)
    type = TensorType(f32, known)
    opset = data.draw(st.sampled_from([13, 21]))
    module = bench.build([type], lambda add, x: add(tensor.ReshapeToOp(x, target)))
    bench.check(module, [values(f32, shape)], opset)


def test_split(bench: Any, opset: int) -> None:
    module = bench.build(
        [TensorType(f32, [ANY, 6])], lambda add, x: add(tensor.SplitOp(x, 1, [1, 3, 2]))
    )
    data = bench.check(module, [values(f32, (2, 6))], opset)
    assert b"Split" in data


@pytest.mark.parametrize("index", INTEGERS, ids=str)
def test_gather_rows(bench: Any, opset: int, index: Attribute) -> None:
    types = [TensorType(f32, [10, 3]), TensorType(index, [ANY, 2])]
    module = bench.build(types, lambda add, t, i: add(tensor.GatherRowsOp(t, i)))
    rows = np.array([[0, 9], [3, 3]], numpy_dtype(index))
    bench.check(module, [values(f32, (10, 3)), rows], opset)


@pytest.mark.parametrize("element", (f16, f32, f64, i8, i16, i32, i64), ids=str)
def test_reductions(bench: Any, opset: int, element: Attribute) -> None:
    kinds: list[Any] = [tensor.ReduceSumOp, tensor.ReduceMaxOp, tensor.ReduceMinOp]
    if element in (f16, f32, f64):
        kinds.append(tensor.ReduceMeanOp)
    choices: list[tuple[list[int], bool]] = [([1], False), ([0, -1], True), ([], False)]

    def body(add: Any, x: Any) -> list[Any]:
        return [add(k(x, axes, keepdims=keep)) for k in kinds for axes, keep in choices]

    module = bench.build([TensorType(element, [ANY, 3, 4])], body)
    bench.check(module, [values(element, (2, 3, 4))], opset)


@pytest.mark.parametrize("element", (f16, f32, f64, *INTEGERS), ids=str)
def test_argmax_takes_the_first(bench: Any, opset: int, element: Attribute) -> None:
    module = bench.build(
        [TensorType(element, [ANY, 4])],
        lambda add, x: [add(tensor.ArgmaxOp(x)), add(tensor.ArgmaxOp(x, 0, keepdims=True))],
    )
    bench.check(module, [np.array([[1, 3, 3, 0], [2, 2, 2, 2]], numpy_dtype(element))], opset)


@pytest.mark.parametrize("element", (f16, f32, f64, i8, i16, i32), ids=str)
def test_max_pool(bench: Any, opset: int, element: Attribute) -> None:
    module = bench.build(
        [TensorType(element, [ANY, 2, 6, 5])],
        lambda add, x: [
            add(tensor.MaxPoolOp(x, [2, 2])),
            add(tensor.MaxPoolOp(x, [3, 2], [1, 2], [1, 0, 1, 1])),
        ],
    )
    bench.check(module, [values(element, (2, 2, 6, 5))], opset)


@pytest.mark.parametrize("element", (f16, f32), ids=str)
def test_mean_pools(bench: Any, opset: int, element: Attribute) -> None:
    module = bench.build(
        [TensorType(element, [ANY, 2, 6, 5])],
        lambda add, x: [
            add(tensor.AvgPoolOp(x, [2, 2])),
            add(tensor.AvgPoolOp(x, [3, 3], [2, 2], [1, 1, 1, 1])),
            add(tensor.AvgPoolOp(x, [3, 3], [2, 2], [1, 0, 1, 1], count_include_pad=False)),
            add(tensor.GlobalAvgPoolOp(x)),
        ],
    )
    bench.check(module, [values(element, (2, 2, 6, 5))], opset)


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: tensor.MaxPoolOp(x, [2, 2], [1, 1]),
        lambda x: tensor.MaxPoolOp(x, [2, 2], [1, 1], [1, 1, 1, 1]),
        lambda x: tensor.AvgPoolOp(x, [2, 2], [1, 1], [1, 1, 1, 1]),
    ],
)
def test_zeros_before_a_pool_are_no_padding_of_the_pool(
    bench: Any, opset: int, pool: Callable[[Any], Any]
) -> None:
    module = bench.build(
        [TensorType(f32, [ANY, 2, 3, 4])],
        lambda add, x: add(pool(add(tensor.PadToOp(x, [0, 0, 0, 1], [0, 0, 0, 1])))),
    )
    bench.check(module, [-1 - np.abs(values(f32, (2, 2, 3, 4)))], opset)


def test_pools_in_one_dimension(bench: Any, opset: int) -> None:
    module = bench.build(
        [TensorType(f32, [ANY, 2, 7])],
        lambda add, x: [
            add(tensor.MaxPoolOp(x, [3], [2], [1, 1])),
            add(tensor.AvgPoolOp(x, [3], [2], [1, 1])),
            add(tensor.GlobalAvgPoolOp(x)),
        ],
    )
    bench.check(module, [values(f32, (2, 2, 7))], opset)


def test_global_mean_in_double_precision(bench: Any, opset: int) -> None:
    module = bench.build(
        [TensorType(f64, [ANY, 2, 3, 3])], lambda add, x: add(tensor.GlobalAvgPoolOp(x))
    )
    bench.check(module, [values(f64, (2, 2, 3, 3))], opset)


@pytest.mark.parametrize("element", (f16, f32, f64), ids=str)
@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 3), (2, 4, 3, 3)])
def test_batch_norm(bench: Any, opset: int, shape: tuple[int, ...], element: Attribute) -> None:
    vector = TensorType(element, [4])
    module = bench.build(
        [TensorType(element, [ANY, *shape[1:]]), *[vector] * 4],
        lambda add, *operands: add(tensor.BatchNormOp(*operands, epsilon=1e-3)),
    )
    vectors = [values(element, (4,), seed) for seed in range(3)]
    bench.check(module, [values(element, shape), *vectors, np.abs(values(element, (4,), 3))], opset)


@pytest.mark.parametrize("element", (f16, f32, f64), ids=str)
@pytest.mark.parametrize("covered", [(4,), (3, 4), (1,)])
def test_layer_and_rms_norm(
    bench: Any, opset: int, covered: tuple[int, ...], element: Attribute
) -> None:
    vector = TensorType(element, covered)
    module = bench.build(
        [TensorType(element, [ANY, 3, 4]), vector, vector],
        lambda add, x, s, b: [
            add(tensor.LayerNormOp(x, s, b)),
            add(tensor.LayerNormOp(x, s)),
            add(tensor.RmsNormOp(x, s)),
        ],
    )
    inputs = [values(element, (2, 3, 4)), values(element, covered, 1), values(element, covered, 2)]
    bench.check(module, inputs, opset)


def test_what_has_no_kernel_in_double_precision_is_refused_at_once(bench: Any) -> None:
    module = bench.build(
        [TensorType(f64, [ANY, 1, 4, 4])],
        lambda add, x: [add(tensor.AvgPoolOp(x, [2, 2])), add(tensor.ErfOp(x))],
    )
    with pytest.raises(UnsupportedError) as caught:
        bench.bytes_of(module)
    assert [name for name, _, _ in caught.value.problems] == ["tensor.avg_pool", "tensor.erf"]
    assert "float32" in str(caught.value)


def test_reductions_of_an_empty_batch(bench: Any, opset: int) -> None:
    kinds = [tensor.ReduceSumOp, tensor.ReduceMaxOp, tensor.ReduceMeanOp]
    module = bench.build(
        [TensorType(f32, [ANY, 3, 4]), TensorType(f32, [4])],
        lambda add, x, s: [
            *(add(kind(x, [-1])) for kind in kinds),
            add(tensor.ArgmaxOp(x)),
            add(tensor.RmsNormOp(x, s)),
            add(tensor.LayerNormOp(x, s)),
        ],
    )
    bench.check(module, [np.zeros((0, 3, 4), "f"), np.ones(4, "f")], opset)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
def test_the_mean_of_nothing_is_no_number(bench: Any, opset: int) -> None:
    module = bench.build(
        [TensorType(f32, [ANY, 0, 4])],
        lambda add, x: [
            add(tensor.ReduceMeanOp(x, [1])),
            add(tensor.ReduceMeanOp(x, [1, -1], keepdims=True)),
        ],
    )
    bench.check(module, [np.zeros((2, 0, 4), "f")], opset)
