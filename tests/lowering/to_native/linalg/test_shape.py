"""Shape ops, lowered and run by LLVM, against the reference interpreter."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

from triton_dsl.dialects import tensor
from triton_dsl.dialects.tensor.shape import SLICE_END
from triton_dsl.lowering.to_native.linalg.reshaping import split_into_groups

END = SLICE_END


def reshape(*shape: int) -> Callable[..., Operation]:
    """A builder of `tensor.reshape_to`."""
    return lambda x: tensor.ReshapeToOp(x, shape)


def slicing(*bounds: tuple[int, int, int]) -> Callable[..., Operation]:
    """A builder of `tensor.slice`."""
    starts, ends, steps = zip(*bounds, strict=True)
    return lambda x: tensor.SliceOp(x, starts, ends, steps)


def concatenate(axis: int) -> Callable[..., Operation]:
    """A builder of `tensor.concatenate`."""
    return lambda *inputs: tensor.ConcatenateOp(inputs, axis)


CASES: dict[str, tuple[Callable[..., Operation], str]] = {
    "reshape_cut": (reshape(-2, 2, 4), "tensor<?x8xf32>"),
    "reshape_merge": (reshape(-2, 8), "tensor<?x2x4xf32>"),
    "reshape_regroup": (reshape(-2, 4, 3), "tensor<?x6x2xf32>"),
    "reshape_left_over": (reshape(-1, 4), "tensor<?x8xf32>"),
    "reshape_left_over_first": (reshape(-1, 2, 4), "tensor<?x8xf32>"),
    "reshape_merge_free": (reshape(-1, 3), "tensor<?x6x5xf32>"),
    "reshape_two_free": (reshape(-2, -3, 4, 2), "tensor<?x?x8xf32>"),
    "reshape_swap_free": (reshape(-3, -2, 2), "tensor<?x?x2xf32>"),
    "reshape_one": (reshape(-1), "tensor<?x?x2xf32>"),
    "reshape_ones": (reshape(1, -2, 1, 4, 1, 2), "tensor<?x8xf32>"),
    "reshape_from_ones": (reshape(-3, 8), "tensor<1x?x1x4x1x2xf32>"),
    "reshape_static": (reshape(3, 8), "tensor<2x3x4xf32>"),
    "reshape_to_scalar": (reshape(), "tensor<1x1xf32>"),
    "reshape_from_scalar": (reshape(1, 1), "tensor<f32>"),
    "reshape_scalar": (reshape(), "tensor<f32>"),
    "reshape_free_to_known": (reshape(3, 4), "tensor<?x4xf32>"),
    "reshape_trits": (reshape(-2, 2, 4), "tensor<?x8x!ternary.trit>"),
    "flatten": (tensor.FlattenOp, "tensor<?x2x4xf32>"),
    "flatten_all": (lambda x: tensor.FlattenOp(x, 0, -1), "tensor<?x?x4xf32>"),
    "flatten_middle": (lambda x: tensor.FlattenOp(x, 1, 2), "tensor<2x3x4x5xi8>"),
    "squeeze": (lambda x: tensor.SqueezeOp(x, [1, -1]), "tensor<?x1x4x1xf32>"),
    "squeeze_to_scalar": (lambda x: tensor.SqueezeOp(x, [0]), "tensor<1xf32>"),
    "unsqueeze": (lambda x: tensor.UnsqueezeOp(x, [0, 2, -1]), "tensor<?x4xf32>"),
    "unsqueeze_scalar": (lambda x: tensor.UnsqueezeOp(x, [0]), "tensor<f32>"),
    "permute": (lambda x: tensor.PermuteOp(x, [2, 0, 1]), "tensor<?x3x4xf32>"),
    "permute_i1": (lambda x: tensor.PermuteOp(x, [1, 0]), "tensor<?x3xi1>"),
    "expand": (lambda x: tensor.ExpandOp(x, [2, -1, 3, 4]), "tensor<?x1x4xf32>"),
    "expand_scalar": (lambda x: tensor.ExpandOp(x, [2, 3]), "tensor<f32>"),
    "concatenate": (concatenate(0), "tensor<?x4xf32>; tensor<2x4xf32>; tensor<?x4xf32>"),
    "concatenate_last": (concatenate(-1), "tensor<?x4xf16>; tensor<?x1xf16>"),
    "concatenate_one": (concatenate(0), "tensor<3xi32>"),
    "slice": (slicing((0, END, 1), (1, -1, 2)), "tensor<?x9xf32>"),
    "slice_free": (slicing((1, -1, 1), (0, 4, 1)), "tensor<?x9xf32>"),
    "slice_free_steps": (slicing((-4, END, 3), (0, 4, 1)), "tensor<?x9xf32>"),
    "slice_beyond": (slicing((2, 7, 1), (-30, 30, 4)), "tensor<?x9xi8>"),
    "slice_empty": (slicing((5, 2, 1)), "tensor<?xf32>"),
    "slice_static_empty": (slicing((5, 2, 1)), "tensor<9xf32>"),
    "pad": (lambda x: tensor.PadToOp(x, [0, 1], [2, 3], 1.5), "tensor<?x4xf32>"),
    "pad_integers": (lambda x: tensor.PadToOp(x, [1], [0], -7.0), "tensor<?xi8>"),
    "pad_nothing": (lambda x: tensor.PadToOp(x, [0], [0]), "tensor<?xf32>"),
    "gather": (tensor.GatherRowsOp, "tensor<200x4xf32>; tensor<?x5xi64>"),
    "gather_i8": (tensor.GatherRowsOp, "tensor<200x2x3xf32>; tensor<i8>"),
    "gather_numbers": (tensor.GatherRowsOp, "tensor<200xi32>; tensor<?xi32>"),
    "split": (lambda x: tensor.SplitOp(x, 1, [2, 0, 3]), "tensor<?x5xf32>"),
    "split_first": (lambda x: tensor.SplitOp(x, 0, [1, 4]), "tensor<5x2xi16>"),
}


@pytest.mark.parametrize("name", CASES)
def test_shapes(compiled: Any, name: str) -> None:
    inputs = compiled.inputs(name)
    if name.startswith("gather"):
        inputs[1] = np.abs(inputs[1])
    compiled.check(name, inputs)


@pytest.mark.parametrize("size", [0, 1, 2, 5, 6])
def test_bounds_of_slices_are_clamped_at_run_time(compiled: Any, size: int) -> None:
    for name in CASES:
        if name.startswith("slice") and "static" not in name:
            compiled.check(name, compiled.inputs(name, batch=size))


def random_reshape(rng: np.random.Generator) -> tuple[list[int], list[int], str]:
    """A shape, what to reshape it to, and its type, with some sizes free."""
    factors = [int(n) for n in rng.choice([1, 2, 3], rng.integers(1, 6))]
    shape, target = random_cut(rng, factors), random_cut(rng, factors)
    target[int(rng.integers(len(target)))] = -1
    if rng.random() < 0.5:  # an axis leads on both sides
        shape.insert(0, 2)
        target.insert(0, -2)
    sizes = ["?" if rng.random() < 0.4 else str(n) for n in shape]
    return shape, target, f"tensor<{'x'.join([*sizes, 'f32'])}>"


def random_cut(rng: np.random.Generator, factors: Sequence[int]) -> list[int]:
    """The products of neighbours among `factors`."""
    ends = [i for i in range(1, len(factors)) if rng.random() < 0.5]
    return [int(np.prod(part)) for part in np.split(np.array(factors), ends)]


def test_random_reshapes(compile_cases: Callable[..., Any]) -> None:
    rng = np.random.default_rng(5)
    drawn = {f"random_{i}": random_reshape(rng) for i in range(150)}
    compiled = compile_cases(
        {name: (reshape(*target), type) for name, (_, target, type) in drawn.items()}
    )
    for name, (shape, _, _) in drawn.items():
        compiled.check(name, [rng.normal(size=shape).astype(np.float32)])


@pytest.mark.parametrize(
    ("source", "target", "groups"),
    [
        ([8], [2, 4], [([0], [0, 1])]),
        ([6, 2], [4, 3], [([0, 1], [0, 1])]),
        ([2, 3, 4], [6, 4], [([0, 1], [0]), ([2], [1])]),
        ([2, 1, 1], [2], [([0, 1, 2], [0])]),
        ([1, 2], [2], [([0, 1], [0])]),
        ([0, 3], [0], [([0, 1], [0])]),
        ([], [1, 1], [([], [0, 1])]),
        ([], [], []),
    ],
)
def test_axes_are_grouped_as_finely_as_can_be(
    source: Sequence[int], target: Sequence[int], groups: Any
) -> None:
    assert split_into_groups(source, target) == groups
