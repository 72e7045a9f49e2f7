"""Circuits of networks with feedback give what the interpreter gives, a step every cycle."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import TritonError
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog

from .test_verilog_spiking import OPTIONS, checked
from .trains import TrainProgram

Program = Callable[..., ModuleOp]


@settings(max_examples=10)
@given(
    steps=st.integers(2, 10),
    size=st.integers(1, 5),
    outputs=st.integers(1, 5),
    weights=st.sampled_from(["i8", "!ternary.trit"]),
    late=st.integers(0, 3),
    decay=st.one_of(st.none(), st.integers(0, 8)),
    reset=st.sampled_from(["subtract", "to_value", "none"]),
    readout=st.sampled_from(["train", "count", "last"]),
    seed=st.integers(0, 1000),
)
def test_neurons_that_hear_themselves(
    iverilog: str,
    program: Program,
    steps: int,
    size: int,
    outputs: int,
    weights: str,
    late: int,
    decay: int | None,
    reset: str,
    readout: str,
    seed: int,
) -> None:
    written = TrainProgram(seed, steps, size)
    written.linear(outputs, weights, bias=True)
    written.feedback(weights, late, decay, reset)
    written.result(readout)
    report = checked(program, written, pipeline=seed % 3)
    assert report["initiation_interval"] == steps


def between_layers() -> TrainProgram:
    """A loop between neurons, and a loop that takes the spikes of another."""
    written = TrainProgram(4, 6, 5)
    written.linear(4, "i8", bias=True)
    written.neurons(6, "subtract", "ge", each=False)
    written.linear(3, "i8", bias=False)
    written.feedback("i8", 0, 7, "subtract")
    written.linear(4, "!ternary.trit", bias=False)
    written.feedback("!ternary.trit", 1, None, "to_value", period=2)
    written.linear(2, "i8", bias=False)
    written.neurons(None, "subtract", "gt", each=False, membrane=True)
    for kind in ("train", "count", "membrane"):
        written.result(kind)
    return written


def test_loops_between_layers(iverilog: str, program: Program) -> None:
    assert checked(program, between_layers())["initiation_interval"] == 6


@pytest.mark.slow
def test_verilator_agrees(require_tool: Callable[[str, str], str], program: Program) -> None:
    require_tool("verilator", "apt-get install verilator")
    checked(program, between_layers(), "verilator")


MIXED = """builtin.module @net {
func.func @forward(%x: !spike.train<5x?x4>) -> (!spike.train<5x?x3>, tensor<?x2xi32>) {
  %w = tensor.constant dense<[[3, -7, 1], [5, 2, 0], [1, 1, 1], [-2, 4, 3]]> : tensor<4x3xi8>
  %r = tensor.constant dense<[[1, -1, 1], [2, 2, 0], [1, -1, 1]]> : tensor<3x3xi8>
  %q = tensor.constant dense<[[1, -1], [2, 2], [1, 3]]> : tensor<3x2xi8>
  %b = tensor.constant dense<[1, -1, 2]> : tensor<3xi32>
  %n = tensor.constant dense<[0, 2, 1]> : tensor<3xi64>
  %y = spike.recurrent %x, %w, %r, %b, %n
       : (!spike.train<5x?x4>, tensor<4x3xi8>, tensor<3x3xi8>, tensor<3xi32>, tensor<3xi64>)
       -> !spike.train<5x?x3> {
  ^bb0(%i: !spike.train<5x?x4>, %v: tensor<4x3xi8>, %m: tensor<3x3xi8>, %c: tensor<3xi32>,
       %l: tensor<3xi64>, %f: !spike.train<5x?x3>):
    %a = spike.linear %i, %v : !spike.train<5x?x4>, tensor<4x3xi8> -> tensor<5x?x3xi32>
    %d = spike.delay %f delays(%l : tensor<3xi64>) {steps = 2 : i64}
         : (!spike.train<5x?x3>) -> !spike.train<5x?x3>
    %g = spike.linear %d, %m bias(%c : tensor<3xi32>)
         : !spike.train<5x?x3>, tensor<3x3xi8> -> tensor<5x?x3xi32>
    %k = tensor.add %a, %g : (tensor<5x?x3xi32>, tensor<5x?x3xi32>) -> tensor<5x?x3xi32>
    %s = spike.integer_lif %k {decay = 7.0 : f64, shift = 3 : i64, threshold = 6.0 : f64,
         reset = "to_value"} : (tensor<5x?x3xi32>) -> !spike.train<5x?x3>
    %t = spike.integrate_fire %g {threshold = 2.0 : f64}
         : (tensor<5x?x3xi32>) -> !spike.train<5x?x3>
    %h = spike.to_tensor %s : (!spike.train<5x?x3>) -> tensor<5x?x3xi32>
    %j = spike.to_tensor %t : (!spike.train<5x?x3>) -> tensor<5x?x3xi32>
    %o = tensor.add %h, %j : (tensor<5x?x3xi32>, tensor<5x?x3xi32>) -> tensor<5x?x3xi32>
    %z = spike.from_tensor %o : (tensor<5x?x3xi32>) -> !spike.train<5x?x3>
    spike.yield %z : !spike.train<5x?x3>
  }
  %p = spike.linear %y, %q : !spike.train<5x?x3>, tensor<3x2xi8> -> tensor<5x?x2xi32>
  %u, %last = spike.integrate_fire %p {threshold = 2.0 : f64}
              : (tensor<5x?x2xi32>) -> (!spike.train<5x?x2>, tensor<?x2xi32>)
  func.return %y, %last : !spike.train<5x?x3>, tensor<?x2xi32>
}
}"""


def test_two_populations_in_a_loop(iverilog: str, program: Program) -> None:
    """Delays of each neuron's own, a bias, and a sum of trains that comes back as spikes."""
    module = program(MIXED, {})
    x = np.random.default_rng(0).random((5, 9, 4)) < 0.5
    expected = run_module(module, [x])
    assert 0.1 < expected[0].mean() < 0.9
    artifact = compile_to_target(module, "verilog", OPTIONS)
    _, actual = run_verilog(artifact, [x], "iverilog")
    for found, wanted in zip(actual, expected, strict=True):
        assert found.dtype == wanted.dtype and np.array_equal(found, wanted)


