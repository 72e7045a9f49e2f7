"""What a model computes with free sizes, for sizes other than its writer's, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_onnx import from_onnx

SHAPE = ("N", "L", 3)


def sizes(bench: Any, nodes: list[Any], known: dict[str, Any], **more: Any) -> None:
    """Nodes on x, its two free sizes `n` and `l`, and scalars 0, 1; the result is y."""
    lead = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Gather", ["shape", "one"], ["l"]),
    ]
    scalars = {"zero": np.array(0), "one": np.array(1)}
    ports = {"x": (np.float32, SHAPE)}
    ports |= {name: (array.dtype, shape) for name, (array, shape) in more.items()}
    model = bench.model([*lead, *nodes], ports, ["y"], scalars | known, opset=17)
    module = from_onnx(model)
    for lead_size, length in ((2, 5), (1, 1), (3, 4)):
        random = np.random.default_rng(length)
        inputs = {"x": random.standard_normal((lead_size, length, 3)).astype(np.float32)}
        inputs |= {name: array for name, (array, _) in more.items()}
        (want,) = bench.run(model, inputs)
        runs = [run_module(module, [*inputs.values()])[0]]
        if length == 4:
            runs.append(run_target(module, "onnx", [*inputs.values()])[1][0])
        for got in runs:
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, 1e-6, 1e-6)


def test_products_and_sums_of_sizes_are_counted(bench: Any) -> None:
    """Of no axis: 3·N·L elements, and N·L - N + 2."""
    nodes = [
        helper.make_node("Size", ["x"], ["all"]),
        helper.make_node("Mul", ["n", "l"], ["area"]),
        helper.make_node("Sub", ["area", "n"], ["less"]),
        helper.make_node("Add", ["less", "two"], ["more"]),
        helper.make_node("Mul", ["all", "thousand"], ["large"]),
        helper.make_node("Add", ["large", "more"], ["y"]),
    ]
    sizes(bench, nodes, {"two": np.array(2), "thousand": np.array(1000)})


def test_marks_of_the_largest(bench: Any) -> None:
    sizes(bench, [helper.make_node("Hardmax", ["x"], ["y"])], {})


@pytest.mark.parametrize("upper", [0, 1])
def test_causal_masks(bench: Any, upper: int) -> None:
    nodes = [
        helper.make_node("Unsqueeze", ["l", "axes"], ["row"]),
        helper.make_node("Concat", ["row", "row"], ["square"], axis=0),
        helper.make_node("ConstantOfShape", ["square"], ["zeros"]),
        helper.make_node("Add", ["zeros", "low"], ["lows"]),
        helper.make_node("Trilu", ["lows", "one"], ["mask"], upper=upper),
        helper.make_node("MatMul", ["mask", "x"], ["y"]),
    ]
    sizes(bench, nodes, {"axes": np.array([0]), "low": np.float32(-2) * np.ones(1, np.float32)})


def test_places(bench: Any) -> None:
    nodes = [
        helper.make_node("Add", ["n", "l"], ["end"]),
        helper.make_node("Range", ["n", "end", "one"], ["places"]),
        helper.make_node("Cast", ["places"], ["row"], to=1),
        helper.make_node("Unsqueeze", ["row", "axes"], ["column"]),
        helper.make_node("Mul", ["x", "column"], ["y"]),
    ]
    sizes(bench, nodes, {"axes": np.array([1])})


def test_functions_of_sizes(bench: Any) -> None:
    nodes = [
        helper.make_node("Cast", ["l"], ["length"], to=1),
        helper.make_node("Sqrt", ["length"], ["root"]),
        helper.make_node("Less", ["n", "l"], ["longer"]),
        helper.make_node("Where", ["longer", "root", "length"], ["factor"]),
        helper.make_node("Div", ["x", "factor"], ["y"]),
    ]
    sizes(bench, nodes, {})


def test_a_product_of_free_sizes_is_parted(bench: Any) -> None:
    """As exporters write a linear layer on rows."""
    nodes = [
        helper.make_node("Reshape", ["x", "rows"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["product"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Unsqueeze", ["l", "axes"], ["l1"]),
        helper.make_node("Concat", ["n1", "l1", "width"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["product", "wanted"], ["y"]),
    ]
    w = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    known = {"rows": np.array([-1, 3]), "axes": np.array([0]), "width": np.array([4]), "w": w}
    sizes(bench, nodes, known)


def test_scatters_at_computed_places(bench: Any) -> None:
    nodes = [
        helper.make_node("ArgMax", ["x"], ["places"], axis=2),
        helper.make_node("ReduceMin", ["x"], ["least"], axes=[2]),
        helper.make_node("ScatterElements", ["x", "places", "least"], ["y"], axis=2),
    ]
    sizes(bench, nodes, {})
