"""Spiking programs as PyTorch modules: training, dtypes, devices, and how the source reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_pytorch.load import load_module

torch: Any = pytest.importorskip("torch")

NETWORK = """
func.func @forward(%x: tensor<?x1x4x4xf32>) -> (tensor<?x3xf32>, !spike.train<8x?x3>) {
  %w = tensor.parameter "conv.weight" : tensor<4x1x3x3xf32>
  %v = tensor.parameter "fc.weight" : tensor<16x3xf32>
  %t = tensor.parameter "fc.threshold" : tensor<3xf32>
  %e = spike.encode %x {scheme = "rate", timesteps = 8 : i64, seed = 3 : i64}
    : (tensor<?x1x4x4xf32>) -> !spike.train<8x?x1x4x4>
  %c = spike.conv %e, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
    dilation = array<i64: 1, 1>}
    : !spike.train<8x?x1x4x4>, tensor<4x1x3x3xf32> -> tensor<8x?x4x4x4xf32>
  %n = spike.lif %c {beta = 0.9 : f64} : (tensor<8x?x4x4x4xf32>) -> !spike.train<8x?x4x4x4>
  %p = spike.max_pool %n {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
    padding = array<i64: 0, 0, 0, 0>} : (!spike.train<8x?x4x4x4>) -> !spike.train<8x?x4x2x2>
  %d = spike.to_tensor %p : (!spike.train<8x?x4x2x2>) -> tensor<8x?x4x2x2xi1>
  %f = tensor.flatten %d {start = 2 : i64, end = 4 : i64}
    : (tensor<8x?x4x2x2xi1>) -> tensor<8x?x16xi1>
  %g = spike.from_tensor %f : (tensor<8x?x16xi1>) -> !spike.train<8x?x16>
  %h = spike.linear %g, %v : !spike.train<8x?x16>, tensor<16x3xf32> -> tensor<8x?x3xf32>
  %o = spike.lif %h threshold(%t : tensor<3xf32>) {beta = 0.5 : f64, reset = "to_value"}
    : (tensor<8x?x3xf32>) -> !spike.train<8x?x3>
  %y = spike.decode %o {scheme = "rate"} : (!spike.train<8x?x3>) -> tensor<?x3xf32>
  func.return %y, %o : tensor<?x3xf32>, !spike.train<8x?x3>
}"""

Weights = dict[str, Any]


def weights() -> Weights:
    rng = np.random.default_rng(0)
    return {
        "conv.weight": rng.integers(-4, 9, (4, 1, 3, 3)).astype(np.float32) / 8,
        "fc.weight": rng.integers(-4, 6, (16, 3)).astype(np.float32) / 8,
        "fc.threshold": np.full(3, 0.5, np.float32),
    }


def images(batch: int = 3) -> Any:
    return np.random.default_rng(1).uniform(0, 1, (batch, 1, 4, 4)).astype(np.float32)


def test_source_and_results(agree: Callable[..., Any]) -> None:
    artifact = agree(NETWORK, [images()], weights())
    text = artifact.text()
    assert "Maps x: f32[N, 1, 4, 4] to f32[N, 3], spikes[8, N, 3]." in text
    assert "n = run_neuron(lif, c, beta=0.9, threshold=1.0)[0]" in text
    assert "from triton_dsl.runtime.spiking import" in text


def test_gradients_reach_every_parameter_alike(
    compile_text: Callable[..., Any], without_kernels: Callable[..., Any]
) -> None:
    """With the package's neurons and without, through pools and moved spikes."""
    artifact = compile_text(NETWORK, weights())
    found: list[Any] = []
    for made in (artifact, without_kernels(artifact)):
        model: Any = load_module(made)
        rates, _ = model(torch.from_numpy(images()))
        (rates * torch.arange(1.0, 4.0)).sum().backward()
        found.append({name: p.grad for name, p in model.named_parameters()})
    for name, gradient in found[0].items():
        assert gradient.abs().sum() > 0, name
        torch.testing.assert_close(gradient, found[1][name])


def test_double_and_half(compile_text: Callable[..., Any]) -> None:
    model: Any = load_module(compile_text(NETWORK, weights()))
    x = torch.from_numpy(images())
    rates, spikes = model(x)
    for dtype in (torch.float64, torch.bfloat16):
        converted, trains = model.to(dtype)(x)
        assert trains.dtype == torch.bool
        torch.testing.assert_close(converted, rates)
        assert torch.equal(trains, spikes)


def test_export_and_compile_do_not_break(compile_text: Callable[..., Any]) -> None:
    model: Any = load_module(compile_text(NETWORK, weights()))
    x = torch.from_numpy(images())
    exported = torch.export.export(model, (x,)).module()
    for got, want in zip(exported(x), model(x), strict=True):
        assert torch.equal(got, want)


TERNARY = """
layer Net {
    param w1: TernaryTensor[6, 8]
    param w2: TernaryTensor[8, 2]
    param theta: Tensor[2]

    fn forward(x: SpikeTensor[8, N, 6]) -> Tensor[N, 2] {
        let h = lif(x @ w1, tau=2.0, threshold=1.0)
        let o = lif(h @ w2, tau=2.0, threshold=theta)
        return decode(o, scheme="rate")
    }
}
"""


