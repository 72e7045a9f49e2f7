"""`VisionTransformer`: a small vision transformer of floats, the twin of `SpikeFormer`.

Dosovitskiy et al. 2021, "An image is worth 16x16 words", with the mean of all tokens in the place
of a class token. Not here: the spiking one (`runtime.spiking.spikeformer`), ternary layers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...ir.errors import OptionError, refuse


def token_count(size: tuple[int, int], patch: int) -> int:
    """The patches of `patch`² pixels in an image of H and W.

    Raises:
        OptionError: a patch that does not divide the image.
    """
    if patch < 1 or any(side < patch or side % patch for side in size):
        raise OptionError(f"patches of {patch}x{patch} do not divide {size[0]}x{size[1]}")
    return (size[0] // patch) * (size[1] // patch)


def check_counts(**counts: int) -> None:
    """Refuse what there is less than one of.

    Raises:
        OptionError: a number below 1.
    """
    for name, number in counts.items():
        refuse(number < 1, f"{name}: expected at least 1, got {number}")


class SelfAttention(nn.Module):
    """Self-attention of tokens [N, L, D] with softmax.

    Args:
        channels: D.
        heads: what D is divided into.

    Raises:
        OptionError: heads that do not divide the channels.
    """

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        if heads < 1 or channels < 1 or channels % heads:
            raise OptionError(f"{heads} heads do not divide {channels} channels")
        self.heads = heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(channels, channels) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The mixed tokens, like `x`."""
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.output(mixed.transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """x + attention(norm(x)), and to that a perceptron of its norm: [N, L, D] to the same.

    Args:
        channels: D.
        hidden: channels inside the perceptron.
        heads: of the attention.
    """

    def __init__(self, channels: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.attention = SelfAttention(channels, heads)
        self.mlp = nn.Sequential(
            nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The sums, like `x`."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Classifies images [N, C, H, W] by logits [N, classes].

    Arguments and sizes are those of `SpikeFormer`.

    Args:
        size: H and W of an image.
        patch: side of a patch, which divides both.
        classes: number of classes.
        inputs: C.
        channels: of a token.
        depth: number of blocks.
        heads: of the attention, which divide `channels`.
        expansion: the perceptrons' hidden channels, in `channels`.

    Raises:
        OptionError: a value that is not allowed.
    """

    def __init__(
        self,
        size: tuple[int, int],
        patch: int,
        classes: int,
        *,
        inputs: int = 1,
        channels: int = 64,
        depth: int = 2,
        heads: int = 4,
        expansion: int = 2,
    ) -> None:
        super().__init__()
        check_counts(classes=classes, inputs=inputs, depth=depth, expansion=expansion)
        tokens = token_count(size, patch)
        self.shape = (inputs, *size)
        self.patches = nn.Conv2d(inputs, channels, patch, patch)
        self.position = nn.Parameter(torch.randn(tokens, channels) * 0.02)
        self.blocks = nn.ModuleList(
            TransformerBlock(channels, expansion * channels, heads) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images to logits.

        Raises:
            OptionError: images of another size.
        """
        if x.dim() != 4 or tuple(x.shape[1:]) != self.shape:
            wanted = ", ".join(map(str, self.shape))
            raise OptionError(f"expected images [N, {wanted}], got {list(x.shape)}")
        x = self.patches(x).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))
