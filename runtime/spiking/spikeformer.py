"""`SpikeFormer`: a vision transformer of spikes, after Spikformer.

Zhou et al. 2023, "Spikformer: when spiking neural network meets transformer" (section 3): patches
become spikes, blocks add the spikes of self-attention without softmax and of a perceptron to their
input, and a linear layer reads the mean of all tokens. Its twin without spikes is
`runtime.models.vision_transformer.VisionTransformer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...ir.errors import OptionError
from ..models.vision_transformer import check_counts, token_count
from .attention import SpikingSelfAttention
from .config import SpikingConfig
from .mlp import SpikingMLP
from .neurons import make_neuron
from .normalization import TemporalBatchNorm
from .steps import State, Value

BlockState = tuple[tuple[State, ...], tuple[State, ...]]
FormerState = tuple[State, tuple[BlockState, ...]]


class SpikingPatchEmbedding(nn.Module):
    """Images [T, N, C, H, W] as spikes of tokens [T, N, (H / P)·(W / P), D].

    A convolution of the size and stride P of a patch, a learnt position, tdBN, and neurons. Unlike
    Spikformer's there is one convolution, and no pooling.

    Args:
        size: H and W.
        patch: P, which divides both.
        inputs: C.
        channels: D.
        config: the neurons.
        neuron: parameters of the neurons, see `make_neuron`.

    Raises:
        OptionError: a patch that does not divide the image.
    """

    def __init__(
        self,
        size: tuple[int, int],
        patch: int,
        inputs: int,
        channels: int,
        config: SpikingConfig,
        neuron: Mapping[str, Value] | None = None,
    ) -> None:
        super().__init__()
        tokens = token_count(size, patch)
        self.size, self.inputs = tuple(size), inputs
        self.patches = nn.Conv2d(inputs, channels, patch, patch, bias=False)
        self.position = nn.Parameter(torch.randn(tokens, channels) * 0.02)
        self.norm = TemporalBatchNorm(channels, threshold=config.threshold, axis=3)
        self.neuron = make_neuron(config, **(neuron or {}))

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """The spikes, and the states after the last step.

        Raises:
            OptionError: images of another size.
        """
        wanted = (self.inputs, *self.size)
        if x.dim() != 5 or tuple(x.shape[2:]) != wanted:
            raise OptionError(f"expected images [T, N, {', '.join(map(str, wanted))}], "
                              f"got {list(x.shape)}")  # fmt: skip
        patches = self.patches(x.flatten(0, 1)).flatten(2).transpose(1, 2)
        patches = patches.unflatten(0, x.shape[:2])
        return self.neuron(self.norm(patches + self.position), state)


class SpikingBlock(nn.Module):
    """x + attention(x), and to that the spikes of a perceptron: [T, N, L, D] to the same.

    Spikes are added, so that the sums are small whole numbers.

    Args:
        channels: D.
        hidden: channels inside the perceptron.
        heads: of the attention.
        kind: of the attention, `ssa` or `sdsa`.
        config: the neurons.
        neuron: parameters of the neurons, see `make_neuron`.
    """

    def __init__(
        self,
        channels: int,
        hidden: int,
        heads: int,
        kind: str,
        config: SpikingConfig,
        neuron: Mapping[str, Value] | None = None,
    ) -> None:
        super().__init__()
        self.attention = SpikingSelfAttention(channels, heads, kind, config=config, neuron=neuron)
        self.mlp = SpikingMLP(
            [channels, hidden, channels], config, bias=False, normalize=True, neuron=neuron
        )

    def forward(self, x: Tensor, state: BlockState | None = None) -> tuple[Tensor, BlockState]:
        """The sums, and the states after the last step."""
        before = (None, None) if state is None else state
        mixed, after_attention = self.attention(x, before[0])
        x = x + mixed
        tokens = x.shape[1:3]
        spikes, after_mlp = self.mlp(x.flatten(1, 2), before[1])
        return x + spikes.unflatten(1, tokens), (after_attention, after_mlp)


class SpikeFormer(nn.Module):
    """Classifies images [T, N, C, H, W], one a step, by a trace of logits [T, N, classes].

    The classes are those of the trace's mean over time. Still images are repeated: the encoding
    `direct`.

    Args:
        size: H and W of an image.
        patch: side of a patch, which divides both.
        classes: number of classes.
        inputs: C.
        channels: of a token.
        depth: number of blocks.
        heads: of the attention, which divide `channels`.
        expansion: the perceptrons' hidden channels, in `channels`.
        kind: of the attention, `ssa` or `sdsa`.
        config: the neurons; how inputs are encoded is up to the caller.
        neuron: parameters of the neurons, see `make_neuron`; by default those of Spikformer,
            whose potential loses half in each step.

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
        kind: str = "ssa",
        config: SpikingConfig | None = None,
        neuron: Mapping[str, Value] | None = None,
    ) -> None:
        super().__init__()
        check_counts(classes=classes, inputs=inputs, depth=depth, expansion=expansion)
        if config is None:
            config = SpikingConfig(4, spike_encoding="direct", surrogate_gradient="arctan")
        if neuron is None and config.neuron_model == "LIF":
            neuron = {"beta": 0.5}
        self.embedding = SpikingPatchEmbedding(size, patch, inputs, channels, config, neuron)
        self.blocks = nn.ModuleList(
            SpikingBlock(channels, expansion * channels, heads, kind, config, neuron)
            for _ in range(depth)
        )
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor, state: FormerState | None = None) -> tuple[Tensor, FormerState]:
        """The logits of each step [T, N, classes], and the states after the last one.

        Args:
            x: floats [T, N, C, H, W].
            state: the states before the first step; zeros by default.

        Raises:
            OptionError: a shape or type that does not fit.
        """
        if state is not None and len(state[1]) != len(self.blocks):
            raise OptionError(
                f"expected the states of {len(self.blocks)} blocks, got {len(state[1])}"
            )
        x, after_embedding = self.embedding(x, None if state is None else state[0])
        after: list[BlockState] = []
        for index, block in enumerate(self.blocks):
            before: Any = None if state is None else state[1][index]
            x, last = block(x, before)
            after.append(last)
        return self.head(x.mean(2)), (after_embedding, tuple(after))
