"""How ONNX models of spiking programs are made up: nodes, packed weights, states, refusals.

That they give the interpreter's spikes is the business of `lowering/test_spiking_programs.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.runtime.engines import run_onnx

Array = np.ndarray[Any, Any]


def module_of(text: str, values: dict[str, Array] | None = None) -> ModuleOp:
    module = parse_module(text, "model.mlir")
    attach_store(module, ParameterStore.of(values or {}))
    return module


def model_of(module: ModuleOp, **options: object) -> bytes:
    return compile_to_target(module.clone(), "onnx", options).files["model.onnx"]


def same(text: str, inputs: list[Array], values: dict[str, Array] | None, opset: int) -> bytes:
    """Compile, run and compare; the model."""
    module = module_of(text, values)
    data = model_of(module, opset=opset)
    for got, want in zip(run_onnx(data, inputs), run_module(module, inputs), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    return data


def node_types(data: bytes) -> list[str]:
    return [node.op_type for node in onnx.load_from_string(data).graph.node]


def test_random_spikes_need_exclusive_ors() -> None:
    text = """
func.func @forward(%x: tensor<3x5xf32>) -> !spike.train<7x3x5> {
  %s = spike.encode %x {scheme = "rate", timesteps = 7 : i64, seed = 1 : i64}
    : (tensor<3x5xf32>) -> !spike.train<7x3x5>
  func.return %s : !spike.train<7x3x5>
}"""
    same(text, [np.full((3, 5), 0.5, np.float32)], None, 18)
    with pytest.raises(UnsupportedError, match="exclusive ors, which come with opset 18"):
        model_of(module_of(text), opset=17)


def test_stored_trits_stay_packed() -> None:
    text = """
func.func @forward(%x: !spike.train<7x?x64>) -> tensor<7x?x32xi32> {
  %w = ternary.parameter "w" : tensor<64x32x!ternary.trit>
  %y = spike.linear %x, %w : !spike.train<7x?x64>, tensor<64x32x!ternary.trit>
    -> tensor<7x?x32xi32>
  func.return %y : tensor<7x?x32xi32>
}"""
    rng = np.random.default_rng(7)
    stored = pack_trits(rng.integers(-1, 2, (64, 32)).astype(np.int8))
    data = same(text, [rng.random((7, 3, 64)) < 0.4], {"w": stored}, 21)
    assert len(data) < 64 * 32 // 4 + 3000
    same(text, [rng.random((7, 3, 64)) < 0.4], {"w": stored}, 13)


def test_a_network_is_a_product_and_a_scan_for_each_layer() -> None:
    text = """
func.func @forward(%s: tensor<32x1x784xf32>) -> tensor<1x10xf32> {
  %w1 = tensor.parameter "w1" : tensor<784x256xf32>
  %w2 = tensor.parameter "w2" : tensor<256x10xf32>
  %x = spike.from_tensor %s : (tensor<32x1x784xf32>) -> !spike.train<32x1x784>
  %i = spike.linear %x, %w1 : !spike.train<32x1x784>, tensor<784x256xf32> -> tensor<32x1x256xf32>
  %h = spike.lif %i {beta = 0.9 : f64} : (tensor<32x1x256xf32>) -> !spike.train<32x1x256>
  %j = spike.linear %h, %w2 : !spike.train<32x1x256>, tensor<256x10xf32> -> tensor<32x1x10xf32>
  %o = spike.lif %j {beta = 0.9 : f64} : (tensor<32x1x10xf32>) -> !spike.train<32x1x10>
  %y = spike.decode %o {scheme = "rate"} : (!spike.train<32x1x10>) -> tensor<1x10xf32>
  func.return %y : tensor<1x10xf32>
}"""
    rng = np.random.default_rng(14)
    values = {
        "w1": (rng.integers(-8, 9, (784, 256)) / 64).astype(np.float32),
        "w2": (rng.integers(-8, 9, (256, 10)) / 64).astype(np.float32),
    }
    spikes = (rng.random((32, 1, 784)) < 0.2).astype(np.float32)
    types = node_types(same(text, [spikes], values, 21))
    ends = (types.index("MatMul"), len(types) - types[::-1].index("Scan"))
    assert types[slice(*ends)] == ["MatMul", "Scan", "MatMul", "Scan"]


def test_with_exposed_states_nothing_is_made_up() -> None:
    text = """
