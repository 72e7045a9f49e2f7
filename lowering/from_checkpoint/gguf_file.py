"""GGUF files of language models: metadata and names become Hugging Face's.

Tensors are read one at a time. Ternary blocks become trits where each row, or for BitNet each
matrix, has one scale; other types become the floats that they stand for, by the package `gguf`, but
for embeddings in `_KEPT`. The architecture `llama` has pairs of its rotary embedding side by side
there, which is undone. Not here: the tokenizer that the file holds (`gguf_tokenizer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError, ParameterError
from ...ir.extras import install
from .checkpoint import Checkpoint, read_checkpoint
from .embeddings import Embeddings
from .gguf_header import Header, Place, Texts, read_header
from .gguf_trits import TERNARY, floats_of, trits_of
from .problems import refuse
from .text_facts import TextFacts, text_facts

_MODELS: Mapping[str, tuple[str, str]] = {
    "llama": ("llama", "silu"),
    "qwen2": ("qwen2", "silu"),
    "qwen3": ("qwen3", "silu"),
    "bitnet": ("bitnet", "silu"),
    "bitnet-b1.58": ("bitnet", "relu2"),
    "bitnet-25": ("bitnet", "relu2"),
}
"""The model type and activation of each architecture; those of `bitnet` with two names more are
the ones of bitnet.cpp."""

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
}
"""Names of numbers behind that of the architecture, and of Hugging Face."""

_NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.attn_sub_norm": "attn_sub_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.ffn_sub_norm": "ffn_sub_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
"""Names of tensors in Hugging Face's checkpoints and in GGUF files."""

_FLOATS: Mapping[str, Any] = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
_KEPT = ("Q8_0", "Q6_K")
"""Types of embeddings that stay as they are."""

_ROWS = 4096
"""So many rows become floats at a time."""


def read_gguf(path: Path) -> Checkpoint:
    """What a file holds.

    Raises:
        SourceError: an unknown architecture, or a broken file.
        ParameterError: a tensor is missing, or has another shape.
        BackendError: the package `gguf` is missing.
    """
    header = read_header(path)
    tensors = _Tensors(path, header)
    return read_checkpoint(_config(header.fields, tensors), tensors, path, f"'{path}'")


def gguf_text_facts(path: Path) -> TextFacts:
    """What a file says about text: see `TextFacts`.

    Raises:
        SourceError: see `read_gguf`.
    """
    fields = read_header(path).fields
    listed = fields.get("tokenizer.ggml.tokens")
    special: dict[str, object] = {}
    for name, word in (("bos", "bos"), ("eos", "eos"), ("unknown", "unk"), ("padding", "pad")):
        token = fields.get(f"tokenizer.ggml.{name}_token_id")
        if isinstance(listed, Texts) and isinstance(token, int) and 0 <= token < len(listed):
            special[f"{word}_token"] = listed[token]
    return text_facts(
        fields.get("tokenizer.ggml.eos_token_id"),
        fields.get("tokenizer.chat_template"),
        special,
        fields.get(f"{fields.get('general.architecture')}.context_length"),
        f"'{path}'",
    )


def _config(fields: Mapping[str, object], tensors: _Tensors) -> dict[str, Any]:
    """The metadata in the words of `config.json`."""
    architecture = str(fields.get("general.architecture"))
    if architecture not in _MODELS:
        refuse(
            f"{tensors.what}: models of architecture {architecture!r} are not read; known are "
            f"{', '.join(_MODELS)}"
        )
    model, activation = _MODELS[architecture]
    config: dict[str, Any] = {"model_type": model, "hidden_act": activation}
    for name, word in _METADATA.items():
        value = fields.get(f"{architecture}.{name}")
        if value is not None:
            config[word] = value
    kind = fields.get(f"{architecture}.rope.scaling.type", "none")
    factor = fields.get(f"{architecture}.rope.scaling.factor")
    if kind == "linear" and factor not in (None, 1.0, 0.0):
        config["rope_scaling"] = {"rope_type": "linear", "factor": factor}
    elif kind not in ("none", "linear"):
        refuse(f"{tensors.what}: rotary embedding scaled by '{kind}' is not read from GGUF files")
    turned = fields.get(f"{architecture}.rope.dimension_count")
    width = config.get("head_dim") or _quotient(config, "hidden_size", "num_attention_heads")
    if turned is not None and width is not None and turned != width:
        refuse(f"{tensors.what}: rotary embedding of {turned} of {width} values of a head")
    if "rope_freqs.weight" in tensors.held:
        refuse(f"{tensors.what}: frequencies with factors of their own ('rope_freqs') are not read")
    if model == "bitnet":
        config["quantization_config"] = {"quant_method": "bitnet", "quantization_mode": "scaled"}
    tensors.pairs = architecture == "llama"
    tensors.heads = {
        "attn_q": config.get("num_attention_heads"),
        "attn_k": config.get("num_key_value_heads", config.get("num_attention_heads")),
    }
    return config


def _quotient(config: Mapping[str, Any], a: str, b: str) -> int | None:
    x, y = config.get(a), config.get(b)
    return x // y if isinstance(x, int) and isinstance(y, int) and y > 0 else None


