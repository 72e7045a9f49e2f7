"""Hugging Face folders of language models: `config.json` and safetensors, read tensor by tensor.

Known are Llama-like models with dense weights, with trits as floats (TriLM), and those of BitNet
b1.58: packed, or as the floats that training rounds. Code and pickled weights are never read. Not
here: tokenizers (`runtime.generation`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ...ir.arrays import Array
from ...ir.errors import ParameterError
from ...ir.store import open_tensors, read_tensor
from ..emission import identifier
from ..from_tri import import_tri
from .decoder import PROJECTIONS, Activation, Decoder, Kind
from .problems import count_of, flag_of, number_of, refuse
from .program import decoder_text
from .projections import dense_columns, packed_columns, recognized, rounded, unpacked_bitnet
from .rotary import frequencies

CONFIG = "config.json"

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

_LARGEST_CONFIG = 1 << 24
_MOST_BLOCKS = 1000
_OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.gguf")


def from_folder(path: Path) -> ModuleOp:
    """The program of a folder, with its weights, see `program`.

    Args:
        path: of the folder; it is read only.

    Raises:
        SourceError: no such model, an unknown kind, or broken files.
        ParameterError: a tensor is missing, or has another shape.
    """
    decoder, state = read_folder(path)
    return import_tri(decoder_text(decoder), weights=state)


def read_folder(path: Path) -> tuple[Decoder, dict[str, Array]]:
    """What a folder holds, and its weights by the names that they have in the program.

    Raises:
        SourceError, ParameterError: see `from_folder`.
    """
    config = read_json(path / CONFIG)
    tensors = Tensors(path)
    decoder, form = _decoder(config, path, tensors)
    return decoder, dict(_state(decoder, form, tensors))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a stranger.

    Raises:
        SourceError: it cannot be read, is too large, or holds something else.
    """
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            refuse(f"'{path}' is larger than 16 MB")
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        refuse(f"'{path}': {error.strerror}")
    except (ValueError, RecursionError) as error:
        refuse(f"'{path}' is no JSON: {error}")
    if not isinstance(value, dict):
        refuse(f"'{path}' holds no object")
    return cast("dict[str, Any]", value)


def end_tokens(path: Path) -> frozenset[int]:
    """The tokens that end a text, of `generation_config.json` or else of `config.json`.

    Raises:
        SourceError: a file that cannot be read, or names something else than tokens.
    """
    for name in ("generation_config.json", CONFIG):
        file = path / name
        if not file.is_file():
            continue
        value: object = read_json(file).get("eos_token_id")
        if value is None:
            continue
        listed = cast("list[object]", value) if isinstance(value, list) else [value]
        tokens = [t for t in listed if isinstance(t, int) and not isinstance(t, bool)]
        if len(tokens) != len(listed):
            refuse(f"'{file}': 'eos_token_id' is {value!r}, expected numbers of tokens")
        return frozenset(tokens)
    return frozenset()


class Tensors:
    """The tensors of a folder's safetensors files, by name."""

    def __init__(self, folder: Path) -> None:
        """Open the files; no tensor is read yet.

        Raises:
            SourceError: no safetensors, or an index that is broken or names files elsewhere.
            ParameterError: a file that is no safetensors.
        """
        self.folder = folder
        self._files: dict[str, tuple[Any, Path]] = {}
        for file in self._paths():
            opened = open_tensors(file)
            self._files.update(dict.fromkeys(opened.keys(), (opened, file)))
        self._prefix = "model." if any(n.startswith("model.") for n in self._files) else ""
        self.unread = set(self._files)

    def _paths(self) -> list[Path]:
        index = self.folder / "model.safetensors.index.json"
        if not index.is_file():
            found = sorted(self.folder.glob("*.safetensors"))
            return found or self._refuse_others()
        names = read_json(index).get("weight_map")
        if not isinstance(names, dict) or not names:
            refuse(f"'{index}' has no 'weight_map'")
        files = sorted({str(name) for name in cast("dict[str, object]", names).values()})
        for name in files:
            if Path(name).name != name or "\\" in name or "\0" in name:
                refuse(f"'{index}' names a file outside of its folder: {name!r}")
        return [self.folder / name for name in files]

    def _refuse_others(self) -> NoReturn:
        others = [file.name for pattern in _OTHER_WEIGHTS for file in self.folder.glob(pattern)]
        hint = f"; '{others[0]}' may run code when it is read: convert it" if others else ""
        refuse(f"'{self.folder}' holds no .safetensors file{hint}")

    def __contains__(self, name: str) -> bool:
        return self._full(name) is not None

    def read(self, name: str) -> Array:
        """A tensor, called with or without the prefix `model.`.

        Raises:
            ParameterError: there is none, or it cannot be read.
        """
        full = self._full(name)
        if full is None:
            raise ParameterError(f"'{self.folder}' has no tensor '{name}'")
        self.unread.discard(full)
        return read_tensor(self._files[full][0], full, self._files[full][1])

    def _full(self, name: str) -> str | None:
        names = (name, f"{self._prefix}{name}")
        return next((known for known in names if known in self._files), None)


