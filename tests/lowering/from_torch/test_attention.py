"""Attention with masks and with heads that share keys, as PyTorch computes it."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import flex_attention

from triton_dsl.dialects import tensor

GENERATOR = torch.Generator().manual_seed(5)


def parts(batch: int, heads: int) -> list[Tensor]:
    """Queries of four heads, keys and values of `heads`."""
    return [torch.randn(batch, n, 5, 8, generator=GENERATOR) for n in (4, heads, heads)]


class Attention(nn.Module):
    """With keys of some positions alone, those of `kept`."""

    def __init__(self, added: bool) -> None:
        super().__init__()
        self.added = added

    def forward(self, q: Tensor, k: Tensor, v: Tensor, kept: Tensor) -> Tensor:
        mask = kept[:, None, None] & torch.ones(5, 5, dtype=torch.bool).tril()
        bias = torch.where(mask, 0.0, -math.inf) if self.added else mask
        return functional.scaled_dot_product_attention(q, k, v, bias, enable_gqa=True)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_rows_without_a_key_are_zero(added: bool, heads: int, check: Any) -> None:
    """As the first ones of sequences that are padded before their start."""
    kept = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]]).bool()
    batches = [[*parts(n, heads), kept[:n]] for n in (2, 3)]
    module = Attention(added)
    made = check.same(module, *batches)
    check.same_in_onnx(module, made, batches[1])


def test_a_known_mask_is_looked_at_once(check: Any) -> None:
    def attention(mask: Tensor) -> Any:
        return lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, mask)

    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    batches = [parts(n, 4) for n in (2, 3)]
    made = check.same(attention(causal), *batches)
    assert not any(isinstance(op, tensor.WhereOp) for op in made.walk())
    check.same(attention(causal & (torch.arange(5) > 1)), *batches)


LAYER, DECODER = nn.TransformerEncoderLayer(8, 2, 16), nn.TransformerDecoderLayer(8, 2, 16)


@pytest.mark.parametrize("fixed", [False, True])
def test_masks_of_transformers_may_be_causal(fixed: bool, check: Any) -> None:
    """PyTorch compares a mask with a causal one, which it cannot without values."""

    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.TransformerEncoder(LAYER, 1, enable_nested_tensor=False)
            self.decoder = nn.TransformerDecoder(DECODER, 1)

        def forward(self, x: Tensor) -> Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[0])
            return self.decoder(x, self.encoder(x, mask), mask)

    batches = [torch.randn(n, 3, 8, generator=GENERATOR) for n in ((4,) if fixed else (4, 6))]
    check.same(Causal(), *([x] for x in batches), dynamic={} if fixed else None)


def test_scores_that_a_function_changes(check: Any) -> None:
    """`flex_attention` with a bias by distance and documents that do not see each other."""
    slopes, document = torch.tensor([0.5, 0.25, 0.125, 0.1]), torch.tensor([0, 0, 0, 1, 1])

    def within(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i > j) & (document[i] == document[j])  # the first of each sees nothing

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Any:
        seen = flex_attention.create_block_mask(within, None, None, 5, 5, device="cpu")
        return flex_attention.flex_attention(
            q, k, v, lambda score, b, h, i, j: score - slopes[h] * (i - j), seen,
            enable_gqa=True,
        )  # fmt: skip

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check.same(attention, parts(2, 2), dynamic={})