class _Tensors:
    """A file's tensors by the names of Hugging Face; see `checkpoint.TensorSource`.

    Attributes:
        held: the tensors by their own names.
        pairs: whether rows of queries and keys stand pair by pair.
        heads: how many heads the rows of these tensors are of.
    """

    def __init__(self, path: Path, header: Header) -> None:
        """Find out the types of all tensors.

        Raises:
            SourceError: an unknown type, or a tensor that is not within the file.
            BackendError: the package `gguf` is missing.
        """
        try:
            import gguf
        except ModuleNotFoundError:
            raise BackendError(f"'{path}': gguf is missing: {install('language')}") from None
        self.what = f"'{path}'"
        self.held = header.places
        self.unread = set(self.held)
        self.pairs = False
        self.heads: Mapping[str, object] = {}
        self._path = path
        self._dequantize = gguf.quants.dequantize
        self._kinds = {kind.value: kind for kind in gguf.GGMLQuantizationType}
        self._sizes = {kind.value: size for kind, size in gguf.GGML_QUANT_SIZES.items()}
        for name, place in self.held.items():
            if place.start + self._size(name, place) > header.size:
                refuse(f"{self.what} ends within tensor '{name}': it is damaged")

    def _size(self, name: str, place: Place) -> int:
        """Bytes of a tensor."""
        ternary, known = TERNARY.get(place.kind), self._sizes.get(place.kind)
        if ternary is None and known is None:
            refuse(f"{self.what}: tensor '{name}' is of type {place.kind}, which is not known")
        values, bytes_ = known or (1, 1)
        whole = place.shape[-1] % values == 0
        size = (
            ternary.size(place.shape) if ternary else whole and prod(place.shape) // values * bytes_
        )
        if not size:
            refuse(f"{self.what}: rows of tensor '{name}' are no whole blocks: it is damaged")
        return size

    def __contains__(self, name: str) -> bool:
        return _own(name) in self.held

    def read(self, name: str) -> Array:
        """A tensor as floats, but for types that NumPy has.

        Raises:
            ParameterError: there is none, or it cannot be read.
        """
        own, place = self._place(name)
        values, scale = self._floats(own, place), self._factor(own)
        return self._unpaired(own, values if scale is None else values.astype(np.float32) * scale)

    def trits(self, name: str) -> tuple[Array, Array] | None:
        """See `checkpoint.TensorSource`.

        Raises:
            SourceError, ParameterError: see `read`; codes that no trit has.
        """
        own, place = self._place(name)
        ternary, rows = TERNARY.get(place.kind), place.shape[0]
        if ternary is None or len(place.shape) != 2:
            return None
        found = trits_of(ternary, self._bytes(own, place), rows, f"{self.what}: tensor '{own}'")
        if found is None:
            return None
        trits, scales = found
        factor = self._factor(own)
        scales = scales if factor is None else scales * factor.reshape(-1)
        if not scales.all():
            return None
        return self._unpaired(own, trits), self._unpaired(own, scales)

    def embeddings(self, name: str) -> Embeddings:
        """See `checkpoint.TensorSource`.

        Raises:
            SourceError, ParameterError: see `read`.
        """
        own, place = self._place(name)
        kind = self._kinds.get(place.kind)
        if len(place.shape) != 2:
            refuse(f"{self.what}: '{own}' is no matrix, but of shape {list(place.shape)}")
        if kind is None or kind.name not in _KEPT or self._factor(own) is not None:
            return Embeddings.of(self.read(name))
        rows = self._bytes(own, place).reshape(place.shape[0], -1)
        return Embeddings(kind.name, place.shape[1], rows, partial(self._decoded, kind))

    def _place(self, name: str) -> tuple[str, Place]:
        own = _own(name)
        place = self.held.get(own)
        if place is None:
            raise ParameterError(f"{self.what} has no tensor '{own}'")
        self.unread.discard(own)
        return own, place

    def _factor(self, own: str) -> Array | None:
        """What a tensor is multiplied by."""
        name = own.replace(".weight", ".scale")
        place = self.held.get(name)
        if place is None or not own.endswith(".weight"):
            return None
        self.unread.discard(name)
        return self._floats(name, place).astype(np.float32)

    def _bytes(self, own: str, place: Place) -> Array:
        size = self._size(own, place)
        try:
            content = np.fromfile(self._path, np.uint8, size, offset=place.start)
        except OSError as error:
            refuse(f"{self.what}: {error.strerror}")
        if content.size != size:
            refuse(f"{self.what} ends within tensor '{own}'")
        return content

    def _floats(self, own: str, place: Place) -> Array:
        content, rows = self._bytes(own, place), prod(place.shape[:-1])
        if place.kind in TERNARY:
            return floats_of(TERNARY[place.kind], content, rows).reshape(place.shape)
        kind = self._kinds[place.kind]
        if kind.name in _FLOATS:
            return content.view(_FLOATS[kind.name]).reshape(place.shape)
        try:
            return self._decoded(kind, content.reshape(rows, -1)).reshape(place.shape)
        except (NotImplementedError, ValueError, IndexError) as error:
            raise ParameterError(
                f"{self.what}: tensor '{own}' of type {kind.name} cannot be read: {error}"
            ) from None

    def _decoded(self, kind: Any, rows: Array) -> Array:
        """What blocks stand for, a part at a time."""
        return np.concatenate(
            [self._dequantize(rows[n : n + _ROWS], kind) for n in range(0, len(rows), _ROWS)]
        )

    def _unpaired(self, name: str, values: Array) -> Array:
        """Rows of queries and keys with halves of each head in place of its pairs."""
        heads = self.heads.get(name.split(".")[-2]) if name.count(".") > 1 else None
        if not self.pairs or not isinstance(heads, int):
            return values
        split = values.reshape(heads, -1, 2, *values.shape[1:])
        return np.ascontiguousarray(split.swapaxes(1, 2)).reshape(values.shape)


def _own(name: str) -> str:
    """A name of Hugging Face in GGUF's words; one that has no other stays."""
    layer, rest = "", name
    if name.startswith("layers."):
        _, number, rest = name.split(".", 2)
        layer = f"blk.{number}."
    stem, _, end = rest.rpartition(".")
    return f"{layer}{_NAMES.get(stem, stem)}.{end}"
