"""GGUF files of each architecture, written as `convert_hf_to_gguf.py` of llama.cpp writes them,
beside what Transformers computed from the same weights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import SourceError
from triton_dsl.lowering.from_checkpoint import open_model
from triton_dsl.lowering.from_checkpoint.checkpoint import read_checkpoint
from triton_dsl.lowering.from_checkpoint.program import decoder_text
from triton_dsl.lowering.from_tri import import_tri

from .families import TOKENS, config_of, drawn
from .test_architectures import RECORDS, shapes_of
from .test_gguf import paired

gguf: Any = pytest.importorskip("gguf")

ARCHITECTURES = {
    "cohere": "COMMAND_R",
    "gemma": "GEMMA",
    "gemma2": "GEMMA2",
    "gemma3": "GEMMA3",
    "gpt2": "GPT2",
    "gpt_neox": "GPTNEOX",
    "granite": "GRANITE",
    "mixtral": "LLAMA",
    "olmo2": "OLMO2",
    "phi": "PHI2",
    "phi3": "PHI3",
    "smollm3": "SMOLLM3",
    "stablelm": "STABLELM",
}
NUMBERS = {
    "hidden_size n_embd": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers n_layer": "block_count",
    "num_attention_heads n_head": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "n_positions max_position_embeddings": "context_length",
    "head_dim": "attention.key_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "layer_norm_eps layer_norm_epsilon": "attention.layer_norm_epsilon",
    "sliding_window": "attention.sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "logit_scale logits_scaling": "logit_scale",
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "attention_multiplier": "attention.scale",
    "num_local_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
}
BASES = {"cohere": 5e5, "gemma3": 500.0, "mixtral": 1e6, "olmo2": 700.0, "smollm3": 200.0}


def converted(family: str, tensors: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors by their names in a file."""
    config, kind = config_of(family), ARCHITECTURES[family]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[kind], 9)
    heads = config.get("num_attention_heads") or config["n_head"]
    experts: dict[str, list[np.ndarray]] = {}
    for name, value in sorted(tensors.items()):
        values = value
        if family.startswith("gemma") and name.endswith("norm.weight"):
            values = values + 1
        if family == "gpt2" and name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
            values = values.T
        if kind in ("LLAMA", "GRANITE", "SMOLLM3") and (".q_proj." in name or ".k_proj." in name):
            values = paired(values, heads if ".q_" in name else config["num_key_value_heads"])
        if family == "gpt_neox" and ".query_key_value." in name:
            each = values.reshape(heads, 3, -1, *values.shape[1:])
            values = each.swapaxes(0, 1).reshape(values.shape)
        stem, _, end = name.rpartition(".")
        shared = re.sub(r"experts\.\d+\.", "experts.", stem)
        if shared != stem:
            experts.setdefault(names.get_name(shared), []).append(values)
        else:
            yield f"{names.get_name(stem)}.{end}", np.ascontiguousarray(values)
    for name, several in experts.items():
        yield f"{name}.weight", np.stack(several)


