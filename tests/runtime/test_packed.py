"""Packed models: equal results, PyTorch's compilers, and weights of `.tri` programs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.trits import packed_size
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.runtime.layers import TernaryConv2d, TernaryLinear
from triton_dsl.runtime.models.small import TernaryMNISTNet
from triton_dsl.runtime.packed import (
    PackedTernaryConv2d,
    PackedTernaryLinear,
    freeze,
    pack_model,
    tri_state_dict,
)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "models"


class Network(nn.Module):
    """A convolution, a shared ternary layer, a float layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = TernaryConv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.shared = TernaryLinear(8, 8)
        self.again = self.shared
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.norm(self.conv(x))).mean(1).flatten(1)
        return self.head(torch.relu(self.again(torch.relu(self.shared(h)))))


@pytest.fixture
def network() -> Network:
    torch.manual_seed(0)
    model = Network()
    model(torch.randn(16, 1, 2, 4))
    return model


X = torch.randn(5, 1, 2, 4, generator=torch.Generator().manual_seed(1))


def test_packed_models_compute_the_same(network: Network) -> None:
    before = copy.deepcopy(network.state_dict())
    packed = pack_model(network)
    assert network.training and not packed.training
    torch.testing.assert_close(packed(X), network.eval()(X))
    assert isinstance(packed.conv, PackedTernaryConv2d)
    assert isinstance(packed.shared, PackedTernaryLinear) and packed.again is packed.shared
    assert all(torch.equal(network.state_dict()[key], before[key]) for key in before)
    state = packed.state_dict()
    assert state["shared.weight"].dtype == torch.uint8
    assert state["shared.weight"].shape == (16,) and state["conv.weight"].shape == (9,)


def test_packed_state_is_read_back_and_checked(network: Network) -> None:
    packed = pack_model(network)
    other = Network()
    other(torch.randn(16, 1, 2, 4))
    again = pack_model(other)
    again.load_state_dict(packed.state_dict())
    torch.testing.assert_close(again(X), packed(X))
    broken = packed.state_dict()
    broken["conv.weight"] = torch.full_like(broken["conv.weight"], 255)
    broken["shared.weight"] = torch.zeros(3, dtype=torch.uint8)
    with pytest.raises(RuntimeError) as caught:
        again.load_state_dict(broken)
    assert "conv.weight: reserved trit code 0b11 at element 0" in str(caught.value)
    assert "shared.weight: expected uint8[16] for 8x8 packed trits" in str(caught.value)
    torch.testing.assert_close(again(X), packed(X))


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_compiles_as_one_graph(network: Network, backend: str) -> None:
    packed = pack_model(network)
    compiled: Any = torch.compile(packed, fullgraph=True, backend=backend, dynamic=True)
    for batch in (X, torch.randn(3, 1, 2, 4)):
        torch.testing.assert_close(compiled(batch), packed(batch))
    # The latents too, with gradients and without.
    trained: Any = torch.compile(network.eval(), fullgraph=True, backend=backend)
    torch.testing.assert_close(trained(X), network(X))
    trained(X).sum().backward()
    assert network.conv.weight.grad is not None
    with torch.no_grad():
        torch.testing.assert_close(trained(X), network(X))


@pytest.mark.slow
def test_compiles_with_inductor(network: Network) -> None:
    compiled: Any = torch.compile(pack_model(network), fullgraph=True)
    torch.testing.assert_close(compiled(X), network.eval()(X))


def test_exports_with_any_batch(network: Network) -> None:
    packed = pack_model(network)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(packed, (X,), dynamic_shapes=({0: batch},))
    calls = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert calls.count("triton_dsl.ternary_linear.default") == 2
    for count in (1, 5, 9):
        image = torch.randn(count, 1, 2, 4)
        torch.testing.assert_close(program.module()(image), packed(image))
    with torch.no_grad():
        latent = torch.export.export(network.eval(), (X,), dynamic_shapes=({0: batch},))
        torch.testing.assert_close(latent.module()(X), network(X))


def test_a_single_layer_is_packed() -> None:
    layer, x = TernaryLinear(6, 3), torch.randn(2, 6)
    packed = pack_model(layer)
    assert isinstance(packed, PackedTernaryLinear) and not packed.training
    torch.testing.assert_close(packed(x), layer(x))
    assert packed.to_ternary_tensor().shape == (6, 3)
    assert repr(packed) == "PackedTernaryLinear(6, 3, bias=True)"
    assert "(4, 1, 3, 3), stride=(1, 1)" in repr(TernaryConv2d(1, 4, 3).to_packed())
    assert packed.double()(x.double()).dtype == torch.float64


def test_weights_of_a_digit_network_fit_its_program() -> None:
    torch.manual_seed(0)
    model, images = TernaryMNISTNet(), torch.rand(32, 1, 28, 28)
    model(images)
    state = tri_state_dict(model)
    assert state["fc1.weight"].shape == (packed_size((784, 256)),)
    program = import_tri(EXAMPLES / "mnist.tri", weights=state)
    (result,) = run_module(program, [images.numpy()])
    torch.testing.assert_close(
        torch.from_numpy(result), model.eval()(images).detach(), rtol=1e-4, atol=1e-4
    )


def test_weights_of_every_kind_of_layer_fit_the_language() -> None:
    torch.manual_seed(0)
    source = """
    layer Net {
        let conv = TernaryConv2d(1, 4, kernel=3, padding=1, with_scale=true)
        let norm = BatchNorm2d(4)
        let fc = TernaryLinear(32, 8, with_scale=true)
        let head = Linear(8, 3)
        fn forward(x: Tensor[N, 1, 2, 4]) -> Tensor[N, 3] {
            return head(relu(fc(flatten(relu(norm(conv(x)))))))
        }
    }
    """

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = TernaryConv2d(1, 4, 3, padding=1)
            self.norm = nn.BatchNorm2d(4)
            self.fc = TernaryLinear(32, 8, scale="tensor")
            self.head = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = torch.relu(self.norm(self.conv(x))).flatten(1)
            return self.head(torch.relu(self.fc(h)))

    model = Net()
    model(torch.randn(8, 1, 2, 4))
    (result,) = run_module(import_tri(source, weights=tri_state_dict(model)), [X.numpy()])
    torch.testing.assert_close(
        torch.from_numpy(result), model.eval()(X).detach(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("conv", [False, True])
def test_frozen_weights_are_read_again_when_pytorch_counts_a_change(conv: bool) -> None:
    made = TernaryConv2d(3, 4, 3) if conv else TernaryLinear(30, 7)
    model = freeze(pack_model(nn.Sequential(made)))
    x = torch.randn(2, 3, 5, 5) if conv else torch.randn(2, 30)
    layer: Any = model[0]  # pyright: ignore[reportIndexIssue]
    first = [model(x) for _ in range(3)][-1]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    layer.weight.data.zero_()
    assert torch.equal(model(x), first)  # what was promised not to happen
    layer.weight.add_(0)
    shape = (-1, 1, 1) if conv else (-1,)
    assert torch.equal(model(x), layer.bias.reshape(shape).expand_as(first))
    model.load_state_dict(state)
    assert torch.equal(model(x), first)
    assert torch.equal(copy.deepcopy(model)(x), first)
