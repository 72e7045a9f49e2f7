"""Programs with several free sizes in native code, against the interpreter, and called from C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import BackendError
from triton_dsl.ir.extras import install
from triton_dsl.lowering.compile_model import compile_to_target
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.runtime.native.abi.interface import Interface
from triton_dsl.runtime.random_values import fill_parameters

pytest.importorskip("llvmlite", reason=install("native"))

PARAMETERS = """
    param w: TernaryTensor[4, 3]
    param image: Tensor[4, 3, 3, 3]
"""
PROGRAMS = {
    "text": (
        "x: Tensor[N, T, 4], past: Tensor[N, P, 4]",
        "relu(concat([past, x], axis=1) @ w)",
        "[N, T + P, 3]",
        [(2, 3, 5), (1, 1, 0), (3, 9, 2)],
    ),
    "scores": (
        "x: Tensor[N, T, 4], past: Tensor[N, P, 4]",
        "softmax(x @ transpose(past, 1, 2), axis=-1)",
        "[N, T, P]",
        [(2, 3, 5), (1, 1, 4), (3, 0, 2)],
    ),
    "pool": (
        "x: Tensor[N, 3, H, W]",
        "max_pool2d(conv2d(x, image, stride=2, padding=1), 2)",
        "[N, 4, ((H + 1)/4), ((W + 1)/4)]",
        [(2, 8, 8), (1, 9, 5), (0, 3, 7)],
    ),
    "window": (
        "x: Tensor[N, 3, H, W]",
        "mean(relu(conv2d(x, image)), axis=[2, 3])",
        "[N, 4]",
        [(2, 8, 8), (1, 3, 5)],
    ),
    "cut": (
        "x: Tensor[N, T, 4]",
        "x[:, 1:5] * 2",
        "[N, (5 < T ? 5 : T) - 1, 4]",
        [(2, 3), (1, 9), (2, 1)],
    ),
    "ends": (
        "x: Tensor[N, T, 4]",
        "concat([x[:, 2:-1], x[:, -3:]], axis=1)",
        None,
        [(2, 3), (1, 9), (2, 1), (2, 0)],
    ),
    "halves": (
        "x: Tensor[N, T, 4]",
        "mean(reshape(x, [N, -1, 2, 4]), axis=2)",
        "[N, (T/2), 4]",
        [(2, 8), (1, 2), (3, 0), (0, 4)],
    ),
    "rows": ("x: Tensor[N, T, 4]", "reshape(x, [N * T, 4]) @ w", "[N*T, 3]", [(2, 3), (0, 5)]),
}


def program(arguments: str, expression: str):
    text = f"layer Net {{{PARAMETERS}\n    fn forward({arguments}) {{ return {expression} }}\n}}"
    return fill_parameters(import_tri(text), 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_size_gives_what_the_interpreter_gives(name: str) -> None:
    arguments, expression, shown, cases = PROGRAMS[name]
    module = program(arguments, expression)
    compiled = native_program(module)
    names = compiled.interface.names
    assert shown in (None, compiled.interface.outputs[0].shown(names))
    rng = np.random.default_rng(0)
    for case in cases:
        shapes = [tensor.sizes(*case) for tensor in compiled.interface.inputs]
        inputs = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
        (expected,) = run_module(module, inputs)
        found = compiled(*inputs)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_sizes_that_do_not_fit_are_one_message() -> None:
    arguments, expression, _, _ = PROGRAMS["halves"]
    halves = native_program(program(arguments, expression))
    with pytest.raises(BackendError, match=r"got .*\[2, 5, 4\]; 2\*\(T/2\) must be T"):
        halves(np.zeros((2, 5, 4), np.float32))
    arguments, expression, _, _ = PROGRAMS["window"]
    window = native_program(program(arguments, expression))
    with pytest.raises(BackendError, match="H must be at least 2"):
        window(np.zeros((2, 3, 1, 5), np.float32))
    arguments, expression, _, _ = PROGRAMS["text"]
    text = native_program(program(arguments, expression))
    with pytest.raises(
        BackendError, match=r"takes x: float32 \[N, T, 4\], past: float32 \[N, P, 4\]"
    ):
        text(np.zeros((2, 3, 4), np.float32), np.zeros((3, 3, 4), np.float32))


def test_a_c_program_gives_each_size(c_caller: Callable[..., Any]) -> None:
    for name, case in (("cut", (2, 9)), ("halves", (3, 6)), ("text", (2, 3, 5))):
        arguments, expression, _, _ = PROGRAMS[name]
        module = program(arguments, expression)
        artifact = compile_to_target(module, "native")
        interface = Interface.from_dict(artifact.manifest["interface"])  # pyright: ignore[reportArgumentType]
        shapes = [tensor.sizes(*case) for tensor in interface.inputs]
        inputs = [np.random.default_rng(1).normal(size=s).astype(np.float32) for s in shapes]
        (found,) = c_caller(memcheck=True)(artifact, inputs, *case)
        (expected,) = run_module(module, inputs)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_decoder_with_its_cache_runs_as_a_whole() -> None:
    text = """