def write(
    family: str,
    path: Path,
    changed: dict[str, Any] | None = None,
    *,
    config: dict[str, Any] | None = None,
    tensors: dict[str, np.ndarray] | None = None,
    more: dict[str, np.ndarray] | None = None,
) -> Path:
    """A file; `changed` are metadata besides, `more` tensors by their own names."""
    config = config or config_of(family)
    tensors = tensors or drawn(family, shapes_of(family))
    name = gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH[ARCHITECTURES[family]]]
    writer = gguf.GGUFWriter(path, name)
    for words, key in NUMBERS.items():
        value = next((config[word] for word in words.split() if word in config), None)
        if value is not None:
            add = writer.add_uint32 if isinstance(value, int) else writer.add_float32
            add(f"{name}.{key}", value)
    head_dim = config.get("hidden_size", 24) // config.get("num_attention_heads", 6)
    part = {"gpt_neox": 0.5, "phi": 0.75, "stablelm": 0.5}.get(family, 1.0)
    writer.add_rope_dimension_count(int(config.get("head_dim", head_dim) * part))
    writer.add_rope_freq_base(BASES.get(family, 10000.0))
    if family == "gpt2":
        writer.add_feed_forward_length(96)
    if family == "gpt_neox":
        writer.add_parallel_residual(True)
    if family == "gemma3":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(2.0)
    for key, value in (changed or {}).items():
        adds = {str: writer.add_string, list: writer.add_array}
        add = adds.get(type(value), writer.add_float32)
        add(f"{name}.{key}", value)
    for own, values in converted(family, tensors):
        writer.add_tensor(own, values)
    for own, values in (more or {}).items():
        writer.add_tensor(own, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_logits_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    checkpoint = read_checkpoint(open_model(write(family, tmp_path / "model.gguf")))
    decoder, expected = checkpoint.decoder, RECORDS[f"{family}.logits"]
    module = import_tri(decoder_text(decoder), weights=checkpoint.state())
    shape = (2, 0, decoder.groups, decoder.head_dim)
    empty = [np.zeros(shape, np.float32)] * (2 * decoder.layers)
    first, *cache = run_module(module, [TOKENS[:, :5], *empty])
    second, *_ = run_module(module, [TOKENS[:, 5:], *cache])
    np.testing.assert_allclose(np.concatenate([first, second], 1), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [
        ("gemma2", "attention.clamp_kqv", 3.0),
        ("phi3", "rope.scaling.type", "longrope"),
        ("granite", "attention.value_length", 2.0),
        ("cohere", "attention.max_alibi_bias", 8.0),
        ("gemma2", "attention.sliding_window_pattern", [True, False, True]),
    ],
)
def test_metadata_that_are_not_known(family: str, key: str, value: Any, tmp_path: Path) -> None:
    path = write(family, tmp_path / "model.gguf", {key: value})
    with pytest.raises(SourceError, match=f"{key}|longrope|another length"):
        read_checkpoint(open_model(path))


def test_factors_that_are_none(tmp_path: Path) -> None:
    more = {"rope_freqs.weight": np.zeros(3, np.float32)}
    with pytest.raises(SourceError, match="'factors' is no list of 3 numbers"):
        read_checkpoint(open_model(write("mixtral", tmp_path / "model.gguf", more=more)))


def test_frequencies_with_factors(tmp_path: Path) -> None:
    """Factors of all frequencies alike are what `linear` does (`rope_freqs`, as Llama 3 has it)."""
    factors = np.full(3, 2.0, np.float32)
    path = write("mixtral", tmp_path / "a.gguf", more={"rope_freqs.weight": factors})
    linear = {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0}
    other = write("mixtral", tmp_path / "b.gguf", linear)
    plain = write("mixtral", tmp_path / "c.gguf")
    found = [read_checkpoint(open_model(file)).decoder.frequencies for file in (path, other, plain)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], np.array(found[2]) / 2, rtol=1e-6)


BLOCKS = {"Q4_0": "Q8_0", "Q8_0": "Q4_0", "TQ1_0": "Q8_0", "TQ2_0": "F16"}
"""Types of matrices, and of token embeddings."""


@pytest.mark.parametrize("kind", BLOCKS)
def test_rows_of_one_tensor_in_blocks(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries, keys and values in one tensor of blocks are what the package says it stands for."""
    rng = np.random.default_rng(0)
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4}
    config = {**config_of("phi3"), **sizes, "num_hidden_layers": 1, "sliding_window": None}
    shapes = {
        "self_attn.qkv_proj": (512, 256),
        "self_attn.o_proj": (256, 256),
        "mlp.gate_up_proj": (1024, 256),
        "mlp.down_proj": (256, 512),
    }
    tensors: dict[str, np.ndarray] = {
        f"model.layers.0.{name}.weight": rng.integers(-1, 2, shape).astype(np.float32) / 16
        for name, shape in shapes.items()
    }
    for name in ("layers.0.input_layernorm", "layers.0.post_attention_layernorm", "norm"):
        tensors[f"model.{name}.weight"] = rng.uniform(0.5, 1.5, 256).astype(np.float32)
    tensors["model.embed_tokens.weight"] = rng.standard_normal((61, 256)).astype(np.float32)
    added, floats = gguf.GGUFWriter.add_tensor, dict[str, np.ndarray]()

    def add(self: Any, name: str, values: np.ndarray) -> None:
        wanted = BLOCKS[kind] if "token_embd" in name else kind
        type = getattr(gguf.GGMLQuantizationType, wanted)
        if values.ndim == 2:
            blocks = gguf.quants.quantize(values, type)
            floats[name] = gguf.quants.dequantize(blocks, type)
            added(self, name, blocks, raw_dtype=type)
        else:
            added(self, name, values)

    monkeypatch.setattr(gguf.GGUFWriter, "add_tensor", add)
    packed = write("phi3", tmp_path / "a.gguf", config=config, tensors=tensors)
    monkeypatch.setattr(
        gguf.GGUFWriter,
        "add_tensor",
        lambda self, name, values: added(self, name, floats.get(name, values)),
    )
    plain = write("phi3", tmp_path / "b.gguf", config=config, tensors=tensors)
    assert packed.stat().st_size < plain.stat().st_size / 2
    results: list[np.ndarray] = []
    for path in (packed, plain):
        checkpoint = read_checkpoint(open_model(path))
        module = import_tri(decoder_text(checkpoint.decoder), weights=checkpoint.state())
        empty = [np.zeros((2, 0, 2, 64), np.float32)] * 2
        results.append(run_module(module, [TOKENS, *empty])[0])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-5)
