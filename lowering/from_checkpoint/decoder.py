"""What a decoder-only language model is made of, whatever file it comes in.

Not here: how each kind of file says it (`folder`, `gguf_file`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from ...ir.arrays import Array

Kind = Literal["bitnet", "ternary", "dense"]
"""What linear layers are, see `BitLinear` in the standard layers of the language."""

Activation = Literal["silu", "relu2", "gelu"]

PROJECTIONS = {
    "self_attn.q_proj": ("queries", "features"),
    "self_attn.k_proj": ("keys", "features"),
    "self_attn.v_proj": ("keys", "features"),
    "self_attn.o_proj": ("features", "queries"),
    "mlp.gate_proj": ("hidden", "features"),
    "mlp.up_proj": ("hidden", "features"),
    "mlp.down_proj": ("features", "hidden"),
}
"""The linear layers of a block, as the standard layers and Hugging Face call them, and which of a
decoder's `sizes` they give and take."""

VECTORS = {
    "input_layernorm.weight": "features",
    "post_attention_layernorm.weight": "features",
    "self_attn.q_norm.weight": "head_dim",
    "self_attn.k_norm.weight": "head_dim",
    "self_attn.attn_sub_norm.weight": "queries",
    "mlp.ffn_sub_norm.weight": "hidden",
    **{f"{name}.bias": outs for name, (outs, _) in PROJECTIONS.items()},
}
"""The vectors of a block, and which of the `sizes` they have."""

OPTIONS = {
    "bias": ("self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"),
    "out_bias": ("self_attn.o_proj.bias",),
    "mlp_bias": ("mlp.gate_proj.bias", "mlp.up_proj.bias", "mlp.down_proj.bias"),
    "head_norm": ("self_attn.q_norm.weight", "self_attn.k_norm.weight"),
    "sub_norm": ("self_attn.attn_sub_norm.weight", "mlp.ffn_sub_norm.weight"),
}
"""The vectors that some models have alone, by the option of `DecoderBlock` that says so. Heads are
normalised in Qwen3, what goes into the last projections of both parts in BitNet 2B4T."""


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
        options: those of `OPTIONS` that it has.
        eps: of all normalisations.
        frequencies: float32 [head_dim / 2], see `rotary`.
        attention_scaling: factor of cosines and sines.
        embeddings, head: what `TokenEmbedding` takes for tokens, and for what logits are products
            with; `None` if these are the embeddings.
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
    options: Collection[str]
    eps: float
    frequencies: Array
    attention_scaling: float
    embeddings: str
    head: str | None

    @property
    def layers(self) -> int:
        """The number of blocks."""
        return len(self.windows)

    @property
    def sizes(self) -> dict[str, int]:
        """By the words of `PROJECTIONS` and `VECTORS`; queries and keys are of all heads."""
        sizes = {"features": self.features, "hidden": self.hidden, "head_dim": self.head_dim}
        return sizes | {"queries": self.heads * self.head_dim, "keys": self.groups * self.head_dim}
