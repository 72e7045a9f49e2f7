"""Programs cut into layers: where, what the layers are called, and that they mean the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.stages import run_stages
from triton_dsl.lowering.to_verilog.circuit.interface import noted_interface
from triton_dsl.lowering.to_verilog.layer_circuits import LayerCircuits, Layers, cut_layers
from triton_dsl.lowering.to_verilog.options import VerilogOptions
from triton_dsl.lowering.to_verilog.stages import integer_stages
from triton_dsl.lowering.to_verilog.target import VerilogTarget

from .images import ImageProgram
from .test_verilog_target import by_numpy, network, random_inputs, random_values
from .trains import TrainProgram

Array = NDArray[Any]
Program = Callable[..., ModuleOp]


def cut(module: ModuleOp, **options: Any) -> Layers:
    """The layers of a program after the passes that make integers of it."""
    run_stages(module, integer_stages(VerilogOptions(**options)))
    return cut_layers(module)


def one_after_another(layers: Layers, inputs: list[Array]) -> list[Array]:
    """What the interpreter gives for each layer in its turn."""
    values = dict(enumerate(inputs))
    for layer in layers.layers:
        given = run_module(layer.module, [values[number] for number in layer.takes])
        values |= dict(zip(layer.gives, given, strict=True))
    return [values[number] for number in layers.results]


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 8), min_size=2, max_size=5),
    source=st.sampled_from(["i8", "ui8", "!ternary.trit"]),
    after=st.sampled_from(["none", "relu", "relu thresholds", "thresholds"]),
    argmax=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_layers_one_after_another_are_the_program(
    program: Program, sizes: list[int], source: str, after: str, argmax: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = random_values(rng, sizes)
    layers = cut(program(network(sizes, source, after, argmax), values))
    assert [layer.name for layer in layers.layers] == [f"fc{i}" for i in range(1, len(sizes))]
    x = random_inputs(rng, source, 8, sizes[0])
    (found,) = one_after_another(layers, [x])
    assert np.array_equal(found, by_numpy(x, values, len(sizes) - 1, after, argmax))


def residual() -> ImageProgram:
    """A convolution; a block of two with a way around them; pooling; a dense layer."""
    written = ImageProgram(1, 2, 6, 6, "ui8")
    written.conv(3, (3, 3), fused=True)
    start = written.mark()
    written.conv(3, (3, 3), padding=(1, 1, 1, 1), fused=True)
    written.conv(3, (3, 3), padding=(1, 1, 1, 1), fused=True)
    written.unary("convert", "i32")
    way = written.mark()
    written.back(start)
    written.unary("convert", "i32")
    written.binary("add", way)
    written.pool((2, 2), (2, 2), (0, 0, 0, 0))
    written.unary("flatten", shape=(12,), attr="{start = 1 : i64, end = 3 : i64}")
    written.matmul(4)
    return written


def test_a_residual_block_is_one_layer(program: Program) -> None:
    written = residual()
    module = program(written.text(), written.values)
    x = written.inputs(3)
    (expected,) = run_module(module, [x])
    layers = cut(module)
    found = {layer.name: layer.ops for layer in layers.layers}
    fused = ("conv", "add", "relu", "requantize")
    assert found["conv1"] == fused
    assert found["conv2+conv3"].count("conv") == 2 and found["conv2+conv3"][-1] == "add"
    (pool,) = [name for name in found if name.startswith("pool")]
    assert found[pool] == ("max_pool", "flatten")
    assert list(found)[-1].startswith("fc") and len(found) == 4
    assert np.array_equal(one_after_another(layers, [x])[0], expected)


def test_layers_with_neurons_keep_their_state_to_themselves(program: Program) -> None:
    written = TrainProgram(3, 6, 5)
    written.linear(4, "!ternary.trit", bias=True)
    written.neurons(7, "subtract", "ge", each=True)
    written.linear(3, "i8", bias=False)
    written.neurons(None, "to_value", "gt", each=False)
    written.result("count")
    module = program(written.text(), written.values)
    x = written.inputs(5)
    (expected,) = run_module(module, [x])
    layers = cut(module)
    assert [layer.name for layer in layers.layers] == ["fc1", "fc3"]
    assert any("integer_lif" in op for op in layers.layers[0].ops)
    (found,) = one_after_another(layers, [x])
    assert np.array_equal(found, expected)


def test_a_loop_belongs_to_the_layer_before_it(program: Program) -> None:
    """Its region takes weights from around it."""
    written = TrainProgram(1, 5, 4)
    written.linear(3, "!ternary.trit", bias=True)
    written.feedback("!ternary.trit", 1, 6, "subtract")
    written.linear(2, "i8", bias=False)
    written.neurons(None, "none", "ge", each=True)
    written.result("train")
    module = program(written.text(), written.values)
    x = written.inputs(4)
    expected = run_module(module, [x])
    layers = cut(module)
    assert len(layers.layers) == 2 and "scan" in layers.layers[0].ops
    for found, wanted in zip(one_after_another(layers, [x]), expected, strict=True):
        assert np.array_equal(found, wanted)


def test_a_value_that_is_returned_too_does_not_keep_layers_together(program: Program) -> None:
    text = network([4, 3, 2], "i8", "thresholds", False)
    text = text.replace("-> tensor<?x2xi32> {", "-> (tensor<?x2xi32>, tensor<?x3xi8>) {", 1)
    text = text.replace("func.return %a1 : ", "func.return %a1, %q0 : ")
    text = text.replace("%q0 : tensor<?x2xi32>", "%q0 : tensor<?x2xi32>, tensor<?x3xi8>")
    rng = np.random.default_rng(0)
    module = program(text, random_values(rng, [4, 3, 2]))
    x = random_inputs(rng, "i8", 8, 4)
    expected = run_module(module, [x])
    layers = cut(module)
    assert len(layers.layers) == 2
    for found, wanted in zip(one_after_another(layers, [x]), expected, strict=True):
        assert np.array_equal(found, wanted)


TWO = """builtin.module @net {
func.func @forward(%a: tensor<?x3xi8>, %b: tensor<?x4xi8>) -> tensor<?x2xi32> {
  %wa = ternary.parameter "left.weight" : tensor<3x2x!ternary.trit>
  %wb = ternary.parameter "right.weight" : tensor<4x2x!ternary.trit>
  %p = ternary.matmul %a, %wa : tensor<?x3xi8>, tensor<3x2x!ternary.trit> -> tensor<?x2xi32>
  %q = ternary.matmul %b, %wb : tensor<?x4xi8>, tensor<4x2x!ternary.trit> -> tensor<?x2xi32>
  %y = tensor.add %p, %q : (tensor<?x2xi32>, tensor<?x2xi32>) -> tensor<?x2xi32>
  func.return %y : tensor<?x2xi32>
}
}"""


def test_inputs_that_meet_make_one_layer(program: Program) -> None:
    values = {"left.weight": np.eye(3, 2), "right.weight": -np.eye(4, 2)}
    module = program(TWO, values)
    (layer,) = cut(module).layers
    assert layer.name == "left+right" and layer.takes == (0, 1)
    a, b = np.arange(3, dtype=np.int8)[None], np.arange(4, dtype=np.int8)[None] * 3
    (found,) = run_module(layer.module, [a, b])
    assert found.tolist() == [[0, -2]]


def test_bounds_go_from_layer_to_layer(program: Program) -> None:
    sizes = [9, 8, 7, 6]
    rng = np.random.default_rng(4)
    module = program(network(sizes, "i8", "relu thresholds", True), random_values(rng, sizes))
    options = VerilogOptions(input_bits=3, time_budget=0.05)
    circuits = list(LayerCircuits(module, options))
    for before, after in pairwise(circuits):
        (given,), (taken,) = before.interface.outputs, after.interface.inputs
        assert (given.low, given.high) == (taken.low, taken.high)
        assert min(taken.low) >= 0 and max(taken.high) <= 5, "as many as there are thresholds"
    whole = module.clone()
    run_stages(whole, VerilogTarget().stages(options))
    assert circuits[-1].interface.outputs[0].high == noted_interface(whole).outputs[0].high


def test_bounds_of_channels_go_along_with_images(program: Program) -> None:
    written = ImageProgram(1, 2, 5, 5, "ui8")
    written.conv(3, (2, 2), fused=True)
    written.pool((2, 2), (1, 1), (0, 0, 0, 0))
    module = program(written.text(), written.values)
    first, second = LayerCircuits(module, VerilogOptions(input_bits=2, time_budget=0.01))
    (given,), (taken,) = first.interface.outputs, second.interface.inputs
    assert len(set(zip(given.low, given.high, strict=True))) > 1, "channels differ"
    assert (taken.low, taken.high, taken.axes) == (given.low, given.high, given.axes)


FLOATS = """builtin.module @net {
func.func @forward(%x: tensor<?x3xi8>) -> tensor<?x2xi32> {
  %w0 = ternary.parameter "a.weight" : tensor<3x3x!ternary.trit>
  %w1 = ternary.parameter "b.weight" : tensor<3x2x!ternary.trit>
  %p = ternary.matmul %x, %w0 : tensor<?x3xi8>, tensor<3x3x!ternary.trit> -> tensor<?x3xi32>
  %f = tensor.convert %p : (tensor<?x3xi32>) -> tensor<?x3xf32>
  %e = tensor.exp %f : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %i = tensor.convert %e : (tensor<?x3xf32>) -> tensor<?x3xi32>
  %q = ternary.matmul %i, %w1 : tensor<?x3xi32>, tensor<3x2x!ternary.trit> -> tensor<?x2xi32>
  %y = tensor.mul %q, %q : (tensor<?x2xi32>, tensor<?x2xi32>) -> tensor<?x2xi32>
  func.return %y : tensor<?x2xi32>
}
}"""


def test_ops_without_hardware_are_named_in_all_layers(program: Program) -> None:
    module = program(FLOATS, {"a.weight": np.eye(3), "b.weight": np.eye(3, 2)})
    with pytest.raises(UnsupportedError) as caught:
        LayerCircuits(module, VerilogOptions())
    assert {"tensor.convert", "tensor.mul"} == {name for name, _, _ in caught.value.problems}


def test_every_layer_has_a_name_of_its_own(program: Program) -> None:
    """A weight that is called as the second pooling would be."""
    written = ImageProgram(1, 2, 6, 6, "i8")
    for _ in range(2):
        written.conv(2, (2, 2), fused=True)
        written.pool((2, 2), (1, 1), (0, 0, 0, 0))
    first, second = sorted(set(re.findall(r"%(\w+) = tensor.max_pool", written.text())))
    text = re.sub(rf"%{first}\b", "%pool", written.text())
    text = re.sub(rf"%{second}\b", "%pool_1", text)
    (_, key) = sorted(key for key in written.values if key.endswith(".weight"))
    values = {"pool_2.weight" if k == key else k: v for k, v in written.values.items()}
    layers = cut(program(text.replace(f'"{key}"', '"pool_2.weight"'), values), input_bits=3)
    names = [layer.name for layer in layers.layers]
    assert names[1:3] == ["pool", "pool_2"] and len(set(names)) == 4
