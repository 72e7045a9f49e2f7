"""Ternary layers against `torch.nn` with the same effective weights; training; packed forms."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.runtime.layers import TernaryConv2d, TernaryLayer, TernaryLinear
from triton_dsl.runtime.packed import PackedTernaryLinear, pack_model


def effective(layer: TernaryLayer) -> torch.Tensor:
    """scale · trits from the latents, by NumPy in float64 (rule `twn`)."""
    latent = layer.weight.detach().double().numpy()
    rest = tuple(range(1, latent.ndim)) if layer.scale_kind == "channel" else None
    limit = 0.7 * np.abs(latent).mean(axis=rest, keepdims=True)
    kept = np.abs(latent) > limit.astype(np.float32)
    trits = np.where(kept, np.sign(latent), 0)
    if layer.scale_kind == "none":
        return torch.from_numpy(trits)
    total = np.where(kept, np.abs(latent), 0).sum(axis=rest, keepdims=True)
    return torch.from_numpy(trits * total / np.maximum(kept.sum(axis=rest, keepdims=True), 1))


def check(layer: Any, reference: Any, x: torch.Tensor) -> None:
    """The same outputs in training, evaluation and packed; the same gradients."""
    reference = reference.double()
    reference.weight.data = effective(layer)
    if layer.bias is not None:
        reference.bias.data = layer.bias.detach().double()
    close: Any = {"rtol": 1e-4, "atol": 1e-4}
    x.requires_grad_()
    x64 = x.detach().double().requires_grad_()
    expected = reference(x64)
    result = layer(x)
    torch.testing.assert_close(result.double(), expected, **close)
    gradient = torch.randn_like(result)
    result.backward(gradient)
    expected.backward(gradient.double())
    assert x.grad is not None and x64.grad is not None
    torch.testing.assert_close(x.grad.double(), x64.grad, **close)
    torch.testing.assert_close(layer.weight.grad.double(), reference.weight.grad, **close)
    layer.eval()
    packed: Any = pack_model(layer)
    with torch.no_grad():
        torch.testing.assert_close(layer(x).double(), expected.detach(), **close)
    torch.testing.assert_close(packed(x).double(), expected.detach(), **close)
    assert torch.equal(packed.get_ternary_weights().unique(), torch.tensor([-1.0, 0.0, 1.0]))


@pytest.mark.parametrize("scale", ["none", "tensor", "channel"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(5, 24), (2, 3, 24), (24,)])
def test_linear_is_that_of_torch(scale: str, bias: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = TernaryLinear(24, 7, bias, scale=scale)
    check(layer, nn.Linear(24, 7, bias), torch.randn(shape))


@pytest.mark.parametrize("scale", ["none", "tensor", "channel"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False, "stride": 2, "padding": 1},
        {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2), "groups": 2},
        {"groups": 4},
    ],
)
def test_conv_is_that_of_torch(scale: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    layer = TernaryConv2d(4, 8, (3, 2), scale=scale, **options)
    check(layer, nn.Conv2d(4, 8, (3, 2), **options), torch.randn(2, 4, 9, 8))


def test_weights_are_those_of_torch_layers() -> None:
    linear, conv = TernaryLinear(6, 3), TernaryConv2d(2, 4, 3)
    linear.load_state_dict(nn.Linear(6, 3).state_dict())
    conv.load_state_dict(nn.Conv2d(2, 4, 3).state_dict())
    assert set(linear.get_ternary_weights().unique().tolist()) <= {-1, 0, 1}
    assert not linear.get_ternary_weights().requires_grad
    assert torch.equal(linear.to_ternary_tensor().to_float(), linear.get_ternary_weights())
    assert linear.get_scale() is not None
    assert TernaryLinear(6, 3, scale="none").get_scale() is None
    assert TernaryLinear(6, 3, scale="tensor").get_scale().shape == ()  # pyright: ignore
    fixed = TernaryLinear(6, 3, threshold=0.2)
    assert torch.equal(fixed.get_ternary_weights() != 0, fixed.weight.abs() > 0.2)
    packed = linear.to_packed()
    assert (
        packed.weight.numpy().tolist()
        == pack_trits(linear.get_ternary_weights().T.numpy()).tolist()
    )


def changes(layer: TernaryLinear) -> Any:
    """Ways to change the latents that PyTorch users know."""
    other = nn.Linear(8, 4)

    def step() -> None:
        layer.weight.grad = torch.randn_like(layer.weight)
        torch.optim.SGD([layer.weight], 1.0).step()

    def replace() -> None:
        layer.weight = nn.Parameter(torch.randn(4, 8))

    return {
        "load": lambda: layer.load_state_dict(other.state_dict()),
        "init": lambda: nn.init.normal_(layer.weight),
        "step": step,
        "replace": replace,
        "data": lambda: setattr(layer.weight, "data", torch.randn(4, 8)),
        "bias": lambda: nn.init.normal_(layer.bias),  # pyright: ignore[reportArgumentType]
    }


@pytest.mark.parametrize("change", ["load", "init", "step", "replace", "data", "bias"])
def test_packed_trits_follow_the_latents(change: str) -> None:
    torch.manual_seed(0)
    layer, x = TernaryLinear(8, 4).eval(), torch.randn(3, 8)
    with torch.no_grad():
        before = layer(x)
        assert torch.equal(layer(x), before)
    changes(layer)[change]()
    with torch.no_grad():
        after = layer(x)
    torch.testing.assert_close(after, layer(x).detach())
    assert not torch.allclose(after, before)


def test_the_latents_have_gradients_in_evaluation_too() -> None:
    layer = TernaryLinear(8, 4).eval()
    with torch.no_grad():
        layer(torch.randn(3, 8))
    layer(torch.randn(3, 8)).sum().backward()
    assert layer.weight.grad is not None


def test_copies_types_and_modes() -> None:
    layer, x = TernaryLinear(8, 4).eval(), torch.randn(3, 8)
    with torch.no_grad():
        expected = layer(x)
        copied = copy.deepcopy(layer)
        torch.testing.assert_close(copied(x), expected)
        assert copied.bfloat16()(x.bfloat16()).dtype == torch.bfloat16
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16
            conv = TernaryConv2d(1, 1, 1).eval()
            assert conv(torch.randn(1, 1, 2, 2)).dtype == torch.bfloat16
    with torch.inference_mode():
        torch.testing.assert_close(layer(x), expected)
        inside = TernaryLinear(8, 4).eval()
        assert inside(x).shape == (3, 4)
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    assert set(torch.load(buffer, weights_only=True)) == {"weight", "bias"}
    weights = {"weight": torch.randn(4, 8), "bias": torch.zeros(4)}
    called = torch.func.functional_call(layer, weights, (x,))
    layer.load_state_dict(weights)
    torch.testing.assert_close(called, layer(x))


@pytest.mark.parametrize("make", [lambda: TernaryLinear(8, 4), lambda: TernaryConv2d(8, 4, 1)])
def test_shapes_are_known_without_values(make: Any) -> None:
    x = torch.empty((2, 8) if isinstance(make(), TernaryLinear) else (2, 8, 3, 3), device="meta")
    with torch.no_grad():
        layer = make().to("meta").eval()
        assert layer(x).shape[1] == 4 and pack_model(layer)(x).device.type == "meta"
    with FakeTensorMode(), torch.no_grad():
        assert make().eval()(torch.empty(x.shape)).shape[1] == 4


def test_tracing_sees_the_ternarization() -> None:
    layer, x = TernaryLinear(8, 4).eval(), torch.randn(3, 8)
    with torch.no_grad():
        layer(x)
        graph = make_fx(layer)(x)
    torch.testing.assert_close(graph(x), layer(x).detach())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TernaryLinear(2, 2, scale="row"), "unknown scale 'row'"),
        (lambda: TernaryLinear(2, 2, rule="median"), "unknown rule 'median'"),
        (lambda: TernaryConv2d(3, 4, 1, groups=2), "2 groups do not divide 3 input"),
        (lambda: TernaryConv2d(3, 4, 1, groups=0), "0 groups do not divide"),
    ],
)
def test_wrong_settings_are_named(make: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


@pytest.mark.parametrize("layer", [TernaryLinear(20, 7), TernaryConv2d(20, 7, 1)])
def test_latents_written_in_evaluation_are_noticed(layer: TernaryLayer) -> None:
    """PyTorch does not count what is written through `data`."""
    torch.manual_seed(0)
    x = torch.randn(3, 20, 1, 1) if isinstance(layer, TernaryConv2d) else torch.randn(3, 20)
    layer.eval()
    for change in (torch.Tensor.neg_, torch.Tensor.mul_, torch.Tensor.zero_):
        with torch.no_grad():
            layer(x)
            weight = layer.weight.data
            change(weight, *([torch.randn(weight.shape)] if change is torch.Tensor.mul_ else []))
            found = layer(x)
        product = x.flatten(1).double() @ layer.effective_weight().detach().flatten(1).T.double()
        assert layer.bias is not None
        expected = product + layer.bias.detach()
        torch.testing.assert_close(found.flatten(1).double(), expected, rtol=1e-5, atol=1e-5)


def test_repr_shows_the_settings() -> None:
    assert repr(TernaryLinear(3, 2, threshold=0.5)) == (
        "TernaryLinear(3, 2, bias=True, rule=fixed, threshold=0.5, scale=channel)"
    )
    assert "groups=1, bias=False, rule=twn, scale=none)" in repr(
        TernaryConv2d(3, 2, 1, bias=False, scale="none")
    )
    assert isinstance(TernaryLinear(3, 2).to_packed(), PackedTernaryLinear)


@pytest.mark.parametrize("rule", ["twn", "absmean"])
@pytest.mark.parametrize("scale", ["tensor", "channel"])
def test_training_lowers_the_loss(rule: str, scale: str) -> None:
    """Two ternary layers learn which of two intertwined classes a point is in."""
    torch.manual_seed(0)
    angle = torch.rand(256) * 3
    sign = torch.randint(0, 2, (256,)) * 2 - 1
    x = torch.stack([angle * (2 * angle).cos() * sign, angle * (2 * angle).sin() * sign], dim=1)
    labels = (sign > 0).long()
    model = nn.Sequential(
        TernaryLinear(2, 64, rule=rule, scale=scale),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        TernaryLinear(64, 2, rule=rule, scale=scale),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses: list[float] = []
    for _ in range(150):
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    packed = pack_model(model)
    assert torch.equal(packed(x).argmax(1), model.eval()(x).argmax(1))
    assert (packed(x).argmax(1) == labels).float().mean() > 0.85


@pytest.mark.parametrize(
    "layer",
    [
        TernaryLinear(24, 7, scale="none", fan_in=5),
        TernaryLinear(24, 7, fan_in=1),
        TernaryConv2d(4, 6, 3, groups=2, padding=1, fan_in=4),
    ],
)
def test_fan_in_is_that_of_every_output(layer: TernaryLayer) -> None:
    """Before and after training, packed, and in a program."""
    torch.manual_seed(0)
    layer.reset_parameters()
    shape = (8, 24) if isinstance(layer, TernaryLinear) else (8, 4, 5, 5)
    x, before = torch.randn(shape), layer.get_ternary_weights()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    layer.train()
    target = torch.randn_like(layer(x))
    for _ in range(20):
        optimizer.zero_grad()
        nn.functional.mse_loss(layer(x), target).backward()
        assert layer.weight.grad is not None and (layer.weight.grad != 0).all()
        optimizer.step()
    trits = layer.get_ternary_weights()
    assert (before != 0).logical_xor(trits != 0).any()  # other inputs were chosen
    assert (trits.flatten(1).abs().sum(1) == layer.fan_in).all()
    layer.eval()
    packed: Any = pack_model(copy.deepcopy(layer))
    program = from_torch(nn.Sequential(layer), x[:1])
    with torch.no_grad():
        expected = layer.double()(x.double()).float()
        (exported,) = run_module(program, [x.numpy()])
        torch.testing.assert_close(packed(x), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(exported, expected.numpy(), rtol=1e-5, atol=1e-5)
    assert f"fan_in={layer.fan_in}" in repr(layer)


def test_fan_in_excludes_rules_and_has_bounds() -> None:
    with pytest.raises(OptionError, match="leave out rule"):
        TernaryLinear(8, 2, rule="twn", fan_in=3)
    with pytest.raises(OptionError, match="from 1 to 8, got 9"):
        TernaryLinear(8, 2, fan_in=9)
    with pytest.raises(OptionError, match="from 1 to 18, got 0"):
        TernaryConv2d(4, 4, 3, groups=2, fan_in=0)
