"""The comparison behind `triton verify --layers`: it must find the layer that differs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.parameters import parameter_keys, store_of
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.ir.trits import unpack_trits
from triton_dsl.lowering.to_verilog.layer_circuits import LayerCircuit, LayerCircuits
from triton_dsl.lowering.to_verilog.options import VerilogOptions
from triton_dsl.runtime.random_values import fill_parameters
from triton_dsl.tools.layer_results import Difference, LayerResult
from triton_dsl.tools.layer_verification import (
    LayerChecks,
    Values,
    check_circuit,
    check_circuits,
    verify_layers,
    verilog_options,
)

RequireTool = Callable[[str, str], str]


@pytest.fixture(autouse=True)
def iverilog(require_tool: RequireTool) -> str:
    return require_tool("iverilog", "apt-get install iverilog")


def dense(sizes: list[int], element: str, steps: int) -> str:
    """Layers `fc1`, `fc2`, … with thresholds between them."""
    value, lines = "x", list[str]()
    for i, (k, n) in enumerate(pairwise(sizes), 1):
        last = i == len(sizes) - 1
        result = f"tensor<?x{n}x{'i32' if last else 'i8'}>"
        lines.append(
            f'%w{i} = ternary.parameter "fc{i}.weight" : tensor<{k}x{n}x!ternary.trit>\n'
            f'%b{i} = tensor.parameter "fc{i}.bias" : tensor<{n}xi32>'
        )
        types = f"tensor<?x{k}x{element}>, tensor<{k}x{n}x!ternary.trit>"
        if last:
            more = ""
        else:
            rows = "[" + ", ".join(str(3 * s - steps) for s in range(steps)) + "]"
            lines.append(f"%t{i} = tensor.constant dense<[{rows}]> : tensor<1x{steps}xi32>")
            more = f" thresholds(%t{i} : tensor<1x{steps}xi32>)"
        lines.append(
            f"%h{i} = ternary.linear %{value}, %w{i} bias(%b{i} : tensor<{n}xi32>){more}\n"
            f"  : {types} -> {result}"
        )
        value, element = f"h{i}", "i8"
    body = "\n".join(lines)
    return (
        f"builtin.module @net {{\nfunc.func @forward(%x: tensor<?x{sizes[0]}x"
        f"{'ui8' if element == 'ui8' else 'i8'}>) -> tensor<?x{sizes[-1]}xi32> {{\n{body}\n"
        f"func.return %{value} : tensor<?x{sizes[-1]}xi32>\n}}\n}}"
    )


Samples = np.ndarray[Any, Any]


def network(sizes: list[int], steps: int = 3, seed: int = 0) -> ModuleOp:
    return fill_parameters(parse_module(dense(sizes, "i8", steps)), seed)


def inputs(count: int, size: int, bits: int, seed: int = 0) -> Samples:
    half = 1 << (bits - 1)
    return np.random.default_rng(seed).integers(-half, half, (count, size)).astype(np.int8)


OPTIONS = VerilogOptions(input_bits=3, time_budget=0.01)


@settings(max_examples=10)
@given(
    sizes=st.lists(st.integers(1, 7), min_size=2, max_size=4),
    steps=st.integers(1, 7),
    pipeline=st.integers(0, 2),
    seed=st.integers(0, 1000),
)
def test_layers_of_random_networks_are_equal(
    sizes: list[int], steps: int, pipeline: int, seed: int
) -> None:
    module = network(sizes, steps, seed)
    options = replace(OPTIONS, pipeline=pipeline)
    report = verify_layers(
        module, [inputs(5, sizes[0], 3)], options, LayerChecks(vectors=40, seed=seed)
    )
    assert report.agrees and report.chain and report.first_wrong is None
    assert [row.layer for row in report.layers] == [f"fc{i}" for i in range(1, len(sizes))]
    assert all((row.vectors, row.samples) == (45, 5) for row in report.layers)


FAULTS = {
    "fc1": (r"\{1'd0, (fc1_is)", r"{1'd1, \1"),  # a count of thresholds
    "fc2": (r"\+ 3'd4", "+ 3'd3"),  # a bias
    "fc3": (r"\+ 5'd15", "+ 5'd14"),
}
"""One constant in the Verilog of each layer, and another one."""


def faulty(circuit: LayerCircuit, old: str, new: str) -> LayerCircuit:
    """The circuit with one change in its Verilog, which must be there to be changed."""
    rtl = dict(circuit.rtl)
    for name, text in rtl.items():
        rtl[name], count = re.subn(old, new, text, count=1)
        if count:
            return replace(circuit, rtl=rtl)
    raise AssertionError(f"no {old} in {''.join(rtl.values())}")


def checked(
    module: ModuleOp, options: VerilogOptions, samples: Samples, layer: str, old: str, new: str
) -> list[LayerResult]:
    """The rows of all layers of a program, one of which has a fault."""
    made = LayerCircuits(module, options)
    circuits = (
        faulty(circuit, old, new) if circuit.layer.name == layer else circuit for circuit in made
    )
    return check_circuits(circuits, Values(made, [samples]), LayerChecks(vectors=200))


@pytest.mark.parametrize("layer", FAULTS)
def test_another_constant_in_the_verilog_names_the_layer(layer: str) -> None:
    module, samples = network([8, 6, 5, 4], 5, 1), inputs(4, 8, 3)
    rows = checked(module, OPTIONS, samples, layer, *FAULTS[layer])
    (wrong,) = [row for row in rows if not row.agrees]
    assert wrong.layer == layer and wrong.complaint is None
    found = wrong.difference
    assert found is not None
    assert found.kind == {0: "least", 1: "largest"}.get(found.vector, "random")
    assert str(found) == wrong.fault
    assert f"expected {found.expected}, got {found.got}" in wrong.fault


def test_the_first_vector_that_differs_is_told() -> None:
    """Expected and found values are those of the layer, by NumPy."""
    module, samples = network([8, 6, 5, 4], 5, 1), inputs(4, 8, 3)
    rows = checked(module, OPTIONS, samples, "fc3", *FAULTS["fc3"])
    found = rows[2].difference
    assert found is not None
    store = store_of(module)
    weight = unpack_trits(store.read("fc3.weight"), (5, 4))
    sums = np.array(found.inputs[0]) @ weight + store.read("fc3.bias")
    (column,) = found.element[1:]
    assert (found.expected, found.got) == (sums[column], sums[column] - 1)
    assert found.vectors == rows[2].vectors


def test_another_word_in_a_memory_names_the_layer() -> None:
    module, samples = network([8, 6, 5, 4], 5, 1), inputs(4, 8, 3)
    options = replace(OPTIONS, folding="fc2:pe=2,simd=3")
    rows = checked(module, options, samples, "fc2", r"3'd1: data <= 12'h35", "3'd1: data <= 12'h3a")
    assert [row.layer for row in rows if not row.agrees] == ["fc2"]
    assert "expected" in rows[1].fault


def test_a_circuit_that_stands_still_is_told() -> None:
    module, samples = network([4, 3, 2], 5, 1), inputs(4, 4, 3)
    old, new = r"assign m_axis_tvalid = ", "assign m_axis_tvalid = 1'b0 & "
    rows = checked(module, OPTIONS, samples, "fc1", old, new)
    assert rows[0].complaint == "only 0 of 204 beats came" and rows[1].agrees


def test_undefined_bits_differ() -> None:
    module, samples = network([4, 3, 2], 5, 1), inputs(4, 4, 3)
    rows = checked(module, OPTIONS, samples, "fc2", "assign h2 = .+;", "assign h2 = 'bx;")
    found = rows[1].difference
    assert found is not None and found.got is None and "undefined bits" in rows[1].fault


def test_verilog_that_is_none_is_an_error() -> None:
    module, samples = network([4, 3, 2], 5, 1), inputs(4, 4, 3)
    with pytest.raises(BackendError, match="'iverilog' refuses the Verilog"):
        checked(module, OPTIONS, samples, "fc2", "endmodule", "endmodul")


def test_the_same_seed_gives_the_same_vectors() -> None:
    module, samples = network([4, 3, 2], 5, 1), inputs(4, 4, 3)
    made = list(LayerCircuits(module, OPTIONS))
    wrong = faulty(made[1], "assign h2 = (.+);", r"assign h2 = ~\1;")

    def found(seed: int) -> Difference | None:
        checks = LayerChecks(vectors=50, seed=seed)
        return check_circuit(wrong, [samples[:0, :3]], checks, 1).difference

    first, again, other = found(0), found(0), found(1)
    assert first is not None and first == again and other is not None
    assert (first.vector, first.kind) == (0, "least")


def test_a_pass_that_changes_the_program_is_seen() -> None:
    """The layers together are not another program."""
    module, samples = network([4, 3, 2], 5, 1), inputs(4, 4, 3)
    made = LayerCircuits(module, OPTIONS)
    values = Values(made, [samples])
    for circuit in made:
        values.through(circuit)
    assert values.agree_with(module, made.results)
    assert not values.agree_with(network([4, 3, 2], 5, 2), made.results)


FLOATS = """builtin.module @net {
func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x3xf32> {
  %w = ternary.parameter "fc.weight" : tensor<4x3x!ternary.trit>
  %s = tensor.constant dense<0.3> : tensor<f32>
  %z = tensor.constant dense<0> : tensor<i8>
  %c = tensor.constant dense<1.7> : tensor<f32>
  %q = tensor.quantize %x, %s, %z {low = -8 : i64, high = 7 : i64}
       : (tensor<?x4xf32>, tensor<f32>, tensor<i8>) -> tensor<?x4xi8>
  %d = tensor.dequantize %q, %s, %z : (tensor<?x4xi8>, tensor<f32>, tensor<i8>) -> tensor<?x4xf32>
  %p = ternary.matmul %d, %w
       : tensor<?x4xf32>, tensor<4x3x!ternary.trit> -> tensor<?x3xf32>
  %y = tensor.mul %p, %c : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
}"""


def test_programs_of_floats_agree_as_ever_within_a_tolerance() -> None:
    """Circuits compute with integers; what is left of floats is rounded elsewhere."""
    module = fill_parameters(parse_module(FLOATS), 0)
    x = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    checks = LayerChecks(vectors=20)
    report = verify_layers(module, [x], VerilogOptions(time_budget=0.01), checks)
    assert report.agrees and report.layers[0].samples == 50
    made = LayerCircuits(module, VerilogOptions(time_budget=0.01))
    values = Values(made, [x])
    for circuit in made:
        values.through(circuit)
    assert not values.agree_with(parse_scaled(module), made.results)


def parse_scaled(module: ModuleOp) -> ModuleOp:
    """The program with another factor."""
    other = fill_parameters(parse_module(FLOATS.replace("1.7", "1.71")), 0)
    assert parameter_keys(other) == parameter_keys(module)
    return other


def test_images_count_positions_and_folded_layers_take_their_time() -> None:
    text = """builtin.module @net {
    func.func @forward(%x: tensor<?x1x5x5xui8>) -> tensor<?x2x2x2xi8> {
      %w = ternary.parameter "conv.weight" : tensor<2x1x2x2x!ternary.trit>
      %t = tensor.constant dense<[[-2, 0, 2]]> : tensor<1x3xi32>
      %y = ternary.conv %x, %w thresholds(%t : tensor<1x3xi32>)
           {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
            dilation = array<i64: 1, 1>, groups = 1 : i64}
         : tensor<?x1x5x5xui8>, tensor<2x1x2x2x!ternary.trit> -> tensor<?x2x4x4xi8>
      %p = tensor.max_pool %y {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
           padding = array<i64: 0, 0, 0, 0>} : (tensor<?x2x4x4xi8>) -> tensor<?x2x2x2xi8>
      func.return %p : tensor<?x2x2x2xi8>
    }
    }"""
    module = fill_parameters(parse_module(text), 0)
    x = np.random.default_rng(0).integers(0, 8, (3, 1, 5, 5)).astype(np.uint8)
    options = VerilogOptions(input_bits=3, time_budget=0.01, folding="conv:pe=1,simd=2")
    report = verify_layers(module, [x], options, LayerChecks(vectors=100))
    conv, pool = report.layers
    assert report.agrees
    assert (conv.layer, conv.beats, conv.vectors, conv.samples) == ("conv", 25, 7, 3)
    assert (pool.ops, pool.beats, pool.vectors) == (("max_pool",), 16, 10)


SPIKING = """builtin.module @net {
func.func @forward(%x: !spike.train<4x?x3>) -> tensor<?x2xi32> {
  %w = ternary.parameter "fc1.weight" : tensor<3x4x!ternary.trit>
  %v = ternary.parameter "fc2.weight" : tensor<4x2x!ternary.trit>
  %i = spike.linear %x, %w
     : !spike.train<4x?x3>, tensor<3x4x!ternary.trit> -> tensor<4x?x4xi32>
  %s = spike.integrate_fire %i {threshold = 2.0 : f64, reset = "subtract"}
     : (tensor<4x?x4xi32>) -> !spike.train<4x?x4>
  %j = spike.linear %s, %v
     : !spike.train<4x?x4>, tensor<4x2x!ternary.trit> -> tensor<4x?x2xi32>
  %y = tensor.reduce_sum %j {axes = array<i64: 0>, keepdims = false}
     : (tensor<4x?x2xi32>) -> tensor<?x2xi32>
  func.return %y : tensor<?x2xi32>
}
}"""


def test_neurons_keep_their_state_in_their_layer() -> None:
    module = fill_parameters(parse_module(SPIKING), 3)
    x = np.random.default_rng(0).random((4, 6, 3)) < 0.5
    report = verify_layers(module, [x], VerilogOptions(), LayerChecks(vectors=60))
    assert report.agrees and [row.layer for row in report.layers] == ["fc1", "fc2"]
    assert "integrate_fire" in report.layers[0].ops
    assert (report.layers[0].beats, report.layers[0].vectors) == (4, 15 + 6)


@pytest.mark.slow
def test_both_simulators_agree(require_tool: RequireTool) -> None:
    require_tool("verilator", "apt-get install verilator")
    module = network([6, 4, 3], 4, 0)
    checks = LayerChecks(vectors=100, simulator="verilator", jobs=1)
    report = verify_layers(module, [inputs(3, 6, 3)], OPTIONS, checks)
    assert report.agrees and report.layers[0].engine.startswith("Verilator")


def test_proofs_stand_beside_the_vectors(require_tool: RequireTool) -> None:
    require_tool("yosys-abc", "apt-get install yosys")
    module = network([4, 3, 2], 3, 1)
    options = replace(OPTIONS, input_bits=2)
    report = verify_layers(module, [inputs(3, 4, 2)], options, LayerChecks(vectors=20, prove=120))
    assert report.agrees
    for row in report.layers:
        assert row.proof is not None and row.proof.equal, str(row.proof)


def test_a_proof_finds_what_no_vector_shows(require_tool: RequireTool) -> None:
    """A fault for one input of 65,536."""
    require_tool("yosys-abc", "apt-get install yosys")
    module = network([4, 2], 3, 1)
    options = replace(OPTIONS, input_bits=4, pipeline=0)
    (circuit,) = LayerCircuits(module, options)
    wrong = faulty(circuit, "assign h1 = (.+);", r"assign h1 = \1 ^ (x == 16'h1b42);")
    found = check_circuit(wrong, [np.zeros((0, 4), np.int64)], LayerChecks(vectors=20, prove=120))
    assert found.difference is None and not found.agrees
    assert found.proof is not None and found.proof.equal is False
    assert found.fault == "the proof found an input with another result"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("onnx", "only the target verilog is verified layer by layer, got 'onnx'"),
        ("verilog{pipelin=2}", "did you mean 'pipeline'"),
    ],
)
def test_other_targets_and_options_are_refused(target: str, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        verilog_options(target)
