"""GGUF files of language models, by the package `gguf`: metadata and names become Hugging Face's.

Tensors are read from the memory map one at a time. Ternary blocks (TQ1_0, TQ2_0) become trits where
each row, or for BitNet each matrix, has one scale; other types become the floats that they stand
for. The architecture `llama` has pairs of its rotary embedding side by side there, which is undone.
Not here: the tokenizer that the file holds, and types of forks (I2_S).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ...ir.arrays import Array
from ...ir.errors import BackendError, ParameterError
from ...ir.extras import install
from ..from_tri import import_tri
from .checkpoint import Checkpoint, read_checkpoint
from .problems import refuse
from .program import decoder_text

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

_BROKEN = (ValueError, IndexError, KeyError, TypeError, OverflowError, AttributeError, MemoryError)
"""What the package raises on files that are damaged."""

_ROWS = 4096
"""So many rows become floats at a time."""


def from_gguf(path: Path) -> ModuleOp:
    """The program of a GGUF file, with its weights, see `program`.

    Raises:
        SourceError: an unknown architecture, or a broken file.
        ParameterError: a tensor is missing, or has another shape.
        BackendError: the package `gguf` is missing.
    """
    decoder, weights = read_gguf(path)
    return import_tri(decoder_text(decoder), weights=dict(weights))


def read_gguf(path: Path) -> Checkpoint:
    """What a file holds.

    Raises:
        SourceError, ParameterError, BackendError: see `from_gguf`.
    """
    reader, fields, dequantize = _opened(path)
    tensors = _Tensors(path, reader, dequantize)
    return read_checkpoint(_config(fields, tensors), tensors, path.stem, f"'{path}'")


def end_tokens_of_gguf(path: Path) -> frozenset[int]:
    """The token that ends a text, if the file says one.

    Raises:
        SourceError, BackendError: see `from_gguf`.
    """
    token = _opened(path)[1].get("tokenizer.ggml.eos_token_id")
    return frozenset([token] if isinstance(token, int) else [])


def _opened(path: Path) -> tuple[Any, dict[str, object], Any]:
    """The reader of a file, its numbers and texts by name, and what makes floats of blocks."""
    try:
        import gguf
    except ModuleNotFoundError:
        raise BackendError(f"'{path}': gguf is missing: {install('language')}") from None
    try:
        reader = gguf.GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items() if _small(field)}
    except OSError as error:
        refuse(f"'{path}': {error.strerror or error}")
    except _BROKEN as error:
        _refuse_broken(path, error)
    return reader, fields, gguf.quants.dequantize


def _small(field: Any) -> bool:
    """Whether a field is a number or a text: lists of tokens are long."""
    return len(field.types) == 1


def _refuse_broken(path: Path, error: BaseException) -> NoReturn:
    refuse(f"'{path}' is no GGUF file, or a damaged one: {error}")


def _config(fields: Mapping[str, object], tensors: _Tensors) -> dict[str, Any]:
    """The metadata in the words of `config.json`."""
    architecture = str(fields.get("general.architecture"))
    if architecture not in _MODELS:
        refuse(
            f"{tensors.what}: models of architecture '{architecture}' are not read; known are "
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

    def __init__(self, path: Path, reader: Any, dequantize: Any) -> None:
        self.what = f"'{path}'"
        self.held: dict[str, Any] = {tensor.name: tensor for tensor in reader.tensors}
        self.unread = set(self.held)
        self.pairs = False
        self.heads: Mapping[str, object] = {}
        self._dequantize = dequantize

    def __contains__(self, name: str) -> bool:
        return _own(name) in self.held

    def read(self, name: str) -> Array:
        """A tensor as floats, but for types that NumPy has.

        Raises:
            ParameterError: there is none, or it cannot be read.
        """
        own = _own(name)
        tensor = self.held.get(own)
        if tensor is None:
            raise ParameterError(f"{self.what} has no tensor '{own}'")
        self.unread.discard(own)
        try:
            values = self._floats(tensor)
            scale = self.held.get(own.replace(".weight", ".scale"))
            if scale is not None and own.endswith(".weight"):
                self.unread.discard(scale.name)
                values = values.astype(np.float32) * self._floats(scale).astype(np.float32)
            return self._unpaired(own, values)
        except (*_BROKEN, NotImplementedError) as error:
            kind = tensor.tensor_type.name
            raise ParameterError(
                f"{self.what}: tensor '{own}' of type {kind} cannot be read: {error}"
            ) from None

    def _floats(self, tensor: Any) -> Array:
        shape = [int(size) for size in reversed(tensor.shape.tolist())]
        if tensor.tensor_type.name in ("F32", "F16"):
            return np.asarray(tensor.data).reshape(shape)
        if tensor.tensor_type.name == "BF16":
            return np.asarray(tensor.data).view(ml_dtypes.bfloat16).reshape(shape)
        if len(shape) != 2:
            return self._dequantize(tensor.data, tensor.tensor_type).reshape(shape)
        result = np.empty(shape, np.float32)
        for row in range(0, shape[0], _ROWS):
            part = tensor.data[row : row + _ROWS]
            result[row : row + _ROWS] = self._dequantize(part, tensor.tensor_type)
        return result

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
