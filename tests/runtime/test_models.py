"""The networks: sizes from the literature, shapes, training, packed forms."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.layers import TernaryLayer
from triton_dsl.runtime.models.bert import TernaryBertTiny
from triton_dsl.runtime.models.mobilenet import TernaryMobileNetV2
from triton_dsl.runtime.models.resnet import TernaryResNet18, ternary_resnet18
from triton_dsl.runtime.models.small import TernaryCIFAR10Net, TernaryMNISTNet
from triton_dsl.runtime.packed import pack_model


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_sizes_are_those_of_the_papers() -> None:
    """torchvision counts 11,689,512 and 3,504,872; Google's BERT-tiny has 4,385,920 without head;
    ResNet-18 with a 3x3 start and ten classes has 11,173,962."""
    with torch.device("meta"):
        assert count(TernaryResNet18(small_images=False)) == 11_689_512
        assert count(ternary_resnet18(num_classes=10)) == 11_173_962
        assert count(TernaryMobileNetV2()) == 3_504_872
        assert count(TernaryBertTiny(num_classes=2)) == 4_385_920 + 2 * 128 + 2
        assert count(TernaryMNISTNet()) == 784 * 256 + 256 * 128 + 1280 + 2 * (256 + 128 + 10)


MODELS = {
    "resnet": (lambda: ternary_resnet18(num_classes=10), (3, 16, 16)),
    "resnet-ternary-ends": (lambda: ternary_resnet18(10, ternary_ends=True), (3, 16, 16)),
    "resnet-large-images": (lambda: ternary_resnet18(10, small_images=False), (3, 64, 64)),
    "mobilenet": (lambda: TernaryMobileNetV2(10, small_images=True, width=0.25), (3, 16, 16)),
    "mobilenet-all-ternary": (
        lambda: TernaryMobileNetV2(10, width=0.25, ternary_depthwise=True, ternary_ends=True),
        (3, 64, 64),
    ),
    "mnist": (TernaryMNISTNet, (1, 28, 28)),
    "cifar": (TernaryCIFAR10Net, (3, 32, 32)),
}


MORE = ("mobilenet-all-ternary", "resnet-large-images", "resnet-ternary-ends")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in MORE else []) for name in MODELS],
)
def test_images_are_classified(name: str) -> None:
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model: Any = make()
    x = torch.randn(2, *shape)
    loss = nn.functional.cross_entropy(model(x), torch.tensor([1, 2]))
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    # In float32, the last bit of a sum can change the answer of so deep an untrained network.
    model.eval().double()
    expected = model(x.double()).detach()
    assert expected.shape == (2, 10) and expected.isfinite().all()
    packed = pack_model(model)
    torch.testing.assert_close(packed(x.double()), expected)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("mnist", "cifar") else [pytest.mark.slow])
        for name in MODELS
    ],
)
def test_packed_networks_run_in_native_code(name: str) -> None:
    """In float32, in which every layer is compiled: for each shape anew."""
    torch.manual_seed(0)
    make, shape = MODELS[name]
    with torch.no_grad():
        assert pack_model(make().eval())(torch.randn(2, *shape)).isfinite().all()


def test_ends_are_float_unless_asked() -> None:
    with torch.device("meta"):
        for model in (ternary_resnet18(), TernaryMobileNetV2(ternary_depthwise=True)):
            floats = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
            assert len(floats) == 2
        for model in (
            ternary_resnet18(ternary_ends=True),
            TernaryMobileNetV2(ternary_depthwise=True, ternary_ends=True),
        ):
            assert not [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        assert sum(isinstance(m, TernaryLayer) for m in TernaryBertTiny().modules()) == 13


def test_sequences_are_classified() -> None:
    torch.manual_seed(0)
    model = TernaryBertTiny(num_classes=3, vocab_size=50).eval()
    tokens = torch.randint(1, 50, (2, 7))
    expected = model(tokens)
    assert expected.shape == (2, 3)
    padded = nn.functional.pad(tokens, (0, 4))
    mask = (padded != 0).long()
    torch.testing.assert_close(model(padded, mask), expected, rtol=1e-4, atol=1e-5)
    other = model(tokens, token_type_ids=torch.ones_like(tokens))
    assert not torch.allclose(other, expected)
    torch.testing.assert_close(pack_model(model)(tokens), expected.detach(), rtol=1e-4, atol=1e-5)
    with pytest.raises(OptionError, match="513 tokens; at most 512 fit"):
        model(torch.ones(1, 513, dtype=torch.long))
    with pytest.raises(OptionError, match="3 heads do not divide"):
        TernaryBertTiny(heads=3)


class WithCheckpoints(TernaryResNet18):
    """Stages are run again in the backward pass instead of being kept."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv1(x)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = checkpoint(stage, x, use_reentrant=False)
        return self.fc(torch.flatten(self.avgpool(x), 1))


def test_checkpointing_gives_the_same_gradients() -> None:
    torch.manual_seed(0)
    plain, x = TernaryResNet18(num_classes=4), torch.randn(2, 3, 8, 8)
    saving = WithCheckpoints(num_classes=4)
    saving.load_state_dict(plain.state_dict())
    for model in (plain, saving):
        model(x).square().sum().backward()
    for one, other in zip(plain.parameters(), saving.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_bert_learns_a_task() -> None:
    """Which of two tokens stands first."""
    torch.manual_seed(0)
    model = TernaryBertTiny(vocab_size=12, hidden=32, heads=2, inner=64, dropout=0.0)
    tokens = torch.randint(1, 12, (64, 5))
    labels = torch.arange(64) % 2
    tokens[:, 0] = labels + 1
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses: list[float] = []
    for _ in range(40):
        loss = nn.functional.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
