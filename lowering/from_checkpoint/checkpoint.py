"""A decoder and its weights, out of the configuration and tensors of a model's file.

Not here: the files (`model_file`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from reprlib import repr
from typing import Literal, NamedTuple, cast, get_args

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import ParameterError, SourceError
from ...ir.identifiers import identifier
from ...ir.settings import Settings
from ...ir.trits import pack_trits
from ...runtime.native.abi.row_products import RowKind
from .decoder import OPTIONS, PROJECTIONS, VECTORS, Activation, Decoder
from .embeddings import Embeddings
from .model_file import ModelFile
from .projections import dense_columns, rounded, unpacked_bitnet
from .rotary import frequencies

_ACTIVATIONS: Mapping[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "relu2": "relu2",
    "gelu_pytorch_tanh": "gelu",
}

_MODELS = ("bitnet", "llama", "mistral", "qwen2", "qwen3")
"""Values of `model_type` that are known: what a decoder of ours can say."""

_MOST_BLOCKS = 1000


class Checkpoint(NamedTuple):
    """A model on its way in.

    Attributes:
        decoder: its sizes.
        embeddings, head: of tokens, and what logits are products with; the same if they are tied.
        norm: weights of the last normalisation.
        blocks: of each its weights, by the names that they have in it. Each is read when it is
            asked for, and may raise a `TritonError`. Matrices of trits are int8 [outs, ins].
        path: of the folder or file.
    """

    decoder: Decoder
    embeddings: Embeddings
    head: Embeddings
    norm: Array
    blocks: Iterator[Iterator[tuple[str, Array]]]
    path: Path

    def state(self) -> dict[str, Array]:
        """All weights, as a program takes them: trits packed, blocks of embeddings as bytes."""
        tables = {"embed_tokens": self.embeddings}
        tables |= {"lm_head": self.head} if self.decoder.head else {}
        state = {"norm.weight": self.norm}
        for name, table in tables.items():
            state |= {f"{name}.{part}": value for part, value in table.parameters().items()}
        for i, block in enumerate(self.blocks):
            for name, value in block:
                is_trits = value.dtype == np.int8
                state[f"layers.{i}.{name}"] = pack_trits(value.T) if is_trits else value
        return state


def read_checkpoint(file: ModelFile) -> Checkpoint:
    """The decoder, and its weights by the names that they have in the program, read one by one.

    Raises:
        TritonError: an unknown kind of model, or see `ModelFile`.
    """
    decoder, form, embeddings, head = _decoder(file)
    _check_shapes(decoder, form, file)
    norm = _vector(file, "norm.weight", decoder.features)
    blocks = _blocks(decoder, form, file)
    return Checkpoint(decoder, embeddings, head, norm, blocks, file.path)


def _decoder(file: ModelFile) -> tuple[Decoder, _Form, Embeddings, Embeddings]:
    """What the configuration and the names and types of tensors say, and what was read for it."""
    config = file.config
    model, acts = (config.values.get(name) for name in ("model_type", "hidden_act"))
    if model not in _MODELS:
        config.refuse(f"models of type {repr(model)} are not read; known are {', '.join(_MODELS)}")
    activation = _ACTIVATIONS.get(str(acts))
    if activation is None:
        config.refuse(f"activation {repr(acts)} is not known; known are {', '.join(_ACTIVATIONS)}")
    features, heads = (config.whole(name) for name in ("hidden_size", "num_attention_heads"))
    if config.values.get("head_dim") is None and features % heads:
        config.refuse(f"hidden_size {features} is no multiple of {heads} heads")
    head_dim = config.whole("head_dim", features // heads)
    groups = config.whole("num_key_value_heads", heads)
    if heads % groups or head_dim % 2:
        config.refuse(f"{heads} heads of {head_dim} cannot share {groups} keys")
    turned = config.whole("rotary_dim", head_dim)
    if turned != head_dim:
        config.refuse(f"rotary embedding of {turned} of {head_dim} values of a head")
    angles, scaling = frequencies(head_dim, config)
    embeddings = file.embeddings("embed_tokens.weight")
    tied = "lm_head.weight" not in file
    head = embeddings if tied else file.embeddings("lm_head.weight")
    for table in (embeddings, head):
        if table.kind not in get_args(RowKind):
            config.refuse(f"token embeddings of {table.kind} are not read")
    if embeddings.shape[1] != features:
        config.refuse(f"token embeddings have {embeddings.shape[1]} values, expected {features}")
    if head.shape != embeddings.shape:
        config.refuse("'lm_head.weight' has not the shape of the token embeddings")
    form = _form(file)
    decoder = Decoder(
        name=identifier(file.name or "model").capitalize(),
        vocabulary=embeddings.shape[0],
        features=features,
        hidden=config.whole("intermediate_size"),
        heads=heads,
        groups=groups,
        head_dim=head_dim,
        windows=_windows(config),
        activation=activation,
        kind=form if form in ("ternary", "dense") else "bitnet",
        options=[name for name, parts in OPTIONS.items() if f"layers.0.{parts[0]}" in file],
        eps=config.number("rms_norm_eps", 1e-6, (1e-12, 1)),
        frequencies=angles,
        attention_scaling=scaling,
        embeddings=embeddings.arguments,
        head=None if tied else head.arguments,
    )
    return decoder, form, embeddings, head


def _windows(config: Settings) -> tuple[int, ...]:
    """How many tokens each block sees; 0 for all."""
    layers, values = config.whole("num_hidden_layers"), config.values
    if layers > _MOST_BLOCKS:
        config.refuse(f"{layers} blocks; {_MOST_BLOCKS} are the most")
    is_mistral = values.get("model_type") == "mistral"
    size = config.whole("sliding_window", 0) if values.get("use_sliding_window", is_mistral) else 0
    kinds = values.get("layer_types")
    if kinds is None:
        first = 0 if is_mistral else values.get("max_window_layers")
        full = first if isinstance(first, int) else 0
        return tuple(0 if i < full else size for i in range(layers))
    if not isinstance(kinds, list) or len(cast("list[object]", kinds)) != layers:
        config.refuse(f"'layer_types' does not name {layers} blocks")
    wrong = set(map(str, cast("list[object]", kinds))) - {"full_attention", "sliding_attention"}
    if wrong:
        config.refuse(f"attention of type {repr(sorted(wrong)[0])} is not known")
    return tuple(size if k == "sliding_attention" else 0 for k in cast("list[str]", kinds))


_Form = Literal["packed", "packed-inverse", "online", "scaled", "ternary", "dense"]
"""How the matrices of blocks are held: BitNet's bytes, with the scale to multiply by or to divide
by; as floats that training rounds, or that are trits with one scale; trits with a scale for each
output, for activations that are not rounded; floats."""

_PACKED = ("packed", "packed-inverse")


def _form(file: ModelFile) -> _Form:
    """The form of the first matrix, and whether the configuration agrees."""
    settings = file.config.part("quantization_config")
    method = settings.values.get("quant_method")
    if method not in (None, "bitnet"):
        settings.refuse(f"weights quantised by {repr(method)} are not read; 'bitnet' is")
    name = f"layers.0.{next(iter(PROJECTIONS))}.weight"
    if method is None:
        return "dense" if file.trits(name) is None else "ternary"
    if settings.flag("use_rms_norm"):
        settings.refuse("'use_rms_norm' of the quantisation is not supported")
    mode = settings.values.get("quantization_mode")
    if mode in ("online", "scaled"):
        return cast("_Form", mode)
    first = file.read(name)
    if first.dtype != np.uint8:
        settings.refuse(f"trits are to be packed, but the tensors hold {first.dtype}")
    return "packed" if settings.values.get("linear_class") == "autobitlinear" else "packed-inverse"


def _blocks(
    decoder: Decoder, form: _Form, file: ModelFile
) -> Iterator[Iterator[tuple[str, Array]]]:
    lacking = {part for name in OPTIONS.keys() - decoder.options for part in OPTIONS[name]}
    vectors = {part: decoder.sizes[size] for part, size in VECTORS.items() if part not in lacking}

    def weights(before: str) -> Iterator[tuple[str, Array]]:
        yield "self_attn.rotary_emb.inv_freq", decoder.frequencies
        for name, size in vectors.items():
            yield name, _vector(file, f"{before}{name}", size)
        for name in PROJECTIONS:
            found = _projection(file, f"{before}{name}", form)
            yield from ((f"{name}.{part}", value) for part, value in found)

    yield from (weights(f"layers.{i}.") for i in range(decoder.layers))
    rest = sorted(name for name in file.unread if not name.endswith(_DERIVED))
    if rest:
        more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
        raise SourceError(
            f"{file.what} holds tensors without a meaning: {', '.join(rest[:3])}{more}"
        )


_DERIVED = ("rotary_emb.inv_freq", ".lm_head.weight")
"""Ends of names of tensors that follow from the configuration."""


def _check_shapes(decoder: Decoder, form: _Form, file: ModelFile) -> None:
    """Refuse matrices that are not what the configuration says, before anything hangs on it."""
    parts, sizes = 4 if form in _PACKED else 1, decoder.sizes
    for i in range(decoder.layers):
        for name, sides in PROJECTIONS.items():
            outs, ins = (sizes[side] for side in sides)
            own = file.own(f"layers.{i}.{name}.weight")
            found = [*file.shape(own)] if own in file.places else None
            if found is not None and found != [outs // parts, ins]:
                file.config.refuse(f"'{own}' is of {found}, expected {[outs // parts, ins]}")


def _projection(file: ModelFile, name: str, form: _Form) -> Iterator[tuple[str, Array]]:
    """The parameters of one linear layer but for its bias."""
    key, scale_key = f"{name}.weight", f"{name}.weight_scale"
    if form == "dense":
        yield "weight", dense_columns(file.read(key), name)
        return
    if form == "online":
        trits, scale = rounded(file.read(key), name)
    elif form in _PACKED:
        trits, scale = unpacked_bitnet(file.read(key), name), _vector(file, scale_key, 1)
        scale = scale if form == "packed" else 1 / scale
    else:
        found = file.trits(key)
        if found is None:
            raise SourceError(f"{file.what}: '{name}' is dense where the first layer holds trits")
        trits, scale = found
        if form == "scaled" and (scale != scale[0]).any():
            raise SourceError(f"{file.what}: '{name}' has several scales, where BitNet has one")
        scale = scale[:1] if form == "scaled" else scale
    yield "weight", trits
    yield "weight_scale", scale


def _vector(file: ModelFile, name: str, size: int) -> Array:
    values = file.read(name)
    if values.shape != (size,) and (size > 1 or values.shape != ()):
        found = f"{values.dtype}{[*values.shape]}"
        raise ParameterError(f"{file.what}: '{name}': expected float32[{size}], got {found}")
    return values.astype(np.float32).reshape(size)
