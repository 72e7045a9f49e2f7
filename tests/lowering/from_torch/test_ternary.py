"""Ternary weights: found in float weights to the last bit, and taken from our layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import parameter_value, store_of
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.ternary_weights import recognize
from triton_dsl.runtime.layers import TernaryConv2d, TernaryLinear


def kinds(made: Any) -> list[type[Any]]:
    return [type(op) for op in made.walk()]


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["none", "tensor", "channel"]),
    st.sampled_from([(3, 4), (5, 2, 3), (4, 1, 2, 2)]),
    st.sampled_from(["float32", "float64", "float16"]),
)
def test_recognition_is_exact(seed: int, scale: str, shape: tuple[int, ...], dtype: str) -> None:
    """scale · trits has the bits of the weight."""
    rng = np.random.default_rng(seed)
    trits = rng.integers(-1, 2, shape)
    trits.reshape(-1)[0] = 1
    factor = {"none": np.ones(1), "tensor": rng.uniform(0.1, 3, 1),
              "channel": rng.uniform(0.1, 3, shape[0])}[scale].astype(dtype)  # fmt: skip
    column = factor.reshape(-1, *[1] * (len(shape) - 1))
    weight = (trits * column).astype(dtype)
    found = recognize(weight)
    assert found is not None
    assert found.scale is None or found.scale.dtype == weight.dtype
    np.testing.assert_array_equal(found.trits, trits)
    made = found.trits if found.scale is None else found.trits * found.scale.reshape(
        -1, *[1] * (len(shape) - 1)
    )  # fmt: skip
    np.testing.assert_array_equal(made.astype(dtype), weight)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(2, 6))
def test_other_weights_are_left(seed: int, outputs: int, inputs: int) -> None:
    """One value that differs in the last bit is enough."""
    rng = np.random.default_rng(seed)
    weight = rng.choice([-0.5, 0.5], (outputs, inputs)).astype(np.float32)
    row = int(rng.integers(outputs))
    weight[row, 0] = np.nextafter(weight[row, 0], np.float32(2), dtype=np.float32)
    assert recognize(weight) is None


@pytest.mark.parametrize(
    "weight", [np.zeros((3, 4)), np.full((3, 4), np.nan), np.ones(4), np.ones((4, 1))]
)
def test_weights_that_say_nothing(weight: Any) -> None:
    assert recognize(weight.astype(np.float32)) is None


class Net(nn.Module):
    """A convolution and a linear layer with the scales of a rule."""

    def __init__(self, scale: str) -> None:
        super().__init__()
        self.conv = TernaryConv2d(3, 6, 3, 2, 1, groups=3, scale=scale)
        self.fc = TernaryLinear(6 * 9, 4, scale=scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.relu(self.conv(x)).flatten(1))


@pytest.mark.parametrize("scale", ["none", "tensor", "channel"])
@pytest.mark.parametrize("packed", [False, True])
def test_our_layers(check: Any, scale: str, packed: bool) -> None:
    """Latents are folded, packed bytes are unpacked; both give ops on trits."""
    module = Net(scale).eval()
    trits = module.fc.get_ternary_weights().T
    if packed:
        parts: Any = module
        parts.conv, parts.fc = module.conv.to_packed(), module.fc.to_packed()
    made = check.same(module, *[(torch.randn(n, 3, 6, 6),) for n in (2, 3)])
    found = kinds(made)
    assert found.count(ternary.ConvOp) == found.count(ternary.LinearOp) == 1
    assert tensor.LinearOp not in found and tensor.ConvOp not in found
    parameters = {op.key.data: op for op in made.walk() if isinstance(op, ternary.ParameterOp)}
    assert set(parameters) == {"conv.weight", "fc.weight"}
    np.testing.assert_array_equal(parameter_value(parameters["fc.weight"]), trits.numpy())
    check.same_in_onnx(module, made, (torch.randn(3, 3, 6, 6),))


def test_plain_layers_with_ternary_values(check: Any) -> None:
    """nn.Linear, nn.Conv1d and a transposed convolution that hold −s, 0, s."""

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ConvTranspose1d(4, 6, 3, 2, groups=2)
            self.conv = nn.Conv1d(6, 4, 3)
            self.fc = nn.Linear(4, 5)
            self.out = nn.Parameter(torch.randn(5, 3).sign() * torch.tensor([1.5, 2.0, 0.3]))
            with torch.no_grad():
                for part in (self.up, self.conv, self.fc):
                    part.weight.copy_(part.weight.sign() * 0.3)
                self.up.weight[:, 1] *= 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.conv(self.up(x)).mean(-1)) @ self.out

    module = Plain()
    made = check.same(module, *[(torch.randn(n, 4, 5),) for n in (2, 3)])
    assert kinds(made).count(ternary.ConvOp) == 2
    assert kinds(made).count(ternary.LinearOp) == 2


def test_recognition_can_be_switched_off(check: Any) -> None:
    module = Net("channel").eval()
    made = from_torch(module, torch.randn(2, 3, 6, 6), recognize_ternary=False)
    assert not any(kind.name.startswith("ternary.") for kind in kinds(made))
    x = torch.randn(2, 3, 6, 6)
    (found,) = run_module(made, [x.numpy()])
    with torch.no_grad():
        np.testing.assert_allclose(found, module(x).numpy(), rtol=1e-5, atol=1e-5)


class Quantized(nn.Module):
    """A user's own ternarization with a straight-through gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = self.weight.abs()
        scale = size.mean()
        trits = torch.where(size > 0.7 * scale, self.weight.sign(), 0.0)
        weight = self.weight + (trits * 0.5 - self.weight).detach()
        return nn.functional.linear(x, weight.detach() * 0 + trits * 0.5)


