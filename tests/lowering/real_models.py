"""Networks of the sizes that people ship, as plain PyTorch: tests export, import and run them.

Layers and orders are those of the papers, so the operators and shapes are the real ones; weights
are random, of a fixed seed, and the statistics of normalisation are away from their start. Tests
get this module by the fixture `real_models`, since test files cannot import each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn


def conv_norm(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """A convolution that keeps the size at stride 1, and its normalisation."""
    pads = kernel // 2
    conv = nn.Conv2d(inputs, outputs, kernel, stride, pads, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al. 2015, arXiv 1512.03385, figure 5)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv_norm(inputs, outputs, 3, stride)
        self.conv2, self.bn2 = conv_norm(outputs, outputs, 3)
        self.relu = nn.ReLU(inplace=True)
        same = stride == 1 and inputs == outputs
        self.downsample = None if same else nn.Sequential(*conv_norm(inputs, outputs, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        """Two convolutions added to the input, or to its projection."""
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet18(nn.Module):
    """ResNet-18 (arXiv 1512.03385, table 1): 11.7 million weights with 1000 classes."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        widths = [64, 64, 128, 256, 512]
        blocks: list[nn.Module] = []
        for index, (inputs, outputs) in enumerate(pairwise(widths)):
            blocks.append(BasicBlock(inputs, outputs, 2 if index else 1))
            blocks.append(BasicBlock(outputs, outputs, 1))
        self.layers = nn.Sequential(*blocks)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 3, H, W] to logits [N, classes]."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.layers(x)), 1))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, projection (Sandler et al. 2018, arXiv 1801.04381)."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers += [*conv_norm(inputs, hidden, 1), nn.ReLU6(inplace=True)]
        layers += [*conv_norm(hidden, hidden, 3, stride, hidden), nn.ReLU6(inplace=True)]
        self.conv = nn.Sequential(*layers, *conv_norm(hidden, outputs, 1))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """The block, added to its input where the sizes are the same."""
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    """MobileNetV2 (arXiv 1801.04381, table 2): 3.5 million weights with 1000 classes."""

    STAGES = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    )  # fmt: skip
    """Expansion, channels, blocks and first stride of each row of the table."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [*conv_norm(3, 32, 3, 2), nn.ReLU6(inplace=True)]
        width = 32
        for expansion, channels, blocks, first in self.STAGES:
            for index in range(blocks):
                stride = 1 if index else first
                layers.append(InvertedResidual(width, channels, stride, expansion))
                width = channels
        layers += [*conv_norm(width, 1280, 1), nn.ReLU6(inplace=True)]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 3, H, W] to logits [N, classes]."""
        x = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(x, 1))


class ViT(nn.Module):
    """A vision transformer (Dosovitskiy et al. 2020, arXiv 2010.11929), by default DeiT-Ti's size.

    Touvron et al. 2020, arXiv 2012.12877, table 1: width 192, 12 layers, 3 heads.
    """

    def __init__(
        self,
        size: int = 224,
        patch: int = 16,
        width: int = 192,
        layers: int = 12,
        heads: int = 3,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        nn.init.normal_(self.class_token, std=0.5)
        nn.init.normal_(self.positions, std=0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 3, size, size] to logits [N, classes]."""
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        first = self.class_token.expand(x.shape[0], -1, -1)
        tokens = torch.cat([first, tokens], dim=1) + self.positions
        return self.head(self.norm(self.encoder(tokens))[:, 0])


class KeywordNet(nn.Module):
    """DS-CNN small for spoken words (Zhang et al. 2017, arXiv 1711.07128): 10 MFCCs x 49 frames."""

    def __init__(self, classes: int = 12, width: int = 64) -> None:
        super().__init__()
        first = nn.Conv2d(1, width, (10, 4), (2, 2), (5, 1), bias=False)
        layers: list[nn.Module] = [first, nn.BatchNorm2d(width), nn.ReLU()]
        for _ in range(4):
            layers += [*conv_norm(width, width, 3, 1, width), nn.ReLU()]
            layers += [*conv_norm(width, width, 1), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Spectrograms [N, 1, 49, 10] to logits [N, classes]."""
        return self.fc(self.pool(self.features(x)).flatten(1))


@dataclass(frozen=True)
class RealModel:
    """How to make a network, and the sizes of its input without the batch."""

    make: Callable[[], nn.Module]
    input_size: tuple[int, ...]


MODELS: dict[str, RealModel] = {
    "resnet18": RealModel(ResNet18, (3, 224, 224)),
    "mobilenet_v2": RealModel(MobileNetV2, (3, 224, 224)),
    "vit_tiny": RealModel(ViT, (3, 224, 224)),
    "keyword": RealModel(KeywordNet, (1, 49, 10)),
}


def build(name: str, seed: int = 0) -> nn.Module:
    """One of `MODELS` in evaluation mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = MODELS[name].make()
        norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            elif isinstance(module, nn.TransformerEncoderLayer):  # all are copies of the first
                for parameter in module.parameters():
                    if parameter.ndim > 1:
                        nn.init.normal_(parameter, std=0.05)
        for norm in norms:
            nn.init.uniform_(norm.weight, 0.6, 1.2)
            nn.init.normal_(norm.bias, std=0.2)
            norm.momentum = 1.0
        if norms:  # statistics of one batch of coarse images, as training would leave them
            with torch.no_grad():
                step = max(MODELS[name].input_size[-1] // 64, 1)
                model(inputs(name, 32, seed)[..., ::step, ::step])
    return model.eval()


def inputs(name: str, batch: int, seed: int = 0) -> Tensor:
    """Inputs [batch, …] of one of `MODELS`: blobs and noise, each sample unlike the others."""
    channels, *sizes = MODELS[name].input_size
    generator = torch.Generator().manual_seed(seed)
    coarse = 2 * torch.randn(batch, channels, 4, 4, generator=generator)
    noise = torch.randn(batch, channels, *sizes, generator=generator)
    smooth = nn.functional.interpolate(coarse, sizes, mode="bilinear", align_corners=False)
    return smooth + 0.2 * noise
