"""A decoder and its weights, out of a configuration and named tensors, whatever file they are in.

The configuration has the words of Hugging Face's `config.json`, tensors their names. Not here: the
files (`folder`, `gguf_file`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, cast

import ml_dtypes
import numpy as np

from ...ir.arrays import Array
from ...ir.identifiers import identifier
from .decoder import PROJECTIONS, Activation, Decoder, Kind
from .embeddings import Embeddings
from .problems import count_of, flag_of, number_of, refuse
from .projections import dense_columns, packed_columns, recognized, rounded, unpacked_bitnet
from .rotary import frequencies

_ACTIVATIONS: Mapping[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "relu2": "relu2",
    "gelu_pytorch_tanh": "gelu",
}

_MODELS = ("bitnet", "llama", "mistral", "qwen2", "qwen3")
"""Values of `model_type` that are known: what a decoder of ours can say."""

_ELEMENTS = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
"""Of token embeddings."""

_MOST_BLOCKS = 1000


class Checkpoint(NamedTuple):
    """A model on its way in.

    Attributes:
        decoder: its sizes.
        weights: by the names that they have in the program; embeddings and the last normalisation
            come first, then one block after the other. Each is read when it is asked for, and may
            raise a `TritonError`. Matrices of trits are int8 [outs, ins].
        path: of the folder or file.
    """

    decoder: Decoder
    weights: Iterator[tuple[str, Array | Embeddings]]
    path: Path

    def state(self) -> dict[str, Array]:
        """All weights, as a program takes them: trits packed, embeddings as floats."""
        element, state = self.decoder.element, dict[str, Array]()
        for name, value in self.weights:
            if isinstance(value, Embeddings):
                state[name] = value.floats().astype(element, copy=False)
            else:
                state[name] = packed_columns(value) if value.dtype == np.int8 else value
        return state


class TensorSource(Protocol):
    """Tensors by name, read one at a time.

    Attributes:
        what: the file, for errors.
        unread: the names of those that were not read yet.
    """

    what: str
    unread: set[str]

    def __contains__(self, name: str) -> bool:
        """Whether there is a tensor of that name."""
        ...

    def read(self, name: str) -> Array:
        """A tensor; see `ir.store.read_tensor`."""
        ...

    def embeddings(self, name: str) -> Embeddings:
        """A matrix that `read` would give, as it is held."""
        ...

    def trits(self, name: str) -> tuple[Array, Array] | None:
        """Trits int8 [outs, ins] and a scale for each output, float32; `None` for other tensors."""
        ...


def read_checkpoint(
    config: Mapping[str, Any], tensors: TensorSource, path: Path, what: str
) -> Checkpoint:
    """The decoder, and its weights by the names that they have in the program, read one by one.

    Args:
        config: of a model of `_MODELS`.
        tensors: of the model.
        path: of the folder or file, after which the model is called.
        what: where the configuration is from, for errors.

    Raises:
        SourceError: an unknown kind of model.
        ParameterError: a tensor is missing or cannot be read.
    """
    name = path.stem if path.is_file() else path.resolve().name
    decoder, form, embeddings = _decoder(config, tensors, name, what)
    return Checkpoint(decoder, _weights(decoder, form, embeddings, tensors), path)


def _decoder(
    config: Mapping[str, Any], tensors: TensorSource, name: str, what: str
) -> tuple[Decoder, _Form, Embeddings]:
    """What the configuration and the names and types of tensors say, and what was read for it."""
    model = config.get("model_type")
    if model not in _MODELS:
        refuse(f"{what}: models of type {model!r} are not read; known are {', '.join(_MODELS)}")
    activation = _ACTIVATIONS.get(str(config.get("hidden_act")))
    if activation is None:
        refuse(
            f"{what}: activation {config.get('hidden_act')!r} is not known; "
            f"known are {', '.join(_ACTIVATIONS)}"
        )
    features, heads = (count_of(config, n, what) for n in ("hidden_size", "num_attention_heads"))
    if config.get("head_dim") is None and features % heads:
        refuse(f"{what}: hidden_size {features} is no multiple of {heads} heads")
    head_dim = count_of(config, "head_dim", what, features // heads)
    groups = count_of(config, "num_key_value_heads", what, heads)
    if heads % groups or head_dim % 2:
        refuse(f"{what}: {heads} heads of {head_dim} cannot share {groups} keys")
    angles, scaling = _rotary(config, head_dim, what)
    embeddings = tensors.embeddings("embed_tokens.weight")
    element = embeddings.element
    if element not in _ELEMENTS:
        refuse(f"{what}: token embeddings of {element} are not read")
    if embeddings.features != features:
        refuse(f"{what}: token embeddings have {embeddings.features} values, expected {features}")
    form = _form(config, tensors, what)
    first = "layers.0.self_attn"
    return (
        Decoder(
            name=identifier(name or "model").capitalize(),
            vocabulary=len(embeddings.rows),
            features=features,
            hidden=count_of(config, "intermediate_size", what),
            heads=heads,
            groups=groups,
            head_dim=head_dim,
            windows=_windows(config, what),
            activation=activation,
            kind=_KINDS[form],
            bias=f"{first}.q_proj.bias" in tensors,
            out_bias=f"{first}.o_proj.bias" in tensors,
            mlp_bias="layers.0.mlp.up_proj.bias" in tensors,
            head_norm=f"{first}.q_norm.weight" in tensors,
            sub_norm=f"{first}.attn_sub_norm.weight" in tensors,
            eps=number_of(config, "rms_norm_eps", what, 1e-6),
            frequencies=angles,
            attention_scaling=scaling,
            element=element.name,
            tied="lm_head.weight" not in tensors,
        ),
        form,
        embeddings,
    )


def _rotary(config: Mapping[str, Any], head_dim: int, what: str) -> tuple[Array, float]:
    """Frequencies, of old configurations and those of Transformers 5."""
    scaling: object = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(scaling, dict):
        refuse(f"{what}: 'rope_scaling' is {scaling!r}, expected an object")
    known = cast("dict[str, object]", scaling)
    base = known if "rope_theta" in known else config
    return frequencies(head_dim, number_of(base, "rope_theta", what, 10000.0), known, what)


def _windows(config: Mapping[str, Any], what: str) -> tuple[int, ...]:
    """How many tokens each block sees; 0 for all."""
    layers = count_of(config, "num_hidden_layers", what)
    if layers > _MOST_BLOCKS:
        refuse(f"{what}: {layers} blocks; {_MOST_BLOCKS} are the most")
    window = config.get("sliding_window")
    used = config.get("use_sliding_window", config.get("model_type") == "mistral")
    size = count_of(config, "sliding_window", what) if window is not None and used else 0
    kinds = config.get("layer_types")
    if kinds is None:
        first = config.get("max_window_layers") if config.get("model_type") != "mistral" else 0
        full = first if isinstance(first, int) else 0
        return tuple(0 if i < full else size for i in range(layers))
    if not isinstance(kinds, list) or len(cast("list[object]", kinds)) != layers:
        refuse(f"{what}: 'layer_types' does not name {layers} blocks")
    wrong = set(map(str, cast("list[object]", kinds))) - {"full_attention", "sliding_attention"}
    if wrong:
        refuse(f"{what}: attention of type {sorted(wrong)[0]!r} is not known")
    return tuple(size if k == "sliding_attention" else 0 for k in cast("list[str]", kinds))


_Form = Literal["packed", "packed-inverse", "online", "scaled", "trits", "dense"]
"""How the matrices of blocks are held: BitNet's bytes, with the scale to multiply by or to divide
by; as floats that training rounds, or that are trits with one scale; trits with a scale for each
output, for activations that are not rounded; floats."""

_KINDS: Mapping[_Form, Kind] = {
    "packed": "bitnet",
    "packed-inverse": "bitnet",
    "online": "bitnet",
    "scaled": "bitnet",
    "trits": "ternary",
    "dense": "dense",
}


def _form(config: Mapping[str, Any], tensors: TensorSource, what: str) -> _Form:
    """The form of the first matrix, and whether the configuration agrees."""
    quantized: object = config.get("quantization_config") or {}
    if not isinstance(quantized, dict):
        refuse(f"{what}: 'quantization_config' is {quantized!r}, expected an object")
    settings = cast("dict[str, object]", quantized)
    method = settings.get("quant_method")
    if method not in (None, "bitnet"):
        refuse(f"{what}: weights quantised by {method!r} are not read; 'bitnet' is")
    name = f"layers.0.{PROJECTIONS[0]}.weight"
    if method is None:
        found = tensors.trits(name) or recognized(tensors.read(name), what)
        return "dense" if found is None else "trits"
    if flag_of(settings, "use_rms_norm", what):
        refuse(f"{what}: 'use_rms_norm' of the quantisation is not supported")
    mode = settings.get("quantization_mode")
    if mode in ("online", "scaled"):
        return cast("_Form", mode)
    first = tensors.read(name)
    if first.dtype != np.uint8:
        refuse(f"{what}: trits are to be packed, but the tensors hold {first.dtype}")
    return "packed" if settings.get("linear_class") == "autobitlinear" else "packed-inverse"


def _weights(
    decoder: Decoder, form: _Form, embeddings: Embeddings, tensors: TensorSource
) -> Iterator[tuple[str, Array | Embeddings]]:
    """The weights, one after the other, by the names of the program."""
    yield "embed_tokens.weight", embeddings
    if not decoder.tied:
        head = tensors.embeddings("lm_head.weight")
        if (len(head.rows), head.features) != (decoder.vocabulary, decoder.features):
            refuse(f"{tensors.what}: 'lm_head.weight' has not the shape of the token embeddings")
        yield "lm_head.weight", head
    yield "norm.weight", _vector(tensors, "norm.weight")
    for i in range(decoder.layers):
        attention, mlp = f"layers.{i}.self_attn", f"layers.{i}.mlp"
        yield f"{attention}.rotary_emb.inv_freq", decoder.frequencies
        norms = [f"layers.{i}.input_layernorm", f"layers.{i}.post_attention_layernorm"]
        if decoder.head_norm:
            norms += [f"{attention}.q_norm", f"{attention}.k_norm"]
        if decoder.sub_norm:
            norms += [f"{attention}.attn_sub_norm", f"{mlp}.ffn_sub_norm"]
        for norm in norms:
            yield f"{norm}.weight", _vector(tensors, f"{norm}.weight")
        biases = (decoder.bias,) * 3 + (decoder.out_bias,) + (decoder.mlp_bias,) * 3
        for name, bias in zip(PROJECTIONS, biases, strict=True):
            yield from _projection(tensors, f"layers.{i}.{name}", form)
            if bias:
                yield f"layers.{i}.{name}.bias", _vector(tensors, f"layers.{i}.{name}.bias")
    rest = sorted(name for name in tensors.unread if not name.endswith(_DERIVED))
    if rest:
        more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
        refuse(f"{tensors.what} holds tensors without a meaning: {', '.join(rest[:3])}{more}")


_DERIVED = ("rotary_emb.inv_freq", ".lm_head.weight")
"""Ends of names of tensors that follow from the configuration."""


def _projection(tensors: TensorSource, name: str, form: _Form) -> Iterator[tuple[str, Array]]:
    """The entries of one linear layer but for its bias."""
    key = f"{name}.weight"
    match form:
        case "dense":
            yield key, dense_columns(tensors.read(key), name)
            return
        case "trits" | "scaled":
            found = tensors.trits(key) or recognized(tensors.read(key), name)
            if found is None:
                refuse(f"{tensors.what}: '{name}' is dense where the first layer holds trits")
            trits, scale = found
            if form == "scaled" and (scale != scale[0]).any():
                refuse(f"{tensors.what}: '{name}' has several scales, where BitNet has one")
            scale = scale[:1] if form == "scaled" else scale
        case "online":
            trits, mean = rounded(tensors.read(key), name)
            scale = np.array([mean], np.float32)
        case "packed" | "packed-inverse":
            trits = unpacked_bitnet(tensors.read(key), name)
            scale = tensors.read(f"{name}.weight_scale").astype(np.float32).reshape(1)
            scale = scale if form == "packed" else 1 / scale
    yield key, trits
    yield f"{name}.weight_scale", scale


def _vector(tensors: TensorSource, name: str) -> Array:
    return tensors.read(name).astype(np.float32)
