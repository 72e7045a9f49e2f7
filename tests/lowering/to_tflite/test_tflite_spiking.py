"""Spiking programs in LiteRT: every neuron, spike for spike beside the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.conversion import convert_to_snn
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_tflite.engine import run_tflite
from triton_dsl.runtime.random_values import fill_parameters

Array = np.ndarray[Any, Any]


def dyadic(*shape: int) -> Array:
    """Multiples of 1/16 between -2 and 2: sums of them are exact in any order."""
    return (np.random.default_rng(0).integers(-32, 32, shape) / 16).astype(np.float32)


def same(text: str, inputs: list[Array], values: dict[str, Array] | None = None) -> None:
    """Compile, run in LiteRT and compare every bit but the sign of zeros."""
    module = parse_module(text, "model.mlir")
    attach_store(module, ParameterStore.of(values or {}))
    data = next(iter(compile_to_target(module.clone(), "tflite").files.values()))
    expected = run_module(module, inputs)
    for got, want in zip(run_tflite(data, inputs), expected, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


NEURONS = [
    "lif %x {beta = 0.875 : f64, threshold = 0.75 : f64}",
    'lif %x {beta = 0.5 : f64, v_leak = 0.25 : f64, gain = 2.0 : f64, reset = "to_value", '
    'v_reset = -0.5 : f64, compare = "gt"}',
    'lif %x {beta = 0.5 : f64, reset = "none"}',
    "integrate_fire %x {threshold = 1.5 : f64}",
    "cuba_lif %x {alpha = 0.5 : f64, beta = 0.75 : f64, gain = 0.5 : f64}",
    "adaptive_lif %x {beta = 0.75 : f64, kappa = 0.5 : f64, rho = 0.875 : f64}",
]


@pytest.mark.parametrize("steps", [1, 6])
@pytest.mark.parametrize("neuron", NEURONS)
def test_neurons(neuron: str, steps: int) -> None:
    train, current = f"!spike.train<{steps}x?x5>", f"tensor<{steps}x?x5xf32>"
    text = f"""
func.func @forward(%x: {current}) -> (tensor<{steps}x?x5xf32>, {train}) {{
  %s = spike.{neuron} : ({current}) -> {train}
  %y = spike.to_tensor %s : ({train}) -> {current}
  func.return %y, %s : {current}, {train}
}}"""
    same(text, [dyadic(steps, 3, 5)])


NUMBERS = st.sampled_from([0.0, 0.125, 0.5, 0.7, 0.9, 1.0])
LEVELS = st.sampled_from([-0.5, 0.0, 0.3, 1.0])
DRAWN = {
    "lif": {"beta": NUMBERS},
    "integrate_fire": {},
    "cuba_lif": {"alpha": NUMBERS, "beta": NUMBERS},
    "adaptive_lif": {"beta": NUMBERS, "rho": NUMBERS, "kappa": LEVELS},
}
STATES = {"lif": 1, "integrate_fire": 1, "cuba_lif": 2, "adaptive_lif": 2}


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_neurons_with_any_settings(data: Any) -> None:
    """Numbers or a threshold for each neuron; spikes, and the states after the last step."""
    model = data.draw(st.sampled_from(sorted(DRAWN)))
    numbers = {name: data.draw(values) for name, values in DRAWN[model].items()}
    numbers["gain"] = data.draw(st.sampled_from([0.5, 1.0, 1.7]))
    if model != "integrate_fire":
        numbers["v_leak"] = data.draw(LEVELS)
    reset = data.draw(st.sampled_from(["subtract", "to_value", "none"]))
    if reset == "to_value":
        numbers["v_reset"] = data.draw(LEVELS)
    each = "threshold(%t : tensor<5xf32>) " if data.draw(st.booleans()) else ""
    shown = ", ".join(f"{name} = {value:e} : f64" for name, value in numbers.items())
    compare = data.draw(st.sampled_from(["gt", "ge"]))
    names = [f"%v{i}" for i in range(STATES[model])]
    run = "tensor<5x?x5xf32>"
    types = ", ".join(["!spike.train<5x?x5>", *["tensor<?x5xf32>"] * len(names)])
    text = f"""
func.func @forward(%x: {run}, %t: tensor<5xf32>) -> ({types}) {{
  %s, {", ".join(names)} = spike.{model} %x {each}{{{shown}, compare = "{compare}",
    reset = "{reset}"}} : ({run}) -> ({types})
  func.return %s, {", ".join(names)} : {types}
}}"""
    same(text, [dyadic(5, 3, 5), np.array([0.25, 0.5, 1, 0.5, 0.25], np.float32)])


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
def test_integers_wrap_around(element: str) -> None:
    run, state = f"tensor<7x?x5x{element}>", f"tensor<?x5x{element}>"
    text = f"""
