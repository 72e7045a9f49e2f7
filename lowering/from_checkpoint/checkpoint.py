"""A decoder and its weights, out of the configuration and tensors of a model's file.

Not here: the files (`model_file`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from reprlib import repr
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import SourceError
from ...ir.identifiers import identifier
from ...ir.trits import pack_trits
from ...runtime.native.abi.row_products import RowKind
from .decoder import OPTIONS, PROJECTIONS, Activation, Decoder
from .embeddings import Embeddings
from .model_file import ModelFile
from .projections import dense_columns, rounded, unpacked_bitnet
from .rotary import rotation
from .tensors import ROUTER, Tensors, sized

_ACTIVATIONS: Mapping[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "relu2": "relu2",
    "relu": "relu",
    "gelu": "gelu_exact",
    "gelu_pytorch_tanh": "gelu",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
}

_MOST_BLOCKS = 1000


class Checkpoint(NamedTuple):
    """A model on its way in.

    Attributes:
        decoder: its sizes.
        embeddings, head: of tokens, and what logits are products with; the same if they are tied.
        outer: parameters outside of embeddings and blocks, by name.
        blocks: of each its weights, by the names that they have in it. Each is read when it is
            asked for, and may raise a `TritonError`. Matrices of trits are int8 [outs, ins].
        path: of the folder or file.
    """

    decoder: Decoder
    embeddings: Embeddings
    head: Embeddings
    outer: dict[str, Array]
    blocks: Iterator[Iterator[tuple[str, Array]]]
    path: Path

    def state(self) -> dict[str, Array]:
        """All weights, as a program takes them: trits packed, blocks of embeddings as bytes."""
        tables = {"embed_tokens": self.embeddings}
        tables |= {"lm_head": self.head} if self.decoder.head else {}
        state = dict(self.outer)
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
    tensors = Tensors(file, decoder, 4 if form in _PACKED else 1)
    outer = {name: _outer(file, name, shape) for name, shape in decoder.outer.items()}
    blocks = _blocks(decoder, form, file, tensors)
    return Checkpoint(decoder, embeddings, head, outer, blocks, file.path)


def _outer(file: ModelFile, name: str, shape: tuple[int, ...]) -> Array:
    offset = file.architecture.offset if name == "norm.weight" else 0
    name = "lm_head.bias" if name == "logits_bias" else name
    values = file.read(name)
    if values.ndim == len(shape) == 2 and values.shape != shape:
        raise SourceError(f"{file.what}: '{name}' is of {[*values.shape]}, expected {[*shape]}")
    return sized(file, name, values.reshape(-1), math.prod(shape), offset).reshape(shape)


def _decoder(file: ModelFile) -> tuple[Decoder, _Form, Embeddings, Embeddings]:
    """What the configuration and the names and types of tensors say, and what was read for it."""
    config, architecture = file.config, file.architecture
    acts = config.values.get("hidden_act", "silu")
    activation = _ACTIVATIONS.get(architecture.acts.get(str(acts), str(acts)))
    if activation is None:
        config.refuse(f"activation {repr(acts)} is not known; known are {', '.join(_ACTIVATIONS)}")
    features, heads = (config.whole(name) for name in ("hidden_size", "num_attention_heads"))
    if config.values.get("head_dim") is None and features % heads:
        config.refuse(f"hidden_size {features} is no multiple of {heads} heads")
    head_dim = config.whole("head_dim", features // heads)
    groups = config.whole("num_key_value_heads", heads)
    if heads % groups or head_dim % 2:
        config.refuse(f"{heads} heads of {head_dim} cannot share {groups} keys")
    windows = _windows(file)
    rotary = rotation(head_dim, config, windows, "partial_rotary_factor" in architecture.settings)
    scaling = 1.0 if architecture.is_learned else rotary.scaling
    embeddings, head = _tables(file, features)
    block = _block(file, rotary.turned, head_dim)
    form = _form(file, int(block["experts"]))
    limit, outer = rotary.limit, dict[str, tuple[int, ...]]({"norm.weight": (features,)})
    if block["norm_bias"]:
        outer["norm.bias"] = (features,)
    if "lm_head.bias" in file:
        outer["logits_bias"] = (embeddings.shape[0],)
    if architecture.is_learned:
        limit = config.whole("max_position_embeddings")
        outer["embed_positions.weight"] = (limit, features)
    decoder = Decoder(
        name=identifier(file.name or "model").capitalize(),
        vocabulary=embeddings.shape[0],
        features=features,
        hidden=config.whole("intermediate_size", None if block["gated"] else 4 * features),
        heads=heads,
        groups=groups,
        head_dim=head_dim,
        windows=windows,
        kind=form if form in ("ternary", "dense") else "bitnet",
        block={"activation": activation, "attention_scaling": scaling, **block},
        eps=config.number("rms_norm_eps", 1e-6, (1e-12, 1)),
        frequencies=[x * (not architecture.is_learned) for x in rotary.frequencies],
        embeddings=embeddings.arguments,
        head=None if head is embeddings else head.arguments,
        embedding_scale=math.sqrt(features)
        if architecture.root
        else config.number("embedding_multiplier", 1.0),
        logit_scale=config.number("logit_scale", 1.0) / config.number("logits_scaling", 1.0),
        logit_cap=config.number("final_logit_softcapping", 0.0, _CAPS),
        outer=outer,
        limit=limit,
    )
    return decoder, form, embeddings, head


def _tables(file: ModelFile, features: int) -> tuple[Embeddings, Embeddings]:
    """Token embeddings and the output head, which is the same object where they are tied."""
    config = file.config
    embeddings = head = file.embeddings("embed_tokens.weight")
    tied = config.values.get("tie_word_embeddings")
    if "lm_head.weight" in file:
        head = file.embeddings("lm_head.weight")
    elif tied is False:
        config.refuse("'tie_word_embeddings' is false, but there is no output head")
    for table in (embeddings, head):
        if table.kind not in get_args(RowKind):
            config.refuse(f"token embeddings of {table.kind} are not read")
    if embeddings.shape[1] != features:
        config.refuse(f"token embeddings have {embeddings.shape[1]} values, expected {features}")
    if head.shape != embeddings.shape:
        config.refuse("'lm_head.weight' has not the shape of the token embeddings")
    if config.whole("vocab_size", embeddings.shape[0]) != embeddings.shape[0]:
        config.refuse(f"'vocab_size' is not that of {embeddings.shape[0]} token embeddings")
    if tied and head is not embeddings:
        if head.kind != embeddings.kind or not np.array_equal(head.rows, embeddings.rows):
            config.refuse("'tie_word_embeddings' is true, but there is another output head")
        head = embeddings
    return embeddings, head


def _block(file: ModelFile, turned: int, head_dim: int) -> dict[str, Any]:
    """What `DecoderBlock` takes, but for sizes, kind, activation and window."""
    config, architecture = file.config, file.architecture
    block: dict[str, Any] = {
        "attention_norm": True,
        "mlp_norm": True,
        "post_norm": False,
        "norm_bias": False,
        "gated": True,
        "centred": False,
        "parallel": config.flag("use_parallel_residual"),
        **{name: f"layers.0.{parts[0]}" in file for name, parts in OPTIONS.items()},
        **architecture.block,
    }
    block["row_norm"] = architecture.block.get("row_norm", False)
    block["head_norm"] = block["head_norm"] and not block["row_norm"]
    if block["parallel"] and "mlp_norm" not in architecture.block:
        block["mlp_norm"] = False
    for flag, option in _FLAGS.items():
        said = config.values.get(flag)
        if said is not None and config.flag(flag) != block[option]:
            config.refuse(f"'{flag}' is {said}, which the tensors contradict")
    values, scale = config.values, 1 / math.sqrt(head_dim)
    if values.get("query_pre_attn_scalar") is not None:
        scale = 1 / math.sqrt(config.number("query_pre_attn_scalar"))
    experts = config.whole("num_local_experts", 1)
    return block | {
        "turned": turned,
        "scale": config.number("attention_multiplier", scale),
        "softcap": config.number("attn_logit_softcapping", 0.0, _CAPS),
        "residual": config.number("residual_multiplier", 1.0),
        "experts": experts,
        "chosen": config.whole("num_experts_per_tok", 1, high=experts),
    }


_CAPS = (1e-6, 1e6)
_FLAGS = {"attention_bias": "bias", "use_qkv_bias": "bias", "mlp_bias": "mlp_bias"}


def _windows(file: ModelFile) -> tuple[int, ...]:
    """How many tokens each block sees; 0 for all."""
    config, every = file.config, file.architecture.window
    layers, values = config.whole("num_hidden_layers"), config.values
    if layers > _MOST_BLOCKS:
        config.refuse(f"{layers} blocks; {_MOST_BLOCKS} are the most")
    has_windows = values.get("use_sliding_window", every > 0)
    size = config.whole("sliding_window", 0) if has_windows else 0
    kinds = values.get("layer_types")
    if kinds is None:
        every = config.whole("sliding_window_pattern", every, low=min(every, 2))
        first = 0 if every else values.get("max_window_layers")
        full = first if isinstance(first, int) else 0
        return tuple(
            0 if i < full or (every > 1 and (i + 1) % every == 0) else size for i in range(layers)
        )
    if not isinstance(kinds, list) or len(cast("list[object]", kinds)) != layers:
        config.refuse(f"'layer_types' does not name {layers} blocks")
    wrong = set(map(str, cast("list[object]", kinds))) - {"full_attention", "sliding_attention"}
    if wrong:
        config.refuse(f"attention of type {repr(sorted(wrong)[0])} is not known")
    if (every == 1 and size) or (not size and "sliding_attention" in kinds):
        config.refuse("'layer_types' does not agree with the windows of this type of model")
    return tuple(size if k == "sliding_attention" else 0 for k in cast("list[str]", kinds))


_Form = Literal["packed", "packed-inverse", "online", "scaled", "ternary", "dense"]
"""How the matrices of blocks are held: BitNet's bytes, with the scale to multiply by or to divide
by; as floats that training rounds, or that are trits with one scale; trits with a scale for each
output, for activations that are not rounded; floats."""

_PACKED = ("packed", "packed-inverse")


def _form(file: ModelFile, experts: int) -> _Form:
    """The form of the first matrix, and whether the configuration agrees."""
    settings = file.config.part("quantization_config")
    method = settings.values.get("quant_method")
    if method not in (None, "bitnet"):
        settings.refuse(f"weights quantised by {repr(method)} are not read; 'bitnet' is")
    name = f"layers.0.{next(iter(PROJECTIONS))}.weight"
    if method is None:
        is_cut = experts > 1 or file.architecture.is_transposed
        return "dense" if is_cut or file.trits(name) is None else "ternary"
    if experts > 1:
        settings.refuse("'quantization_config' with experts is not supported")
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
    decoder: Decoder, form: _Form, file: ModelFile, tensors: Tensors
) -> Iterator[Iterator[tuple[str, Array]]]:
    def weights(layer: int) -> Iterator[tuple[str, Array]]:
        yield "self_attn.rotary_emb.inv_freq", decoder.frequencies[layer]
        for name, size in decoder.vectors.items():
            yield name, tensors.vector(layer, name, size)
        for name in decoder.projections:
            found = _projection(tensors, layer, name, form)
            yield from ((f"{name}.{part}", value) for part, value in found)
        if decoder.block["experts"] > 1:
            name = f"{ROUTER}.weight"
            yield name, dense_columns(tensors.read(layer, name), f"layers.{layer}.{name}")

    yield from (weights(layer) for layer in range(decoder.layers))
    rest = sorted(name for name in file.unread if not name.endswith(_DERIVED))
    if rest:
        more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
        raise SourceError(
            f"{file.what} holds tensors without a meaning: {', '.join(rest[:3])}{more}"
        )


_DERIVED = (
    "rotary_emb.inv_freq",
    ".lm_head.weight",
    ".attn.bias",
    ".attn.masked_bias",
    ".attention.bias",
    ".attention.masked_bias",
)
"""Ends of names of tensors that follow from the configuration."""


def _projection(
    tensors: Tensors, layer: int, name: str, form: _Form
) -> Iterator[tuple[str, Array]]:
    """The parameters of one linear layer but for its bias."""
    what = f"layers.{layer}.{name}"
    if form == "dense":
        yield "weight", dense_columns(tensors.read(layer, f"{name}.weight"), what)
        return
    if form == "online":
        trits, scale = rounded(tensors.read(layer, f"{name}.weight"), what)
    elif form in _PACKED:
        trits = unpacked_bitnet(tensors.read(layer, f"{name}.weight"), what)
        scale = tensors.vector(layer, f"{name}.weight_scale", 1)
        scale = scale if form == "packed" else 1 / scale
    else:
        found, file = tensors.trits(layer, name), tensors.file.what
        if found is None:
            raise SourceError(f"{file}: '{what}' is dense where the first layer holds trits")
        trits, scale = found
        if form == "scaled" and (scale != scale[0]).any():
            raise SourceError(f"{file}: '{what}' has several scales, where BitNet has one")
        scale = scale[:1] if form == "scaled" else scale
    yield "weight", trits
    yield "weight_scale", scale
