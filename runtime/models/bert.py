"""BERT-tiny (Devlin et al. 2019; Turc et al. 2019) with ternary products."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...ir.errors import OptionError, refuse
from ..layers import TernaryLinear


class SelfAttention(nn.Module):
    """Multi-head self-attention whose four projections are ternary."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        refuse(hidden % heads, f"{heads} heads do not divide a hidden size of {hidden}")
        self.heads, self.dropout = heads, dropout
        self.query = TernaryLinear(hidden, hidden)
        self.key = TernaryLinear(hidden, hidden)
        self.value = TernaryLinear(hidden, hidden)
        self.output = TernaryLinear(hidden, hidden)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x `[N, T, hidden]`; mask `bool[N, 1, 1, T]` is true where a token may be seen."""
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        dropout = self.dropout if self.training else 0.0
        seen = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
        return self.output(seen.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    """Attention and a feed-forward network, each with a shortcut and normalisation after it."""

    def __init__(self, hidden: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.attention = SelfAttention(hidden, heads, dropout)
        self.norm1 = nn.LayerNorm(hidden, eps=1e-12)
        self.linear1 = TernaryLinear(hidden, inner)
        self.linear2 = TernaryLinear(inner, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """`[N, T, hidden]` to the same shape."""
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        inner = functional.gelu(self.linear1(x))
        return self.norm2(x + self.dropout(self.linear2(inner)))


class TernaryBertTiny(nn.Module):
    """A two-layer BERT that classifies sequences; embeddings and the classifier stay in float.

    Args:
        num_classes: outputs.
        vocab_size: number of tokens.
        hidden: size of a token's vector.
        layers: encoder layers.
        heads: attention heads.
        inner: hidden size of the feed-forward networks.
        max_length: longest sequence.
        dropout: in training.
    """

    def __init__(
        self,
        num_classes: int = 2,
        vocab_size: int = 30522,
        *,
        hidden: int = 128,
        layers: int = 2,
        heads: int = 2,
        inner: int = 512,
        max_length: int = 512,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.max_length = max_length
        self.word_embeddings = nn.Embedding(vocab_size, hidden, padding_idx=0)
        self.position_embeddings = nn.Embedding(max_length, hidden)
        self.token_type_embeddings = nn.Embedding(2, hidden)
        for embedding in (
            self.word_embeddings,
            self.position_embeddings,
            self.token_type_embeddings,
        ):
            nn.init.normal_(embedding.weight, std=0.02)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(hidden, heads, inner, dropout) for _ in range(layers)
        )
        self.pooler = TernaryLinear(hidden, hidden)
        self.classifier = nn.Linear(hidden, num_classes)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Tokens `int64[N, T]` to logits `[N, num_classes]`.

        Args:
            input_ids: token numbers.
            attention_mask: `[N, T]`, 0 for tokens that fill up; by default none.
            token_type_ids: `int64[N, T]`, 0 or 1; by default 0.

        Raises:
            OptionError: the sequence is longer than `max_length`.
        """
        length = input_ids.shape[1]
        if length > self.max_length:
            raise OptionError(f"a sequence of {length} tokens; at most {self.max_length} fit")
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        positions = torch.arange(length, device=input_ids.device)
        x = self.word_embeddings(input_ids) + self.position_embeddings(positions)
        x = self.dropout(self.norm(x + self.token_type_embeddings(token_type_ids)))
        mask = None if attention_mask is None else attention_mask.bool()[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        return self.classifier(self.dropout(torch.tanh(self.pooler(x[:, 0]))))