func.func @forward(%x: {run}) -> (!spike.train<7x?x5>, {state}) {{
  %s, %v = spike.integrate_fire %x {{threshold = 9.0 : f64, gain = 3.0 : f64}}
    : ({run}) -> (!spike.train<7x?x5>, {state})
  func.return %s, %v : !spike.train<7x?x5>, {state}
}}"""
    dtype = np.dtype(f"int{element[1:]}")
    x = np.random.default_rng(1).integers(-90, 90, (7, 3, 5)).astype(dtype)
    x[2] = np.iinfo(dtype).max
    same(text, [x])


def test_synapses_are_products_over_all_steps() -> None:
    text = """
func.func @forward(%x: tensor<4x?x6xf32>) -> tensor<4x?x3xf32> {
  %w = ternary.parameter "w" : tensor<6x3x!ternary.trit>
  %s = spike.lif %x {beta = 0.5 : f64} : (tensor<4x?x6xf32>) -> !spike.train<4x?x6>
  %i = spike.linear %s, %w : !spike.train<4x?x6>, tensor<6x3x!ternary.trit> -> tensor<4x?x3xi32>
  %c = tensor.convert %i : (tensor<4x?x3xi32>) -> tensor<4x?x3xf32>
  %v = spike.leaky_integrator %c {beta = 0.5 : f64} : (tensor<4x?x3xf32>) -> tensor<4x?x3xf32>
  func.return %v : tensor<4x?x3xf32>
}"""
    trits = np.random.default_rng(1).integers(-1, 2, (6, 3)).astype(np.int8)
    same(text, [dyadic(4, 2, 6)], {"w": pack_trits(trits)})


def test_a_converted_network() -> None:
    source = """
layer Net {
    let conv = Conv2d(1, 4, 3, padding=1)
    let fc = Linear(64, 5)
    fn forward(x: Tensor[N, 1, 8, 8]) -> Tensor[N, 5] {
        return fc(flatten(max_pool2d(relu(conv(x)), 2)))
    }
}
"""
    images = np.random.default_rng(0).random((20, 1, 8, 8), np.float32)
    module = convert_to_snn(fill_parameters(import_tri(source), 3), images, 4)
    data = next(iter(compile_to_target(module.clone(), "tflite").files.values()))
    (want,), (got,) = run_module(module, [images]), run_tflite(data, [images])
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


@pytest.mark.parametrize("cumulative", ["true", "false"])
@pytest.mark.parametrize(("compare", "activation"), [("ge", "relu"), ("gt", "none")])
def test_sigma_delta(compare: str, activation: str, cumulative: str) -> None:
    """What is sent, and the four states after the last step."""
    run, state = "tensor<6x?x5xf32>", "tensor<?x5xf32>"
    types = ", ".join([run, *[state] * 4])
    text = f"""
func.func @forward(%x: {run}) -> ({types}) {{
  %d, %a, %b, %c, %e = spike.sigma_delta %x {{threshold = 0.5 : f64, gain = 0.5 : f64,
    bias = 0.25 : f64, compare = "{compare}", activation = "{activation}",
    cumulative = {cumulative}}} : ({run}) -> ({types})
  func.return %d, %a, %b, %c, %e : {types}
}}"""
    same(text, [dyadic(6, 3, 5)])


@pytest.mark.parametrize("sizes", ["3x5", "?x5", "?x?"])
@pytest.mark.parametrize("seed", [1, 2**63 - 5])
def test_spikes_at_random(sizes: str, seed: int) -> None:
    """The interpreter's spikes, also where the steps of earlier runs are counted."""
    text = f"""
func.func @forward(%x: tensor<{sizes}xf32>, %t: tensor<i64>)
    -> (!spike.train<7x{sizes}>, !spike.train<4x{sizes}>) {{
  %s = spike.encode %x {{scheme = "rate", timesteps = 7 : i64, start = 3 : i64,
    seed = {seed} : i64}} : (tensor<{sizes}xf32>) -> !spike.train<7x{sizes}>
  %r = spike.encode %x elapsed(%t : tensor<i64>) {{scheme = "rate", timesteps = 4 : i64,
    seed = {seed} : i64}} : (tensor<{sizes}xf32>) -> !spike.train<4x{sizes}>
  func.return %s, %r : !spike.train<7x{sizes}>, !spike.train<4x{sizes}>
}}"""
    x = np.random.default_rng(0).random((3, 5), np.float32)
    x[0] = [0, 1, -0.5, 1.5, np.nan]
    x[1, 0] = np.float32(2.0**-31)
    same(text, [x, np.array(1000)])