func.func @forward(%x: !spike.train<32x?x784>) -> !spike.train<32x?x10> {
  %w1 = tensor.parameter "w1" : tensor<784x256xf32>
  %w2 = tensor.parameter "w2" : tensor<256x10xf32>
  %i = spike.linear %x, %w1 : !spike.train<32x?x784>, tensor<784x256xf32> -> tensor<32x?x256xf32>
  %h = spike.lif %i {beta = 0.9 : f64} : (tensor<32x?x256xf32>) -> !spike.train<32x?x256>
  %j = spike.linear %h, %w2 : !spike.train<32x?x256>, tensor<256x10xf32> -> tensor<32x?x10xf32>
  %o = spike.lif %j {beta = 0.9 : f64} : (tensor<32x?x10xf32>) -> !spike.train<32x?x10>
  func.return %o : !spike.train<32x?x10>
}"""
    values = {
        "w1": np.zeros((784, 256), np.float32),
        "w2": np.zeros((256, 10), np.float32),
    }
    module = module_of(text, values)
    zeros = ["Shape", "Expand"]
    layer = ["MatMul", *zeros, "Scan"]
    assert node_types(model_of(module)) == ["Cast", *layer, *layer, "Cast"]
    run_stages(module, [Stage("states", "expose-state")])
    data = model_of(module)
    assert node_types(data) == ["Cast", "MatMul", "Scan", "MatMul", "Scan", "Cast"]
    graph = onnx.load_from_string(data).graph
    assert [port.name for port in graph.input] == ["x", "state.v.0", "state.v.1"]
    assert [port.type.tensor_type.elem_type for port in graph.input] == [9, 1, 1]
    assert [port.name for port in graph.output][1:] == ["state.v.0_1", "state.v.1_1"]


def test_a_body_that_looks_along_time_is_refused() -> None:
    text = """
func.func @forward(%i: tensor<4x3x4xf32>) -> tensor<4x3x4xf32> {
  %y = spike.recurrent %i : (tensor<4x3x4xf32>) -> tensor<4x3x4xf32> {
    ^bb0(%x: tensor<4x3x4xf32>, %last: tensor<4x3x4xf32>):
      %r = tensor.reshape_to %last {shape = array<i64: 4, 3, 4>}
        : (tensor<4x3x4xf32>) -> tensor<4x3x4xf32>
      %c = tensor.add %x, %r : (tensor<4x3x4xf32>, tensor<4x3x4xf32>) -> tensor<4x3x4xf32>
      spike.yield %c : tensor<4x3x4xf32>
  }
  func.return %y : tensor<4x3x4xf32>
}"""
    with pytest.raises(UnsupportedError, match=r"'tensor.reshape_to' in the body cannot run"):
        model_of(module_of(text))


def test_every_opset(opset: int) -> None:
    """Zeros of unknown sizes, pads of truth values, pools and loops in old forms too."""
    text = """
