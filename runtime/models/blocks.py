"""What the convolutional networks share: a convolution with normalisation, ternary or float."""

from __future__ import annotations

from torch import nn

from ..layers import TernaryConv2d


def conv_norm(
    in_channels: int,
    out_channels: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    *,
    activation: type[nn.Module] | None = nn.ReLU,
    ternary: bool = True,
) -> nn.Sequential:
    """Convolution that keeps the size at stride 1, batch normalisation and activation.

    The trits have no scale: normalisation follows and would undo it.
    """
    padding = kernel // 2
    conv: nn.Module
    if ternary:
        conv = TernaryConv2d(
            in_channels, out_channels, kernel, stride, padding,
            groups=groups, bias=False, scale="none",
        )  # fmt: skip
    else:
        conv = nn.Conv2d(
            in_channels, out_channels, kernel, stride, padding, groups=groups, bias=False
        )
        nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    layers: list[nn.Module] = [conv, nn.BatchNorm2d(out_channels)]
    if activation is not None:
        layers.append(activation())
    return nn.Sequential(*layers)