def test_a_trainable_program_learns() -> None:
    """Latent ternary weights and thresholds, by surrogate gradients: the first inputs say which."""
    module = import_tri(TERNARY, trainable=True)
    torch.manual_seed(0)
    model: Any = load_module(compile_to_target(module, "pytorch"))
    model.reset_parameters()
    with torch.no_grad():
        model.theta.fill_(1.0)
    labels = torch.arange(32) % 2
    x = (torch.rand(8, 32, 6) < 0.1 + 0.8 * (torch.arange(6) // 3 == labels[:, None])).bool()
    optimizer = torch.optim.Adam(model.parameters(), 0.03)
    losses: list[float] = []
    for _ in range(40):
        loss = torch.nn.functional.cross_entropy(4 * model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] * 0.7
    assert float((model(x).argmax(1) == labels).float().mean()) > 0.9


def test_states_go_in_and_out(compile_text: Callable[..., Any]) -> None:
    """A program after `expose-state` takes its states and gives them back, and is trained so."""
    text = """
func.func @forward(%x: tensor<?x?x4xf32>, %v: tensor<?x4xf32> {tensor.name = "state.v.0"})
    -> (tensor<?x?x4xf32>, tensor<?x4xf32> {tensor.name = "state.v.0"})
    attributes {spike.states = 1 : i64} {
  %s, %w = spike.lif %x initial(%v : tensor<?x4xf32>) {beta = 0.5 : f64}
    : (tensor<?x?x4xf32>) -> (!spike.train<?x?x4>, tensor<?x4xf32>)
  %y = spike.to_tensor %s : (!spike.train<?x?x4>) -> tensor<?x?x4xf32>
  func.return %y, %w : tensor<?x?x4xf32>, tensor<?x4xf32>
}"""
    artifact = compile_text(text)
    assert "x: torch.Tensor, state_v_0: torch.Tensor" in artifact.text()
    model: Any = load_module(artifact)
    x = torch.randn(6, 2, 4, requires_grad=True)
    first, state = model(x[:2], torch.zeros(2, 4))
    second, _ = model(x[2:], state)
    whole, _ = model(x, torch.zeros(2, 4))
    assert torch.equal(torch.cat([first, second]), whole)
    second.sum().backward()
    assert x.grad[:2].abs().sum() > 0  # through the state


@pytest.mark.parametrize("element", ["i8", "i16", "i32"])
@pytest.mark.parametrize("reset", ["subtract", "to_value", "none"])
def test_leaks_on_integers_are_the_interpreters(
    agree: Callable[..., Any], element: str, reset: str
) -> None:
    """Decays of negative potentials round down, and sums wrap around."""
    level = ", v_reset = -2.0 : f64" if reset == "to_value" else ""
    text = f"""
func.func @forward(%i: tensor<9x?x5x{element}>) -> (!spike.train<9x?x5>, tensor<?x5x{element}>) {{
  %s, %v = spike.integer_lif %i {{decay = 11.0 : f64, shift = 4 : i64, gain = 3.0 : f64,
    threshold = 40.0 : f64{level}, reset = "{reset}", compare = "gt"}}
    : (tensor<9x?x5x{element}>) -> (!spike.train<9x?x5>, tensor<?x5x{element}>)
  func.return %s, %v : !spike.train<9x?x5>, tensor<?x5x{element}>
}}"""
    low, high = np.iinfo(element.replace("i", "int")).min, np.iinfo(element.replace("i", "int")).max
    rng = np.random.default_rng(2)
    currents = rng.integers(-60, 60, (9, 4, 5))
    currents[:, 3] = rng.integers(low // 2, high // 2, (9, 5))
    agree(text, [currents.astype(element.replace("i", "int"))], {})


def test_recurrence_reads_as_a_loop(agree: Callable[..., Any]) -> None:
    text = """
func.func @forward(%i: tensor<?x?x4xf32>) -> !spike.train<?x?x4> {
  %w = tensor.parameter "w" : tensor<4x4xf32>
  %y = spike.recurrent %i, %w : (tensor<?x?x4xf32>, tensor<4x4xf32>) -> !spike.train<?x?x4> {
    ^bb0(%x: tensor<?x?x4xf32>, %r: tensor<4x4xf32>, %last: !spike.train<?x?x4>):
      %f = spike.linear %last, %r : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
      %c = tensor.add %x, %f : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
      %s = spike.lif %c {beta = 0.5 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
      spike.yield %s : !spike.train<?x?x4>
  }
  func.return %y : !spike.train<?x?x4>
}"""
    rng = np.random.default_rng(2)
    w = rng.integers(-8, 9, (4, 4)).astype(np.float32) / 8
    x = rng.integers(-8, 20, (5, 3, 4)).astype(np.float32) / 8
    artifact = agree(text, [x], {"w": w})
    assert "for t in range(i.shape[0]):\n            step = i[t : t + 1]\n" in artifact.text()
    model: Any = load_module(artifact).double()
    assert torch.equal(model(torch.from_numpy(x).double()), model.float()(torch.from_numpy(x)))