func.func @forward(%x: !spike.train<?x?x4x6>, %c: tensor<?x?x4xf32>)
    -> (tensor<?x4xf32>, tensor<?x4xf32>, !spike.train<?x?x4>) {
  %d = spike.delay %x {steps = 2 : i64} : (!spike.train<?x?x4x6>) -> !spike.train<?x?x4x6>
  %p = spike.max_pool %d {kernel = array<i64: 6>, strides = array<i64: 6>,
    padding = array<i64: 0, 0>} : (!spike.train<?x?x4x6>) -> !spike.train<?x?x4x1>
  %t = spike.to_tensor %p : (!spike.train<?x?x4x1>) -> tensor<?x?x4x1xf32>
  %f = tensor.flatten %t {start = 2 : i64, end = 3 : i64}
    : (tensor<?x?x4x1xf32>) -> tensor<?x?x4xf32>
  %i = tensor.add %f, %c : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %y = spike.recurrent %i : (tensor<?x?x4xf32>) -> !spike.train<?x?x4> {
    ^bb0(%a: tensor<?x?x4xf32>, %last: !spike.train<?x?x4>):
      %n = spike.to_tensor %last : (!spike.train<?x?x4>) -> tensor<?x?x4xf32>
      %e = tensor.sub %a, %n : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
      %s = spike.lif %e {beta = 0.9 : f64, reset = "to_value"}
        : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
      spike.yield %s : !spike.train<?x?x4>
  }
  %r = spike.decode %y {scheme = "rate"} : (!spike.train<?x?x4>) -> tensor<?x4xf32>
  %z = spike.decode %y {scheme = "first_spike"} : (!spike.train<?x?x4>) -> tensor<?x4xf32>
  func.return %r, %z, %y : tensor<?x4xf32>, tensor<?x4xf32>, !spike.train<?x?x4>
}"""
    rng = np.random.default_rng(17)
    spikes = rng.random((7, 3, 4, 6)) < 0.2
    current = (rng.integers(-8, 16, (7, 3, 4)) / 8).astype(np.float32)
    same(text, [spikes, current], None, opset)


@pytest.mark.parametrize("scale", ["f32", "64xf32"])
def test_exact_sums_are_scaled_once(scale: str) -> None:
    """ONNX Runtime puts a scalar into a product, which then rounds after each part of it."""
    text = f"""
func.func @forward(%x: !spike.train<4x?x784>) -> tensor<4x?x64xf32> {{
  %w = ternary.parameter "w" : tensor<784x64x!ternary.trit>
  %s = tensor.parameter "s" : tensor<{scale}>
  %y = spike.linear %x, %w scale(%s : tensor<{scale}>)
    : !spike.train<4x?x784>, tensor<784x64x!ternary.trit> -> tensor<4x?x64xf32>
  func.return %y : tensor<4x?x64xf32>
}}"""
    rng = np.random.default_rng(19)
    factor = np.full(() if scale == "f32" else 64, 0.3, np.float32)
    values = {"w": pack_trits(rng.integers(-1, 2, (784, 64)).astype(np.int8)), "s": factor}
    same(text, [rng.random((4, 8, 784)) < 0.3], values, 21)


def test_integer_sums_are_rounded_once_behind_a_convolution() -> None:
    """What stands between a convolution and its scale keeps ONNX Runtime from joining them."""
    text = """
func.func @forward(%x: tensor<?x3x9x9xi8>) -> tensor<?x5x7x7xf32> {
  %w = ternary.parameter "w" : tensor<5x3x3x3x!ternary.trit>
  %s = tensor.constant dense<0.007874> : tensor<f32>
  %c = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
    dilation = array<i64: 1, 1>, groups = 1 : i64}
    : tensor<?x3x9x9xi8>, tensor<5x3x3x3x!ternary.trit> -> tensor<?x5x7x7xi32>
  %f = tensor.convert %c : (tensor<?x5x7x7xi32>) -> tensor<?x5x7x7xf32>
  %y = tensor.mul %f, %s : (tensor<?x5x7x7xf32>, tensor<f32>) -> tensor<?x5x7x7xf32>
  func.return %y : tensor<?x5x7x7xf32>
}"""
    rng = np.random.default_rng(20)
    stored = pack_trits(rng.integers(-1, 2, (5, 3, 3, 3)).astype(np.int8))
    same(text, [rng.integers(-128, 128, (3, 3, 9, 9)).astype(np.int8)], {"w": stored}, 21)
