"""Circuits of convolutions on spikes give what the interpreter gives, a position every cycle."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import TritonError
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog

from .test_verilog_spiking import OPTIONS, checked
from .train_images import Shared, TrainImageProgram

Program = Callable[..., ModuleOp]


@settings(max_examples=8)
@given(
    steps=st.integers(1, 4),
    image=st.one_of(st.tuples(st.integers(2, 5), st.integers(2, 5)), st.tuples(st.integers(2, 7))),
    channels=st.integers(1, 3),
    weights=st.sampled_from(["i8", "!ternary.trit"]),
    kernel=st.integers(1, 2),
    stride=st.integers(1, 2),
    padding=st.integers(0, 1),
    decay=st.one_of(st.none(), st.integers(0, 8)),
    reset=st.sampled_from(["subtract", "to_value", "none"]),
    shared=st.sampled_from(["all", "channel", "position"]),
    readout=st.sampled_from(["train", "count", "membrane"]),
    seed=st.integers(0, 1000),
)
def test_one_convolution(
    iverilog: str,
    program: Program,
    steps: int,
    image: tuple[int, ...],
    channels: int,
    weights: str,
    kernel: int,
    stride: int,
    padding: int,
    decay: int | None,
    reset: str,
    shared: Shared,
    readout: str,
    seed: int,
) -> None:
    written = TrainImageProgram(seed, steps, channels, image)
    written.conv(3, weights, kernel, stride=stride, padding=padding, bias=bool(seed % 2))
    written.fire(decay, reset, shared, membrane=readout == "membrane")
    written.result(readout)
    checked(program, written, pipeline=seed % 3)


@pytest.mark.parametrize("readout", ["train", "count", "membrane"])
@pytest.mark.parametrize("shared", ["channel", "position"])
def test_readouts(iverilog: str, program: Program, readout: str, shared: Shared) -> None:
    written = TrainImageProgram(6, 4, 2, (3, 2))
    written.conv(3, "i8", 2, padding=1)
    written.fire(6, "subtract", shared, membrane=readout == "membrane")
    if readout == "count" and shared == "position":
        written.conv(2, "!ternary.trit", 1)
        written.fire(None, "subtract", shared, membrane=False)
    written.result(readout)
    checked(program, written)


def network() -> TrainImageProgram:
    """Two convolutions with pooling between, and a layer on the vector behind them."""
    written = TrainImageProgram(3, 3, 2, (6, 7))
    written.conv(4, "!ternary.trit", 3, padding=1)
    written.fire(7, "subtract", "channel", membrane=False)
    written.pool(2)
    written.conv(3, "i8", 2, bias=True)
    written.fire(None, "to_value", "all", membrane=False)
    written.flatten()
    written.linear(4, "i8", bias=True)
    written.neurons(6, "subtract", "ge", each=True)
    for kind in ("train", "count"):
        written.result(kind)
    return written


def test_a_pixel_goes_in_every_cycle(iverilog: str, program: Program) -> None:
    report = checked(program, network())
    assert report["beats_in"] == report["initiation_interval"] == 3 * 6 * 7
    names = {layer["name"] for layer in report["layers"]}
    assert {"conv1", "conv4", "fc7"} <= names


@pytest.mark.parametrize("clock", [100.0, 250.0])
def test_a_clock_changes_no_spike(iverilog: str, program: Program, clock: float) -> None:
    checked(program, network(), clock=clock)


@pytest.mark.slow
def test_verilator_agrees(require_tool: Callable[[str, str], str], program: Program) -> None:
    require_tool("verilator", "apt-get install verilator")
    checked(program, network(), "verilator")


def test_neurons_that_rest_between_spikes(iverilog: str, program: Program) -> None:
    written = TrainImageProgram(3, 6, 2, (4, 3))
    written.conv(3, "i8", 2, bias=True)
    written.fire(6, "subtract", "channel", membrane=False, period=2)
    written.conv(2, "!ternary.trit", 1, bias=True)
    written.fire(None, "to_value", "position", membrane=False, period=1)
    written.result("train")
    checked(program, written)


def test_groups(iverilog: str, program: Program) -> None:
    written = TrainImageProgram(8, 2, 4, (3, 4))
    written.conv(4, "i8", 2, groups=2)
    written.fire(5, "subtract", "channel", membrane=False)
    written.result("train")
    checked(program, written)


def test_potentials_stand_in_a_memory(program: Program) -> None:
    written = TrainImageProgram(2, 4, 1, (8, 8))
    written.conv(2, "i8", 1)
    written.fire(7, "subtract", "all", membrane=False)
    written.result("train")
    artifact = compile_to_target(program(written.text(), written.values), "verilog", OPTIONS)
    assert "triton_ram_64x" in artifact.text("rtl/net_conv1_neurons.v")


FLOATS = """builtin.module @net {
func.func @forward(%x: !spike.train<3x?x2x4x4>) -> (!spike.train<3x?x2x4x4>, tensor<?x2x4x4xf32>) {
  %w = tensor.constant dense<[[[[0.5]], [[0.25]]], [[[-0.75]], [[1.0]]]]> : tensor<2x2x1x1xf32>
  %i = spike.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 1 : i64}
       : !spike.train<3x?x2x4x4>, tensor<2x2x1x1xf32> -> tensor<3x?x2x4x4xf32>
  %s = spike.lif %i {beta = 0.9 : f64, threshold = 0.7 : f64}
       : (tensor<3x?x2x4x4xf32>) -> !spike.train<3x?x2x4x4>
  %j = spike.conv %s, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 1 : i64}
       : !spike.train<3x?x2x4x4>, tensor<2x2x1x1xf32> -> tensor<3x?x2x4x4xf32>
  %y = spike.decode %j {scheme = "membrane", readout = "mean"}
       : (tensor<3x?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  func.return %s, %y : !spike.train<3x?x2x4x4>, tensor<?x2x4x4xf32>
}
}"""


def test_a_network_that_becomes_integers(iverilog: str, program: Program) -> None:
    """Leaky neurons on convolutions with a scale a channel, and the mean of the last currents."""
    module = program(FLOATS, {})
    x = np.random.default_rng(1).random((3, 40, 2, 4, 4)) < 0.5
    floats = run_module(module, [x])
    run_stages(module, [Stage("integers", "quantize-spike,quantize-neurons,canonicalize,cse,dce")])
    expected = run_module(module, [x])
    assert (expected[0] == floats[0]).mean() > 0.98
    assert np.abs(expected[1] - floats[1]).max() < 1.5
    assert np.abs(expected[1] - floats[1]).mean() < 0.05
    artifact = compile_to_target(module, "verilog", OPTIONS)
    _, actual = run_verilog(artifact, [x[:, :6]], "iverilog")
    assert np.array_equal(actual[0], expected[0][:, :6])
    np.testing.assert_allclose(actual[1], expected[1][:6], rtol=1e-6)


REFUSED = """builtin.module @net {
func.func @forward(%x: !spike.train<4x?x2x4x4>) -> tensor<4x?x2x2x2xf32> {
  %w = tensor.constant dense<0.5> : tensor<2x2x1x1xf32>
  %i = spike.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 1 : i64}
       : !spike.train<4x?x2x4x4>, tensor<2x2x1x1xf32> -> tensor<4x?x2x4x4xf32>
  %s = spike.integrate_fire %i : (tensor<4x?x2x4x4xf32>) -> !spike.train<4x?x2x4x4>
  %p = spike.avg_pool %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
       padding = array<i64: 0, 0, 0, 0>} : (!spike.train<4x?x2x4x4>) -> tensor<4x?x2x2x2xf32>
  func.return %p : tensor<4x?x2x2x2xf32>
}
}"""


def test_floats_on_images_are_refused_at_once(program: Program) -> None:
    with pytest.raises(TritonError) as caught:
        compile_to_target(program(REFUSED, {}), "verilog", OPTIONS)
    text = str(caught.value)
    for part in ("spike.conv", "spike.integrate_fire", "spike.avg_pool", "use max_pool"):
        assert part in text