def _decoder(config: Mapping[str, Any], path: Path, tensors: Tensors) -> tuple[Decoder, _Form]:
    """What the configuration and the names and types of tensors say."""
    what = f"'{path / CONFIG}'"
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
    embeddings = tensors.read("embed_tokens.weight")
    element = embeddings.dtype
    if element not in _ELEMENTS:
        refuse(f"{what}: token embeddings of {element} are not read")
    form = _form(config, tensors, what)
    first = "layers.0.self_attn"
    return (
        Decoder(
            name=identifier(path.resolve().name or "model").capitalize(),
            vocabulary=len(embeddings),
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


_Form = Literal["packed", "packed-inverse", "online", "trits", "dense"]
"""How a folder holds the matrices of blocks: BitNet's bytes, with the scale to multiply by or to
divide by; floats that training rounds; floats that are trits with a scale; floats."""

_KINDS: Mapping[_Form, Kind] = {
    "packed": "bitnet",
    "packed-inverse": "bitnet",
    "online": "bitnet",
    "trits": "ternary",
    "dense": "dense",
}


def _form(config: Mapping[str, Any], tensors: Tensors, what: str) -> _Form:
    """The form of the first matrix, and whether the configuration agrees."""
    quantized: object = config.get("quantization_config") or {}
    if not isinstance(quantized, dict):
        refuse(f"{what}: 'quantization_config' is {quantized!r}, expected an object")
    settings = cast("dict[str, object]", quantized)
    method = settings.get("quant_method")
    if method not in (None, "bitnet"):
        refuse(f"{what}: weights quantised by {method!r} are not read; 'bitnet' is")
    first = tensors.read(f"layers.0.{PROJECTIONS[0]}.weight")
    if method is None:
        return "dense" if recognized(first, what) is None else "trits"
    if flag_of(settings, "use_rms_norm", what):
        refuse(f"{what}: 'use_rms_norm' of the quantisation is not supported")
    if settings.get("quantization_mode") == "online":
        return "online"
    if first.dtype != np.uint8:
        refuse(f"{what}: trits are to be packed, but the tensors hold {first.dtype}")
    return "packed" if settings.get("linear_class") == "autobitlinear" else "packed-inverse"


def _state(decoder: Decoder, form: _Form, tensors: Tensors) -> Iterator[tuple[str, Array]]:
    """The weights, one after the other, by the names of the program."""
    yield "embed_tokens.weight", tensors.read("embed_tokens.weight")
    if not decoder.tied:
        yield "lm_head.weight", tensors.read("lm_head.weight").astype(decoder.element)
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
        refuse(f"'{tensors.folder}' holds tensors without a meaning: {', '.join(rest[:3])}{more}")


_DERIVED = ("rotary_emb.inv_freq", ".lm_head.weight")
"""Ends of names of tensors that follow from the configuration."""


def _projection(tensors: Tensors, name: str, form: _Form) -> Iterator[tuple[str, Array]]:
    """The entries of one linear layer but for its bias."""
    weight = tensors.read(f"{name}.weight")
    match form:
        case "dense":
            yield f"{name}.weight", dense_columns(weight, name)
            return
        case "trits":
            found = recognized(weight, name)
            if found is None:
                refuse(f"'{tensors.folder}': '{name}' is dense where the first layer holds trits")
            trits, scale = found
        case "online":
            trits, mean = rounded(weight, name)
            scale = np.array([mean], np.float32)
        case "packed" | "packed-inverse":
            trits = unpacked_bitnet(weight, name)
            scale = tensors.read(f"{name}.weight_scale").astype(np.float32).reshape(1)
            scale = scale if form == "packed" else 1 / scale
    yield f"{name}.weight", packed_columns(trits)
    yield f"{name}.weight_scale", scale


def _vector(tensors: Tensors, name: str) -> Array:
    return tensors.read(name).astype(np.float32)
