"""What each architecture of language models is: one declaration, of which all else is derived.

Names and settings are those of Hugging Face; GGUF files are told in the same words (`gguf_file`).
Not here: what the words mean (`checkpoint`, `rotary`), how tensors are cut and joined (`tensors`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from reprlib import repr
from typing import Any

from ...ir.settings import Settings


@dataclass(frozen=True)
class Architecture:
    """How an architecture differs from Llama.

    Attributes:
        body: what names of tensors begin with, but for the output head's.
        names: stems of tensors by ours; `layers` is where blocks are, `{}` the number of an expert.
            Matrices that share a stem are rows of one tensor.
        words: our settings by its words.
        settings: those that it has besides `_COMMON`, or with another default; `None` is not set.
        fixed: settings with the one value that is computed.
        acts: activations that are called otherwise than they are.
        block: options of `DecoderBlock` that it has always, or never.
        window: which blocks have windows: 1 all, n all but each n-th, 0 what `use_sliding_window`
            says.
        offset: what is added to weights of normalisations.
        root: embeddings are multiplied by the square root of their width.
        is_learned: positions have embeddings, and nothing turns.
        is_transposed: matrices are [ins, outs].
        is_grouped: rows of one tensor are queries, key and value of each group in turn.
        is_paired: values that turn together are neighbours in a head.
    """

    body: str = "model"
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    acts: Mapping[str, str] = field(default_factory=dict[str, str])
    block: Mapping[str, bool] = field(default_factory=dict[str, bool])
    window: int = 0
    offset: int = 0
    root: bool = False
    is_learned: bool = False
    is_transposed: bool = False
    is_grouped: bool = False
    is_paired: bool = False

    def theirs(self, stem: str) -> str:
        """The full stem of a tensor by ours, such as `layers.0.mlp.up_proj` or `norm`."""
        if stem == "lm_head":
            return self.names.get(stem, stem)
        head, number, part = [*stem.split(".", 2), "", ""][:3]
        found = self.names.get(part or head, part or head)
        layers = f"{self.names.get('layers', 'layers')}.{number}." if part else ""
        return f"{self.body}.{layers}{found}"

    def told(self, config: Settings) -> Settings:
        """A configuration in our words, with defaults.

        Raises:
            SourceError: a setting that is not known, or has a value that is not computed.
        """
        given = {**config.values}
        given |= {self.words[name]: given.pop(name) for name in self.words if name in given}
        for word, ours in self.words.items():
            said, meant = config.values.get(ours), config.values.get(word, self.settings.get(ours))
            if None not in (said, meant) and said != meant:
                config.refuse(f"'{ours}' is {repr(said)}, but '{word}' is {repr(meant)}")
        for name, value in self.fixed.items():
            if (found := given.pop(name, value)) != value:
                config.refuse(f"'{name}' is {repr(found)}; computed is {value}")
        known = _COMMON | self.settings.keys()
        for name in sorted(given.keys() - known):
            value = given.pop(name)
            if str(value) not in _UNSET and not _NEUTRAL.fullmatch(name):
                config.refuse(f"'{name}' is {repr(value)}, a setting that is not known")
        return Settings({**self.settings, **given}, config.what, config.error)


_COMMON = {
    "attention_bias",
    "mlp_bias",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "layer_types",
    "max_position_embeddings",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "quantization_config",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "tie_word_embeddings",
    "vocab_size",
    "partial_rotary_factor",
}
"""Settings that are read for every model."""

_UNSET = ("None", "False", "0", "0.0", "", "[]", "{}")

_NEUTRAL = re.compile(
    r"_.*|.*token_id.*|.*token_index|.*dropout.*|.*_pdrop|initializer.*|(torch_)?dtype|transformers.*"
    r"|architectures|auto_map|use_cache|pretraining_tp|task_specific_params|id2label|label2id"
    r"|output_.*|return_.*|problem_type|router_(aux_loss_coef|jitter_noise)|summary_.*|unsloth_.*"
    r"|gradient_checkpointing|cache_implementation|attn_implementation|is_llama_config|name_or_path"
    r"|tokenizer_class|n_ctx|language|eos_token|bos_token|max_window_layers|is_decoder"
    r"|chunk_size_feed_forward|reorder_and_upcast_attn|sliding_window_size|model_max_length"
    r"|full_attn_mod|interpolate_factor|max_sequence_length|predict_special_tokens|finetuning_task"
    r"|torchscript|use_bfloat16|tf_legacy_loss|(max|min)_(length|new_tokens)|do_sample|num_beam.*"
    r"|early_stopping|temperature|(top|typical)_[kp]|.*_penalty|.*no_repeat_ngram_size|bad_words_ids"
    r"|num_return_sequences|remove_invalid_values|(begin_)?suppress_tokens"
)
"""Settings that change no value that is computed here: of training, of how text is chosen."""

_NORMS = {"layer_norm_eps": "rms_norm_eps"}
_WINDOWS = {"sliding_window": None, "use_sliding_window": False, "max_window_layers": 28}
_POST_NORMS = {
    "attention_post_norm": "post_attention_layernorm",
    "mlp_post_norm": "post_feedforward_layernorm",
}
_QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_LAYER_NORM = {"centred": True, "norm_bias": True}

_QWEN = Architecture(settings=_WINDOWS)
_MISTRAL = Architecture(settings={"sliding_window": None}, window=1)
_GEMMA = {"rms_norm_eps": 1e-6, "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True}
_GEMMA_2 = Architecture(
    names={**_POST_NORMS, "post_attention_layernorm": "pre_feedforward_layernorm"},
    words={"hidden_activation": "hidden_act"},
    settings={
        **_GEMMA,
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    },
    block={"post_norm": True},
    window=2,
    offset=1,
    root=True,
)

ARCHITECTURES: Mapping[str, Architecture] = {
    "bitnet": Architecture(
        settings={"rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "relu2"}
    ),
    "cohere": Architecture(
        words=_NORMS,
        settings={
            "rms_norm_eps": 1e-5,
            "rope_theta": 500000.0,
            "logit_scale": 0.0625,
            "tie_word_embeddings": True,
        },
        block={"centred": True, "mlp_norm": False, "parallel": True},
        is_paired=True,
    ),
    "gemma": Architecture(
        settings={**_GEMMA, "head_dim": 256, "hidden_activation": None},
        acts={"gelu": "gelu_pytorch_tanh"},
        offset=1,
        root=True,
    ),
    "gemma2": _GEMMA_2,
    "gemma3_text": Architecture(
        names=_GEMMA_2.names,
        words=_GEMMA_2.words,
        settings={
            **_GEMMA,
            "head_dim": 256,
            "query_pre_attn_scalar": 256,
            "sliding_window": 4096,
            "final_logit_softcapping": None,
            "rope_theta": 1e6,
            "rope_local_base_freq": 1e4,
            "sliding_window_pattern": 6,
        },
        block={"post_norm": True, "head_norm": True},
        window=6,
        offset=1,
        root=True,
    ),
    "gpt2": Architecture(
        body="transformer",
        names={
            "layers": "h",
            "embed_tokens": "wte",
            "embed_positions": "wpe",
            "norm": "ln_f",
            **dict.fromkeys(_QKV, "attn.c_attn"),
            "self_attn.o_proj": "attn.c_proj",
            "mlp.up_proj": "mlp.c_fc",
            "mlp.down_proj": "mlp.c_proj",
            "input_layernorm": "ln_1",
            "post_attention_layernorm": "ln_2",
        },
        words={
            "n_embd": "hidden_size",
            "n_head": "num_attention_heads",
            "n_layer": "num_hidden_layers",
            "n_inner": "intermediate_size",
            "n_positions": "max_position_embeddings",
            "layer_norm_epsilon": "rms_norm_eps",
            "activation_function": "hidden_act",
        },
        settings={"rms_norm_eps": 1e-5, "hidden_act": "gelu_new", "tie_word_embeddings": True},
        fixed={"scale_attn_weights": True},
        block={**_LAYER_NORM, "gated": False},
        is_learned=True,
        is_transposed=True,
    ),
    "gpt_neox": Architecture(
        body="gpt_neox",
        names={
            "embed_tokens": "embed_in",
            "norm": "final_layer_norm",
            "lm_head": "embed_out",
            **dict.fromkeys(_QKV, "attention.query_key_value"),
            "self_attn.o_proj": "attention.dense",
            "mlp.up_proj": "mlp.dense_h_to_4h",
            "mlp.down_proj": "mlp.dense_4h_to_h",
        },
        words={**_NORMS, "rotary_emb_base": "rope_theta", "rotary_pct": "partial_rotary_factor"},
        settings={
            "rms_norm_eps": 1e-5,
            "hidden_act": "gelu",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
            "use_parallel_residual": True,
        },
        block={**_LAYER_NORM, "gated": False, "mlp_norm": True},
        is_grouped=True,
    ),
    "granite": Architecture(
        settings={
            "embedding_multiplier": 1.0,
            "logits_scaling": 1.0,
            "residual_multiplier": 1.0,
            "attention_multiplier": 1.0,
        },
    ),
    "llama": Architecture(),
    "mistral": _MISTRAL,
    "mixtral": Architecture(
        names={
            "mlp.router": "block_sparse_moe.gate",
            "mlp.gate_proj": "block_sparse_moe.experts.{}.w1",
            "mlp.down_proj": "block_sparse_moe.experts.{}.w2",
            "mlp.up_proj": "block_sparse_moe.experts.{}.w3",
        },
        settings={
            "rms_norm_eps": 1e-5,
            "rope_theta": 1e6,
            "sliding_window": None,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
        },
        window=1,
    ),
    "olmo2": Architecture(
        names=_POST_NORMS,
        settings={"rms_norm_eps": 1e-5},
        block={"attention_norm": False, "mlp_norm": False, "post_norm": True, "row_norm": True},
    ),
    "phi": Architecture(
        names={
            "norm": "final_layernorm",
            "self_attn.o_proj": "self_attn.dense",
            "mlp.up_proj": "mlp.fc1",
            "mlp.down_proj": "mlp.fc2",
        },
        words=_NORMS,
        settings={
            "rms_norm_eps": 1e-5,
            "hidden_act": "gelu_new",
            "partial_rotary_factor": 0.5,
        },
        block={**_LAYER_NORM, "gated": False, "mlp_norm": False, "parallel": True},
    ),
    "phi3": Architecture(
        names={
            **dict.fromkeys(_QKV, "self_attn.qkv_proj"),
            **dict.fromkeys(("mlp.gate_proj", "mlp.up_proj"), "mlp.gate_up_proj"),
        },
        settings={
            "rms_norm_eps": 1e-5,
            "sliding_window": None,
            "original_max_position_embeddings": 4096,
            "partial_rotary_factor": 1.0,
        },
        window=1,
    ),
    "qwen2": _QWEN,
    "qwen3": Architecture(settings={**_WINDOWS, "head_dim": 128}, block={"head_norm": True}),
    "smollm3": Architecture(
        settings={
            "rope_theta": 2e6,
            "tie_word_embeddings": True,
            "no_rope_layers": None,
            "no_rope_layer_interval": 4,
        },
    ),
    "stablelm": Architecture(
        words=_NORMS,
        settings={
            "rms_norm_eps": 1e-5,
            "partial_rotary_factor": 0.25,
            "use_qkv_bias": None,
            "use_parallel_residual": False,
        },
        block=_LAYER_NORM,
    ),
}
"""By `model_type`."""


def architecture_of(config: Settings) -> Architecture:
    """The architecture that a configuration names.

    Raises:
        SourceError: it is not known.
    """
    model = str(config.values.get("model_type"))
    if model not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        config.refuse(f"models of type {repr(model)} are not read; known are {known}")
    return ARCHITECTURES[model]
