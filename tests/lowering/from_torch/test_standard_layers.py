"""Layers that are exported as single operators give what they gave operator by operator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from triton_dsl.dialects import tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import LoweringError
from triton_dsl.ir.printing import PrintOptions, module_text
from triton_dsl.lowering.from_torch import from_torch

LAYERS: tuple[nn.Module, ...] = (
    nn.BatchNorm2d(4),
    nn.BatchNorm2d(4, affine=False),
    nn.Dropout(0.5),
    nn.Dropout2d(0.5),
    nn.GELU(),
    nn.GELU("tanh"),
    nn.Hardsigmoid(),
    nn.Hardswish(inplace=True),
    nn.Hardtanh(-0.5, 2.0),
    nn.Hardtanh(-0.5, 2.0, inplace=True),
    nn.LayerNorm([5, 5]),
    nn.LayerNorm(5, elementwise_affine=False),
    nn.LeakyReLU(0.1, inplace=True),
    nn.Linear(5, 3),
    nn.Linear(5, 3, bias=False),
    nn.ReLU(),
    nn.ReLU(inplace=True),
    nn.ReLU6(inplace=True),
    nn.SiLU(inplace=True),
    nn.Sigmoid(),
    nn.Tanh(),
)


def filled(module: nn.Module) -> nn.Module:
    """The module with parameters and statistics away from their start."""
    with torch.no_grad():
        for value in [*module.parameters(), *module.buffers()]:
            if value.is_floating_point():
                value.uniform_(0.5, 1.5)
    return module.eval()


def subclassed(layer: nn.Module) -> nn.Module:
    """The same layer as an instance of a class of its own, which is exported by its operators."""
    layer.__class__ = type("Own", (type(layer),), {})
    return layer


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_a_layer_gives_the_ops_of_its_operators(layer: nn.Module, check: Any) -> None:
    net = filled(nn.Sequential(nn.Conv2d(3, 4, 3), layer, nn.Flatten()))
    x = torch.randn(3, 3, 7, 7)
    made = check.same(net, [x], [x[:1]])
    subclassed(layer)
    assert str(made) == str(from_torch(net, x))


class Shared(nn.Module):
    """A tensor that is changed in place, and read under other names."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)
        self.relu, self.how = nn.ReLU6(inplace=True), how

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x))
        match self.how:
            case "before":  # what was computed before stays
                z = y * 2
                return z + self.relu(y)
            case "after":
                self.relu(y)
                return y + y.mean(1, keepdim=True)
            case "view":  # a view changes too
                z = y.flatten(1)
                self.relu(y)
                return z
            case "of a view":
                z = y.flatten(1)
                self.relu(z)
                return y
            case "added":
                y += x.sum(1, keepdim=True)
                return self.relu(y) + y
            case _:  # an argument changes
                x = self.relu(x * 1.0)
                self.relu(y)
                return self.relu(y - 3.0) + x.sum(1, keepdim=True)


@pytest.mark.parametrize("how", ["before", "after", "view", "of a view", "added", "twice"])
def test_what_is_changed_in_place_is_seen_where_pytorch_shows_it(how: str, check: Any) -> None:
    x = 4 * torch.randn(3, 3, 5, 5)
    check.same(filled(Shared(how)), [x], [x[:1]])


class Attention(nn.Module):
    """`nn.MultiheadAttention` called in one of its ways."""

    def __init__(self, how: str, batch_first: bool, bias: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, bias=bias, batch_first=batch_first)
        self.how = how

    def forward(self, x: Tensor) -> Any:
        y = self.attention
        match self.how:
            case "itself":
                return y(x, x, x, need_weights=False)[0]
            case "another":
                return y(x, x * 2, x * 2, need_weights=False)[0]
            case "weights":
                return y(x, x, x)
            case _:
                mask = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
                return y(x, x, x, need_weights=False, attn_mask=mask)[0]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_attention_to_itself_has_two_transposes(batch_first: bool, bias: bool, check: Any) -> None:
    net = Attention("itself", batch_first, bias)
    x = torch.randn(3, 5, 8) if batch_first else torch.randn(5, 3, 8)
    axis = 0 if batch_first else 1
    made = check.same(net, [x], dynamic={"x": {axis: "N"}})
    assert sum(isinstance(op, tensor.PermuteOp) for op in made.walk()) == 2
    check.same_in_onnx(net, made, [x])


@pytest.mark.parametrize("how", ["another", "weights", "masked"])
def test_other_attention_is_exported_by_its_operators(how: str, check: Any) -> None:
    check.same(Attention(how, True, True), [torch.randn(3, 5, 8)])


class Bad(nn.Module):
    """A module that cannot be exported."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(x)
        return y if bool(y.sum() > 0) else -y


def test_the_layers_stay_as_they_are() -> None:
    net, bad = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), Bad()
    from_torch(net, torch.zeros(2, 3))
    with pytest.raises(LoweringError):
        from_torch(bad, torch.zeros(2, 3))
    assert not any("forward" in vars(part) for part in [*net.modules(), *bad.modules()])


def test_a_forward_that_was_replaced_is_kept(check: Any) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    net[1].forward = torch.abs  # pyright: ignore[reportAttributeAccessIssue]
    made = check.same(net, [torch.randn(2, 3)])
    assert any(isinstance(op, tensor.AbsOp) for op in made.walk())
    assert "forward" in vars(net[1])


@pytest.mark.parametrize("layer", [nn.Linear(5, 3), nn.LayerNorm(5), nn.GELU()])
def test_autocast_chooses_the_types_of_layers(layer: nn.Module) -> None:
    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.layer(x)
            return y.float()

    x = torch.randn(4, 2, 5)
    (found,) = run_module(from_torch(Cast(), x), [x.numpy()])
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(found), Cast()(x), rtol=2**-7, atol=2**-7)


def test_hooks_run(check: Any) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def more(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        return output + 1

    net[1].register_forward_hook(more)
    check.same(net, [torch.randn(2, 3)])


def test_ops_stand_in_the_module_and_at_the_line_of_the_user() -> None:
    made = from_torch(filled(Shared("after")), torch.zeros(2, 3, 5, 5))
    text = module_text(made, PrintOptions(locations=True))
    places = [line for line in text.splitlines() if "tensor.clamp" in line or "relu6" in line]
    assert places
    assert all('"relu"' in line and "test_standard_layers.py" in line for line in places)