FEEDBACK = """
func.func @forward(%i: tensor<6x?x4xf32>) -> (!spike.train<6x?x4>, tensor<?x4xf32>) {
  %w = ternary.parameter "w" : tensor<4x4x!ternary.trit>
  %y, %v = spike.recurrent %i, %w : (tensor<6x?x4xf32>, tensor<4x4x!ternary.trit>)
    -> (!spike.train<6x?x4>, tensor<?x4xf32>) {
    ^bb0(%x: tensor<6x?x4xf32>, %r: tensor<4x4x!ternary.trit>, %last: !spike.train<6x?x4>):
      %f = spike.linear %last, %r
        : !spike.train<6x?x4>, tensor<4x4x!ternary.trit> -> tensor<6x?x4xi32>
      %g = tensor.convert %f : (tensor<6x?x4xi32>) -> tensor<6x?x4xf32>
      %c = tensor.add %x, %g : (tensor<6x?x4xf32>, tensor<6x?x4xf32>) -> tensor<6x?x4xf32>
      %s, %u = spike.lif %c {beta = 0.5 : f64}
        : (tensor<6x?x4xf32>) -> (!spike.train<6x?x4>, tensor<?x4xf32>)
      spike.yield %s, %u : !spike.train<6x?x4>, tensor<?x4xf32>
  }
  func.return %y, %v : !spike.train<6x?x4>, tensor<?x4xf32>
}"""


def test_feedback_step_by_step(bench: Any) -> None:
    trits = np.random.default_rng(1).integers(-1, 2, (4, 4)).astype(np.int8)
    values = {"w": pack_trits(trits)}
    same(FEEDBACK, [dyadic(6, 3, 4)], values)
    module = parse_module(FEEDBACK, "model.mlir")
    attach_store(module, ParameterStore.of(values))
    kinds = bench.kinds(next(iter(compile_to_target(module, "tflite").files.values())))
    assert kinds.count("FULLY_CONNECTED") == 6
    assert kinds.count("DEQUANTIZE") == 1, "the weights are unpacked once"


def test_states_go_in_and_out() -> None:
    """Two runs with the states between them are one."""
    text = """
func.func @forward(%x: tensor<{0}x2x5xf32>) -> !spike.train<{0}x2x5> {{
  %s = spike.cuba_lif %x {{alpha = 0.5 : f64, beta = 0.75 : f64}}
    : (tensor<{0}x2x5xf32>) -> !spike.train<{0}x2x5>
  func.return %s : !spike.train<{0}x2x5>
}}"""
    x = dyadic(6, 2, 5)
    (whole,) = run_module(parse_module(text.format(6), "model.mlir"), [x])
    module = parse_module(text.format(3), "model.mlir")
    run_stages(module, [Stage("states", "expose-state")])
    data = next(iter(compile_to_target(module, "tflite").files.values()))
    zeros = [np.zeros((2, 5), np.float32)] * 2
    first, *states = run_tflite(data, [x[:3], *zeros])
    second, *_ = run_tflite(data, [x[3:], *states])
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)


def test_everything_without_a_form_is_named() -> None:
    text = """
func.func @forward(%x: tensor<?x3x5xf32>) -> (!spike.train<?x3x5>, tensor<?x3x5xf32>) {
  %s = spike.lif %x {beta = 0.5 : f64} : (tensor<?x3x5xf32>) -> !spike.train<?x3x5>
  %d = spike.sigma_delta %x {threshold = 0.5 : f64} : (tensor<?x3x5xf32>) -> tensor<?x3x5xf32>
  func.return %s, %d : !spike.train<?x3x5>, tensor<?x3x5xf32>
}"""
    with pytest.raises(UnsupportedError) as caught:
        compile_to_target(parse_module(text, "model.mlir"), "tflite")
    places = [(name, place) for name, place, _ in caught.value.problems]
    assert places == [("spike.scan", "model.mlir:3:3"), ("spike.scan", "model.mlir:4:3")]
    assert "1 to 1024 known steps; fix them with infer-shapes{timesteps=…}" in str(caught.value)
