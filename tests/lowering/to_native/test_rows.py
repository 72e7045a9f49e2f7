"""What is called row-wise can really be computed row by row: the interpreter says so."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.emission import entry_function
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.lowering.to_native.interface import note_interface, noted_interface
from triton_dsl.lowering.to_native.rows import is_row_wise, work_of_row
from triton_dsl.runtime.random_values import fill_parameters, random_inputs

APART = {
    "elementwise": ("x: Tensor[N, 4]", "Tensor[N, 4]", "relu(x * 2.0) + x"),
    "broadcast": ("x: Tensor[N, 4]", "Tensor[N, 4]", "x + w4 * w14"),
    "product": ("x: Tensor[N, 4]", "Tensor[N, 3]", "softmax(x @ t43, axis=-1)"),
    "linear": ("x: Tensor[N, 4]", "Tensor[N, 3]", "linear(x, w43, w3)"),
    "norms": ("x: Tensor[N, 4]", "Tensor[N, 4]", "rms_norm(layer_norm(x, w4, w4), w4)"),
    "reduction": ("x: Tensor[N, 4, 6]", "Tensor[N, 6]", "sum(x, axis=1)"),
    "attention": ("x: Tensor[N, 4, 6]", "Tensor[N, 4, 6]", "(x @ transpose(x, 1, 2)) @ x"),
    "image": (
        "x: Tensor[N, 4, 6, 6]",
        "Tensor[N, 12]",
        "flatten(max_pool2d(conv2d(x, t3433, padding=1), 3, stride=3))",
    ),
    "moves": (
        "x: Tensor[N, 4, 6]",
        "Tensor[N, 6, 9]",
        "pad(concat([transpose(x, 1, 2), permute(x, [0, 2, 1])], axis=-1), [1, 0])",
    ),
    "slice": ("x: Tensor[N, 4, 6]", "Tensor[N, 2, 3]", "x[:, 1:3, 0:3]"),
    "reshape": ("x: Tensor[N, 4, 6]", "Tensor[N, 24]", "reshape(x, [N, 24])"),
    "rows of two": (
        "x: Tensor[N, 4]",
        "Tensor[N, 4]",
        "reshape(relu(reshape(x, [-1, 2])), [N, 4])",
    ),
    "two inputs": ("x: Tensor[N, 4], y: Tensor[N, 4]", "Tensor[N, 4]", "maximum(x, y) - x"),
    "shared input": ("x: Tensor[N, 4], y: Tensor[4]", "Tensor[N, 4]", "x * y"),
    "argmax": ("x: Tensor[N, 4]", "Tensor<int64>[N]", "argmax(x, axis=-1)"),
}
TOGETHER = {
    "softmax": ("x: Tensor[N, 4]", "Tensor[N, 4]", "softmax(x, axis=0)"),
    "mean": ("x: Tensor[N, 4]", "Tensor[N, 4]", "x - mean(x, axis=0, keepdims=true)"),
    "sum": ("x: Tensor[N, 4]", "Tensor[4]", "sum(x, axis=0)"),
    "gram": ("x: Tensor[N, 4]", "Tensor[4, 4]", "transpose(x, 0, 1) @ x"),
    "transposed": ("x: Tensor[N, 4]", "Tensor[4, N]", "transpose(x, 0, 1)"),
    "all pairs": ("x: Tensor[N, 4]", "Tensor[N, N]", "x @ transpose(x, 0, 1)"),
    "constant": ("x: Tensor[N, 4]", "Tensor[4]", "w4 * 2.0"),
    "fixed": ("x: Tensor[2, 4]", "Tensor[2, 4]", "relu(x)"),
}
PARAMETERS = """
    param w4: Tensor[4]
    param w14: Tensor[1, 4]
    param w3: Tensor[3]
    param w43: Tensor[4, 3]
    param t43: TernaryTensor[4, 3]
    param t3433: TernaryTensor[3, 4, 3, 3]
"""


def program(arguments: str, result: str, expression: str):
    text = (
        f"layer Net {{{PARAMETERS}\n    fn forward({arguments}) -> {result} "
        f"{{ return {expression} }}\n}}"
    )
    return fill_parameters(import_tri(text), 0)


def function(*parts: str) -> FuncOp:
    return entry_function(program(*parts), "native")


@pytest.mark.parametrize("name", APART)
def test_rows_that_are_apart(name: str) -> None:
    module = program(*APART[name])
    forward = entry_function(module, "native")
    assert is_row_wise(forward)
    inputs = random_inputs(forward.function_type, np.random.default_rng(1), [5], 9)
    whole = run_module(module, inputs)
    for first, end in ((0, 2), (2, 3), (3, 5)):
        part = run_module(module, [x[first:end] if x.shape[0] == 5 else x for x in inputs])
        for full, piece in zip(whole, part, strict=True):
            np.testing.assert_allclose(piece, full[first:end], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", TOGETHER)
def test_rows_that_belong_together(name: str) -> None:
    assert not is_row_wise(function(*TOGETHER[name]))


def test_work_counts_products() -> None:
    assert work_of_row(function(*APART["product"])) == 4 * 3 + 3
    assert work_of_row(function(*APART["image"])) >= 3 * 6 * 6 * 4 * 9


def test_the_interface_tells_names_sizes_and_types() -> None:
    module = program(*APART["two inputs"])
    note_interface(module, "generic")
    interface = noted_interface(module)
    assert [t.name for t in interface.inputs] == ["x", "y"]
    x, y = interface.inputs[0], interface.outputs[0]
    assert x.shown(interface.names) == "[batch, 4]" == y.shown(interface.names)
    assert interface.name == "Net" and interface.free == ("batch",) and interface.row_wise


@pytest.mark.parametrize(
    ("result", "expression", "shown"),
    [
        ("Tensor[2*N, 2]", "reshape(x, [2*N, 2])", "[2*batch, 2]"),
        ("Tensor[N + 3, 4]", "pad(x, [0, 0, 1, 2])", "[batch + 3, 4]"),
        ("Tensor[N, N]", "x @ transpose(x, 0, 1)", "[batch, batch]"),
        ("Tensor[N * N]", "flatten(x @ transpose(x, 0, 1), 0)", "[batch*batch]"),
        ("Tensor[4]", "sum(x, axis=0)", "[4]"),
    ],
)
def test_sizes_of_results_follow_from_the_batch(result: str, expression: str, shown: str) -> None:
    compiled = native_program(program("x: Tensor[N, 4]", result, expression))
    assert compiled.interface.outputs[0].shown(compiled.interface.names) == shown


def test_the_free_size_may_stand_anywhere() -> None:
    """What a program does to the free size of an inner axis is known from its code."""
    module = program(
        "x: Tensor[2, N, 3], y: Tensor[2, 1, 3]",
        "Tensor[2, 1 + N, 3]",
        "concat([x, y], axis=1)",
    )
    compiled = native_program(module)
    assert compiled.interface.outputs[0].shown(["batch"]) == "[2, batch + 1, 3]"
    for count in (0, 1, 5):
        x = np.arange(6 * count, dtype=np.float32).reshape(2, count, 3)
        y = -np.ones((2, 1, 3), np.float32)
        np.testing.assert_array_equal(compiled(x, y), np.concatenate([x, y], axis=1))
