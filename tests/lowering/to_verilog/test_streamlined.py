"""Networks with float quantisers as circuits: inputs that are stated, and what is refused why."""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn
from torch.nn import functional
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError, UnsupportedError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target

from ..from_onnx.zoo_models import Graph, activation, by_channel


def network(middle: str | None = None, bits: int = 3) -> ModuleOp:
    """Two dense layers on inputs without a quantiser, and an op between."""
    g = Graph(3)
    x = activation(g, g.node("MatMul", "x", g.weight((12, 8), bits, 0.2)), 8, 3, 0.5)
    if middle is not None:
        x = g.quant(g.node(middle, x), 3, 0.125, signed=False, narrow=False)
    return from_onnx(g.model(["N", 12], g.node("MatMul", x, g.weight((8, 3), bits, 0.2))))


@pytest.mark.parametrize("stated", ["int4*0.5", "uint3", "bipolar*0.25"])
def test_inputs_may_be_stated(stated: str, require_tool: Callable[[str, str], str]) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    module = network()
    values = {"int4*0.5": np.arange(-8, 8) / 2, "uint3": np.arange(8)}
    rng = np.random.default_rng(0)
    x = rng.choice(values.get(stated, np.array([-0.25, 0.25])), (5, 12)).astype(np.float32)
    _, (got,), _ = run_target(module, f'verilog{{inputs="x:{stated}"}}', [x])
    np.testing.assert_allclose(got, run_module(module, [x])[0], atol=1e-5)


