"""Delays learn as in the package of their authors, and become whole steps of `spike.delay`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nir as nir_package
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from xdsl.context import Context

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_nir import import_nir
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.passes import BuildNetworkPass
from triton_dsl.spiking import DelayedLinear, LearnableDelay, LifNeuron, run_in_chunks

nir: Any = nir_package
RECORDED = Path(__file__).resolve().parent / "recorded"


def synapses(name: str) -> tuple[DelayedLinear, Any]:
    """The synapses that DCLS recorded, and what it recorded of them."""
    data = np.load(RECORDED / "delays.npz")
    layer = DelayedLinear(5, 4, 6, None if name == "linear" else 1.3).double()
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(data[f"{name}_weight"]))
        layer.delay.copy_(torch.from_numpy(data[f"{name}_delay"]))
    return layer, data


@pytest.mark.parametrize("name", ["linear", "gauss"])
def test_as_dcls(name: str) -> None:
    layer, data = synapses(name)
    y, _ = layer(torch.from_numpy(data["x"]))
    y.square().sum().backward()
    assert layer.weight.grad is not None and layer.delay.grad is not None
    # DCLS divides by its sum plus 1e-7.
    np.testing.assert_allclose(y.detach(), data[f"{name}_y"], rtol=2e-6, atol=1e-9)
    for parameter in ("weight", "delay"):
        gradient: Any = getattr(layer, parameter).grad
        expected = data[f"{name}_{parameter}_gradient"]
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
        assert np.abs(expected).max() > 0.1


@pytest.mark.parametrize("sigma", [None, 0.7])
def test_channels_are_synapses_one_to_one(sigma: float | None) -> None:
    """Delays of channels are those of a product with the unit matrix, whatever follows."""
    torch.manual_seed(0)
    layer = LearnableDelay(3, 4, sigma)
    product = DelayedLinear(3, 3, 4, sigma)
    with torch.no_grad():
        product.weight.copy_(torch.eye(3))
        product.delay.copy_(layer.delay.expand(3, 3))
    x = torch.rand(9, 2, 3)
    for training in (True, False):
        expected, last = product.train(training)(x)
        y, state = layer.train(training)(x)
        torch.testing.assert_close(y, expected)
        assert torch.equal(state, last) and torch.equal(state, x[-4:])
    image = x[..., None, None].expand(9, 2, 3, 2, 5)
    for training in (True, False):
        expected = layer.train(training)(x)[0]
        torch.testing.assert_close(layer(image)[0][..., 1, 3], expected)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**31))
def test_whole_steps(steps: int, most: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = (torch.rand(steps, 2, 3, generator=generator) < 0.5).float()
    layer = LearnableDelay(3, most)
    with torch.no_grad():
        layer.delay.copy_(torch.randint(0, most + 1, (3,), generator=generator))
    expected = torch.zeros_like(x)
    for channel, delay in enumerate(layer.steps().tolist()):
        if delay < steps:
            expected[delay:, :, channel] = x[: steps - delay, :, channel]
    for training in (True, False):
        assert torch.equal(layer.train(training)(x)[0], expected)


@pytest.mark.parametrize("training", [True, False])
def test_a_run_that_is_cut_goes_on(training: bool) -> None:
    torch.manual_seed(1)
    x = torch.rand(11, 2, 3)
    for layer in (LearnableDelay(3, 4, 1.0), DelayedLinear(3, 5, 4, 1.0)):
        layer.train(training)
        with torch.no_grad():
            layer.delay[..., 0] += 9
        whole, last = layer(x)
        # A cut shorter than the delays too.
        first, state = layer(x[:2])
        second, end = layer(x[2:], state)
        torch.testing.assert_close(torch.cat([first, second]), whole)
        assert torch.equal(end, last)
        chunks, _ = run_in_chunks(layer, x, chunk=3)
        torch.testing.assert_close(chunks, whole)
        if training:
            chunks.sum().backward()


def test_delays_are_learnt() -> None:
    """A coincidence that only the right delays make: channels that fire 0, 3 and 7 steps early."""
    torch.manual_seed(2)
    target = torch.tensor([7, 4, 0])
    layer = LearnableDelay(3, 8, sigma=4.0)
    optimizer = torch.optim.Adam(layer.parameters(), 0.1)
    whole = (torch.rand(60, 16, 1) < 0.1).float()
    x = torch.cat([whole.roll(-int(lead), 0) for lead in target], 2)
    for k in range(200):
        layer.sigma = 4.0 * (0.5 / 4.0) ** (k / 200)
        loss = (layer(x)[0].mean(2, keepdim=True) - whole)[8:-8].square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert torch.equal(layer.steps(), target)


def test_a_delay_comes_back_from_the_end() -> None:
    layer = LearnableDelay(1, 3)
    with torch.no_grad():
        layer.delay.fill_(5.0)
    y, _ = layer(torch.tensor([1.0, 0, 0, 0]).reshape(4, 1, 1))
    (-y[2]).sum().backward()
    assert layer.delay.item() == 3 and layer.delay.grad is not None
    assert layer.delay.grad.item() > 0


class Delayed(nn.Module):
    """Neurons, delays of their axons, synapses, neurons."""

    def __init__(self, is_each: bool) -> None:
        super().__init__()
        self.first, self.last = LifNeuron(0.8), LifNeuron(0.7)
        self.delay: nn.Module = DelayedLinear(3, 4, 3) if is_each else LearnableDelay(3, 3)
        self.linear: nn.Module = nn.Identity() if is_each else nn.Linear(3, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        late, _ = self.delay(self.first(x)[0])
        return self.last(self.linear(late))[0]


@pytest.mark.parametrize("is_each", [False, True])
@pytest.mark.parametrize("target", ["interpreter", "pytorch", "onnx", "tflite", "native", "nir"])
def test_delays_on_targets(is_each: bool, target: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    network = Delayed(is_each).eval()
    x = torch.rand(20, 2, 3) * 2.5
    with torch.no_grad():
        expected = network(x).numpy()
    assert 0.02 < expected.mean() < 0.9
    module = from_torch(network, (x,))
    assert any(isinstance(op, spike.DelayOp) for op in module.walk())
    if target == "interpreter":
        (result,) = run_module(module, [x.numpy()])
    elif target == "nir":
        BuildNetworkPass(expose=True).apply(Context(), module)
        (data,) = compile_to_target(module, "nir").files.values()
        (tmp_path / "net.nir").write_bytes(data)
        delays = [n.delay for n in nir.read(tmp_path / "net.nir").nodes.values()
                  if isinstance(n, nir.Delay)]  # fmt: skip
        assert delays
        if not is_each:
            steps: Any = network.delay
            np.testing.assert_allclose(delays[0], steps.steps().numpy() * 1e-4)
        (result,) = run_module(import_nir(tmp_path / "net.nir"), [x.numpy()])
    else:
        _, (result,), _ = run_target(module, target, [x.numpy()])
    np.testing.assert_array_equal(np.asarray(result, np.float32), expected)


class Resumed(nn.Module):
    """Delays from steps that it is given, and the last ones."""

    def __init__(self) -> None:
        super().__init__()
        self.delay = LearnableDelay(3, 4)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.delay(x, state)


def test_states_of_delays_on_targets() -> None:
    torch.manual_seed(4)
    network = Resumed().eval()
    x, state = torch.rand(6, 2, 3), torch.rand(4, 2, 3)
    expected = [tensor.detach().numpy() for tensor in network(x, state)]
    module = from_torch(network, (x, state))
    assert sum(isinstance(op, spike.DelayOp) for op in module.walk()) == 1
    arrays = [x.numpy(), state.numpy()]
    for results in (run_module(module, arrays), run_target(module, "pytorch", arrays)[1]):
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, wanted)


def test_arguments_that_are_refused() -> None:
    for channels, most, sigma in ((0, 3, None), (3, 0, None), (3, 3, 0.0)):
        with pytest.raises(OptionError, match="sizes and max_delay from 1"):
            LearnableDelay(channels, most, sigma)
    with pytest.raises(OptionError, match=r"expected \[T, N, 3, …\]"):
        LearnableDelay(3, 2)(torch.rand(4, 2))
    with pytest.raises(OptionError, match=r"expected \[T, N, 3\]"):
        DelayedLinear(3, 2, 2)(torch.rand(4, 2, 3, 1))
    for training in (True, False):
        with pytest.raises(OptionError, match="expected 2 steps"):
            LearnableDelay(3, 2).train(training)(torch.rand(4, 2, 3), torch.rand(3, 2, 3))
