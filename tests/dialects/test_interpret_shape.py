"""Shape ops against NumPy and PyTorch, on random shapes: data, inferred types and actual sizes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_dsl.dialects import tensor
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.dialects.tensor.shape import SLICE_END, resolve_reshape
from triton_dsl.ir.errors import TritonError

RunOp = Callable[..., tuple[NDArray[Any], ...]]

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def numbered(shape: tuple[int, ...]) -> NDArray[np.int32]:
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


@given(st.data())
def test_slices_are_those_of_numpy(run_op: RunOp, data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    bounds = st.one_of(st.integers(-7, 7), st.just(SLICE_END))
    starts, ends = ([data.draw(bounds) for _ in shape] for _ in range(2))
    steps = [data.draw(st.integers(1, 3)) for _ in shape]
    x = numbered(shape)
    (result,) = run_op(lambda v: tensor.SliceOp(v, starts, ends, steps), x)
    expected = x[tuple(slice(*b) for b in zip(starts, ends, steps, strict=True))]
    np.testing.assert_array_equal(result, expected)


@given(st.data())
def test_permute(run_op: RunOp, data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    perm = data.draw(st.permutations(range(len(shape))))
    x = numbered(shape)
    (result,) = run_op(lambda v: tensor.PermuteOp(v, perm), x)
    np.testing.assert_array_equal(result, torch.from_numpy(x).permute(*perm).numpy())


@given(st.data())
def test_flatten(run_op: RunOp, data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    start = data.draw(st.integers(0, len(shape) - 1))
    end = data.draw(st.integers(start, len(shape) - 1))
    negative = data.draw(st.booleans())
    x = numbered(shape)
    given_end = end - len(shape) if negative else end
    (result,) = run_op(lambda v: tensor.FlattenOp(v, start, given_end), x)
    np.testing.assert_array_equal(result, torch.flatten(torch.from_numpy(x), start, end).numpy())


@given(st.data())
def test_reshape_with_a_free_size(run_op: RunOp, data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    target = [*data.draw(st.permutations(shape)), 1]
    target[data.draw(st.integers(0, len(target) - 1))] = -1
    x = numbered(shape)
    (result,) = run_op(lambda v: tensor.ReshapeToOp(v, target), x)
    np.testing.assert_array_equal(result, x.reshape(target))


@given(st.data())
def test_reshape_copies_axes(run_op: RunOp, data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    split = data.draw(st.integers(0, len(shape)))
    # Keep the first axes by number, merge the rest.
    target = [*(-2 - axis for axis in range(split)), -1]
    x = numbered(shape)
    (result,) = run_op(lambda v: tensor.ReshapeToOp(v, target), x)
    np.testing.assert_array_equal(result, x.reshape(*shape[:split], -1))


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        ((DYNAMIC, 8), (-2, 2, 4), (DYNAMIC, 2, 4)),
        ((DYNAMIC, DYNAMIC, 6), (-2, -3, 2, -1), (DYNAMIC, DYNAMIC, 2, 3)),
        ((DYNAMIC, 6), (-1, 3), (DYNAMIC, 3)),
        ((DYNAMIC, 4, 6), (-1, 6), (DYNAMIC, 6)),
        ((2, DYNAMIC), (-3, -2), (DYNAMIC, 2)),
        ((4, 6), (-1, -3), (4, 6)),
        ((DYNAMIC, 4), (-2, -2, -1), (DYNAMIC, DYNAMIC, DYNAMIC)),
    ],
)
def test_reshapes_of_unknown_sizes(
    shape: tuple[int, ...], target: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert resolve_reshape(shape, target) == expected


def test_a_reshape_that_fails_on_the_actual_sizes(run_op: RunOp) -> None:
    build = lambda v: tensor.ReshapeToOp(v, (-2, 2, 4))  # noqa: E731
    with pytest.raises(Exception, match="cannot reshape 3x7 to"):
        run_op(build, numbered((3, 7)))


@given(st.data())
def test_concatenate_and_split_are_inverse(run_op: RunOp, data: st.DataObject) -> None:
    shape = list(data.draw(SHAPES))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    shape[axis] = sum(sizes)
    x = numbered(tuple(shape))
    pieces = run_op(lambda v: tensor.SplitOp(v, axis, sizes), x)
    expected = torch.split(torch.from_numpy(x), sizes, dim=axis)
    for piece, other in zip(pieces, expected, strict=True):
        np.testing.assert_array_equal(piece, other.numpy())
    (joined,) = run_op(lambda *v: tensor.ConcatenateOp(v, axis), *pieces)
    np.testing.assert_array_equal(joined, x)


@given(st.data())
def test_pad(run_op: RunOp, data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    low, high = ([data.draw(st.integers(0, 3)) for _ in shape] for _ in range(2))
    x = numbered(shape)
    (result,) = run_op(lambda v: tensor.PadToOp(v, low, high, value=-5), x)
    pads = list(zip(low, high, strict=True))
    np.testing.assert_array_equal(result, np.pad(x, pads, constant_values=-5))


@given(st.data())
def test_squeeze_and_unsqueeze_are_inverse(run_op: RunOp, data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    rank = len(shape) + data.draw(st.integers(1, 2))
    axes = data.draw(st.permutations(range(rank)))[: rank - len(shape)]
    x = numbered(shape)
    (wide,) = run_op(lambda v: tensor.UnsqueezeOp(v, axes), x)
    np.testing.assert_array_equal(wide, np.expand_dims(x, tuple(axes)))
    (narrow,) = run_op(lambda v: tensor.SqueezeOp(v, [a - rank for a in axes]), wide)
    np.testing.assert_array_equal(narrow, x)


def test_squeeze_refuses_an_actual_size_above_one(run_op: RunOp) -> None:
    with pytest.raises(Exception, match="size of axis 0 and 1"):
        run_op(lambda v: tensor.SqueezeOp(v, (0,)), numbered((2, 3)))


@given(st.data())
def test_expand(run_op: RunOp, data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    ones = tuple(1 if data.draw(st.booleans()) else d for d in shape)
    lead = data.draw(st.lists(st.integers(1, 3), max_size=2))
    kept = [a == b and data.draw(st.booleans()) for a, b in zip(ones, shape, strict=True)]
    target = [*lead, *(-1 if keep else size for keep, size in zip(kept, shape, strict=True))]
    x = numbered(ones)
    (result,) = run_op(lambda v: tensor.ExpandOp(v, target), x)
    np.testing.assert_array_equal(result, torch.from_numpy(x).expand(*target).numpy())


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_gather_rows(dtype: type[Any], run_op: RunOp) -> None:
    table = numbered((6, 2, 3))
    indices = np.array([[0, 5, 3], [1, 1, 2]], dtype)
    (result,) = run_op(tensor.GatherRowsOp, table, indices)
    expected = torch.from_numpy(table)[torch.from_numpy(indices).long()].numpy()
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("index", [6, -1])
def test_gather_rows_refuses_an_index_outside(index: int, run_op: RunOp) -> None:
    with pytest.raises(TritonError, match=f"index {index} is outside the 6 rows"):
        run_op(tensor.GatherRowsOp, numbered((6, 2)), np.array([0, index]))