def test_ternarization_in_forward_is_folded(check: Any) -> None:
    made = check.same(Quantized(), (torch.randn(2, 6),), (torch.randn(3, 6),))
    assert ternary.LinearOp in kinds(made)


@settings(max_examples=4, deadline=None)
@given(st.data())
def test_windows_of_convolutions(data: st.DataObject) -> None:
    """Random windows, float and ternary weights, plain and transposed."""
    spatial = data.draw(st.integers(1, 2))
    draw = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    parts: list[nn.Module] = []
    for _ in range(6):
        groups = draw(1, 2)
        transposed = data.draw(st.booleans())
        plain = [nn.Conv1d, nn.Conv2d][spatial - 1]
        turned = [nn.ConvTranspose1d, nn.ConvTranspose2d][spatial - 1]
        kernel, stride, dilation = draw(1, 3), draw(1, 3), draw(1, 2)
        layer = (turned if transposed else plain)(
            4, 2 * groups, kernel, stride, draw(0, kernel // 2), groups=groups, dilation=dilation
        )
        if data.draw(st.booleans()):
            layer.weight.data = layer.weight.data.sign() * 0.5
        parts.append(layer)

    class All(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(parts)

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [part(x) for part in self.parts]

    module, size = All(), draw(6, 9)
    made = from_torch(module, torch.randn(2, 4, *[size] * spatial))
    x = torch.randn(3, 4, *[size] * spatial)
    with torch.no_grad():
        for found, wanted in zip(run_module(made, [x.numpy()]), module(x), strict=True):
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_ternary", [False, True])
def test_tied_weights_are_stored_once(is_ternary: bool) -> None:
    """Two layers with one weight, which is one parameter."""
    net = nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 8, bias=False)).eval()
    first, last = net[0], net[2]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    last.weight = first.weight
    if is_ternary:
        first.weight.data = torch.randint(-1, 2, (8, 8)) / 2
    made = from_torch(net, torch.zeros(2, 8))
    kind = ternary.ParameterOp if is_ternary else tensor.ParameterOp
    assert kinds(made).count(kind) == 1
    assert len(store_of(made).names()) == 1
    x = torch.randint(-8, 9, (3, 8)) / 4
    with torch.no_grad():
        np.testing.assert_allclose(run_module(made, [x.numpy()])[0], net(x).numpy(), rtol=1e-6)
