"""Small checkpoints of each architecture: what `config.json` says, and weights drawn by NumPy.

Names and shapes of tensors are those that Transformers writes, which `record_families.py` records.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

VOCABULARY = 61
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_WIDE = {"num_attention_heads": 3, "num_key_value_heads": 1}
_ALONE = {"num_attention_heads": 3, "num_key_value_heads": 3}
_LAYERED = {"layer_norm_eps": 1e-4}
_LONG = {
    "rope_type": "longrope",
    "short_factor": [1.1, 1.7],
    "long_factor": [2.0, 3.0],
    "original_max_position_embeddings": 32,
    "rope_theta": 100.0,
    "partial_rotary_factor": 0.5,
}

FAMILIES: dict[str, dict[str, Any]] = {
    "cohere": {**_LAYERED, "model_type": "cohere", "logit_scale": 0.3, "attention_bias": True},
    "gemma": {"model_type": "gemma", "head_dim": 8, "num_key_value_heads": 1, "hidden_act": "gelu"},
    "gemma2": {
        "model_type": "gemma2",
        "head_dim": 10,
        "sliding_window": 3,
        "query_pre_attn_scalar": 10,
        "attn_logit_softcapping": 1.5,
        "final_logit_softcapping": 3.0,
    },
    "gemma3": {
        "model_type": "gemma3_text",
        "head_dim": 10,
        "num_hidden_layers": 7,
        "sliding_window": 3,
        "query_pre_attn_scalar": 10,
        "rope_theta": 500.0,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    },
    "gemma3-pattern": {
        "model_type": "gemma3_text",
        "head_dim": 10,
        "sliding_window": 3,
        "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 7,
        "rope_local_base_freq": 100.0,
        "tie_word_embeddings": False,
    },
    "gemma3-new": {
        "model_type": "gemma3_text",
        "head_dim": 6,
        "sliding_window": 4,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "final_logit_softcapping": 2.0,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 900.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        },
    },
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 24,
        "n_head": 6,
        "n_layer": 3,
        "n_positions": 20,
        "layer_norm_epsilon": 1e-4,
    },
    "gpt2-untied": {
        "model_type": "gpt2",
        "n_embd": 24,
        "n_head": 4,
        "n_layer": 2,
        "n_inner": 36,
        "n_positions": 20,
        "activation_function": "relu",
        "tie_word_embeddings": False,
    },
    "gpt_neox": {**_LAYERED, "model_type": "gpt_neox", "rotary_pct": 0.5, **_ALONE},
    "gpt_neox-serial": {
        "model_type": "gpt_neox",
        "num_key_value_heads": 6,
        "use_parallel_residual": False,
        "hidden_act": "gelu_fast",
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 300.0,
            "partial_rotary_factor": 1.0,
        },
    },
    "granite": {
        "model_type": "granite",
        "embedding_multiplier": 3.0,
        "attention_multiplier": 0.7,
        "residual_multiplier": 0.4,
        "logits_scaling": 2.5,
    },
    "granite-bias": {"model_type": "granite", "attention_bias": True, "mlp_bias": True},
    "mixtral": {
        "model_type": "mixtral",
        "num_local_experts": 5,
        "num_experts_per_tok": 2,
        "head_dim": 6,
    },
    "olmo2": {"model_type": "olmo2", "rope_theta": 700.0},
    "phi": {**_LAYERED, "model_type": "phi", "partial_rotary_factor": 0.75, **_WIDE},
    "phi3": {"model_type": "phi3", "sliding_window": 4},
    "phi3-longrope": {
        "model_type": "phi3",
        "original_max_position_embeddings": 32,
        "rope_scaling": _LONG,
        "partial_rotary_factor": 0.5,
        **_WIDE,
    },
    "smollm3": {"model_type": "smollm3", "num_hidden_layers": 5, "rope_theta": 200.0},
    "smollm3-untied": {
        "model_type": "smollm3",
        "no_rope_layers": [0, 1, 0],
        "attention_bias": True,
        "tie_word_embeddings": False,
    },
    "stablelm": {
        **_LAYERED,
        "model_type": "stablelm",
        "use_qkv_bias": True,
        "partial_rotary_factor": 0.5,
        **_WIDE,
    },
    "stablelm-parallel": {"model_type": "stablelm", "use_parallel_residual": True, **_WIDE},
}
"""Configurations by name, on top of common sizes where they are not of GPT-2."""

for _family in FAMILIES.values():
    if _family["model_type"] not in ("gpt2", "gpt_neox", "stablelm", "phi", "cohere"):
        _family.setdefault("rms_norm_eps", 1e-4)
    if _family["model_type"] == "gpt2":
        _family |= {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2}

TOKENS = np.random.default_rng(7).integers(0, VOCABULARY, (2, 9))


def config_of(family: str) -> dict[str, Any]:
    """The content of `config.json`."""
    own = FAMILIES[family]
    return own if own["model_type"] == "gpt2" else {**_SIZES, **own}


def drawn(family: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, np.ndarray]:
    """Weights of these names and shapes; of Gemma's normalisations around 0, else around 1."""
    tensors: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        rng = np.random.default_rng(zlib.crc32(f"{family} {name}".encode()))
        is_norm = name.endswith("weight") and len(shape) == 1
        scale = 0.3 if len(shape) == 1 else 1.4 / np.sqrt(24)
        mean = 1.0 if is_norm and not family.startswith("gemma") else 0.0
        tensors[name] = (mean + scale * rng.standard_normal(shape)).astype(np.float32)
    return tensors


def write_family(
    family: str, folder: Path, shapes: Mapping[str, Sequence[int]], **changed: Any
) -> Path:
    """Write a folder; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    config = json.dumps({**config_of(family), **changed})
    (folder / "config.json").write_text(config, encoding="utf-8")
    tensors = drawn(family, shapes)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder
