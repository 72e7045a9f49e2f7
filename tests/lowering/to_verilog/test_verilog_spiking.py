"""Circuits of spiking networks give what the interpreter gives, spike for spike.

The test benches send samples one right after the other, and let sender and receiver wait at random
in the second half of them; so the state that one sample leaves must not reach the next.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError, TritonError
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog

from .trains import TrainProgram

Array = NDArray[Any]
Program = Callable[..., ModuleOp]
OPTIONS = {"time_budget": 0.001, "vectors": 2}


def checked(
    program: Program, written: TrainProgram, simulator: str = "iverilog", **options: Any
) -> dict[str, Any]:
    """The report of a program's circuit, whose results are those of the interpreter."""
    module = program(written.text(), written.values)
    x = written.inputs(8)
    expected = run_module(module, [x])
    artifact = compile_to_target(module, "verilog", {**OPTIONS, **options})
    _, actual = run_verilog(artifact, [x], simulator)
    for found, wanted in zip(actual, expected, strict=True):
        assert found.dtype == wanted.dtype
        if wanted.dtype == np.float32:  # counts, divided by T in the program
            np.testing.assert_allclose(found, wanted, rtol=1.2e-7)
        else:
            assert np.array_equal(found, wanted)
    return json.loads(artifact.text("report.json"))


MODELS = st.tuples(
    st.one_of(st.none(), st.integers(0, 8)),
    st.sampled_from(["subtract", "to_value", "none"]),
    st.sampled_from(["ge", "gt"]),
    st.booleans(),
    st.none() | st.integers(0, 3),
)


@settings(max_examples=15)
@given(
    steps=st.integers(1, 12),
    size=st.integers(1, 8),
    layers=st.lists(
        st.tuples(
            st.integers(1, 8), st.sampled_from(["i8", "!ternary.trit"]), st.booleans(), MODELS
        ),
        min_size=1,
        max_size=2,
    ),
    late=st.integers(0, 4),
    readout=st.sampled_from(["train", "count", "rate", "last", "membrane"]),
    pipeline=st.integers(0, 2),
    seed=st.integers(0, 1000),
)
def test_small_networks(
    iverilog: str,
    program: Program,
    steps: int,
    size: int,
    layers: list[tuple[int, str, bool, tuple[int | None, str, str, bool, int | None]]],
    late: int,
    readout: str,
    pipeline: int,
    seed: int,
) -> None:
    written = TrainProgram(seed, steps, size)
    for index, (outputs, weights, bias, (decay, reset, compare, each, period)) in enumerate(layers):
        written.linear(outputs, weights, bias=bias)
        last = index == len(layers) - 1
        membrane = last and readout == "membrane"
        written.neurons(decay, reset, compare, each=each, membrane=membrane, period=period)
        if late and not last:
            written.delay(late)
    written.result(readout)
    report = checked(program, written, pipeline=pipeline)
    beats = steps if readout == "train" else 1
    assert (report["beats_in"], report["beats_out"]) == (steps, beats)
    assert report["initiation_interval"] == steps


def test_a_step_goes_in_every_cycle(iverilog: str, program: Program) -> None:
    written = TrainProgram(0, 5, 6)
    written.linear(4, "!ternary.trit", bias=False)
    written.neurons(7, "subtract", "ge", each=True)
    written.linear(3, "!ternary.trit", bias=True)
    written.neurons(None, "to_value", "gt", each=True, membrane=True)
    for kind in ("train", "count", "membrane"):
        written.result(kind)
    report = checked(program, written)
    assert report["initiation_interval"] == report["beats_in"] == 5
    names = {layer["name"] for layer in report["layers"]}
    assert {"fc1", "fc3"} <= names


LOIHI = """builtin.module @net {
func.func @forward(%x: !spike.train<12x?x5>) -> !spike.train<12x?x3> {
  %w = tensor.parameter "w" : tensor<5x3xi8>
  %i = spike.linear %x, %w : !spike.train<12x?x5>, tensor<5x3xi8> -> tensor<12x?x3xi32>
  %s = spike.loihi_lif %i
       {du = 1000.0 : f64, dv = 300.0 : f64, bias = 40.0 : f64, threshold = 12.0 : f64, OPTIONS}
       : (tensor<12x?x3xi32>) -> !spike.train<12x?x3>
  func.return %s : !spike.train<12x?x3>
}}"""


@pytest.mark.parametrize("reset", ["to_value", "subtract"])
def test_a_model_that_no_circuit_was_written_for(
    iverilog: str, program: Program, reset: str
) -> None:
    """Its step alone says what the circuit is."""
    rng = np.random.default_rng(0)
    text = LOIHI.replace("OPTIONS", f'reset = "{reset}"')
    module = program(text, {"w": rng.integers(-5, 9, (5, 3))})
    x = rng.random((12, 8, 5)) < 0.5
    (expected,) = run_module(module, [x])
    _, (found,) = run_verilog(compile_to_target(module, "verilog", OPTIONS), [x], "iverilog")
    assert np.array_equal(found, expected) and 0.1 < expected.mean() < 0.9


@pytest.mark.slow
def test_verilator_agrees(require_tool: Callable[[str, str], str], program: Program) -> None:
    require_tool("verilator", "apt-get install verilator")
    written = TrainProgram(3, 7, 5)
    written.linear(6, "i8", bias=True)
    written.neurons(6, "subtract", "ge", each=True)
    written.result("train")
    checked(program, written, "verilator")


def test_sums_wrap_around_as_in_the_type(iverilog: str, program: Program) -> None:
    text = """builtin.module @net {
    func.func @forward(%x: !spike.train<9x?x2>) -> !spike.train<9x?x2> {
      %w = tensor.constant dense<[[3, -7], [5, 2]]> : tensor<2x2xi8>
      %i = spike.linear %x, %w : !spike.train<9x?x2>, tensor<2x2xi8> -> tensor<9x?x2xi32>
      %s = spike.integer_lif %i {decay = 3.0 : f64, shift = 2 : i64, gain = 300000000.0 : f64,
           threshold = 1000000000.0 : f64} : (tensor<9x?x2xi32>) -> !spike.train<9x?x2>
      func.return %s : !spike.train<9x?x2>
    }
    }"""
    module = program(text, {})
    x = np.random.default_rng(0).random((9, 8, 2)) < 0.7
    (expected,) = run_module(module, [x])
    artifact = compile_to_target(module, "verilog", OPTIONS)
    assert np.array_equal(run_verilog(artifact, [x], "iverilog")[1][0], expected)


DIGITS = """builtin.module @digits {
func.func @forward(%x: tensor<?x16xf32>) -> tensor<?x10xf32> {
  %s = tensor.constant dense<0.0625> : tensor<f32>
  %z = tensor.constant dense<0> : tensor<i8>
  %w1 = tensor.parameter "fc1.weight" : tensor<16x8xf32>
  %b1 = tensor.parameter "fc1.bias" : tensor<8xf32>
  %w2 = tensor.parameter "fc2.weight" : tensor<8x10xf32>
  %b2 = tensor.parameter "fc2.bias" : tensor<10xf32>
  %q = tensor.quantize %x, %s, %z {low = 0 : i64, high = 16 : i64}
       : (tensor<?x16xf32>, tensor<f32>, tensor<i8>) -> tensor<?x16xi8>
  %d = tensor.dequantize %q, %s, %z
       : (tensor<?x16xi8>, tensor<f32>, tensor<i8>) -> tensor<?x16xf32>
  %h = tensor.linear %d, %w1, %b1
       : (tensor<?x16xf32>, tensor<16x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %r = tensor.relu %h : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = tensor.linear %r, %w2, %b2
       : (tensor<?x8xf32>, tensor<8x10xf32>, tensor<10xf32>) -> tensor<?x10xf32>
  func.return %y : tensor<?x10xf32>
}
}"""
CONVERSION = (
    "convert-ann-to-snn{timesteps=8 threshold=4.0},quantize-spike{bits=4},quantize-neurons,"
    "canonicalize,cse,dce"
)


