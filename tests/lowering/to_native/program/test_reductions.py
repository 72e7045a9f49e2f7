"""Reductions, pooling and normalisation, run as machine code, against the interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np

from triton_dsl.dialects import tensor
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.to_native.callables import traced_program
from triton_dsl.lowering.to_native.target import NativeOptions

IMAGE = "tensor<?x3x6x7xf32>"
REDUCTIONS = {
    "sum": tensor.ReduceSumOp,
    "mean": tensor.ReduceMeanOp,
    "max": tensor.ReduceMaxOp,
    "min": tensor.ReduceMinOp,
}


def reducing(op: Any, *axes: int, keepdims: bool = False) -> Callable[..., Any]:
    """A builder of a reduction."""
    return lambda x: op(x, axes, keepdims=keepdims)


def pooling(op: Any, *arguments: Any, **options: Any) -> Callable[..., Any]:
    """A builder of a pooling."""
    return lambda x: op(x, *arguments, **options)


CASES = {
    **{f"{n}_last": (reducing(op, -1), "tensor<?x2x83xf32>") for n, op in REDUCTIONS.items()},
    **{f"{n}_middle": (reducing(op, 1), "tensor<?x5x37xf32>") for n, op in REDUCTIONS.items()},
    **{f"{n}_kept": (reducing(op, 2, keepdims=True), IMAGE) for n, op in REDUCTIONS.items()},
    **{f"{n}_none": (reducing(op), "tensor<?x5xf32>") for n, op in REDUCTIONS.items()},
    "sum_i8": (reducing(tensor.ReduceSumOp, 1), "tensor<?x50xi8>"),
    "max_ui8": (reducing(tensor.ReduceMaxOp, 1), "tensor<?x50xui8>"),
    "max_i1": (reducing(tensor.ReduceMaxOp, 1), "tensor<?x3xi1>"),
    "min_i32": (reducing(tensor.ReduceMinOp, 1, 2), "tensor<?x3x50xi32>"),
    "mean_f64": (reducing(tensor.ReduceMeanOp, -1), "tensor<?x70xf64>"),
    "argmax": (tensor.ArgmaxOp, "tensor<?x2x19xf32>"),
    "argmax_i8": (tensor.ArgmaxOp, "tensor<?x500xi8>"),
    "argmax_channels": (lambda x: tensor.ArgmaxOp(x, 1, keepdims=True), "tensor<?x5x40xf32>"),
    "max_pool": (pooling(tensor.MaxPoolOp, [2, 3]), IMAGE),
    "max_pool_window": (pooling(tensor.MaxPoolOp, [3, 2], [2, 1], [1, 0, 1, 1]), IMAGE),
    "max_pool_1d": (pooling(tensor.MaxPoolOp, [3], [2], [1, 1]), "tensor<?x3x47xf32>"),
    "max_pool_i8": (pooling(tensor.MaxPoolOp, [3, 3], [2, 2], [1] * 4), "tensor<?x3x6x40xi8>"),
    "avg_pool": (pooling(tensor.AvgPoolOp, [2, 3]), IMAGE),
    "avg_pool_inside": (
        pooling(tensor.AvgPoolOp, [3, 2], [2, 1], [1, 0, 1, 1], count_include_pad=False),
        IMAGE,
    ),
    "global_avg_pool": (tensor.GlobalAvgPoolOp, IMAGE),
    "layer_norm": (tensor.LayerNormOp, "tensor<?x3x21xf32>; tensor<21xf32>; tensor<21xf32>"),
    "rms_norm": (tensor.RmsNormOp, "tensor<?x21xf32>; tensor<21xf32>"),
}
OVER_THE_BATCH = {
    **{f"{n}_first": (reducing(op, 0), "tensor<?x37xf32>") for n, op in REDUCTIONS.items()},
    **{f"{n}_all": (reducing(op, 0, 1), "tensor<?x5xf32>") for n, op in REDUCTIONS.items()},
    "sum_vector": (reducing(tensor.ReduceSumOp, 0), "tensor<?xf32>"),
    "cumsum": (lambda x: tensor.CumsumOp(x, 0), "tensor<?x5xf32>"),
    "cumsum_i8": (lambda x: tensor.CumsumOp(x, 0), "tensor<?x2x3xi8>"),
    "cumprod_i32": (lambda x: tensor.CumprodOp(x, 0), "tensor<?x5xi32>"),
    "argmax_first": (lambda x: tensor.ArgmaxOp(x, 0), "tensor<?x5xf32>"),
    "softmax_first": (lambda x: tensor.SoftmaxOp(x, 0), "tensor<?x5xf32>"),
}


def test_reductions(compile_cases: Callable[..., Any], recipe: str) -> None:
    program = compile_cases(CASES, recipe)
    for batch in (0, 1, 5):
        program.check(program.inputs(batch), batch)


def test_reductions_over_the_batch(compile_cases: Callable[..., Any], recipe: str) -> None:
    program = compile_cases(OVER_THE_BATCH, recipe)
    for batch in (1, 3, 150):
        program.check(program.inputs(batch), batch)


def test_sums_of_nothing_are_zero(compile_cases: Callable[..., Any], recipe: str) -> None:
    program = compile_cases({"sum": (reducing(tensor.ReduceSumOp, 0), "tensor<?x37xf32>")}, recipe)
    program.check(program.inputs(0), 0)


POOLED = """
func.func @forward(%x: tensor<?x64x6x5xi32>, %z: tensor<?x6x5x64xi32>) -> tensor<?x64xi32> {
  %t = tensor.permute %z {perm = array<i64: 0, 3, 1, 2>}
       : (tensor<?x6x5x64xi32>) -> tensor<?x64x6x5xi32>
  %a = tensor.add %x, %t : (tensor<?x64x6x5xi32>, tensor<?x64x6x5xi32>) -> tensor<?x64x6x5xi32>
  %y = tensor.reduce_sum %a {axes = array<i64: 2, 3>}
       : (tensor<?x64x6x5xi32>) -> tensor<?x64xi32>
  func.return %y : tensor<?x64xi32>
}
"""


def test_operands_of_a_sum_that_lie_in_two_ways(
    compile_module: Callable[..., Any], recipe: str
) -> None:
    module = parse_module(POOLED)
    rng = np.random.default_rng(0)
    shapes = (3, 64, 6, 5), (3, 6, 5, 64)
    x, z = (rng.integers(-(1 << 25), 1 << 25, shape, np.int32) for shape in shapes)
    (y,) = compile_module(module, recipe).check([x, z], 3)
    np.testing.assert_array_equal(y, (x + z.transpose(0, 3, 1, 2)).sum((2, 3), dtype=np.int32))
    _, trace = traced_program(module, NativeOptions(), 1)
    # One is turned first, so that no vector is put together element by element.
    assert [step.what for step in trace.steps] == ["loops"] * 2


def test_known_operands_of_a_sum_are_not_turned_when_it_runs(
    compile_module: Callable[..., Any], recipe: str
) -> None:
    text = """
