"""Products, with trits and without, run as machine code, against the reference interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.llvm import FuncOp

from triton_dsl.dialects import tensor
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits


def conv(strides: Any = (1, 1), padding: Any = (0, 0, 0, 0), **options: Any) -> Callable[..., Any]:
    """A builder of `tensor.conv`."""
    return lambda *operands: tensor.ConvOp(*operands, strides=strides, padding=padding, **options)


def einsum(equation: str) -> Callable[..., Any]:
    """A builder of `tensor.einsum`."""
    return lambda *operands: tensor.EinsumOp(operands, equation)


pytestmark = pytest.mark.usefixtures("users_code")

QKV = "tensor<?x2x7x8xf32>; tensor<?x2x5x8xf32>; tensor<?x2x5x6xf32>"
CASES = {
    "matmul": (tensor.MatmulOp, "tensor<?x19xf32>; tensor<19x70xf32>"),
    "matmul_f64": (tensor.MatmulOp, "tensor<3x8xf64>; tensor<8x4xf64>"),
    "matmul_i8": (tensor.MatmulOp, "tensor<?x8xi8>; tensor<8x33xi8>"),
    "matmul_i32": (tensor.MatmulOp, "tensor<?x8xi32>; tensor<8x4xi32>"),
    "matmul_f16": (tensor.MatmulOp, "tensor<?x8xf16>; tensor<8x4xf16>"),
    "matmul_vectors": (tensor.MatmulOp, "tensor<83xf32>; tensor<83xf32>"),
    "matmul_matrix_vector": (tensor.MatmulOp, "tensor<?x4x80xf32>; tensor<80xf32>"),
    "matmul_batched": (tensor.MatmulOp, "tensor<?x1x4x8xf32>; tensor<5x8x3xf32>"),
    "linear": (tensor.LinearOp, "tensor<?x3x8xf32>; tensor<8x4xf32>; tensor<4xf32>"),
    "conv": (conv(), "tensor<?x3x6x25xf32>; tensor<7x3x3x2xf32>; tensor<7xf32>"),
    "conv_window": (
        conv((2, 1), (1, 0, 2, 1), dilation=(1, 2)),
        "tensor<?x3x9x8xf32>; tensor<4x3x3x2xf32>",
    ),
    "conv_groups": (
        conv(padding=(1, 1, 1, 1), groups=2),
        "tensor<?x4x5x5xf32>; tensor<6x2x3x3xf32>; tensor<6xf32>",
    ),
    "conv_1d": (
        conv((2,), (1, 2), dilation=(2,)),
        "tensor<?x3x12xf32>; tensor<4x3x3xf32>; tensor<4xf32>",
    ),
    "conv_i8": (conv(), "tensor<?x3x6x5xi8>; tensor<4x3x3x2xi8>"),
    "einsum_diagonal": (einsum("ii->i"), "tensor<4x4xf32>"),
    "einsum_turned": (einsum("ij,jk->ki"), "tensor<?x3xi32>; tensor<3x40xi32>"),
    **{
        f"rows_meet_rows_{element}": (
            einsum("nhid,njhd->nhij"),
            f"tensor<?x2x9x5x{element}>; tensor<?x37x2x5x{element}>",
        )
        for element in ("i8", "i32", "f16", "f64")
    },
    "attention": (tensor.ScaledDotProductAttentionOp, QKV),
    "attention_causal": (
        lambda *x: tensor.ScaledDotProductAttentionOp(*x, is_causal=True),
        QKV,
    ),
}


@pytest.mark.parametrize("recipe", ["best", "generic"], indirect=True)
def test_products(compile_cases: Callable[..., Any], recipe: str) -> None:
    program = compile_cases(CASES, recipe)
    for batch in (0, 1, 7):
        program.check(program.inputs(batch), batch)


STRIDED = """
func.func @forward(%x: tensor<?x3x9x9xf32>) -> tensor<?x40x5x5xf32> {
  %w = tensor.parameter "w" : tensor<40x3x3x3xf32>
  %y = tensor.conv %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>,
       dilation = array<i64: 1, 1>, groups = 1 : i64}
       : (tensor<?x3x9x9xf32>, tensor<40x3x3x3xf32>) -> tensor<?x40x5x5xf32>
  func.return %y : tensor<?x40x5x5xf32>
}
"""


def test_constant_weights_are_turned(compile_module: Callable[..., Any], recipe: str) -> None:
    rng = np.random.default_rng(0)
    module = parse_module(STRIDED)
    weights = rng.normal(size=(40, 3, 3, 3)).astype(np.float32)
    attach_store(module, ParameterStore.of({"w": weights}))
    x = rng.normal(size=(3, 3, 9, 9)).astype(np.float32)
    compile_module(module, recipe).check([x], 3)


LAYER = """
func.func @forward(%x: tensor<?x2x{ins}x{kind}>) -> tensor<?x2x{outs}x{result}> {{
  %w = ternary.parameter "w" : tensor<{ins}x{outs}x!ternary.trit>
  {constants}
  %y = ternary.linear %x, %w {operands} {{{options}}}
       : tensor<?x2x{ins}x{kind}>, tensor<{ins}x{outs}x!ternary.trit>
       -> tensor<?x2x{outs}x{result}>
  func.return %y : tensor<?x2x{outs}x{result}>
}}
"""
SCALED = {
    "constants": '%s = tensor.parameter "s" : tensor<{outs}xf32>\n'
    '  %b = tensor.parameter "b" : tensor<{outs}xf32>',
    "operands": "scale(%s : tensor<{outs}xf32>) bias(%b : tensor<{outs}xf32>)",
    "options": 'activation = "relu6"',
    "result": "f32",
}
COUNTED = {
    "constants": '%t = tensor.parameter "t" : tensor<{outs}x9xi32>',
    "operands": "thresholds(%t : tensor<{outs}x9xi32>)",
    "options": 'activation = "relu"',
    "result": "i8",
}
RESCALED = {
    "constants": '%m = tensor.parameter "m" : tensor<{outs}xi32>\n'
    "  %n = tensor.constant dense<7> : tensor<i32>\n"
    "  %z = tensor.constant dense<3> : tensor<i8>",
    "operands": "multiplier(%m : tensor<{outs}xi32>) shift(%n : tensor<i32>) "
    "zero_point(%z : tensor<i8>)",
    "options": "low = -100 : i64, high = 100 : i64",
    "result": "i8",
}
PLAIN = {"constants": "", "operands": "", "options": "", "result": "i32"}
LAYERS = [
    ("f32", 83, 70, {**PLAIN, "result": "f32"}),
    ("f32", 256, 10, SCALED),
    ("f64", 20, 9, {**PLAIN, "result": "f64"}),
    ("i8", 83, 70, PLAIN),
    ("i8", 40, 5, COUNTED),
    ("ui8", 40, 5, RESCALED),
    ("ui8", 83, 7, PLAIN),
    ("i16", 83, 7, PLAIN),
    ("i32", 83, 7, PLAIN),
    ("i64", 20, 7, {**PLAIN, "result": "i64"}),
    ("!ternary.trit", 83, 7, PLAIN),
]


@pytest.mark.parametrize(
    ("kind", "ins", "outs", "parts"),
    LAYERS,
    ids=[f"{kind}-{number}" for number, (kind, *_) in enumerate(LAYERS)],
)
def test_layers_with_trits(
    compile_module: Callable[..., Any], kind: str, ins: int, outs: int, parts: dict[str, str]
) -> None:
    pytest.importorskip("llvmlite")
    words = {name: text.format(outs=outs) for name, text in parts.items()}
    module = parse_module(LAYER.format(kind=kind, ins=ins, outs=outs, **words))
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "w": pack_trits(rng.integers(-1, 2, (ins, outs)).astype(np.int8)),
        "s": rng.normal(size=outs).astype(np.float32),
        "b": rng.normal(size=outs).astype(np.float32),
        "t": np.sort(rng.integers(-99, 99, (outs, 9)), axis=1).astype(np.int32),
        "m": rng.integers(1, 50, outs).astype(np.int32),
    }
    attach_store(module, ParameterStore.of(arrays))
    program = compile_module(module, "generic")
    kernels = [
        op.sym_name.data
        for op in program.lowered.ops
        if isinstance(op, FuncOp) and op.sym_name.data.startswith("linear_")
    ]
    assert bool(kernels) == (kind not in ("f64", "i64"))
    for batch in (0, 1, 3):
        program.check([activations(rng, kind, (batch, 2, ins))], batch)


def activations(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Any:
    """Random values of a kind."""
    if kind == "!ternary.trit":
        return rng.integers(-1, 2, shape).astype(np.int8)
    if kind.startswith("f"):
        return rng.normal(size=shape).astype(np.dtype(f"float{kind[1:]}"))
    dtype = np.dtype(kind.replace("i", "int"))
    return rng.integers(0 if dtype.kind == "u" else -100, 100, shape).astype(dtype)


TWO_LAYERS = """
func.func @forward(%x: tensor<?x259x{kind}>) -> (tensor<?x260x{result}>, tensor<?x260x{result}>) {{
  %v = ternary.parameter "v" : tensor<259x260x!ternary.trit>
  %w = ternary.parameter "w" : tensor<259x260x!ternary.trit>
  %y = ternary.linear %x, %v
       : tensor<?x259x{kind}>, tensor<259x260x!ternary.trit> -> tensor<?x260x{result}>
  %z = ternary.linear %x, %w
       : tensor<?x259x{kind}>, tensor<259x260x!ternary.trit> -> tensor<?x260x{result}>
  func.return %y, %z : tensor<?x260x{result}>, tensor<?x260x{result}>
}}
"""


@pytest.mark.parametrize(("kind", "result"), [("i8", "i32"), ("ui8", "i32"), ("f32", "f32")])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_blocks_of_zeros_are_left_out(
    compile_module: Callable[..., Any], recipe: str, kind: str, result: str, share: float
) -> None:
    rng = np.random.default_rng(3)
    dense, zeros = rng.integers(-1, 2, (2, 259, 260)).astype(np.int8)
    steps = rng.permutation(64)[: round(64 * share)]
    zeros.reshape(-1)[: 256 * 260].reshape(64, 4, 260)[steps] = 0
    module = parse_module(TWO_LAYERS.format(kind=kind, result=result))
    attach_store(module, ParameterStore.of({"v": pack_trits(dense), "w": pack_trits(zeros)}))
    program = compile_module(module, recipe)
    names = {op.sym_name.data for op in program.lowered.ops if isinstance(op, FuncOp)}
    assert "tile_3" in names
    assert ("sparse_tile_1" in names) == (share > 0)
    for batch in (0, 1, 7):
        x = activations(rng, kind, (batch, 259))
        y, z = program.check([x], batch)
        if kind != "f32":
            wide = x.astype(np.int64)
            np.testing.assert_array_equal(y, wide @ dense.astype(np.int64))
            np.testing.assert_array_equal(z, wide @ zeros.astype(np.int64))


COMPUTED = """
func.func @forward(%x: tensor<?x40xf32>, %s: tensor<7xf32>, %i: tensor<?x3x5x5xi8>,
                   %b: tensor<4xi32>) -> (tensor<?x7xf32>, tensor<?x4x3x3xi32>) {
  %w = ternary.parameter "w" : tensor<40x7x!ternary.trit>
  %k = ternary.parameter "k" : tensor<4x3x3x3x!ternary.trit>
  %y = ternary.linear %x, %w scale(%s : tensor<7xf32>) {activation = "relu"}
       : tensor<?x40xf32>, tensor<40x7x!ternary.trit> -> tensor<?x7xf32>
  %z = ternary.conv %i, %k bias(%b : tensor<4xi32>) {strides = array<i64: 1, 1>,
       padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64}
       : tensor<?x3x5x5xi8>, tensor<4x3x3x3x!ternary.trit> -> tensor<?x4x3x3xi32>
  func.return %y, %z : tensor<?x7xf32>, tensor<?x4x3x3xi32>
}
"""


def test_steps_with_computed_numbers_follow_the_kernel(
    compile_module: Callable[..., Any], recipe: str
) -> None:
    module = parse_module(COMPUTED)
    rng = np.random.default_rng(0)
    shapes = {"w": (40, 7), "k": (4, 3, 3, 3)}
    arrays: dict[str, Any] = {
        key: pack_trits(rng.integers(-1, 2, shape).astype(np.int8)) for key, shape in shapes.items()
    }
    attach_store(module, ParameterStore.of(arrays))
    program = compile_module(module, recipe)
    names = [op.sym_name.data for op in program.lowered.ops if isinstance(op, FuncOp)]
    assert any(name.startswith("linear_") for name in names)
    x, s = rng.normal(size=(3, 40)).astype(np.float32), rng.normal(size=7).astype(np.float32)
    i, b = rng.integers(-99, 99, (3, 3, 5, 5)).astype(np.int8), np.arange(4, dtype=np.int32)
    program.check([x, s, i, b], 3)


def test_rounded_activations_are_near(compile_module: Callable[..., Any], recipe: str) -> None:
    words = {name: text.format(outs=5) for name, text in SCALED.items()}
    module = parse_module(LAYER.format(kind="f32", ins=64, outs=5, **words))
    rng = np.random.default_rng(0)
    trits = rng.integers(-1, 2, (64, 5)).astype(np.int8)
    arrays: dict[str, Any] = {
        "w": pack_trits(trits),
        "s": np.full(5, 0.1, np.float32),
        "b": np.full(5, 3, np.float32),
    }
    attach_store(module, ParameterStore.of(arrays))
    x = rng.normal(size=(2, 2, 64)).astype(np.float32)
    exact = compile_module(module, recipe).check([x], 2)[0]
    near = np.empty_like(exact)
    compile_module(module, recipe, "dynamic-int8")([x], [near], 2)
    assert 0 < np.abs(near - exact).max() < 0.05