@pytest.mark.slow
def test_digits_of_a_converted_network(iverilog: str, program: Program) -> None:
    """An MLP on digits of 4x4 pixels, as spiking neurons: a constant current comes in."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    pixels, labels = load_digits(return_X_y=True)
    images = pixels.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    images = (np.rint(images) / 16).astype(np.float32)
    net = MLPClassifier((8,), tol=3e-3, max_iter=400, random_state=0).fit(
        images[200:], labels[200:]
    )
    values = {
        f"fc{index + 1}.{name}": arrays[index]
        for name, arrays in (("weight", net.coefs_), ("bias", net.intercepts_))
        for index in range(2)
    }
    module = program(DIGITS, values)
    run_stages(module, [Stage("spikes", CONVERSION)])
    (expected,) = run_module(module, [images[:200]])
    right = (expected.argmax(axis=1) == labels[:200]).mean()
    assert right > 0.7
    artifact = compile_to_target(module, "verilog", OPTIONS)
    _, (actual,) = run_verilog(artifact, [images[:12]], "iverilog")
    assert np.array_equal(actual, expected[:12])
    report = json.loads(artifact.text("report.json"))
    assert report["initiation_interval"] == 8 and report["beats_in"] == 1


REFUSED = """builtin.module @net {
func.func @forward(%x: !spike.train<?x?x2>, %v: tensor<?x2xi32>, %f: tensor<?x2xf32>)
    -> (!spike.train<?x?x2>, !spike.train<?x?x2>, !spike.train<4x?x2>) {
  %w = tensor.constant dense<[[3, -7], [5, 2]]> : tensor<2x2xi8>
  %i = spike.linear %x, %w : !spike.train<?x?x2>, tensor<2x2xi8> -> tensor<?x?x2xi32>
  %s = spike.integrate_fire %i initial(%v : tensor<?x2xi32>)
       : (tensor<?x?x2xi32>) -> !spike.train<?x?x2>
  %u = tensor.constant dense<[[0.5, 0.1], [0.2, 0.3]]> : tensor<2x2xf32>
  %j = spike.linear %s, %u : !spike.train<?x?x2>, tensor<2x2xf32> -> tensor<?x?x2xf32>
  %t = spike.lif %j {beta = 0.9 : f64} : (tensor<?x?x2xf32>) -> !spike.train<?x?x2>
  %e = spike.encode %f {scheme = "rate", seed = 1 : i64, timesteps = 4 : i64}
       : (tensor<?x2xf32>) -> !spike.train<4x?x2>
  func.return %s, %t, %e : !spike.train<?x?x2>, !spike.train<?x?x2>, !spike.train<4x?x2>
}
}"""


def test_all_that_has_no_circuit_is_told_at_once(program: Program) -> None:
    with pytest.raises(TritonError) as caught:
        compile_to_target(program(REFUSED, {}), "verilog", OPTIONS)
    text = str(caught.value)
    for part in (
        "its first potential must be a constant",
        "leave out expose-state",
        "run quantize-spike and quantize-neurons before",
        "the sender encodes: make the train an argument",
        "say how many steps a sample has: timesteps=T",
    ):
        assert part in text


def test_the_steps_of_a_program_that_does_not_say(iverilog: str, program: Program) -> None:
    written = TrainProgram(5, 6, 4)
    written.linear(3, "i8", bias=False)
    written.neurons(7, "subtract", "ge", each=False)
    written.result("train")
    free = written.text().replace("<6x?x", "<?x?x")
    module = program(free, written.values)
    x = written.inputs(5)
    artifact = compile_to_target(module, "verilog", {**OPTIONS, "timesteps": 6})
    expected = run_module(module, [x])
    assert np.array_equal(run_verilog(artifact, [x], "iverilog")[1][0], expected[0])
    with pytest.raises(OptionError, match="timesteps=5 is given, and the program says 6"):
        compile_to_target(program(written.text(), written.values), "verilog", {"timesteps": 5})


DIRECT = """builtin.module @net {
func.func @forward(%x: tensor<?x4xi8>) -> (tensor<?xi64>, tensor<5x?x3xi32>) {
  %w = tensor.constant dense<[[3, -7, 1], [5, 2, 0], [1, 1, 1], [-2, 4, 3]]> : tensor<4x3xi8>
  %e = spike.encode %x {scheme = "direct", timesteps = 5 : i64}
       : (tensor<?x4xi8>) -> tensor<5x?x4xi8>
  %i = spike.linear %e, %w : tensor<5x?x4xi8>, tensor<4x3xi8> -> tensor<5x?x3xi32>
  %s = spike.integrate_fire %i {threshold = 300.0 : f64}
       : (tensor<5x?x3xi32>) -> !spike.train<5x?x3>
  %n = spike.to_tensor %s : (!spike.train<5x?x3>) -> tensor<5x?x3xi32>
  %t = tensor.reduce_sum %n {axes = array<i64: 0>, keepdims = false}
       : (tensor<5x?x3xi32>) -> tensor<?x3xi32>
  %r = tensor.argmax %t {axis = 1 : i64} : (tensor<?x3xi32>) -> tensor<?xi64>
  func.return %r, %i : tensor<?xi64>, tensor<5x?x3xi32>
}
}"""


def test_a_constant_current_and_the_class_that_fires_most(iverilog: str, program: Program) -> None:
    module = program(DIRECT, {})
    x = np.random.default_rng(0).integers(-128, 128, (9, 4)).astype(np.int8)
    expected = run_module(module, [x])
    artifact = compile_to_target(module, "verilog", OPTIONS)
    _, actual = run_verilog(artifact, [x], "iverilog")
    for found, wanted in zip(actual, expected, strict=True):
        assert found.dtype == wanted.dtype and np.array_equal(found, wanted)
