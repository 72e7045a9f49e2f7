"""Canonicalisation of shape changes keeps every element in its place."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.rewriter import InsertPoint
from xdsl.transforms.canonicalize import CanonicalizePass

from triton_dsl.dialects import tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import verify_module
from triton_dsl.dialects.shapes import DYNAMIC

Split = tuple[list[list[int]], tuple[int, ...], int | None, int]


def chain(given_shape: list[int], changes: list[Any]) -> ModuleOp:
    """A function that reshapes to each list of sizes, and permutes by each tuple of axes."""
    function = FuncOp("forward", ([TensorType(i64, given_shape)], []))
    builder = Builder(InsertPoint.at_end(function.body.block))
    value: Any = function.args[0]
    for change in changes:
        kind = tensor.PermuteOp if isinstance(change, tuple) else tensor.ReshapeToOp
        value = builder.insert(kind(value, change)).result
    builder.insert(ReturnOp(value))
    function.update_function_type()
    return ModuleOp([function])


def kinds(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("tensor.")]


def canonical(module: ModuleOp, x: np.ndarray[Any, Any]) -> list[str]:
    """The ops after canonicalisation, which gives what the module gave."""
    verify_module(module)
    (want,) = run_module(module, [x])
    CanonicalizePass().apply(Context(), module)
    verify_module(module)
    (got,) = run_module(module, [x])
    np.testing.assert_array_equal(got, want)
    return kinds(module)


@st.composite
def splits(draw: st.DrawFn) -> Split:
    """Axes in groups, the order that groups are moved to, and the place of the free size."""
    sizes = st.integers(2, 5)
    groups = draw(st.lists(st.lists(sizes, min_size=1, max_size=3), min_size=2, max_size=4))
    perm = tuple(draw(st.permutations(range(len(groups)))))
    free = draw(st.none() | st.integers(0, len(groups) - 1))
    place = 0 if free is None else draw(st.integers(0, len(groups[free]) - 1))
    return groups, perm, free, place


@settings(max_examples=80)
@given(splits())
@example(([[2], [2]], (1, 0), 0, 0))
@example(([[2], [2]], (1, 0), 1, 0))
@example(([[2], [2]], (1, 0), None, 0))
@example(([[2], [3]], (0, 1), 1, 0))
def test_axes_are_split_before_they_are_moved(split: Split) -> None:
    groups, perm, free, place = split
    inner = [prod(group) if axis != free else -1 for axis, group in enumerate(groups)]
    outer = [
        -1 if perm[i] == free and at == place else size
        for i, axis in enumerate(perm)
        for at, size in enumerate(groups[axis])
    ]
    total = prod(map(prod, groups))
    module = chain([DYNAMIC if free is not None else total], [inner, perm, outer])
    found = canonical(module, np.arange(total))
    moved = perm != tuple(sorted(perm))
    assert found.count("tensor.reshape_to") == 1
    assert found.count("tensor.permute") == moved


def test_heads_of_attention_are_moved_once() -> None:
    """How PyTorch writes them: [L, N, H·D] to [L, N·H, D] to [N·H, L, D] to [N, H, L, D]."""
    changes = [[7, -1, 4], (1, 0, 2), [-1, 2, 7, 4]]
    found = canonical(chain([7, DYNAMIC, 8], changes), np.arange(7 * 3 * 8).reshape(7, 3, 8))
    assert found == ["tensor.reshape_to", "tensor.permute"]


def test_a_reshape_that_may_change_sizes_stays() -> None:
    """Two free sizes could be told apart only when the program runs; no elements have no ratio."""
    for sizes, change in (([DYNAMIC, DYNAMIC], [-3, -1]), ([0, DYNAMIC], [-2, -3])):
        moved = chain(sizes, [change])
        CanonicalizePass().apply(Context(), moved)
        assert kinds(moved) == ["tensor.reshape_to"]
    for sizes, change in (([DYNAMIC, 3], [-1, 3]), ([2, DYNAMIC], [2, -3])):
        kept = chain(sizes, [change])
        assert canonical(kept, np.arange(6).reshape(2, 3)) == []


def test_other_reshapes_stay_behind() -> None:
    x = np.arange(24)
    for changes in (
        [[4, 6], (1, 0), [3, 8]],  # across axes
        [[2, 3, 4], (1, 0, 2), [6, 4]],  # axes are merged
        [[4, 6], (1, 0), [1, 6, 4]],  # an axis of one element is not part of another
        [[4, 6], (1, 0), [6, 1, 4]],
    ):
        found = canonical(chain([24], changes), x)
        assert found == ["tensor.reshape_to", "tensor.permute", "tensor.reshape_to"]
