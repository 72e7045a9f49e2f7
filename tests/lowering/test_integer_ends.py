"""Integers at the ends of their types on each engine, beside NumPy and Python's own integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import dense_constant
from triton_dsl.dialects.registry import parse_module, verify_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_onnx.calls import element_type
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.passes.analysis.magnitude import magnitude

Array = NDArray[Any]
Write = Callable[[Builder, SSAValue], Sequence[SSAValue]]

INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
ENGINES = ("interpreter", "pytorch", "onnx", "tflite", "native")


def element(dtype: str) -> Attribute:
    return element_type(np.dtype(dtype))


def program(dtype: str, shape: Sequence[int], write: Write) -> ModuleOp:
    """A function of one tensor whose body `write` makes."""
    function = FuncOp("forward", ([TensorType(element(dtype), shape)], []))
    at = Builder(InsertPoint.at_end(function.body.block))
    at.insert(ReturnOp(*write(at, function.args[0])))
    function.update_function_type()
    module = ModuleOp([function])
    verify_module(module)
    return module


def run(target: str, module: ModuleOp, x: Array) -> list[Array]:
    if target == "interpreter":
        return list(run_module(module, [x]))
    return run_target(module, target, [x])[1]


def compare(found: Sequence[Array], wanted: Sequence[Array]) -> None:
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def ends(dtype: str, count: int) -> Array:
    """The ends of a type, and numbers at which others end."""
    info = np.iinfo(dtype)
    known = [info.min, info.max, -1, 1, 127, 128, 255, -300, 1 << 15, (1 << 16) + 3, 1 << 31]
    known += [-(1 << 31), (1 << 31) - 1, (1 << 32) + 7, (1 << 53) + 1, info.max - 1]
    fitting = [n for n in known if info.min <= n <= info.max]
    return np.array([fitting[i % len(fitting)] for i in range(count)], dtype)


def wrapped(values: Array, dtype: str) -> Array:
    """Python's integers modulo the width of `dtype`."""
    info = np.iinfo(dtype)
    low = int(info.min)
    return np.array((values - low) % (1 << info.bits) + low, object).astype(dtype)


KNOWN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(ENGINES, INTEGERS),
    "tflite": ("int8", "uint8", "int16", "int32", "int64"),
}


@pytest.mark.parametrize(("target", "dtype"), [(t, dtype) for t in ENGINES for dtype in KNOWN[t]])
def test_conversions_wrap_around(target: str, dtype: str) -> None:
    """One value goes several ways, in two steps each, and stays what it was."""
    known = KNOWN[target]
    ways = [(b, c) for b, c in product(known, known) if b != dtype and c != b]

    def write(at: Builder, x: SSAValue) -> Sequence[SSAValue]:
        first = {b: at.insert(tensor.ConvertOp(x, element(b))).result for b in known if b != dtype}
        second = [at.insert(tensor.ConvertOp(first[b], element(c))).result for b, c in ways]
        return [*second, at.insert(tensor.ConvertOp(x, element("float64"))).result]

    x = ends(dtype, 16)
    want = [wrapped(wrapped(x.astype(object), b).astype(object), c) for b, c in ways]
    compare(run(target, program(dtype, [16], write), x), [*want, x.astype(np.float64)])


@pytest.mark.parametrize("target", ENGINES)
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64"])
def test_sums_of_products_wrap_around_when_converted(target: str, dtype: str) -> None:
    """ONNX Runtime joins casts of floats to integers and of those to narrower ones."""
    weight = np.array([[1, 1], [-1, 1], [1, 0], [1, 1]], np.int8)
    narrow = ("int8", "int16", "int32", "uint32", "uint8")

    def write(at: Builder, x: SSAValue) -> Sequence[SSAValue]:
        trits = at.insert(ternary.ConstantOp(weight.reshape(-1).tolist(), weight.shape)).result
        sums = at.insert(ternary.LinearOp(x, trits)).result
        made = [
            at.insert(tensor.ConvertOp(sums, element(to))).result
            for to in narrow
            if element(to) != sums.type.element_type  # pyright: ignore[reportAttributeAccessIssue]
        ]
        return [sums, *made]

    x = ends(dtype, 12).reshape(3, 4)
    wide = x.astype(object) @ weight.astype(object)
    sums = "int64" if dtype in ("uint32", "int64") else "int32"
    wanted = [wrapped(wide, to) for to in (sums, *(to for to in narrow if to != sums))]
    compare(run(target, program(dtype, [3, 4], write), x), wanted)


