"""Small networks for 28x28 digits and 32x32 photographs, ternary throughout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..layers import TernaryLinear
from .blocks import conv_norm


class TernaryMNISTNet(nn.Module):
    """A perceptron for 28x28 digits: 784-256-128-10.

    The same network as `TernaryMLP` in `examples/models/mnist.tri`, with the same names.
    """

    input_shape = (1, 1, 28, 28)

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.fc1 = TernaryLinear(784, 256, bias=False, rule="twn", scale="none")
        self.norm1 = nn.BatchNorm1d(256)
        self.fc2 = TernaryLinear(256, 128, bias=False, rule="twn", scale="none")
        self.norm2 = nn.BatchNorm1d(128)
        self.fc3 = TernaryLinear(128, num_classes, bias=False, rule="twn", scale="none")
        self.norm3 = nn.BatchNorm1d(num_classes)

    def forward(self, image: Tensor) -> Tensor:
        """Images `[N, 1, 28, 28]` to logits `[N, num_classes]`."""
        h = torch.relu(self.norm1(self.fc1(torch.flatten(image, 1))))
        h = torch.relu(self.norm2(self.fc2(h)))
        return self.norm3(self.fc3(h))


class TernaryCIFAR10Net(nn.Module):
    """Six 3x3 convolutions in three stages of 64, 128 and 256 channels, for 32x32 images."""

    input_shape = (1, 3, 32, 32)

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        stages: list[nn.Module] = []
        channels = 3
        for size in (64, 128, 256):
            stages += [conv_norm(channels, size, 3), conv_norm(size, size, 3), nn.MaxPool2d(2)]
            channels = size
        self.features = nn.Sequential(*stages)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = TernaryLinear(channels, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images `[N, 3, 32, 32]` to logits `[N, num_classes]`."""
        return self.fc(torch.flatten(self.avgpool(self.features(x)), 1))
