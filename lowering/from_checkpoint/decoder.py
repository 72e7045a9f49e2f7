"""What a decoder-only language model is made of, whatever file it comes in.

Not here: how each kind of file says it (`folder`, `gguf_file`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...ir.arrays import Array

Kind = Literal["bitnet", "ternary", "dense"]
"""What linear layers are, see `BitLinear` in the standard layers of the language."""

Activation = Literal["silu", "relu2", "gelu"]

PROJECTIONS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)
"""The linear layers of a block, as the standard layers and Hugging Face call them."""


@dataclass(frozen=True, eq=False)
class Decoder:
    """Sizes and kinds of a decoder, one value for all blocks but for `windows`.

    Attributes:
        name: an identifier.
        vocabulary, features, hidden: tokens, width of a token, width within the feed-forward part.
        heads, groups, head_dim: query heads, key and value heads, width of a head.
        windows: of each block how many tokens it sees, 0 for all; as many as there are blocks.
        activation: of the feed-forward part.
        kind: of the linear layers of blocks.
        bias, out_bias, mlp_bias: of query, key and value; of the projection behind attention; of
            the feed-forward part.
        head_norm, sub_norm: normalisation of heads as in Qwen3; before the last projections of
            both parts as in BitNet b1.58 2B4T.
        eps: of all normalisations.
        frequencies: float32 [head_dim / 2], see `rotary`.
        attention_scaling: factor of cosines and sines.
        element: of token embeddings, `float32`, `float16` or `bfloat16`.
        tied: whether logits are products with the embeddings.
    """

    name: str
    vocabulary: int
    features: int
    hidden: int
    heads: int
    groups: int
    head_dim: int
    windows: tuple[int, ...]
    activation: Activation
    kind: Kind
    bias: bool
    out_bias: bool
    mlp_bias: bool
    head_norm: bool
    sub_norm: bool
    eps: float
    frequencies: Array
    attention_scaling: float
    element: str
    tied: bool

    @property
    def layers(self) -> int:
        """The number of blocks."""
        return len(self.windows)
