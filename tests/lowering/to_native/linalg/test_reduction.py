"""Pooling, reductions and normalisation, lowered and run by LLVM, against the interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

from triton_dsl.dialects import tensor

IMAGE = "tensor<?x3x6x7xf32>"
REDUCTIONS = {
    "sum": tensor.ReduceSumOp,
    "mean": tensor.ReduceMeanOp,
    "max": tensor.ReduceMaxOp,
    "min": tensor.ReduceMinOp,
}


def reducing(op: Any, *axes: int, keepdims: bool = False) -> Callable[..., Operation]:
    """A builder of a reduction."""
    return lambda x: op(x, axes, keepdims=keepdims)


CASES: dict[str, tuple[Callable[..., Operation], str]] = {
    **{f"{n}_last": (reducing(op, -1), "tensor<?x5xf32>") for n, op in REDUCTIONS.items()},
    **{f"{n}_all": (reducing(op, 0, 1), "tensor<?x5xf32>") for n, op in REDUCTIONS.items()},
    **{f"{n}_none": (reducing(op), "tensor<?x5xf32>") for n, op in REDUCTIONS.items()},
    **{
        f"{n}_kept": (reducing(op, 0, 2, keepdims=True), "tensor<?x5x?xf64>")
        for n, op in REDUCTIONS.items()
    },
    **{f"{n}_f16": (reducing(op, 1), "tensor<?x5xf16>") for n, op in REDUCTIONS.items()},
    **{f"{n}_i8": (reducing(REDUCTIONS[n], 1), "tensor<?x50xi8>") for n in ("sum", "max", "min")},
    **{f"{n}_ui8": (reducing(REDUCTIONS[n], 1), "tensor<?x50xui8>") for n in ("max", "min")},
    **{f"{n}_i1": (reducing(REDUCTIONS[n], 1), "tensor<?x3xi1>") for n in ("max", "min")},
    "argmax": (tensor.ArgmaxOp, "tensor<?x5xf32>"),
    "cumsum": (lambda x: tensor.CumsumOp(x, 0), "tensor<?x5xf32>"),
    "cumsum_i8": (tensor.CumsumOp, "tensor<3x?xi8>"),
    "cumprod": (lambda x: tensor.CumprodOp(x, 1), "tensor<2x?x3xf32>"),
    "argmax_first": (lambda x: tensor.ArgmaxOp(x, 0, keepdims=True), "tensor<?x5xf32>"),
    "argmax_wide": (tensor.ArgmaxOp, "tensor<?x83xf32>"),
    "argmax_i8": (tensor.ArgmaxOp, "tensor<?x500xi8>"),
    "argmax_i1": (tensor.ArgmaxOp, "tensor<?x3xi1>"),
    "max_pool": (lambda x: tensor.MaxPoolOp(x, [2, 3]), IMAGE),
    "max_pool_window": (lambda x: tensor.MaxPoolOp(x, [3, 2], [2, 1], [1, 0, 1, 1]), IMAGE),
    "max_pool_free": (lambda x: tensor.MaxPoolOp(x, [2, 2], [1, 2]), "tensor<?x2x?x?xf32>"),
    "max_pool_1d": (lambda x: tensor.MaxPoolOp(x, [3], [2], [1, 1]), "tensor<?x3x7xf32>"),
    "max_pool_i8": (lambda x: tensor.MaxPoolOp(x, [3, 3], [2, 2], [1] * 4), "tensor<?x3x6x7xi8>"),
    "max_pool_i1": (lambda x: tensor.MaxPoolOp(x, [3, 3], [2, 2], [1] * 4), "tensor<?x3x6x7xi1>"),
    "avg_pool": (lambda x: tensor.AvgPoolOp(x, [2, 3]), IMAGE),
    "avg_pool_padded": (lambda x: tensor.AvgPoolOp(x, [3, 2], [2, 1], [1, 0, 1, 1]), IMAGE),
    "avg_pool_inside": (
        lambda x: tensor.AvgPoolOp(x, [3, 2], [2, 1], [1, 0, 1, 1], count_include_pad=False),
        IMAGE,
    ),
    "avg_pool_inside_free": (
        lambda x: tensor.AvgPoolOp(x, [2], [1], [1, 0], count_include_pad=False),
        "tensor<?x2x?xf32>",
    ),
    "global_avg_pool": (tensor.GlobalAvgPoolOp, IMAGE),
    "global_avg_pool_free": (tensor.GlobalAvgPoolOp, "tensor<?x3x?x?xf32>"),
    "batch_norm": (tensor.BatchNormOp, f"{IMAGE}{'; tensor<3xf32>' * 4}"),
    "batch_norm_flat": (tensor.BatchNormOp, f"tensor<?x3xf32>{'; tensor<3xf32>' * 4}"),
    "layer_norm": (tensor.LayerNormOp, "tensor<?x4x8xf32>; tensor<8xf32>; tensor<8xf32>"),
    "layer_norm_bare": (tensor.LayerNormOp, "tensor<?x4x8xf32>; tensor<4x8xf32>"),
    "layer_norm_f16": (tensor.LayerNormOp, "tensor<?x8xf16>; tensor<8xf16>; tensor<8xf16>"),
    "rms_norm": (lambda x, s: tensor.RmsNormOp(x, s, 1e-3), "tensor<?x4x8xf32>; tensor<8xf32>"),
}


@pytest.mark.parametrize("name", CASES)
def test_reductions(compiled: Any, name: str) -> None:
    inputs = compiled.inputs(name, batch=4)
    if name.startswith("batch_norm"):
        inputs[-1] = np.abs(inputs[-1])
    compiled.check(name, inputs, rtol=2e-5 if inputs[0].itemsize > 2 else 2e-2)


@pytest.mark.parametrize(
    "numbers",
    [
        [1, 3, 3, 2, 3],
        [1, np.nan, 9, np.nan, 2],
        [np.inf, np.nan, np.inf, 0, 0],
        [-np.inf] * 5,
        [np.nan] * 5,
    ],
)
def test_argmax_takes_the_first(compiled: Any, numbers: list[float]) -> None:
    (index,) = compiled.check("argmax", [np.array([numbers], np.float32)])
    assert index.tolist() == [int(np.argmax(numbers))]


@pytest.mark.parametrize("odd", [np.nan, np.inf, 4.0, -np.inf])
def test_argmax_takes_the_first_of_many(compiled: Any, odd: float) -> None:
    """Twice in every row, at places of all lanes of a vector and of what is left of one."""
    x = np.random.default_rng(3).integers(-3, 4, (83, 83)).astype(np.float32)
    for row in range(83):
        x[row, [row, row * 31 % 83]] = odd
    (index,) = compiled.check("argmax_wide", [x])
    np.testing.assert_array_equal(index, np.argmax(x, axis=1))


def test_pads_never_win(compiled: Any) -> None:
    compiled.check("max_pool_window", [-np.abs(compiled.inputs("max_pool_window")[0])])
