"""A session on native code: one block is compiled, and run with the weights of every layer.

Matrices of trits are packed once, in the layout of the kernels; caches grow in place. Prompts go
through programs for `_COUNTS` tokens, whose last part may be filled with tokens that are
overwritten: attention is causal, so that they change nothing before them. Not here: compiling
(`native_code`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self, cast

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import ParameterError
from ...runtime.native.abi.attention import Heads
from ...runtime.native.abi.layouts import weights_in
from ...runtime.native.abi.linear import Layout
from ...runtime.native.attention import Attention, Cache
from ...runtime.native.jit import Library, leave_compiler
from ...runtime.native.memory import Arena, trim_heap
from ...runtime.native.native_team import team_of
from ...runtime.native.program import NativeProgram, load_program
from ...runtime.native.row_products import RowProduct
from ...runtime.native.threads import default_threads, processors
from ...runtime.session import Session
from ..from_checkpoint.checkpoint import Checkpoint
from ..from_checkpoint.decoder import Decoder
from ..from_checkpoint.embeddings import Embeddings
from ..from_checkpoint.program import block_texts
from .native_code import Part, native_code

_COUNTS = {32: 27, 8: 6, 1: 1}
"""Tokens that programs are made for, and how many at least are told quickest by filling one up."""


@dataclass(frozen=True, eq=False)
class _Step:
    """A program with the weights of a layer.

    Attributes:
        program: of one part.
        given: its last arguments.
    """

    program: NativeProgram
    given: Sequence[Array]

    def run(self, *inputs: Array) -> list[Array]:
        """Its results."""
        return self.program.run([*inputs, *self.given])


_Layer = Mapping[int, Sequence[_Step]]
"""What comes before and behind attention, by how many tokens go together."""


class NativeSession(Session):
    """A decoder in native code.

    Args:
        decoder: its sizes.
        layers: its blocks, in order.
        attention: of all of them.
        embeddings: of tokens.
        norm: of the last normalisation.
        head: logits of one token, from its normalised values.
        recipe: the instruction set.
    """

    def __init__(
        self,
        decoder: Decoder,
        layers: Sequence[_Layer],
        attention: Attention,
        embeddings: Embeddings,
        norm: Array,
        head: RowProduct,
        recipe: str,
    ) -> None:
        super().__init__(decoder.vocabulary, f"native ({recipe})")
        self._decoder = decoder
        self._layers, self._attention = layers, attention
        self._embeddings, self._norm, self._head = embeddings, norm, head
        self._caches = self._empty()

    @classmethod
    def of(cls, checkpoint: Checkpoint, target: str) -> Self:
        """See `EngineSession.of`; the weights of one layer at a time are in memory twice."""
        decoder, threads = checkpoint.decoder, default_threads()
        groups = groupby(checkpoint.weights, lambda entry: _layer_of(entry[0]))
        rest: dict[str, Any] = dict(next(groups)[1])
        embeddings: Embeddings = rest["embed_tokens.weight"]
        output: Embeddings = rest.get("lm_head.weight", embeddings)
        heads = Heads(decoder.heads, decoder.groups, decoder.head_dim)
        texts = [text for count in _COUNTS for text in block_texts(decoder, count)]
        code = native_code(target, texts, heads, output.kind, together=threads > 1)
        parts = [_Part(part, threads) for part in code.parts]
        arena, layers = Arena(), list[_Layer]()
        for _, entries in groups:
            weights = {_within_layer(key): cast("Array", value) for key, value in entries}
            held = dict[str, Array]()
            steps = [part.step(weights, held, arena) for part in parts]
            layers.append({n: steps[2 * i : 2 * i + 2] for i, n in enumerate(_COUNTS)})
            del weights
            trim_heap()
        attention = Attention(Library(code.attention), heads, threads)
        rows = Library(code.rows)
        head = RowProduct(rows, output.kind, output.rows, output.features, threads)
        if threads > 1:
            team_of(processors)
        leave_compiler()
        norm = rest["norm.weight"]
        return cls(decoder, layers, attention, embeddings, norm, head, code.recipe)

    def _told(self, tokens: Array, count: int) -> Array:
        last = deque[Array](maxlen=count)
        for values in self._passed(tokens):
            last.extend(values)
        return np.stack([self._logits(values) for values in last])

    def _logits(self, x: Array) -> Array:
        """Of one token, from its values behind all layers, [features]."""
        return self._head(x / np.sqrt(np.mean(x * x) + np.float32(self._decoder.eps)) * self._norm)

    def _passed(self, tokens: Array) -> Iterator[Array]:
        """Values of tokens behind all layers, float32 [some, features], part by part."""
        start = self.length
        while len(tokens):
            count = next(count for count, least in _COUNTS.items() if len(tokens) >= least)
            told, tokens = tokens[:count], tokens[count:]
            yield self._layered(told, start, count)[0, : len(told)]
            start += len(told)

    def another(self) -> Self:
        """See `Session.another`."""
        other = super().another()
        other._caches = self._empty()
        return other

    def _layered(self, tokens: Array, start: int, count: int) -> Array:
        """Values of tokens behind all layers, float32 [1, count, features]."""
        x = np.zeros((1, count, self._decoder.features), np.float32)
        x[0, : len(tokens)] = self._embeddings.floats(tokens)
        places = np.arange(start, start + count)
        for layer, cache, window in zip(
            self._layers, self._caches, self._decoder.windows, strict=True
        ):
            before, behind = layer[count]
            queries, keys, values = before.run(x, places)
            cache.put(start, keys[0], values[0])
            means = self._attention(queries[0], cache, start, window)
            (x,) = behind.run(x, means.reshape(1, count, -1))
        return x

    def _empty(self) -> list[Cache]:
        arena = Arena()
        return [Cache(self._attention.heads, arena) for _ in self._layers]


class _Part:
    """A program without weights, once it is loaded.

    Args:
        part: of the code.
        threads: most that run it.
    """

    def __init__(self, part: Part, threads: int) -> None:
        self._part, self._threads = part, threads
        self._program: NativeProgram | None = None

    def step(self, weights: Mapping[str, Array], held: dict[str, Array], arena: Arena) -> _Step:
        """The program with the weights of a layer.

        Args:
            weights: by their names in the block, trits as int8 [outs, ins].
            held: what programs hold of these weights, for all programs of the layer.
            arena: where it stands.
        """

        def hold(name: str) -> Array:
            if name not in held:
                key, layout = name.rsplit(":", 1)
                trits, shape = weights[_within(key)], self._part.shapes[key][::-1]
                if list(trits.shape) != list(shape):
                    raise ParameterError(
                        f"'{key}' has the shape {list(trits.shape)}, expected {list(shape)}"
                    )
                held[name] = arena.hold(weights_in(cast("Layout", layout), trits))
            return held[name]

        if self._program is None:
            program = load_program(self._part.content, threads=self._threads, held=hold)
            self._program = program
        else:
            program = self._program.holding(hold)
        return _Step(program, [weights[_within(name)] for name in self._part.names])


def _layer_of(key: str) -> int | None:
    """The number of the layer that a weight belongs to."""
    return int(key.split(".")[1]) if key.startswith("layers.") else None


def _within_layer(key: str) -> str:
    return key.split(".", 2)[2]


def _within(key: str) -> str:
    return key.removeprefix("block.")
