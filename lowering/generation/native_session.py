"""A session on native code: one block is compiled, and run with the weights of every layer.

Matrices of trits are packed once, in the layout of the kernels; caches grow in place. Prompts go
through a program for `CHUNK` tokens, whose last part is filled with tokens that are overwritten:
attention is causal, so that they change nothing before them. Not here: the kernels (`to_native`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self, cast

import numpy as np

from ...dialects.inference import tensor_type
from ...dialects.parameters import parameters
from ...dialects.registry import triton_context
from ...ir.arrays import Array
from ...ir.errors import ParameterError
from ...ir.interpreter import entry_function
from ...ir.value_names import argument_names
from ...passes.expose_parameters import ExposeParametersPass
from ...runtime.native.abi.layouts import weights_in
from ...runtime.native.abi.linear import Layout
from ...runtime.native.memory import Arena
from ...runtime.native.program import NativeProgram, load_program
from ...runtime.native.row_products import RowProduct
from ...runtime.native.threads import default_threads
from ..from_checkpoint.checkpoint import Checkpoint
from ..from_checkpoint.decoder import Decoder
from ..from_checkpoint.embeddings import Embeddings
from ..from_checkpoint.program import block_text
from ..from_tri import import_tri
from ..options import parse_options, parse_target_spec
from ..to_native.callables import program_content, row_products
from ..to_native.target import NativeOptions
from .session import Session

CHUNK = 32
"""Tokens of a prompt that go through the layers together."""

_FEW = 10
"""So many tokens are told faster one by one than in a chunk that is filled up."""

_INPUTS = 3
"""Of a block: values of tokens, keys, values."""

_ROOM = 256
"""Tokens that a cache has room for at first."""


@dataclass(frozen=True, eq=False)
class _Layer:
    """A layer's programs, for one token and for a chunk, and its float parameters."""

    one: NativeProgram
    many: NativeProgram
    given: Sequence[Array]


class NativeSession(Session):
    """A decoder in native code.

    Args:
        decoder: its sizes.
        layers: its blocks, in order.
        embeddings: of tokens.
        norm: of the last normalisation.
        head: logits of one token, from its normalised values.
        recipe: the instruction set.
    """

    def __init__(
        self,
        decoder: Decoder,
        layers: Sequence[_Layer],
        embeddings: Embeddings,
        norm: Array,
        head: RowProduct,
        recipe: str,
    ) -> None:
        super().__init__(decoder)
        self.name = f"native ({recipe})"
        self._layers, self._embeddings, self._norm, self._head = layers, embeddings, norm, head
        self._caches = [self._cache(_ROOM) for _ in range(2 * len(layers))]

    @classmethod
    def of(cls, checkpoint: Checkpoint, target: str) -> Self:
        """See `Session.of`; the weights of one layer are in memory in their own form at a time."""
        decoder = checkpoint.decoder
        given = {"outside": True, **parse_target_spec(target).options}
        options = parse_options(NativeOptions, "native", given)
        blocks = {
            (window, count): _Block.of(decoder, window, count, options)
            for window in dict.fromkeys(decoder.windows)
            for count in (1, CHUNK)
        }
        layers: list[_Layer] = []
        rest: dict[str, Any] = {}
        arena = Arena()
        for number, entries in groupby(checkpoint.weights, lambda entry: _layer_of(entry[0])):
            if number is None:
                rest |= entries
                continue
            weights = {_within_layer(key): cast("Array", value) for key, value in entries}
            window, held = decoder.windows[number], dict[str, Array]()
            one, many = (blocks[window, c].program(weights, held, arena) for c in (1, CHUNK))
            layers.append(_Layer(one, many, blocks[window, 1].given(weights)))
        embeddings: Embeddings = rest["embed_tokens.weight"]
        output: Embeddings = rest.get("lm_head.weight", embeddings)
        recipe = options.kernels()
        code = row_products(recipe, output.kind)
        head = RowProduct(code, output.kind, output.rows, output.features, default_threads())
        return cls(decoder, layers, embeddings, rest["norm.weight"], head, recipe.name)

    def _feed(self, tokens: Array) -> Array:
        *_, values = self._passed(tokens)
        return self._logits(values[:, -1])

    def _feed_all(self, tokens: Array) -> Array:
        values = np.concatenate([*self._passed(tokens)], axis=1)
        return np.stack([self._logits(values[:, n]) for n in range(len(tokens))])

    def _logits(self, values: Array) -> Array:
        """Of one token, from its values behind all layers, [1, features]."""
        x = values.reshape(-1)
        return self._head(x / np.sqrt(np.mean(x * x) + np.float32(self.decoder.eps)) * self._norm)

    def _passed(self, tokens: Array) -> Iterator[Array]:
        """Values of tokens behind all layers, float32 [1, some, features], part by part."""
        while len(tokens):
            count = CHUNK if len(tokens) > _FEW else 1
            told, tokens = tokens[:count], tokens[count:]
            yield self._layered(told, self._length, count)[:, : len(told)]
            self._length += len(told)

    def another(self) -> Self:
        """See `Session.another`."""
        other = super().another()
        other._caches = [self._cache(_ROOM) for _ in self._caches]
        return other

    def _layered(self, tokens: Array, start: int, count: int) -> Array:
        """Values of tokens behind all layers, float32 [1, count, features]."""
        x = np.zeros((1, count, self.decoder.features), np.float32)
        x[0, : len(tokens)] = self._embeddings.floats(tokens)
        self._reserve(start + count)
        for number, layer in enumerate(self._layers):
            program = layer.one if count == 1 else layer.many
            caches = self._caches[2 * number : 2 * number + 2]
            before, after = ([c[:, :end] for c in caches] for end in (start, start + count))
            y = np.empty_like(x)
            program.bind(x, *before, *layer.given, out=[y, *after])()
            x = y
        return x

    def _cache(self, room: int) -> Array:
        return np.zeros((1, room, self.decoder.groups, self.decoder.head_dim), np.float32)

    def _reserve(self, room: int) -> None:
        """Make caches so large that so many tokens fit."""
        have = self._caches[0].shape[1]
        if room <= have:
            return
        for number, old in enumerate(self._caches):
            self._caches[number] = self._cache(max(room, 2 * have))
            self._caches[number][:, :have] = old


