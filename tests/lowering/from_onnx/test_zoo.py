"""Networks with the structure of the qonnx zoo, through every target."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import helper
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.shapes import is_float
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.passes.analysis.layers import is_layer
from triton_dsl.passes.streamline.streamline import STAYS

from .zoo_models import MODELS

NAMES = sorted(MODELS)


@cache
def imported(name: str) -> ModuleOp:
    return from_onnx(MODELS[name]())


def inputs(name: str, batch: int) -> Any:
    (argument,) = entry_function(imported(name), "forward").args
    shape = tensor_type(argument).get_shape()[1:]
    return np.random.default_rng(1).uniform(-1, 1, (batch, *shape)).astype(np.float32)


@pytest.mark.parametrize("name", NAMES)
def test_integers_give_what_floats_give(name: str) -> None:
    """`streamline`: no float product is left, and results are the same but for one rounding."""
    module, made = imported(name), imported(name).clone()
    before = "canonicalize,cse,dce,fold-constants,canonicalize,cse,dce"
    run_stages(made, [Stage("integers", f"{before},streamline")])
    assert not any(is_layer(op) and is_float(tensor_type(op.results[0])) for op in made.walk())
    x = inputs(name, 16)
    np.testing.assert_allclose(run_module(made, [x])[0], run_module(module, [x])[0], atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "target",
    ["onnx", "tflite", *(pytest.param(t, marks=pytest.mark.slow) for t in ("pytorch", "native"))],
)
def test_software(name: str, target: str) -> None:
    x = inputs(name, 3)
    (want,), (got,) = run_module(imported(name), [x]), run_target(imported(name), target, [x])[1]
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_circuits(name: str, require_tool: Callable[[str, str], str]) -> None:
    """Simulated: the same predictions as the float network, from its float inputs."""
    require_tool("iverilog", "apt-get install iverilog")
    x = inputs(name, 3)
    (want,), (got,) = run_module(imported(name), [x]), run_target(imported(name), "verilog", [x])[1]
    np.testing.assert_allclose(got, want, atol=1e-4)


@pytest.mark.parametrize("zero", [np.uint8(100), np.int8(-5)])
@pytest.mark.parametrize("real", [False, True])
def test_results_that_are_quantised(bench: Any, zero: Any, real: bool) -> None:
    """QDQ with a scale for each channel of the weight, whose results are bytes or their floats."""
    rng = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.02), "t": np.float32(0.0313), "z": zero,
        # ONNX Runtime adds products of bytes in pairs, which saturate without VNNI.
        "w": rng.integers(-63, 64, (12, 5)).astype(np.int8),
        "ws": rng.uniform(0.002, 0.008, 5).astype(np.float32), "wz": np.zeros(5, np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=1),
        helper.make_node("MatMul", ["d", "dw"], ["p"]),
        helper.make_node("QuantizeLinear", ["p", "t", "z"], ["y"]),
        helper.make_node("DequantizeLinear", ["y", "t", "z"], ["r"]),
    ]
    nodes = nodes if real else nodes[:-1]
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    result = "r" if real else "y"
    model = bench.model(nodes, {"x": (np.float32, ["N", 12])}, [result], arrays)
    module = from_onnx(model)
    simplified = "canonicalize,cse,dce,fold-constants,canonicalize,cse,dce"
    run_stages(module, [Stage("integers", f"{simplified},streamline")])
    assert not any(STAYS in op.attributes for op in module.walk())
    x = rng.uniform(-3, 4, (200, 12)).astype(np.float32)
    (want,) = bench.run(model, {"x": x})
    np.testing.assert_allclose(run_module(module, [x])[0], want, atol=1e-6)
