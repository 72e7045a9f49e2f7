"""GGUF files of language models: metadata and names become Hugging Face's.

Ternary blocks become trits where each row, or for BitNet each matrix, has one scale; other types
become the floats that they stand for, by the package `gguf`, but for embeddings in `_KEPT`. Not
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
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, GGMLQuantizationType, get_tensor_name_map

from ...ir.arrays import Array
from ...ir.errors import ParameterError, SourceError
from ...ir.safe_read import accessing
from ...ir.settings import Settings
from ...runtime.generation import Tokenizer
from ...runtime.native.abi.row_products import RowKind
from .architectures import Architecture
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
_SAME = (
    "gemma",
    "gemma2",
    "gpt2",
    "granite",
    "llama",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen3",
    "smollm3",
)
_MODELS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"model_type": name} for name in _SAME},
    "command-r": {"model_type": "cohere"},
    "gemma3": {"model_type": "gemma3_text"},
    "gptneox": {"model_type": "gpt_neox"},
    "phi2": {"model_type": "phi"},
    "stablelm": {"model_type": "stablelm"},
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
    "attention.layer_norm_epsilon": "rms_norm_eps",
    "attention.scale": "attention_multiplier",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "logit_scale": "logit_scale",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "use_parallel_residual": "use_parallel_residual",
    "expert_count": "num_local_experts",
    "expert_used_count": "num_experts_per_tok",
    "vocab_size": "vocab_size",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "rope.dimension_count": "rotary_dim",
    "context_length": "max_position_embeddings",
}
"""Names of numbers behind that of the architecture, and in our words."""

_READ = ("attention.value_length", "rope.scaling.type", "rope.scaling.factor")
_NEUTRAL = (
    "tensor_data_layout",
    "rope.scaling.finetuned",
)

_PAIRED = ("llama", "granite", "command-r", "smollm3")
"""Architectures that turn neighbours in a head; those of Llama's kind are written in that order."""

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
        return {"max_position_embeddings": value(f"{self._architecture}.context_length"), **found}

    def tokenizer(self) -> Tokenizer:
        """See `ModelFile`."""
        return gguf_tokenizer(self._header, self.what)

    @property
    def _architecture(self) -> str:
        return str(self._header.value("general.architecture"))

    @cached_property
    def said(self) -> Settings:
        """See `ModelFile`: the metadata."""
        value, own = self._header.value, self._architecture
        settings = Settings({}, f"{self.what}: ")
        if own not in _MODELS:
            known = ", ".join(_MODELS)
            settings.refuse(f"models of architecture {repr(own)} are not read; known are {known}")
        config: dict[str, Any] = {"rope_theta": 10000.0}
        for name in self._header.fields:
            word = name.removeprefix(f"{own}.")
            found = value(name)
            if word == name or word in (*_READ, *_NEUTRAL):
                continue
            if word == "attention.sliding_window" and not found:
                continue
            config[_METADATA.get(word, word)] = found
        config |= _MODELS[own]
        if config["model_type"] == "llama" and config.get("num_local_experts"):
            config["model_type"] = "mixtral"
        if own == "granite" and "logit_scale" in config:
            config["logits_scaling"] = config.pop("logit_scale")
        settings = replace(settings, values=config)
        features, heads = (settings.whole(x) for x in ("hidden_size", "num_attention_heads"))
        size = config.setdefault("head_dim", None if features % heads else features // heads)
        if value(f"{own}.attention.value_length") not in (None, size):
            settings.refuse("values of heads have another length than keys")
        config.setdefault("rotary_dim", size)
        if own in ("gemma2", "gemma3"):
            # What llama.cpp does: the largest ones of both have another scale than the others.
            is_large = config.get("num_hidden_layers") in (46, 62)
            config["query_pre_attn_scalar"] = features // heads if is_large else size
        if scaling := self._scaling(settings):
            config["rope_scaling"] = scaling
        return settings

    def _scaling(self, settings: Settings) -> Mapping[str, Any] | None:
        own = self._architecture
        kind, factor = (self._header.value(f"{own}.rope.scaling.{x}") for x in ("type", "factor"))
        factors = "rope_freqs.weight"
        if factors in self.places:
            if kind not in (None, "none"):
                settings.refuse(f"rotary embedding scaled by '{kind}' and factors is not read")
            return {
                "rope_type": "factors",
                "factors": self.values(self.found_own(factors)).tolist(),
            }
        if kind == "linear" and factor not in (None, 1.0, 0.0):
            return {"rope_type": "linear", "factor": factor}
        if kind not in (None, "none", "linear"):
            settings.refuse(f"rotary embedding scaled by '{kind}' is not read from GGUF files")
        return None

    @cached_property
    def architecture(self) -> Architecture:
        """See `ModelFile`: rows and weights are as in Llama where files are written."""
        found, is_paired = super().architecture, self._architecture in _PAIRED
        found = replace(found, is_paired=is_paired, is_grouped=False, is_transposed=False)
        settings = {**found.settings, "rotary_dim": None}
        return replace(found, offset=0, words=dict[str, str](), settings=settings)

    @cached_property
    def places(self) -> Mapping[str, Place]:
        """See `ModelFile`."""
        return self._header.places

    @cached_property
    def _names(self) -> Any:
        own = self._architecture
        known = {name: arch for arch, name in MODEL_ARCH_NAMES.items() if "bitnet" not in name}
        return get_tensor_name_map(known.get(own, MODEL_ARCH.QWEN3), 1)

    def own(self, name: str) -> str:
        """See `ModelFile`: by the package, which lacks norms of BitNet; they keep their names."""
        number = name.split(".")[1] if name.startswith("layers.") else "0"
        stem, _, end = name.replace(f"layers.{number}.", "layers.0.", 1).rpartition(".")
        theirs = self.architecture.theirs(stem)
        found = self._names.get_name(theirs.replace(".{}", ""))
        known = found or f"blk.0.{stem.rpartition('.')[2]}"
        return f"{known.replace('blk.0.', f'blk.{number}.')}.{end}"

    def shape(self, own: str) -> Sequence[int]:
        """See `ModelFile`."""
        return self.places[own].shape

    def values(self, own: str) -> Array:
        """See `ModelFile`."""
        values, scale = self._floats(own), self._factor(own)
        return values if scale is None else values.astype(np.float32) * scale

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
                    return trits, scales
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