@pytest.mark.parametrize("mode", ["HALF_UP", "HALF_DOWN", "FLOOR", "CEIL", "UP", "DOWN"])
def test_inputs_may_be_rounded_in_any_way(
    mode: str, require_tool: Callable[[str, str], str]
) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    g = Graph(4)
    x = g.quant("x", 3, 0.5, narrow=False, rounding=mode)
    weight = g.rng.integers(-3, 4, (4, 2))
    product = g.node("MatMul", x, g.quant(g.constant(weight * 1.0), 3, 1.0))
    module = from_onnx(g.model(["N", 4], product))
    ties = np.arange(-12, 12, dtype=np.float32) / 4
    each = np.concatenate([ties, np.nextafter(ties, 9), np.nextafter(ties, -9)]).astype(np.float32)
    x = each.reshape(-1, 4)
    named = {"CEIL": decimal.ROUND_CEILING}.get(mode, f"ROUND_{mode}")
    steps = [int(Decimal(float(n) * 2).to_integral_value(named)) for n in x.flat]
    want = np.clip(np.array(steps).reshape(x.shape), -4, 3) * 0.5 @ weight
    _, (got,), _ = run_target(module, "verilog", [x])
    np.testing.assert_array_equal(got, run_module(module, [x])[0])
    np.testing.assert_array_equal(got[: ties.size // 4], want[: ties.size // 4])


def test_the_layer_that_needs_a_quantiser_is_named() -> None:
    with pytest.raises(UnsupportedError) as refused:
        compile_to_target(network(), "verilog")
    message = str(refused.value)
    assert "cannot express 2 operation(s)" in message
    assert re.search(r'tensor.matmul at "matmul_1".*needs a quantiser', message)
    assert 'inputs="NAME:int8*0.5"' in str(refused.value.hint)


def test_the_op_between_is_named_alone() -> None:
    with pytest.raises(UnsupportedError) as refused:
        compile_to_target(network("Softmax"), 'verilog{inputs="x:int4"}')
    message = str(refused.value)
    assert "cannot express 1 operation(s)" in message
    assert "tensor.softmax" in message
    assert "no form on integers" in message


def test_channels_that_are_summed_need_a_common_step() -> None:
    g = Graph(5)
    x = by_channel(g, g.quant("x", 8, 0.25), np.array([0.1, np.pi / 20]), 3)
    model = g.model(["N", 2, 4, 4], g.node("Conv", x, g.weight((3, 2, 1, 1), 3)))
    with pytest.raises(UnsupportedError, match="sums over channels whose scales have no common"):
        compile_to_target(from_onnx(model), "verilog")


def test_a_sigmoid_of_large_numbers_is_left_to_the_receiver(
    require_tool: Callable[[str, str], str],
) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    g = Graph(8)
    x = g.node("MatMul", g.quant("x", 4, 1.0), g.weight((12, 8), 3, 0.25))
    x = g.node("Mul", x, g.constant(np.array(64, np.float32)))
    module = from_onnx(g.model(["N", 12], g.node("Sigmoid", x)))
    x = np.random.default_rng(0).uniform(-8, 8, (5, 12)).astype(np.float32)
    _, (got,), _ = run_target(module, "verilog", [x])
    want = run_module(module, [x])[0]
    assert {0.0, 1.0} <= set(want.flat)
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_the_class_may_be_the_first_of_the_largest(
    require_tool: Callable[[str, str], str],
) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    g = Graph(6)
    x = g.node("MatMul", g.quant("x", 4, 0.25), g.weight((12, 8), 3, 0.25))
    g.nodes.append(helper.make_node("TopK", [x, g.constant(np.array([1]))], ["", "place"]))
    model = g.model(["N", 12], "place")
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    module = from_onnx(model)
    x = np.random.default_rng(0).uniform(-2, 2, (40, 12)).astype(np.float32)
    _, (got,), _ = run_target(module, "verilog", [x])
    np.testing.assert_array_equal(got, run_module(module, [x])[0])


def test_an_unknown_input_is_an_error() -> None:
    with pytest.raises(OptionError, match="no argument is called 'pixels'; there are x"):
        compile_to_target(network(), 'verilog{inputs="pixels:int8"}')


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("timesteps=4", "no argument of the program has steps"),
        ("input-bits=4", r"quantisers say what the arguments hold \(x\); leave it out"),
    ],
)
def test_options_without_effect_are_errors(options: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        compile_to_target(network(), f'verilog{{inputs="x:int2" {options}}}')


def test_layers_are_called_as_the_nodes_of_the_source() -> None:
    artifact = compile_to_target(network(), 'verilog{inputs="x:int2"}')
    report: Any = artifact.manifest["report"]
    layers = report["layers"]
    assert {"matmul_1", "matmul_6"} <= {layer["name"] for layer in layers}


def test_layers_whose_small_weights_have_no_name_are_called_so_too() -> None:
    g = Graph(4)
    x = activation(g, g.node("MatMul", g.quant("x", 3, 0.25), g.weight((9, 4), 2, 0.5)), 4, 3, 0.5)
    module = from_onnx(g.model(["N", 9], g.node("MatMul", x, g.weight((4, 3), 3, 0.2))))
    artifact = compile_to_target(module, 'verilog{folding="matmul_7:pe=1,simd=2"}')
    report: Any = artifact.manifest["report"]
    assert {"matmul_2", "matmul_7"} == {form["layer"] for form in report["folding"]["layers"]}


TRITS = """layer Net {
    param a: TernaryTensor[4, 2, 3, 3]
    param b: TernaryTensor[4, 4, 3, 3]
    param c: TernaryTensor[4, 3]

    fn forward(x: Tensor<int8>[N, 2, 5, 5]) -> Tensor<int32>[N, 3] {
        let h = sign(conv2d(x, a, padding=1))
        let g = ternarize(conv2d(h, b, padding=1), threshold=1.5)
        let s = sign(cast(g, "int32") + cast(h, "int32"))
        return cast(sum(cast(s, "int32"), axis=[2, 3]), "int32") @ c
    }
}
"""


def test_trits_between_layers(require_tool: Callable[[str, str], str]) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    rng = np.random.default_rng(5)
    shapes = {"a": (4, 2, 3, 3), "b": (4, 4, 3, 3), "c": (4, 3)}
    weights = {key: rng.integers(-1, 2, shape).astype(np.int8) for key, shape in shapes.items()}
    x = rng.integers(-9, 10, (6, 2, 5, 5)).astype(np.int8)
    a, b, c = (torch.from_numpy(w.astype(np.float64)) for w in weights.values())
    h = torch.sign(functional.conv2d(torch.from_numpy(x).double(), a, padding=1))
    sums = functional.conv2d(h, b, padding=1)
    g = torch.sign(sums) * (sums.abs() > 1.5)
    _, (got,), _ = run_target(import_tri(TRITS, weights=weights), "verilog", [x])
    np.testing.assert_array_equal(got, torch.sign(g + h).sum((2, 3)) @ c)


def test_trits_that_are_returned_need_a_type() -> None:
    source = """layer Net {
    param w: TernaryTensor[6, 4]
    fn forward(x: TernaryTensor[N, 6]) -> TernaryTensor[N, 4] { return sign(x @ w) }
}
"""
    weights = {"w": np.ones((6, 4), np.int8)}
    with pytest.raises(UnsupportedError, match="result of trits has no integer form; convert it"):
        compile_to_target(import_tri(source, weights=weights), "verilog")


def test_truth_values_between_layers(require_tool: Callable[[str, str], str]) -> None:
    require_tool("iverilog", "apt-get install iverilog")

    class Binary(nn.Module):
        window: Tensor
        matrix: Tensor

        def __init__(self) -> None:
            super().__init__()
            draw = torch.Generator().manual_seed(0)
            self.register_buffer("window", torch.randint(-1, 2, (3, 2, 2, 2), generator=draw) * 1.0)
            self.register_buffer("matrix", torch.randint(-1, 2, (18, 2), generator=draw) * 1.0)

        def forward(self, x: Tensor) -> Tensor:
            y = functional.conv2d((x >= 1).float(), self.window, stride=2, padding=1)
            return (y > 0).float().flatten(1) @ self.matrix

    net, x = Binary(), torch.arange(-24, 24, dtype=torch.int32).reshape(2, 2, 4, 3) % 7 - 3
    module = from_torch(net, x)
    _, (got,), _ = run_target(module, "verilog{time-budget=0.01}", [x.numpy()])
    np.testing.assert_array_equal(got, net(x).numpy())