layer Small {
    let embed = TokenEmbedding(50, 32)
    let block = DecoderBlock(32, 48, heads=4, groups=2, activation="relu2", sub_norm=true)
    let norm = RMSNorm(32, 1e-5)

    fn forward(
        tokens: Tensor<int64>[N, T], keys: Tensor[N, P, 2, 8], values: Tensor[N, P, 2, 8]
    ) {
        let found = block(embed(tokens), keys, values)
        return [embed.logits(norm(found[0])), found[1], found[2]]
    }
}"""
    module = fill_parameters(import_tri(text), 0)
    compiled = native_program(module)
    rng = np.random.default_rng(0)
    for n, t, p in ((1, 1, 0), (2, 3, 4), (1, 1, 7)):
        cache = [rng.normal(size=(n, p, 2, 8)).astype(np.float32) for _ in range(2)]
        inputs = [rng.integers(0, 50, (n, t)), *cache]
        for found, expected in zip(compiled(*inputs), run_module(module, inputs), strict=True):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_what_is_joined_has_one_size() -> None:
    text = """
func.func @forward(%x: tensor<?x4xf32> {tensor.dimensions = ["N", "4"]},
                   %y: tensor<?x3xf32> {tensor.dimensions = ["M", "3"]}) -> tensor<?x7xf32> {
  %z = tensor.concatenate %x, %y {axis = 1 : i64}
       : (tensor<?x4xf32>, tensor<?x3xf32>) -> tensor<?x7xf32>
  func.return %z : tensor<?x7xf32>
}"""
    joined = native_program(parse_module(text))
    x, y = np.ones((5, 4), np.float32), np.zeros((5, 3), np.float32)
    np.testing.assert_array_equal(joined(x, y), np.concatenate([x, y], axis=1))
    for other in (4, 6):
        with pytest.raises(BackendError, match="N must be M"):
            joined(x, np.zeros((other, 3), np.float32))


def test_a_state_has_the_size_of_its_run() -> None:
    text = """
func.func @forward(%x: tensor<?x?x4xf32> {tensor.dimensions = ["T", "N", "4"]},
                   %v: tensor<?x4xf32> {tensor.dimensions = ["M", "4"]}) -> !spike.train<?x?x4> {
  %s = spike.lif %x initial(%v : tensor<?x4xf32>) {beta = 0.5 : f64}
       : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  func.return %s : !spike.train<?x?x4>
}"""
    module = parse_module(text)
    neurons = native_program(module)
    x = np.random.default_rng(0).uniform(0, 2, (6, 3, 4)).astype(np.float32)
    v = np.full((3, 4), 0.5, np.float32)
    np.testing.assert_array_equal(neurons(x, v), run_module(module, [x, v])[0])
    with pytest.raises(BackendError, match="must be"):
        neurons(x, v[:2])


@pytest.mark.parametrize("element", ["f32", "i8", "!ternary.trit"])
def test_rows_are_as_long_as_a_matrix_is_high(element: str) -> None:
    sums = "f32" if element == "f32" else "i32"
    x, w, y = f"tensor<?x?x{element}>", "tensor<4x3x!ternary.trit>", f"tensor<?x3x{sums}>"
    text = f"""
func.func @forward(%x: {x}) -> {y} {{
  %w = ternary.constant [1, 0, -1, 1, 1, 0, 0, 1, -1, 1, 1, 1] : {w}
  %y = ternary.matmul %x, %w : {x}, {w} -> {y}
  func.return %y : {y}
}}"""
    module = parse_module(text)
    product = native_program(module)
    kind = np.float32 if element == "f32" else np.int8
    rows = np.random.default_rng(0).integers(-1, 2, (9, 4)).astype(kind)
    np.testing.assert_array_equal(product(rows), run_module(module, [rows])[0])
    with pytest.raises(BackendError, match="axis_1_of_x must be 4"):
        product(rows[:, :3])
