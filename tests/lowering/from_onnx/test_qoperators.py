"""ONNX Runtime's operators on quantised tensors, beside ONNX Runtime.

It multiplies by reciprocals and in another order, so that a result beside a half may be the other
neighbour: one step, for at most one element in fifty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.from_onnx import from_onnx

DOMAIN = "com.microsoft"
NAMES = ["x", "xs", "xz", "y", "ys", "yz"]


def numbers(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def stored(rng: np.random.Generator, dtype: Any) -> dict[str, Any]:
    """Scales and zero points of two operands and a result."""
    low = np.iinfo(dtype).min
    scales = {f"{name}s": np.float32(rng.uniform(0.01, 0.04)) for name in "xyz"}
    zeros = {f"{name}z": dtype(low + rng.integers(100, 156)) for name in "xyz"}
    return {name: np.asarray(value) for name, value in (scales | zeros).items()}


def compare(bench: Any, nodes: Any, inputs: dict[str, Any], constants: dict[str, Any]) -> None:
    shapes = {name: (value.dtype, value.shape) for name, value in inputs.items()}
    source = bench.model(nodes, shapes, ["r"], constants, domains=[DOMAIN])
    (wanted,) = bench.run(source, inputs)
    (got,) = run_module(from_onnx(source), [*inputs.values()])
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert len(np.unique(wanted)) > 4
    steps = np.abs(got.astype(np.int64) - wanted)
    assert steps.max() <= 1
    assert (steps > 0).mean() <= 0.02


def node(op: str, inputs: list[str], **attributes: Any) -> list[Any]:
    return [helper.make_node(op, inputs, ["r"], domain=DOMAIN, **attributes)]


KINDS = pytest.mark.parametrize("dtype", [np.int8, np.uint8], ids=["int8", "uint8"])


@KINDS
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_two_tensors(bench: Any, op: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    inputs = {"x": numbers(rng, dtype, (3, 4, 50)), "y": numbers(rng, dtype, (4, 1))}
    compare(bench, node(op, [*NAMES, "zs", "zz"]), inputs, stored(rng, dtype))


ONE = [
    ("QLinearSigmoid", (40, 30), {}),
    ("QLinearLeakyRelu", (40, 30), {"alpha": 0.2}),
    ("QLinearSoftmax", (20, 9), {"axis": -1, "opset": 13}),
    ("QLinearAveragePool", (2, 3, 9, 8), {"kernel_shape": [3, 2], "strides": [2, 1]}),
    ("QLinearAveragePool", (2, 3, 9, 8),
     {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    ("QLinearAveragePool", (2, 9, 8, 3), {"kernel_shape": [3, 2], "channels_last": 1}),
    ("QLinearGlobalAveragePool", (8, 30, 3, 5), {}),
    ("QLinearGlobalAveragePool", (8, 3, 5, 30), {"channels_last": 1}),
]  # fmt: skip


@KINDS
@pytest.mark.parametrize(("op", "shape", "attributes"), ONE)
def test_one_tensor(
    bench: Any, op: str, shape: tuple[int, ...], attributes: Any, dtype: Any
) -> None:
    rng = np.random.default_rng(1)
    constants = stored(rng, dtype)
    if op in ("QLinearSigmoid", "QLinearSoftmax"):
        constants |= {"zs": np.asarray(np.float32(1 / 256)), "zz": np.asarray(np.iinfo(dtype).min)}
        constants["zz"] = constants["zz"].astype(dtype)
    inputs = {"x": numbers(rng, dtype, shape)}
    compare(bench, node(op, ["x", "xs", "xz", "zs", "zz"], **attributes), inputs, constants)


@KINDS
def test_joined_tensors(bench: Any, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    inputs = {"x": numbers(rng, dtype, (3, 40)), "y": numbers(rng, dtype, (3, 30))}
    compare(
        bench, node("QLinearConcat", ["zs", "zz", *NAMES], axis=1), inputs, stored(rng, dtype)
    )  # fmt: skip


@KINDS
def test_chosen_elements(bench: Any, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    inputs = {"c": rng.random((3, 40)) < 0.5}
    inputs |= {"x": numbers(rng, dtype, (3, 40)), "y": numbers(rng, dtype, (3, 1))}
    compare(bench, node("QLinearWhere", ["c", *NAMES, "zs", "zz"]), inputs, stored(rng, dtype))


@pytest.mark.parametrize("integers", [True, False], ids=["integers", "floats"])
def test_products(bench: Any, integers: bool) -> None:
    rng = np.random.default_rng(4)
    constants = stored(rng, np.uint8) | {"zs": np.asarray(np.float32(0.3))}
    constants |= {"y": rng.integers(100, 156, (5, 8)).astype(np.uint8)}
    constants |= {"b": rng.integers(-99, 99, 5).astype(np.int32)}
    inputs = {"x": rng.integers(0, 255, (60, 8)).astype(np.uint8)}
    ends = ["zs", "zz"] if integers else []
    made = node("QGemm", [*NAMES, "b", *ends], transB=1, alpha=1.0)
    if integers:
        compare(bench, made, inputs, constants)
    else:
        source = bench.model(
            made, {"x": (np.uint8, (60, 8))}, ["r"], constants, domains=[DOMAIN]
        )  # fmt: skip
        bench.check(source, inputs)