func.func @forward(%z: tensor<1x6x5x64xf32>) -> tensor<1x64xf32> {
  %w = tensor.parameter "w" buffer : tensor<64x6x5xf32>
  %t = tensor.permute %z {perm = array<i64: 0, 3, 1, 2>}
       : (tensor<1x6x5x64xf32>) -> tensor<1x64x6x5xf32>
  %a = tensor.mul %t, %w : (tensor<1x64x6x5xf32>, tensor<64x6x5xf32>) -> tensor<1x64x6x5xf32>
  %y = tensor.reduce_sum %a {axes = array<i64: 2, 3>}
       : (tensor<1x64x6x5xf32>) -> tensor<1x64xf32>
  func.return %y : tensor<1x64xf32>
}
"""
    module = parse_module(text)
    rng = np.random.default_rng(0)
    w = rng.standard_normal((64, 6, 5), np.float32)
    attach_store(module, ParameterStore.of({"w": w}))
    z = rng.standard_normal((1, 6, 5, 64), np.float32)
    (y,) = compile_module(module, recipe).check([z], 1)
    expected = (z.transpose(0, 3, 1, 2).astype(np.float64) * w).sum((2, 3))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    _, trace = traced_program(module, NativeOptions(), 1)
    assert len(trace.steps) == 1
