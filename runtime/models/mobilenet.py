"""MobileNetV2 (Sandler et al. 2018) with ternary convolutions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..layers import TernaryLinear
from .blocks import conv_norm

# Table 2 of the paper: expansion, channels, repeats, stride.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; plus x where the shape is kept."""

    def __init__(
        self, in_channels: int, out_channels: int, stride: int, expansion: int, depthwise: bool
    ) -> None:
        super().__init__()
        hidden = in_channels * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers.append(conv_norm(in_channels, hidden, 1, activation=nn.ReLU6))
        layers += [
            conv_norm(hidden, hidden, 3, stride, hidden, activation=nn.ReLU6, ternary=depthwise),
            conv_norm(hidden, out_channels, 1, activation=None),
        ]
        self.conv = nn.Sequential(*layers)
        self.is_residual = stride == 1 and in_channels == out_channels

    def forward(self, x: Tensor) -> Tensor:
        """`[N, C, H, W]` to `[N, C', H / stride, W / stride]`."""
        y: Tensor = self.conv(x)
        return x + y if self.is_residual else y


class TernaryMobileNetV2(nn.Module):
    """MobileNetV2; the first convolution and the classifier stay in float.

    Args:
        num_classes: outputs.
        in_channels: channels of the image.
        width: factor of all channel counts, rounded to multiples of 8.
        small_images: leave out the first two strides, for 32x32 images.
        ternary_depthwise: make the 3x3 depthwise convolutions ternary too. They hold 2 % of the
            weights, and nine trits a channel cost more accuracy than they save.
        ternary_ends: make the first convolution and the classifier ternary too.
        dropout: before the classifier.
    """

    def __init__(
        self,
        num_classes: int = 1000,
        in_channels: int = 3,
        *,
        width: float = 1.0,
        small_images: bool = False,
        ternary_depthwise: bool = False,
        ternary_ends: bool = False,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        pixels = 32 if small_images else 224
        self.input_shape = (1, in_channels, pixels, pixels)
        channels, last = _multiple_of_8(32 * width), _multiple_of_8(1280 * max(width, 1.0))
        stride = 1 if small_images else 2
        features: list[nn.Module] = [
            conv_norm(in_channels, channels, 3, stride, activation=nn.ReLU6, ternary=ternary_ends)
        ]
        for index, (expansion, size, repeats, first_stride) in enumerate(STAGES):
            out = _multiple_of_8(size * width)
            for repeat in range(repeats):
                stride = first_stride if repeat == 0 and not (small_images and index == 1) else 1
                features.append(
                    InvertedResidual(channels, out, stride, expansion, ternary_depthwise)
                )
                channels = out
        features.append(conv_norm(channels, last, 1, activation=nn.ReLU6))
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(dropout)
        self.classifier = (TernaryLinear if ternary_ends else nn.Linear)(last, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images `[N, in_channels, H, W]` to logits `[N, num_classes]`."""
        x = self.avgpool(self.features(x))
        return self.classifier(self.dropout(torch.flatten(x, 1)))


def _multiple_of_8(size: float) -> int:
    """The nearest multiple of 8, at most a tenth below `size`."""
    rounded = max(8, int(size + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * size else rounded
