"""ResNet-18 (He et al. 2016) with ternary convolutions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..layers import TernaryLinear
from .blocks import conv_norm


class BasicBlock(nn.Module):
    """relu(x + norm(conv(relu(norm(conv(x)))))), with a 1x1 convolution where shapes differ."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv_norm(in_channels, out_channels, 3, stride)
        self.conv2 = conv_norm(out_channels, out_channels, 3, activation=None)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = conv_norm(in_channels, out_channels, 1, stride, activation=None)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, C, H, W]` to `[N, C', H / stride, W / stride]`."""
        return torch.relu(self.conv2(self.conv1(x)) + self.shortcut(x))


class TernaryResNet18(nn.Module):
    """ResNet-18; `conv1` includes its normalisation, activation and pooling.

    The first convolution and the classifier stay in float, as in Zhu et al. 2017 (TTQ).

    Args:
        num_classes: outputs.
        in_channels: channels of the image.
        small_images: start with a 3x3 convolution of stride 1, as is usual for 32x32 images; else
            with the 7x7 convolution and pooling of the paper.
        ternary_ends: make the first convolution and the classifier ternary too.
    """

    def __init__(
        self,
        num_classes: int = 1000,
        in_channels: int = 3,
        *,
        small_images: bool = True,
        ternary_ends: bool = False,
    ) -> None:
        super().__init__()
        size = 32 if small_images else 224
        self.input_shape = (1, in_channels, size, size)
        if small_images:
            self.conv1 = conv_norm(in_channels, 64, 3, ternary=ternary_ends)
        else:
            self.conv1 = conv_norm(in_channels, 64, 7, 2, ternary=ternary_ends)
            self.conv1.append(nn.MaxPool2d(3, 2, 1))
        self.layer1 = self._stage(64, 64, 1)
        self.layer2 = self._stage(64, 128, 2)
        self.layer3 = self._stage(128, 256, 2)
        self.layer4 = self._stage(256, 512, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = (TernaryLinear if ternary_ends else nn.Linear)(512, num_classes)

    @staticmethod
    def _stage(in_channels: int, out_channels: int, stride: int) -> nn.Sequential:
        first = BasicBlock(in_channels, out_channels, stride)
        return nn.Sequential(first, BasicBlock(out_channels, out_channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Images `[N, in_channels, H, W]` to logits `[N, num_classes]`."""
        x = self.conv1(x)
        x = self.layer1(x)
        x = self.layer2(x)
        x = self.layer3(x)
        x = self.layer4(x)
        x = self.avgpool(x)
        return self.fc(torch.flatten(x, 1))


def ternary_resnet18(
    num_classes: int = 1000,
    in_channels: int = 3,
    *,
    small_images: bool = True,
    ternary_ends: bool = False,
) -> TernaryResNet18:
    """An untrained `TernaryResNet18`."""
    return TernaryResNet18(
        num_classes, in_channels, small_images=small_images, ternary_ends=ternary_ends
    )
