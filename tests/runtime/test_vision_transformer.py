"""The vision transformer against PyTorch's own layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.models.vision_transformer import VisionTransformer


def encoder_layer(block: Any, channels: int, heads: int) -> nn.TransformerEncoderLayer:
    """PyTorch's layer with the weights of a block."""
    layer = nn.TransformerEncoderLayer(
        channels, heads, 2 * channels, dropout=0.0, batch_first=True, norm_first=True
    )
    attention = block.attention
    parts = [attention.query, attention.key, attention.value]
    layer.load_state_dict(
        {
            "self_attn.in_proj_weight": torch.cat([part.weight for part in parts]),
            "self_attn.in_proj_bias": torch.cat([part.bias for part in parts]),
            "self_attn.out_proj.weight": attention.output.weight,
            "self_attn.out_proj.bias": attention.output.bias,
            "linear1.weight": block.mlp[0].weight,
            "linear1.bias": block.mlp[0].bias,
            "linear2.weight": block.mlp[2].weight,
            "linear2.bias": block.mlp[2].bias,
            **{f"norm{n}.weight": getattr(block, f"norm{n}").weight for n in (1, 2)},
            **{f"norm{n}.bias": getattr(block, f"norm{n}").bias for n in (1, 2)},
        }
    )
    return layer


@pytest.mark.parametrize("heads", [1, 4])
def test_blocks_are_encoder_layers(heads: int) -> None:
    torch.manual_seed(0)
    network = VisionTransformer((4, 6), 2, 5, inputs=3, channels=8, heads=heads)
    images = torch.randn(7, 3, 4, 6)
    x: Tensor = nn.functional.unfold(images, 2, stride=2).transpose(1, 2)
    assert network.patches.bias is not None
    x = x @ network.patches.weight.flatten(1).T + network.patches.bias + network.position
    for block in network.blocks:
        x = encoder_layer(block, 8, heads)(x)
    expected = network.head(network.norm(x).mean(1))
    torch.testing.assert_close(network(images), expected)


def test_refusals() -> None:
    with pytest.raises(OptionError, match="patches of 4x4 do not divide 4x6"):
        VisionTransformer((4, 6), 4, 5)
    with pytest.raises(OptionError, match="3 heads do not divide 8 channels"):
        VisionTransformer((4, 6), 2, 5, channels=8, heads=3)
    for name in ("inputs", "depth", "expansion"):
        with pytest.raises(OptionError, match=f"{name}: expected at least 1, got 0"):
            VisionTransformer((4, 6), 2, 5, **{name: 0})
    with pytest.raises(OptionError, match="classes: expected at least 1, got 0"):
        VisionTransformer((4, 6), 2, 0)


@pytest.mark.parametrize("shape", [(7, 1, 4, 6), (7, 3, 8, 6), (7, 3, 2, 2), (3, 4, 6)])
def test_images_of_another_size(shape: tuple[int, ...]) -> None:
    """Also where one position would fit any number of patches."""
    for size, patch in (((4, 6), 2), ((4, 4), 4)):
        network = VisionTransformer(size, patch, 5, inputs=3, channels=8)
        with pytest.raises(OptionError, match=r"expected images \[N, 3, 4, "):
            network(torch.zeros(shape))