@dataclass(frozen=True, eq=False)
class _Block:
    """The code of a block, without weights.

    Attributes:
        content: see `callables.program_content`.
        shapes: of its matrices of trits, [ins, outs].
        names: of its other parameters, which are arguments.
    """

    content: bytes
    shapes: Mapping[str, tuple[int, ...]]
    names: Sequence[str]

    @staticmethod
    def of(decoder: Decoder, window: int, tokens: int, options: NativeOptions) -> _Block:
        """The block for a window and so many tokens."""
        module = import_tri(block_text(decoder, window, tokens))
        shapes = {op.key.data: tensor_type(op.result).get_shape() for op in parameters(module)}
        ExposeParametersPass().apply(triton_context(), module)
        names = argument_names(entry_function(module, "forward"))[_INPUTS:]
        return _Block(program_content(module, options), shapes, names)

    def program(
        self, weights: Mapping[str, Array], held: dict[str, Array], arena: Arena
    ) -> NativeProgram:
        """The block with the weights of a layer.

        Args:
            weights: by their names in the block, trits packed as in files.
            held: what programs hold of these weights, for all programs of the layer.
            arena: where it stands.
        """

        def hold(name: str) -> Array:
            if name not in held:
                key, layout = name.rsplit(":", 1)
                trits = weights[_within(key)]
                if trits.shape != self.shapes[key][::-1]:
                    raise ParameterError(
                        f"'{key}' has the shape {list(trits.shape)}, expected "
                        f"{list(self.shapes[key][::-1])}"
                    )
                held[name] = arena.hold(weights_in(cast("Layout", layout), trits))
            return held[name]

        return load_program(self.content, held=hold)

    def given(self, weights: Mapping[str, Array]) -> list[Array]:
        """The arguments behind tokens and caches."""
        return [weights[_within(name)] for name in self.names]


def _layer_of(key: str) -> int | None:
    """The number of the layer that a weight belongs to."""
    return int(key.split(".")[1]) if key.startswith("layers.") else None


def _within_layer(key: str) -> str:
    return key.split(".", 2)[2]


def _within(key: str) -> str:
    return key.removeprefix("block.")
