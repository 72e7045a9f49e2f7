"""Whole networks with random weights: PyTorch, the interpreter and ONNX Runtime agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from triton_dsl.dialects import tensor, ternary
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.runtime.models.bert import TernaryBertTiny
from triton_dsl.runtime.models.mobilenet import InvertedResidual
from triton_dsl.runtime.models.resnet import BasicBlock
from triton_dsl.runtime.models.small import TernaryCIFAR10Net, TernaryMNISTNet
from triton_dsl.runtime.models.vision_transformer import VisionTransformer


class Residual(nn.Module):
    """The basic block of ResNet-18 (He et al. 2016) in floats."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += identity
        return self.relu(y)


class ResNet(nn.Module):
    """Every kind of operation of ResNet-18, with fewer channels and blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer1(self.maxpool(functional.relu(self.bn1(self.conv1(x)))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Mobile(nn.Module):
    """Blocks of MobileNetV2 with its ends."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(inplace=True),
            InvertedResidual(8, 8, 1, 6, depthwise=False),
            InvertedResidual(8, 16, 2, 6, depthwise=True),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(16, 5))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean([2, 3]))


class ViT(nn.Module):
    """ViT-Tiny with a class token and PyTorch's own encoder, made smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 12, 4, 4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, 12))
        self.pos_embed = nn.Parameter(torch.randn(1, 17, 12))
        layer = nn.TransformerEncoderLayer(
            12, 3, 24, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(12, eps=1e-6)
        self.head = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
        return self.head(self.norm(self.encoder(x))[:, 0])


class Keywords(nn.Module):
    """DS-CNN for keywords (Zhang et al. 2017): depthwise separable convolutions."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(1, 8, (10, 4), (2, 2), (5, 1)), nn.BatchNorm2d(8), nn.ReLU()
        ]  # fmt: skip
        for _ in range(2):
            layers += [
                nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.ReLU(),
                nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU(),
            ]  # fmt: skip
        self.layers = nn.Sequential(*layers, nn.AvgPool2d((25, 5)), nn.Flatten(), nn.Linear(8, 12))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).log_softmax(-1)


class Wave(nn.Module):
    """1-d convolutions, a residual of group normalisation, and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv1d(2, 8, 5, 2, 2)
        self.norm = nn.GroupNorm(2, 8)
        self.up = nn.ConvTranspose1d(8, 2, 4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = functional.silu(self.norm(self.down(x)))
        return torch.tanh(self.up(h)) + x


def randomized(module: nn.Module) -> nn.Module:
    """Running statistics and normalisations that do something."""
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if value.is_floating_point() and value.dim() == 1:
            low = 0.5 if name.endswith(("running_var", "weight")) else -0.5
            nn.init.uniform_(value, low, low + 1)
    return module.eval()


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet": (ResNet, (3, 32, 32)),
    "ternary_resnet_block": (lambda: BasicBlock(3, 8, 2), (3, 12, 12)),
    "mobilenet": (Mobile, (3, 16, 16)),
    "vit": (ViT, (3, 16, 16)),
    "own_vit": (lambda: VisionTransformer((8, 8), 4, 3, channels=8, heads=2), (1, 8, 8)),
    "keywords": (Keywords, (1, 49, 10)),
    "wave": (Wave, (2, 32)),
    "mnist": (TernaryMNISTNet, (1, 28, 28)),
    "cifar": (TernaryCIFAR10Net, (3, 8, 8)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(check: Any, name: str) -> None:
    """Imported at a batch of 2, run at 1 and 3."""
    make, shape = NETWORKS[name]
    module = randomized(make())
    batches = [(torch.randn(n, *shape),) for n in (2, 1, 3)]
    made = check.same(module, *batches)
    check.same_in_onnx(module, made, batches[2])


def test_a_language_model(check: Any) -> None:
    """Two free sizes: batch and length."""
    module = TernaryBertTiny(3, 50, hidden=8, layers=1, heads=2, inner=16, max_length=9).eval()

    def batch(n: int) -> tuple[Tensor, Tensor, Tensor]:
        mask = torch.ones(n, 6, dtype=torch.int64)
        mask[0, 4:] = 0
        return torch.randint(0, 50, (n, 6)), mask, torch.randint(0, 2, (n, 6))

    made = check.same(module, batch(2), batch(4))
    assert sum(isinstance(op, ternary.ParameterOp) for op in made.walk()) == 7
    check.same_in_onnx(module, made, batch(4))


def test_several_free_sizes(check: Any) -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(20, 8)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.layer(self.table(tokens)).mean(1)

    module = Tokens().eval()
    batches = [(torch.randint(0, 20, shape),) for shape in ((2, 5), (3, 7))]
    made = check.same(module, *batches, dynamic={"tokens": {0: "N", 1: "L"}})
    text = str(made)
    assert 'tensor.dimensions = ["N", "L"]' in text
    assert 'tensor.dimensions = ["N", "8"]' in text


@pytest.mark.parametrize("target", ["pytorch", "native"])
def test_other_targets(check: Any, target: str) -> None:
    """The program goes through the pipelines of other targets and gives the same there."""
    from triton_dsl.tools.verify import verify_module

    module = randomized(Mobile())
    made = from_torch(module, torch.randn(2, 3, 16, 16))
    inputs = [torch.randn(3, 3, 16, 16).numpy()]
    reports = verify_module(made, inputs, [target])
    assert all(report.agrees for report in reports), reports


def test_parameters_keep_their_names() -> None:
    """Every parameter is there under its key, with the values of the state dictionary."""
    from triton_dsl.dialects.parameters import parameter_value

    module = randomized(ResNet())
    made = from_torch(module, torch.randn(2, 3, 32, 32))
    state = module.state_dict()
    found = {op.key.data: op for op in made.walk() if isinstance(op, tensor.ParameterOp)}
    assert set(found) == {key for key in state if not key.endswith("num_batches_tracked")}
    for key, op in found.items():
        wanted = state[key].T if key == "fc.weight" else state[key]
        assert (parameter_value(op) == wanted.numpy()).all()
        assert (op.buffer is not None) == ("running" in key)


class Policy(nn.Module):
    """A policy that says how likely an action is, as `torch.distributions` has it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 6)

    def forward(self, x: Tensor, action: Tensor) -> tuple[Tensor, ...]:
        from torch.distributions import Categorical, Independent, Normal, kl_divergence

        mean, spread = self.head(x).chunk(2, -1)
        choice, place = Categorical(logits=mean), Normal(mean, spread.exp())
        likely = Independent(place, 1).log_prob(mean + 1)
        divergence = kl_divergence(place, Normal(0.0, 1.0))
        return choice.log_prob(action), choice.entropy(), likely, divergence


def test_distributions(check: Any) -> None:
    torch.distributions.Distribution.set_default_validate_args(True)  # libraries change it
    check.same(Policy(), (torch.randn(5, 4), torch.tensor([0, 2, 1, 1, 0])))
    with pytest.raises(ValueError, match="constraint"):
        torch.distributions.Normal(0.0, -1.0)
