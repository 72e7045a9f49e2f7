"""Ops on shapes, run as machine code, against the reference interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import tensor
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.tensor.shape import SLICE_END as END


def slicing(*bounds: tuple[int, int, int]) -> Callable[..., Any]:
    """A builder of `tensor.slice`."""
    starts, ends, steps = zip(*bounds, strict=True)
    return lambda x: tensor.SliceOp(x, starts, ends, steps)


def concatenate(axis: int) -> Callable[..., Any]:
    """A builder of `tensor.concatenate`."""
    return lambda *inputs: tensor.ConcatenateOp(inputs, axis)


CASES = {
    "cut": (lambda x: tensor.ReshapeToOp(x, [-2, 2, 4]), "tensor<?x8xf32>"),
    "merge_batch": (lambda x: tensor.ReshapeToOp(x, [-1, 4]), "tensor<?x8xf32>"),
    "regroup": (lambda x: tensor.ReshapeToOp(x, [-2, 4, 3]), "tensor<?x6x2xi8>"),
    "flatten": (tensor.FlattenOp, "tensor<?x2x4xf32>"),
    "to_scalar": (lambda x: tensor.ReshapeToOp(x, []), "tensor<1x1xf32>"),
    "from_scalar": (lambda x: tensor.ReshapeToOp(x, [1, 1]), "tensor<f32>"),
    "squeeze": (lambda x: tensor.SqueezeOp(x, [1, -1]), "tensor<?x1x4x1xf32>"),
    "unsqueeze": (lambda x: tensor.UnsqueezeOp(x, [0, 2, -1]), "tensor<?x4xf32>"),
    "permute": (lambda x: tensor.PermuteOp(x, [2, 0, 1]), "tensor<?x3x20xf32>"),
    "permute_i1": (lambda x: tensor.PermuteOp(x, [1, 0]), "tensor<?x3xi1>"),
    "expand": (lambda x: tensor.ExpandOp(x, [2, -1, 3, 4]), "tensor<?x1x4xf32>"),
    "concatenate": (concatenate(0), "tensor<?x4xf32>; tensor<2x4xf32>; tensor<?x4xf32>"),
    "concatenate_last": (concatenate(-1), "tensor<?x4xf16>; tensor<?x1xf16>"),
    "slice": (slicing((0, END, 1), (1, -1, 2)), "tensor<?x9xf32>"),
    "slice_empty": (slicing((0, END, 1), (5, 2, 1)), "tensor<?x9xf32>"),
    "pad": (lambda x: tensor.PadToOp(x, [0, 1], [2, 3], 1.5), "tensor<?x4xf32>"),
    "pad_integers": (lambda x: tensor.PadToOp(x, [1], [0], -7.0), "tensor<?xi8>"),
    "split": (lambda x: tensor.SplitOp(x, 1, [2, 0, 3]), "tensor<?x5xf32>"),
}


def test_shapes(compile_cases: Callable[..., Any], recipe: str) -> None:
    program = compile_cases(CASES, recipe)
    for batch in (0, 1, 5):
        program.check(program.inputs(batch), batch)


@pytest.mark.parametrize("element", ["f32", "f64", "i8", "i32", "i1"])
def test_squares_are_turned_over(
    element: str, compile_cases: Callable[..., Any], recipe: str
) -> None:
    orders = {
        f"tensor<?x50x37x{element}>": (0, 2, 1),
        f"tensor<?x32x16x{element}>": (0, 2, 1),
        f"tensor<?x25x9x{element}>": (0, 2, 1),
        f"tensor<?x24x8x{element}>": (0, 2, 1),
        f"tensor<?x7x23x{element}>": (0, 2, 1),
        f"tensor<?x5x7x33x{element}>": (0, 3, 1, 2),
        f"tensor<?x40x{element}>": (1, 0),
    }
    cases = {
        type: (lambda x, order=order: tensor.PermuteOp(x, order), type)
        for type, order in orders.items()
    }
    program = compile_cases(cases, recipe)
    for batch in (1, 2, 35):
        inputs = program.inputs(batch)
        results = program.check(inputs, batch)
        for x, turned, order in zip(inputs, results, orders.values(), strict=True):
            np.testing.assert_array_equal(turned, x.transpose(order))


def test_rows_are_gathered(compile_cases: Callable[..., Any], recipe: str) -> None:
    cases = {
        "rows": (tensor.GatherRowsOp, "tensor<9x20xf32>; tensor<?x5xi64>"),
        "images": (tensor.GatherRowsOp, "tensor<9x2x3xi8>; tensor<?xi8>"),
        "numbers": (tensor.GatherRowsOp, "tensor<9xi32>; tensor<?xi32>"),
    }
    program = compile_cases(cases, recipe)
    for batch in (0, 1, 4):
        inputs = program.inputs(batch)
        inputs[1::2] = [np.abs(places) % 9 for places in inputs[1::2]]
        program.check(inputs, batch)


def test_places_outside_of_a_table_are_the_nearest_inside(
    compile_cases: Callable[..., Any], recipe: str
) -> None:
    program = compile_cases(
        {"rows": (tensor.GatherRowsOp, "tensor<3x4xf32>; tensor<?xi64>")}, recipe
    )
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    result = np.empty((4, 4), np.float32)
    program([table, np.array([-(2**63), -1, 3, 2**62])], [result], 4)
    assert np.array_equal(result, table[[0, 0, 2, 2]])


@st.composite
def chains(draw: st.DrawFn) -> tuple[str, list[int]]:
    """A module that permutes, cuts, adds and reduces an input, and the input's sizes."""
    sizes = draw(st.lists(st.integers(1, 20), min_size=2, max_size=4))
    batched = draw(st.booleans())
    shown = [("?" if batched and axis == 0 else str(n)) for axis, n in enumerate(sizes)]
    lines: list[str] = []
    value = 0

    def tensor_text(words: list[str]) -> str:
        return f"tensor<{'x'.join([*words, 'f32'])}>"

    first = tensor_text(shown)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["permute", "relu", "twice", "slice", "sum"]))
        before, now = tensor_text(shown), list(shown)
        name, source, following = f"%v{value + 1}", f"%v{value}", ""
        if kind == "permute":
            perm = draw(st.permutations(range(len(shown))))
            now = [shown[axis] for axis in perm]
            following = f" {{perm = array<i64: {', '.join(map(str, perm))}>}}"
            op = "permute"
        elif kind == "slice":
            axis = draw(st.sampled_from([a for a, n in enumerate(shown) if n != "?"]))
            size = int(shown[axis])
            start = draw(st.integers(0, size - 1))
            now[axis] = str(len(range(start, size, 2)))
            starts = [start if a == axis else 0 for a in range(len(shown))]
            steps = [2 if a == axis else 1 for a in range(len(shown))]
            following = (
                f" {{starts = array<i64: {', '.join(map(str, starts))}>, "
                f"ends = array<i64: {', '.join([str(END)] * len(shown))}>, "
                f"steps = array<i64: {', '.join(map(str, steps))}>}}"
            )
            op = "slice"
        elif kind == "sum":
            axis = draw(st.integers(0, len(shown) - 1))
            now[axis] = "1"
            following = f" {{axes = array<i64: {axis}>, keepdims = true}}"
            op = "reduce_sum"
        else:
            op = "relu" if kind == "relu" else "add"
        operands = f"{source}, {source}" if op == "add" else source
        types = f"{before}, {before}" if op == "add" else before
        lines.append(
            f"{name} = tensor.{op} {operands}{following} : ({types}) -> {tensor_text(now)}"
        )
        shown, value = now, value + 1
    last = tensor_text(shown)
    body = "\n  ".join(lines)
    text = (
        f"func.func @forward(%v0: {first}) -> {last} {{\n  {body}\n"
        f"  func.return %v{value} : {last}\n}}"
    )
    return text, sizes


@pytest.mark.parametrize("name", ["generic"])
@given(chain=chains())
@settings(max_examples=15, deadline=None)
def test_chains_of_random_shapes(
    compile_module: Callable[..., Any], name: str, chain: tuple[str, list[int]]
) -> None:
    pytest.importorskip("llvmlite")
    text, sizes = chain
    module: ModuleOp = parse_module(text)
    x = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
    compile_module(module, name).check([x], sizes[0])