@pytest.mark.parametrize("target", ENGINES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_bounds_beyond_a_type_do_not_limit(target: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    bounds = [(-5.0, 100.0), (float(info.min) * 4 - 3, 90.0), (-3.0, 2.0**64), (1.0, 1e30)]

    def write(at: Builder, x: SSAValue) -> Sequence[SSAValue]:
        return [
            *(at.insert(tensor.ClampOp(x, min=a, max=b)).result for a, b in bounds),
            at.insert(tensor.AbsOp(x)).result,
        ]

    x = ends(dtype, 12)
    wide = x.astype(object)
    want = [np.minimum(np.maximum(wide, a), b) for a, b in bounds]
    compare(
        run(target, program(dtype, [12], write), x),
        [*(np.array([int(n) for n in w], dtype) for w in want), wrapped(abs(wide), dtype)],
    )


@pytest.mark.parametrize("target", [engine for engine in ENGINES if engine != "tflite"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_dense_sums_wrap_around(target: str, dtype: str) -> None:
    matrix, bias, kernel = (ends(dtype, n)[::-1] for n in (12, 3, 12))
    matrix, kernel = matrix.reshape(4, 3), kernel.reshape(2, 2, 3)

    def write(at: Builder, x: SSAValue) -> Sequence[SSAValue]:
        dense = [
            at.insert(dense_constant(np.ascontiguousarray(a), element(dtype))).result
            for a in (matrix, bias, kernel, bias[:2])
        ]
        image = at.insert(tensor.ReshapeToOp(x, [3, 2, 2])).result
        window: Any = {"strides": [1], "padding": [1, 1], "dilation": [1]}
        return [
            at.insert(tensor.LinearOp(x, dense[0], dense[1])).result,
            at.insert(tensor.ConvOp(image, dense[2], dense[3], **window)).result,
            at.insert(tensor.ReduceSumOp(x, [1])).result,
        ]

    x = ends(dtype, 12).reshape(3, 4)
    wide = x.astype(object)
    image = np.pad(x.reshape(3, 2, 2), ((0, 0), (0, 0), (1, 1))).astype(object)
    windows = np.stack([image[:, :, p : p + 3].reshape(3, 6) for p in range(2)], axis=1)
    convolved = (windows @ kernel.reshape(2, 6).T.astype(object)).transpose(0, 2, 1)
    wanted = [
        wide @ matrix.astype(object) + bias.astype(object),
        convolved + bias[:2].astype(object).reshape(1, 2, 1),
        wide.sum(axis=1),
    ]
    compare(
        run(target, program(dtype, [3, 4], write), x), [wrapped(want, dtype) for want in wanted]
    )


def test_litert_keeps_wide_biases_and_is_given_no_weight_that_float32_cannot_hold() -> None:
    """Sums of few bits beside a bias of many; the least int64 has no absolute value in int64."""

    def layer(weight: Array, bias: Array) -> ModuleOp:
        def write(at: Builder, x: SSAValue) -> Sequence[SSAValue]:
            wide = at.insert(tensor.ConvertOp(x, element("int64"))).result
            operands = [
                at.insert(dense_constant(a, element("int64"))).result for a in (weight, bias)
            ]
            return [at.insert(tensor.LinearOp(wide, *operands)).result]

        return program("int8", [2, 2], write)

    weight, bias = np.array([[3], [-5]]), np.array([(1 << 40) + 1])
    x = np.array([[127, -128], [1, 2]], np.int8)
    compare(run("tflite", layer(weight, bias), x), [x.astype(np.int64) @ weight + bias])
    with pytest.raises(UnsupportedError, match="not exact in LiteRT"):
        compile_to_target(layer(np.array([[-(1 << 63)], [1]]), bias), "tflite")


def test_differences_without_a_sign_are_not_bounded_by_their_operands() -> None:
    module = program(
        "uint8",
        [4],
        lambda at, x: [
            at.insert(
                tensor.SubOp(
                    at.insert(tensor.ClampOp(x, min=0.0, max=3.0)).result,
                    at.insert(dense_constant(np.array(5, np.uint8), element("uint8"))).result,
                )
            ).result
        ],
    )
    (result,) = [op for op in module.walk() if isinstance(op, tensor.SubOp)]
    x = np.arange(4, dtype=np.uint8)
    assert run_module(module, [x])[0].max() <= magnitude(result.result).max()


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_floors_of_quotients_do_not_leave_the_type(dtype: torch.dtype) -> None:
    class Floor(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([x // 7, x // -3, torch.div(x, 2, rounding_mode="floor")])

    info = torch.iinfo(dtype)
    x = torch.tensor([info.min, info.min + 1, info.max, -7, -8, 6, 0, -1], dtype=dtype)
    module = from_torch(Floor(), x)
    for target in ("interpreter", "native"):
        np.testing.assert_array_equal(run(target, module, x.numpy())[0], Floor()(x).numpy())


ONE_NUMBER = """
func.func @forward(%x: tensor<f32>, %s: tensor<f32>, %z: tensor<i8>, %m: tensor<i32>
                  ) -> (tensor<i8>, tensor<f32>, tensor<i8>) {
  %q = tensor.quantize %x, %s, %z : (tensor<f32>, tensor<f32>, tensor<i8>) -> tensor<i8>
  %d = tensor.dequantize %q, %s, %z : (tensor<i8>, tensor<f32>, tensor<i8>) -> tensor<f32>
  %f = tensor.constant dense<1048576> : tensor<i32>
  %h = tensor.constant dense<34> : tensor<i32>
  %c = tensor.constant dense<3> : tensor<i8>
  %r = tensor.requantize %m, %f, %h, %c {low = -100 : i64, high = 127 : i64}
    : (tensor<i32>, tensor<i32>, tensor<i32>, tensor<i8>) -> tensor<i8>
  func.return %q, %d, %r : tensor<i8>, tensor<f32>, tensor<i8>
}
"""


@pytest.mark.parametrize("target", ["pytorch", "onnx", "tflite", "native"])
def test_one_number_is_quantised_and_back(target: str) -> None:
    inputs: list[Array] = [
        np.array(7.2, np.float32),
        np.array(0.5, np.float32),
        np.array(3, np.int8),
        np.array(1 << 20, np.int32),
    ]
    _, (quantised, back, scaled), _ = run_target(parse_module(ONE_NUMBER), target, inputs)
    assert int(quantised) == 17  # round(7.2 / 0.5) + 3
    assert float(back) == 7.0
    assert int(scaled) == 67  # 2^40 / 2^34 + 3


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("target", ENGINES)
def test_products_of_all_elements_wrap_around(target: str, dtype: str) -> None:
    digits = 24 if dtype == "int32" else 53
    ends = [2**digits + 1, 1, -1, 1, 1], [2**digits - 1, 65537, 3, 5, -7]
    x = np.array(ends, dtype)
    module = program(dtype, x.shape, lambda at, v: at.insert(tensor.ReduceProdOp(v, [1])).results)
    compare(run(target, module, x), [np.multiply.reduce(x, axis=1, dtype=x.dtype)])