def test_the_steps_of_a_loop_that_does_not_say(iverilog: str, program: Program) -> None:
    written = TrainProgram(5, 6, 4)
    written.linear(3, "i8", bias=False)
    written.feedback("i8", 1, 7, "subtract")
    written.result("train")
    module = program(written.text().replace("<6x?x", "<?x?x"), written.values)
    x = written.inputs(5)
    artifact = compile_to_target(module, "verilog", {**OPTIONS, "timesteps": 6})
    expected = run_module(module, [x])
    assert np.array_equal(run_verilog(artifact, [x], "iverilog")[1][0], expected[0])


REFUSED = """builtin.module @net {
func.func @forward(%x: tensor<5x?x3xi32>, %v: tensor<?x3xi32>) -> !spike.train<5x?x3> {
  %y = spike.recurrent %x, %v : (tensor<5x?x3xi32>, tensor<?x3xi32>) -> !spike.train<5x?x3> {
  ^bb0(%a: tensor<5x?x3xi32>, %b: tensor<?x3xi32>, %f: !spike.train<5x?x3>):
    %g = spike.to_tensor %f : (!spike.train<5x?x3>) -> tensor<5x?x3xi32>
    %k = tensor.mul %a, %g : (tensor<5x?x3xi32>, tensor<5x?x3xi32>) -> tensor<5x?x3xi32>
    %s = spike.integrate_fire %k initial(%b : tensor<?x3xi32>)
         : (tensor<5x?x3xi32>) -> !spike.train<5x?x3>
    spike.yield %s : !spike.train<5x?x3>
  }
  func.return %y : !spike.train<5x?x3>
}
}"""


def test_all_that_a_loop_cannot_have_is_told_at_once(program: Program) -> None:
    with pytest.raises(TritonError) as caught:
        compile_to_target(program(REFUSED, {}), "verilog", OPTIONS)
    text = str(caught.value)
    assert "tensor.mul" in text
    assert "its first states must be constants" in text
    product = "mul %a, %g : (tensor<5x?x3xi32>, tensor<5x?x3xi32>)"
    fixed = REFUSED.replace(product, "add %g, %b : (tensor<5x?x3xi32>, tensor<?x3xi32>)")
    fixed = fixed.replace("initial(%b : tensor<?x3xi32>)", "")
    assert "add %g, %b" in fixed
    with pytest.raises(TritonError, match="the same at all steps must be a constant"):
        compile_to_target(program(fixed, {}), "verilog", OPTIONS)
