"""What a decoder-only language model is made of, whatever file it comes in.

Not here: how each kind of file says it (`folder`, `gguf_file`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...ir.arrays import Array

Kind = Literal["bitnet", "ternary", "dense"]
"""What linear layers are, see `BitLinear` in the standard layers of the language."""

Activation = Literal["silu", "relu", "relu2", "gelu", "gelu_exact"]

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
    "attention_post_norm.weight": "features",
    "mlp_post_norm.weight": "features",
    "input_layernorm.bias": "features",
    "post_attention_layernorm.bias": "features",
    "self_attn.q_norm.weight": "query_norm",
    "self_attn.k_norm.weight": "key_norm",
    "self_attn.attn_sub_norm.weight": "queries",
    "mlp.ffn_sub_norm.weight": "hidden",
    **{f"{name}.bias": outs for name, (outs, _) in PROJECTIONS.items()},
}
"""The vectors of a block, and which of the `sizes` they have."""

OPTIONS = {
    "bias": ("self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"),
    "out_bias": ("self_attn.o_proj.bias",),
    "mlp_bias": ("mlp.up_proj.bias", "mlp.down_proj.bias", "mlp.gate_proj.bias"),
    "head_norm": ("self_attn.q_norm.weight", "self_attn.k_norm.weight"),
    "sub_norm": ("self_attn.attn_sub_norm.weight", "mlp.ffn_sub_norm.weight"),
}
"""The vectors that some models have alone, by the option of `DecoderBlock` that says so. Heads are
normalised in Qwen3, what goes into the last projections of both parts in BitNet 2B4T."""

STRUCTURE = {
    "attention_norm": ("input_layernorm.weight", "input_layernorm.bias"),
    "mlp_norm": ("post_attention_layernorm.weight", "post_attention_layernorm.bias"),
    "post_norm": ("attention_post_norm.weight", "mlp_post_norm.weight"),
    "norm_bias": ("input_layernorm.bias", "post_attention_layernorm.bias"),
    "gated": ("mlp.gate_proj.bias",),
}
"""The same of options that an architecture has or not, whatever tensors there are."""


@dataclass(frozen=True, eq=False)
class Decoder:
    """Sizes and kinds of a decoder, one value for all blocks but for `windows`.

    Attributes:
        name: an identifier.
        vocabulary, features, hidden: tokens, width of a token, width within the feed-forward part.
        heads, groups, head_dim: query heads, key and value heads, width of a head.
        windows: of each block how many tokens it sees, 0 for all; as many as there are blocks.
        kind: of the linear layers of blocks.
        block: all else that `DecoderBlock` takes, by name.
        eps: of all normalisations.
        frequencies: of each block, float32 [turned / 2], see `rotary`.
        embeddings, head: what `TokenEmbedding` takes for tokens, and for what logits are products
            with; `None` if these are the embeddings.
        embedding_scale, logit_scale: what embeddings and logits are multiplied by.
        logit_cap: bounds logits by a tanh; 0 does not.
        outer: shapes of the parameters outside of blocks and embeddings, by name.
        limit: the most tokens of a text, if there is one.
    """

    name: str
    vocabulary: int
    features: int
    hidden: int
    heads: int
    groups: int
    head_dim: int
    windows: tuple[int, ...]
    kind: Kind
    block: Mapping[str, Any]
    eps: float
    frequencies: Sequence[Array]
    embeddings: str
    head: str | None
    embedding_scale: float
    logit_scale: float
    logit_cap: float
    outer: Mapping[str, tuple[int, ...]]
    limit: int | None

    @property
    def layers(self) -> int:
        """The number of blocks."""
        return len(self.windows)

    @property
    def sizes(self) -> dict[str, int]:
        """By the words of `PROJECTIONS` and `VECTORS`; queries and keys are of all heads."""
        queries, keys = self.heads * self.head_dim, self.groups * self.head_dim
        norms = (queries, keys) if self.block["row_norm"] else (self.head_dim, self.head_dim)
        hidden = self.hidden * self.block["experts"]
        return {
            **{"features": self.features, "hidden": hidden, "queries": queries, "keys": keys},
            **dict(zip(("query_norm", "key_norm"), norms, strict=True)),
        }

    @property
    def projections(self) -> Mapping[str, tuple[int, int]]:
        """Outputs and inputs of the linear layers of a block, but for the router of experts."""
        sizes, gated = self.sizes, self.block["gated"]
        names = (name for name in PROJECTIONS if gated or name != "mlp.gate_proj")
        return {name: (sizes[PROJECTIONS[name][0]], sizes[PROJECTIONS[name][1]]) for name in names}

    @property
    def vectors(self) -> Mapping[str, int]:
        """Sizes of the vectors of a block."""
        has, sizes = self.block, self.sizes
        absent = {
            part
            for name, parts in {**OPTIONS, **STRUCTURE}.items()
            if not (has[name] or (name == "head_norm" and has["row_norm"]))
            for part in parts
        }
        return {name: sizes[size] for name, size in VECTORS.items() if name not in absent}
