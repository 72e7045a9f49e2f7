"""GGUF files of language models: metadata and names become Hugging Face's.

Ternary blocks become trits where each row, or for BitNet each matrix, has one scale; other types
become the floats that they stand for, by the package `gguf`, but for embeddings in `_KEPT`. The
architecture `llama` has pairs of its rotary embedding side by side there, which is undone. Not
here: the tokenizer that the file holds (`gguf_tokenizer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from reprlib import repr
from typing import Any

import ml_dtypes
import numpy as np
from gguf import MODEL_ARCH, GGMLQuantizationType, get_tensor_name_map

from ...ir.arrays import Array
from ...ir.errors import ParameterError, SourceError
from ...ir.safe_read import accessing
from ...ir.settings import Settings
from ...runtime.generation import Tokenizer
from ...runtime.native.abi.row_products import RowKind
from .embeddings import Embeddings
from .gguf_header import Header, Place
from .gguf_tokenizer import gguf_tokenizer
from .gguf_trits import TERNARY, decoded, integers, ternary_blocks, trits_of
from .model_file import ModelFile

_BITNET = {
    "model_type": "bitnet",
    "hidden_act": "relu2",
    "quantization_config": {"quant_method": "bitnet", "quantization_mode": "scaled"},
}
_MODELS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"model_type": name, "hidden_act": "silu"} for name in ("llama", "qwen2", "qwen3")},
    "bitnet": {**_BITNET, "hidden_act": "silu"},
    "bitnet-b1.58": _BITNET,
    "bitnet-25": _BITNET,
}
"""What each architecture says; the last two are the ones of bitnet.cpp."""

_METADATA = {
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "rope.dimension_count": "rotary_dim",
    "context_length": "max_position_embeddings",
}
"""Names of numbers behind that of the architecture, and of Hugging Face."""

_FLOATS: Mapping[int, Any] = {0: np.float32, 1: np.float16, 30: ml_dtypes.bfloat16}
_KEPT: Mapping[int, RowKind] = {8: "Q8_0", 14: "Q6_K"}
"""Types of embeddings that stay as they are."""


class GgufFile(ModelFile):
    """A file of which one tensor at a time is in memory."""

    @cached_property
    def _header(self) -> Header:
        return Header(self.path)

    @property
    def about_text(self) -> Mapping[str, Any]:
        """See `ModelFile`."""
        value = self._header.value
        words = value("tokenizer.ggml.tokens") or ()
        found = {"chat_template": value("tokenizer.chat_template")}
        for name, word in (("bos", "bos"), ("eos", "eos"), ("unknown", "unk"), ("padding", "pad")):
            token = found[f"{word}_token_id"] = value(f"tokenizer.ggml.{name}_token_id")
            if isinstance(token, int) and 0 <= token < len(words):
                found[f"{word}_token"] = words[token]
        return {**self.config.values, **found}

    def tokenizer(self) -> Tokenizer:
        """See `ModelFile`."""
        return gguf_tokenizer(self._header, self.what)

    @property
    def _architecture(self) -> str:
        return str(self._header.value("general.architecture"))

    @cached_property
    def config(self) -> Settings:
        """See `ModelFile`: the metadata."""
        value, own = self._header.value, self._architecture
        settings = Settings({}, f"{self.what}: ")
        if "rope_freqs.weight" in self.places:
            settings.refuse("frequencies with factors ('rope_freqs') are not read")
        if own not in _MODELS:
            known = ", ".join(_MODELS)
            settings.refuse(f"models of architecture {repr(own)} are not read; known are {known}")
        config = {word: value(f"{own}.{name}") for name, word in _METADATA.items()}
        config |= _MODELS[own]
        kind, factor = (value(f"{own}.rope.scaling.{name}") for name in ("type", "factor"))
        if kind == "linear" and factor not in (None, 1.0, 0.0):
            config["rope_scaling"] = {"rope_type": "linear", "factor": factor}
        elif kind not in (None, "none", "linear"):
            settings.refuse(f"rotary embedding scaled by '{kind}' is not read from GGUF files")
        return replace(settings, values=config)

    @cached_property
    def places(self) -> Mapping[str, Place]:
        """See `ModelFile`."""
        return self._header.places

    @cached_property
    def _names(self) -> Any:
        return get_tensor_name_map(MODEL_ARCH.QWEN3, 1)

    def own(self, name: str) -> str:
        """See `ModelFile`: as in Qwen3, which lacks BitNet's norms alone; they keep their names."""
        number = name.split(".")[1] if name.startswith("layers.") else "0"
        stem, _, end = name.replace(f"layers.{number}.", "layers.0.", 1).rpartition(".")
        found = self._names.get_name(f"model.{stem}") or self._names.get_name(stem)
        known = found or f"blk.0.{stem.rpartition('.')[2]}"
        return f"{known.replace('blk.0.', f'blk.{number}.')}.{end}"

    def shape(self, own: str) -> Sequence[int]:
        """See `ModelFile`."""
        return self.places[own].shape

    def values(self, own: str) -> Array:
        """See `ModelFile`."""
        values, scale = self._floats(own), self._factor(own)
        return self._unpaired(own, values if scale is None else values.astype(np.float32) * scale)

    def trits(self, name: str) -> tuple[Array, Array] | None:
        """See `ModelFile`; codes that no trit has are refused."""
        own = self.found(name)
        place = self.places[own]
        if place.kind in TERNARY and len(place.shape) == 2:
            what = f"{self.what}: tensor '{own}'"
            found = trits_of(place.kind, self._bytes(own), place.shape[0], what)
            factor = self._factor(own)
            if found is not None:
                trits, scales = found
                scales = scales if factor is None else scales * factor.reshape(-1)
                if scales.all():
                    return self._unpaired(own, trits), self._unpaired(own, scales)
        return super().trits(name)

    def embeddings(self, name: str) -> Embeddings:
        """See `ModelFile`."""
        own = self.found(name)
        place = self.places[own]
        kind = _KEPT.get(place.kind)
        if len(place.shape) != 2 or kind is None or self._factor(own) is not None:
            return super().embeddings(name)
        shape, size = place.shape, place.size // place.shape[0]

        def read(chosen: slice) -> Array:
            first, end, _ = chosen.indices(shape[0])
            return self._bytes(own, first * size, (end - first) * size).reshape(-1, size)

        decode, split = partial(decoded, place.kind), partial(integers, place.kind)
        return Embeddings(kind, shape, read, decode, split)

    def _factor(self, own: str) -> Array | None:
        """What a tensor is multiplied by."""
        name = own.replace(".weight", ".scale")
        if name not in self.places or not own.endswith(".weight"):
            return None
        return self._floats(self.found(name)).astype(np.float32)

    def _bytes(self, own: str, first: int = 0, size: int | None = None) -> Array:
        place = self.places[own]
        size = place.size if size is None else size
        with accessing(self.what, SourceError):
            content = np.fromfile(self.path, np.uint8, size, offset=place.start + first)
        if content.size != size:
            raise SourceError(f"{self.what} ends within tensor '{own}'")
        return content

    def _floats(self, own: str) -> Array:
        place, content = self.places[own], self._bytes(own)
        rows = prod(place.shape[:-1])
        if place.kind in TERNARY:
            trits, scales = ternary_blocks(place.kind, content, rows)
            with np.errstate(invalid="ignore"):
                return (trits * scales).reshape(place.shape)
        if place.kind in _FLOATS:
            return content.view(_FLOATS[place.kind]).reshape(place.shape)
        try:
            return decoded(place.kind, content.reshape(rows, -1)).reshape(place.shape)
        except (NotImplementedError, ValueError, IndexError) as error:
            what = f"{self.what}: tensor '{own}' of type {GGMLQuantizationType(place.kind).name}"
            raise ParameterError(f"{what} cannot be read: {error}") from None

    def _unpaired(self, own: str, values: Array) -> Array:
        """Rows of queries and keys with halves of each head in place of its pairs."""
        config = self.config
        words = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
        word = next((word for part, word in words.items() if f".{part}." in own), None)
        if self._architecture != "llama" or word is None:
            return values
        heads = config.whole(word, config.whole(words["attn_q"]))
        if len(values) % (2 * heads):
            config.refuse(f"'{own}' has {len(values)} rows, which are no pairs of {heads} heads")
        split = values.reshape(heads, -1, 2, *values.shape[1:])
        return np.ascontiguousarray(split.swapaxes(1, 2)).reshape(values.shape)
