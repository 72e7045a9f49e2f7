"""Whole networks on images as circuits: quantised examples, and a published one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import triton_context
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog
from triton_dsl.passes.quantize_activations.quantize_activations import (
    QuantizeActivationsPass,
    calibrate,
    quantize,
)
from triton_dsl.passes.requantize.requantize import RequantizePass
from triton_dsl.runtime.random_values import fill_parameters

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]

EXAMPLES = Path(__file__).parents[3] / "examples" / "models"
"""Of the data beside the repository."""


@pytest.mark.parametrize(
    "options",
    [{"bits": 4}, pytest.param({"bits": 5, "symmetric": False}, marks=pytest.mark.slow)],
    ids=str,
)
def test_a_quantised_network_on_digits(iverilog: str, options: dict[str, Any]) -> None:
    module = fill_parameters(import_tri(EXAMPLES / "digits.tri", layer="TernaryCNN"), 0)
    x = np.random.default_rng(0).random((40, 1, 8, 8), np.float32)
    given = QuantizeActivationsPass(**options)
    quantize(module, calibrate(module, [(x,)], given), given)
    RequantizePass().apply(triton_context(), module)
    (expected,) = run_module(module, [x[:2]])
    artifact = compile_to_target(module, "verilog", {"time_budget": 0.01, "vectors": 2})
    _, (actual,) = run_verilog(artifact, [x[:2]], "iverilog")
    assert np.array_equal(actual, expected)
    report = json.loads(artifact.text("report.json"))
    assert (report["beats_in"], report["beats_out"]) == (64, 1)


def vgg_layer(index: int, source: str, channels: int, element: str, shift: int) -> str:
    """max(floor((x·W·a + b)·16), 0) of integers 16·x: with a and b as multiples of 2^-shift."""
    image, vector = "tensor<?x64x32x32xi32>", "tensor<64x1x1xi32>"
    weight = f"tensor<64x{channels}x3x3x!ternary.trit>"
    return f"""
  %w{index} = ternary.parameter "conv{index}.weight" : {weight}
  %a{index} = tensor.parameter "a{index}" : {vector}
  %b{index} = tensor.parameter "b{index}" : {vector}
  %one{index} = tensor.constant dense<1> : tensor<i32>
  %shift{index} = tensor.constant dense<{shift}> : tensor<i32>
  %zero{index} = tensor.constant dense<0> : tensor<i16>
  %c{index} = ternary.conv {source}, %w{index} {{strides = array<i64: 1, 1>,
       padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>}}
       : tensor<?x{channels}x32x32x{element}>, {weight} -> {image}
  %m{index} = tensor.mul %c{index}, %a{index} : ({image}, {vector}) -> {image}
  %s{index} = tensor.add %m{index}, %b{index} : ({image}, {vector}) -> {image}
  %q{index} = tensor.requantize %s{index}, %one{index}, %shift{index}, %zero{index}
       {{low = 0 : i64, high = 32767 : i64}} : ({image}, tensor<i32>, tensor<i32>, tensor<i16>)
       -> tensor<?x64x32x32xi16>"""


def vgg7(shared: Any) -> tuple[str, dict[str, Array], Array, Array]:
    """The published network up to its first pooling: text, values, an image, the result."""

    def read(name: str) -> Array:
        return np.loadtxt(shared.path("models", "vgg7_ternary", name), delimiter=",")

    values: dict[str, Array] = {}
    layers: list[str] = []
    for index, (source, channels, element) in enumerate([("%x", 3, "i8"), ("%q1", 64, "i16")], 1):
        rows = read(f"conv{index}_weights.csv").reshape(3, 3, channels, 64)
        values[f"conv{index}.weight"] = rows.transpose(3, 2, 0, 1)
        scale, bias = read(f"conv{index}_ab.csv")
        shift = 6
        values[f"a{index}"] = (scale * 2**shift).reshape(64, 1, 1)
        # requantize adds a half before it takes the floor
        values[f"b{index}"] = (bias * 16 * 2**shift - 2 ** (shift - 1)).reshape(64, 1, 1)
        layers.append(vgg_layer(index, source, channels, element, shift))
    text = f"""builtin.module @vgg7 {{
func.func @forward(%x: tensor<?x3x32x32xi8>) -> tensor<?x64x16x16xi16> {{{"".join(layers)}
  %y = tensor.max_pool %q2 {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
       padding = array<i64: 0, 0, 0, 0>}} : (tensor<?x64x32x32xi16>) -> tensor<?x64x16x16xi16>
  func.return %y : tensor<?x64x16x16xi16>
}}
}}"""
    image = (read("airplane4.csv") * 16).astype(np.int8).T.reshape(1, 3, 32, 32)
    result = (read("airplane4_mp_1.csv") * 16).astype(np.int16).T.reshape(1, 64, 16, 16)
    return text, values, image, result


@pytest.mark.slow
def test_the_published_network_gives_its_own_result(
    require_tool: RequireTool, program: Program, shared_data: Any
) -> None:
    require_tool("verilator", "apt-get install verilator")
    text, values, image, result = vgg7(shared_data)
    artifact = compile_to_target(program(text, values), "verilog", {"vectors": 2})
    _, (actual,) = run_verilog(artifact, [image], "verilator")
    assert np.array_equal(actual, result)
    assert json.loads(artifact.text("report.json"))["initiation_interval"] == 1024
