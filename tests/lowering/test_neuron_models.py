"""Neurons that are one declaration each, beside Brian2, and on every engine.

`tests/runtime/spiking/recorded/neurons_brian.py` made the recordings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_pytorch.load import load_module
from triton_dsl.spiking import AdaptiveExponentialNeuron, IzhikevichNeuron, RefractoryLifNeuron

Array = np.ndarray[Any, Any]

RECORDED = Path(__file__).parents[1] / "runtime" / "spiking" / "recorded" / "neurons_brian.npz"
MODELS = {
    "refractory_lif": ("{beta = 0.875 : f64, v_leak = 0.125 : f64, period = 3.0 : f64}", 0.0, 0.0),
    "izhikevich": ("{dt = 0.5 : f64}", -65.0, -13.0),
    "adaptive_exponential": ("{}", -70.6, 0.0),
}
"""Settings as in the recordings, and the states at rest."""
LAYERS: dict[str, nn.Module] = {
    "refractory_lif": RefractoryLifNeuron(0.875, 3.0, v_leak=0.125),
    "izhikevich": IzhikevichNeuron(dt=0.5),
    "adaptive_exponential": AdaptiveExponentialNeuron(),
}


def recorded(name: str) -> tuple[Array, Array, Array, Array]:
    with np.load(RECORDED) as file:
        x, v, n, spikes = (file[f"{name}.{part}"] for part in ("x", "v", "n", "spikes"))
    assert spikes.sum() >= 8
    return x, v, n, spikes


def text_of(name: str, element: str, steps: int) -> str:
    run, state = f"tensor<{steps}x?xf{element}>", f"tensor<?xf{element}>"
    return f"""
func.func @forward(%x: {run}, %v: {state}, %w: {state})
    -> (!spike.train<{steps}x?>, {state}, {state}) {{
  %s, %a, %b = spike.{name} %x initial(%v, %w : {state}, {state}) {MODELS[name][0]}
    : ({run}) -> (!spike.train<{steps}x?>, {state}, {state})
  func.return %s, %a, %b : !spike.train<{steps}x?>, {state}, {state}
}}"""


@pytest.mark.parametrize("name", MODELS)
def test_the_interpreter_and_the_layer_are_brian(name: str) -> None:
    x, v, n, spikes = recorded(name)
    states = [np.full(x.shape[1], level) for level in MODELS[name][1:]]
    got = run_module(parse_module(text_of(name, "64", len(x))), [x, *states])
    np.testing.assert_array_equal(got[0], spikes)
    np.testing.assert_allclose(got[1], v[-1], rtol=1e-9)
    if name != "refractory_lif":  # whose second state Brian2 does not show
        np.testing.assert_allclose(got[2], n[-1], rtol=1e-9)
    fired, _ = LAYERS[name](torch.from_numpy(x), tuple(map(torch.from_numpy, states)))
    np.testing.assert_array_equal(fired.numpy(), spikes)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", ["pytorch", "onnx", "tflite", "native"])
def test_every_engine_is_the_interpreter(target: str, name: str) -> None:
    x = recorded(name)[0].astype(np.float32)
    states = [np.full(x.shape[1], level, np.float32) for level in MODELS[name][1:]]
    module = parse_module(text_of(name, "32", len(x)))
    expected = run_module(module, [x, *states])
    _, got, _ = run_target(module, target, [x, *states])
    # An exponential differs in its last bit, and what follows from it.
    tolerance = 1e-3 if name == "adaptive_exponential" else 0.0
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, atol=tolerance)


@pytest.mark.parametrize("name", MODELS)
def test_a_layer_comes_in_as_one_op_and_goes_out_alone(name: str) -> None:
    x = torch.from_numpy(recorded(name)[0].astype(np.float32))
    module = from_torch(nn.Sequential(LAYERS[name]), x)
    assert sum(op.name == f"spike.{name}" for op in module.walk()) == 1
    generated = compile_to_target(module, "pytorch")
    text = generated.text().replace("from triton_dsl.", "raise ImportError  # ")
    assert generated.main_file is not None
    files = {**generated.files, generated.main_file: text.encode()}
    alone = load_module(Artifact(generated.name, files, primary=generated.primary))
    with torch.no_grad():
        expected = LAYERS[name](x)[0]
        torch.testing.assert_close(alone(x)[0], expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_flow(name: str) -> None:
    x = torch.from_numpy(recorded(name)[0].astype(np.float32)).requires_grad_()
    states = tuple(torch.full(x.shape[1:], level) for level in MODELS[name][1:])
    LAYERS[name](x, states)[0].sum().backward()
    assert x.grad is not None and bool(x.grad.isfinite().all()) and bool((x.grad != 0).any())


@pytest.mark.parametrize("target", ["pytorch", "onnx"])
def test_a_parameter_of_each_neuron_may_know_sizes_that_the_train_does_not(target: str) -> None:
    text = """
func.func @forward(%x: tensor<?x?x?xf32>, %beta: tensor<3xf32>, %v: tensor<?x?xf32>)
    -> (!spike.train<?x?x?>, tensor<?x?xf32>) {
  %s, %last = spike.lif %x initial(%v : tensor<?x?xf32>) beta(%beta : tensor<3xf32>)
    : (tensor<?x?x?xf32>) -> (!spike.train<?x?x?>, tensor<?x?xf32>)
  func.return %s, %last : !spike.train<?x?x?>, tensor<?x?xf32>
}"""
    rng = np.random.default_rng(4)
    x = (rng.integers(-8, 24, (5, 2, 3)) / 16).astype(np.float32)
    inputs = [x, np.array([0.5, 0.75, 1], np.float32), x[0]]
    expected = run_module(parse_module(text), inputs)
    assert expected[0].any()
    for got, want in zip(run_target(parse_module(text), target, inputs)[1], expected, strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)


def test_a_potential_that_is_infinite_where_it_spikes_is_reset() -> None:
    neuron = AdaptiveExponentialNeuron(delta=0.5)
    fired, (v, w) = neuron(torch.zeros(3, 1))  # from 0 mV, 100 times delta above v_t
    assert fired.ravel().tolist() == [1.0, 0.0, 0.0]
    assert bool(v.isfinite().all()) and bool(w.isfinite().all())
