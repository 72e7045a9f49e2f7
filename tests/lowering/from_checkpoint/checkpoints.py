"""Small Hugging Face folders of language models, with weights drawn by NumPy from a seed.

`record.py` runs them in Transformers, the tests in ours, so that what is recorded is numbers alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import safetensors.numpy

VOCABULARY, FEATURES, HIDDEN, HEADS, GROUPS = 61, 24, 40, 6, 2

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": FEATURES,
    "intermediate_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "rope_theta": 10000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _bitnet(mode: str, linear: str = "autobitlinear") -> dict[str, Any]:
    return {
        "model_type": "bitnet",
        "architectures": ["BitNetForCausalLM"],
        "hidden_act": "relu2",
        "tie_word_embeddings": True,
        "quantization_config": {
            "quant_method": "bitnet",
            "linear_class": linear,
            "quantization_mode": mode,
            "modules_to_not_convert": ["lm_head"],
        },
    }


def _llama(**more: Any) -> dict[str, Any]:
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **more}


_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}

KINDS: dict[str, dict[str, Any]] = {
    "llama": _llama(),
    "llama-linear": _llama(rope_scaling={"rope_type": "linear", "factor": 2.5}),
    "llama-llama3": _llama(rope_scaling=_LLAMA3, tie_word_embeddings=True),
    "llama-yarn": _llama(rope_scaling=_YARN, attention_bias=True, mlp_bias=True),
    "llama-bfloat16": _llama(dtype="bfloat16"),
    "llama-trits": _llama(),
    "mistral": {
        "model_type": "mistral",
        "architectures": ["MistralForCausalLM"],
        "sliding_window": 3,
        "head_dim": 6,
    },
    "qwen2": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]},
    "qwen3": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 8},
    "bitnet-online": _bitnet("online"),
    "bitnet-packed": _bitnet("offline"),
    "bitnet-packed-inverse": _bitnet("offline", "bitlinear"),
}
"""Configurations by name, on top of common sizes."""


def tokens() -> np.ndarray:
    """int64 [2, 9]."""
    return np.random.default_rng(7).integers(0, VOCABULARY, (2, 9))


def config_of(kind: str) -> dict[str, Any]:
    """The content of `config.json`."""
    return {**_SIZES, **KINDS[kind]}


def write_folder(kind: str, folder: Path, *, shards: int = 1) -> Path:
    """Write a checkpoint of a kind; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_of(kind)))
    tensors = tensors_of(kind)
    names = sorted(tensors)
    if shards == 1:
        safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return folder
    places: dict[str, str] = {}
    for n in range(shards):
        file = f"model-{n + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensors[name] for name in names[n::shards]}
        safetensors.numpy.save_file(part, folder / file, {"format": "pt"})
        places |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def tensors_of(kind: str) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint of a kind, by the names that Transformers gives them."""
    config, rng = config_of(kind), np.random.default_rng(sorted(KINDS).index(kind))
    model, width = config["model_type"], config.get("head_dim") or FEATURES // HEADS
    drawn: dict[str, np.ndarray] = {}

    def vector(name: str, size: int, mean: float) -> None:
        drawn[name] = (mean + 0.3 * rng.standard_normal(size)).astype(np.float32)

    def matrix(name: str, outs: int, ins: int, scale: float) -> None:
        drawn[name] = (scale * rng.standard_normal((outs, ins))).astype(np.float32)

    matrix("model.embed_tokens.weight", VOCABULARY, FEATURES, 0.5)
    if not config["tie_word_embeddings"]:
        matrix("lm_head.weight", VOCABULARY, FEATURES, 0.5)
    vector("model.norm.weight", FEATURES, 1)
    for n in range(config["num_hidden_layers"]):
        attention, mlp = f"model.layers.{n}.self_attn", f"model.layers.{n}.mlp"
        inner = HEADS * width
        matrix(f"{attention}.q_proj.weight", inner, FEATURES, 0.4)
        matrix(f"{attention}.k_proj.weight", GROUPS * width, FEATURES, 0.4)
        matrix(f"{attention}.v_proj.weight", GROUPS * width, FEATURES, 0.4)
        matrix(f"{attention}.o_proj.weight", FEATURES, inner, 0.2)
        matrix(f"{mlp}.gate_proj.weight", HIDDEN, FEATURES, 0.3)
        matrix(f"{mlp}.up_proj.weight", HIDDEN, FEATURES, 0.3)
        matrix(f"{mlp}.down_proj.weight", FEATURES, HIDDEN, 0.2)
        vector(f"model.layers.{n}.input_layernorm.weight", FEATURES, 1)
        vector(f"model.layers.{n}.post_attention_layernorm.weight", FEATURES, 1)
        if model == "qwen3":
            vector(f"{attention}.q_norm.weight", width, 1)
            vector(f"{attention}.k_norm.weight", width, 1)
        if model == "bitnet":
            vector(f"{attention}.attn_sub_norm.weight", FEATURES, 1)
            vector(f"{mlp}.ffn_sub_norm.weight", HIDDEN, 1)
        biased = ["q_proj", "k_proj", "v_proj"] if model == "qwen2" else []
        if config.get("attention_bias"):
            biased = ["q_proj", "k_proj", "v_proj", "o_proj"]
        for name in biased:
            vector(f"{attention}.{name}.bias", len(drawn[f"{attention}.{name}.weight"]), 0)
        for name in ["gate_proj", "up_proj", "down_proj"] if config.get("mlp_bias") else []:
            vector(f"{mlp}.{name}.bias", len(drawn[f"{mlp}.{name}.weight"]), 0)
    return {
        name: value for key, array in drawn.items() for name, value in _formed(kind, key, array)
    }


def _formed(kind: str, name: str, array: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """A tensor as a checkpoint of a kind holds it."""
    if kind == "llama-bfloat16":
        return [(name, array.astype(ml_dtypes.bfloat16))]
    if "_proj.weight" not in name or kind not in ("llama-trits", *_PACKED):
        return [(name, array)]
    scale = np.float32(np.abs(array).mean())
    trits = np.clip(np.rint(array / scale), -1, 1).astype(np.int8)
    if kind == "llama-trits":
        return [(name, (trits * scale).astype(np.float32))]
    quarter = len(trits) // 4
    packed = np.zeros((quarter, array.shape[1]), np.uint8)
    for place in range(4):
        rows = trits[place * quarter : (place + 1) * quarter]
        packed |= (rows + 1).astype(np.uint8) << 2 * place
    stored = scale if kind == "bitnet-packed" else 1 / scale
    return [(name, packed), (f"{name}_scale", np.array([stored], np.float32))]


_PACKED = ("bitnet-packed", "bitnet-packed-inverse")


WINDOW, STRIDE = 64, 24


def long_text() -> np.ndarray:
    """int64 [150]: what perplexities are recorded of, in windows of `WINDOW`, `STRIDE` apart."""
    return np.random.default_rng(8).integers(0, VOCABULARY, 150)


SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}

MESSAGES: dict[str, list[dict[str, str]]] = {
    "one": [{"role": "user", "content": " What is a trit? "}],
    "turns": [
        {"role": "system", "content": "Be brief: <b>&amp;</b>."},
        {"role": "user", "content": "Hi\n\nthere"},
        {"role": "assistant", "content": "Hello, \u00e9!"},
        {"role": "user", "content": "Bye"},
    ],
}

TEMPLATES = {
    "chatml": """{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}""",
    "bitnet": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}"
        "{% set content = message['role'] | capitalize + ': '+ message['content'] | trim + "
        "'<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
        "{{ content }}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}"
    ),
    "statements": """{% set ns = namespace(system='', count=0) %}
{% for message in messages %}
    {% if message.role == 'system' %}
        {% set ns.system = message.content %}
        {% continue %}
    {% endif %}
    {% set ns.count = ns.count + 1 %}
    {% if message.role not in ['user', 'assistant'] %}
        {{ raise_exception('unknown role') }}
    {% endif %}
    {% if message.role == 'assistant' %}
    {% generation %}{{ message.content ~ eos_token }}{% endgeneration %}
    {% else %}
[{{ ns.count }}] {{ message | tojson }} {{ ns.system }}
    {% endif %}
{% endfor %}
{% if tools %}{{ tools }}{% endif %}
{% for n in range(3) %}{{ '=' * n }}{% endfor %}""",
}
"""Of chats: what Qwen has, what BitNet b1.58 2B4T has, and all statements."""
