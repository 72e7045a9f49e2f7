"""A session on native code: one block is compiled, and run with the weights of every layer.

Matrices of trits are packed once, in the layout of the kernels; caches grow in place. Prompts go
through programs for `COUNTS` tokens, whose last part may be filled with tokens that are
overwritten: attention is causal, so that they change nothing before them. Not here: compiling
(`native_code`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from ...ir.arrays import Array
from ...runtime.native.abi.attention import Heads
from ...runtime.native.attention import Attention, Cache
from ...runtime.native.jit import Library, leave_compiler
from ...runtime.native.memory import Arena, trim_heap
from ...runtime.native.native_team import team_of
from ...runtime.native.row_products import RowProduct
from ...runtime.native.threads import default_threads, processors
from ...runtime.session import Session
from ..from_checkpoint.checkpoint import Checkpoint
from ..from_checkpoint.program import block_texts
from .native_code import Step, native_code

COUNTS = {32: 27, 8: 6, 1: 1}
"""Tokens that programs are made for, and how many at least are told quickest by filling one up."""

_Layer = Mapping[int, Sequence[Step]]
"""What comes before and behind attention, by how many tokens go together."""


class NativeSession(Session):
    """A decoder in native code; the weights of one layer at a time are in memory twice.

    Args:
        checkpoint: of the model.
        target: with its options.

    Raises:
        TritonError: see `native_code`.
    """

    def __init__(self, checkpoint: Checkpoint, target: str) -> None:
        decoder, threads = checkpoint.decoder, default_threads()
        head = checkpoint.head
        block = decoder.block
        sizes = decoder.heads, decoder.groups, decoder.head_dim
        heads = Heads(*sizes, block["scale"], block["softcap"])
        texts = [text for count in COUNTS for text in block_texts(decoder, count)]
        recipe, parts, attention, rows = native_code(
            target, texts, heads, head.kind, together=threads > 1
        )
        super().__init__(decoder.vocabulary, f"native ({recipe})", decoder.limit)
        arena, self._layers = Arena(), list[_Layer]()
        for block in checkpoint.blocks:
            weights = {f"block.{name}": value for name, value in block}
            held = dict[str, Array]()
            steps = [part.step(weights, held, arena, threads) for part in parts]
            self._layers.append({n: steps[2 * i : 2 * i + 2] for i, n in enumerate(COUNTS)})
            del weights
            trim_heap()
        self._attention = Attention(Library(attention), heads, threads)
        code = Library(rows)
        self._head = RowProduct(code, head.kind, head.rows, head.shape[1], threads)
        if threads > 1:
            team_of(processors)
        leave_compiler()
        self._decoder, self._embeddings = decoder, checkpoint.embeddings
        self._outer = checkpoint.outer
        self._caches = self._empty()

    def _told(self, tokens: Array, count: int) -> Array:
        last, start = deque[Array](maxlen=count), self.length
        while len(tokens):
            size = next(size for size, least in COUNTS.items() if len(tokens) >= least)
            told, tokens = tokens[:size], tokens[size:]
            last.extend(self._layered(told, start, size)[0, : len(told)])
            start += len(told)
        return np.stack([self._logits(values) for values in last])

    def _logits(self, x: Array) -> Array:
        """Of one token, from its values behind all layers, [features]."""
        decoder, outer = self._decoder, self._outer
        if decoder.block["centred"]:
            x = x - np.mean(x)
        x = x / np.sqrt(np.mean(x * x) + np.float32(decoder.eps)) * outer["norm.weight"]
        logits = self._head(x + outer["norm.bias"] if "norm.bias" in outer else x)
        if "logits_bias" in outer:
            logits = logits + outer["logits_bias"]
        logits, cap = logits * np.float32(decoder.logit_scale), np.float32(decoder.logit_cap)
        return np.tanh(logits / cap) * cap if cap else logits

    def another(self) -> Self:
        """See `Session.another`."""
        other = super().another()
        other._caches = self._empty()
        return other

    def _layered(self, tokens: Array, start: int, count: int) -> Array:
        """Values of tokens behind all layers, float32 [1, count, features]."""
        x = np.zeros((1, count, self._decoder.features), np.float32)
        x[0, : len(tokens)] = self._embeddings.floats(tokens)
        x *= np.float32(self._decoder.embedding_scale)
        places = np.arange(start, start + count)
        if "embed_positions.weight" in self._outer:
            table = self._outer["embed_positions.weight"]
            x += table[np.minimum(places, len(table) - 1)]
        for layer, cache, window in zip(
            self._layers, self._caches, self._decoder.windows, strict=True
        ):
            before, behind = layer[count]
            queries, keys, values = before(x, places)
            cache.put(start, keys[0], values[0])
            means = self._attention(queries[0], cache, start, window)
            (x,) = behind(x, means.reshape(1, count, -1))
        return x

    def _empty(self) -> list[Cache]:
        arena = Arena()
        return [Cache(self._attention.heads, arena) for _ in self._layers]
