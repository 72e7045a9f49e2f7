"""Each architecture beside what Transformers computed from it (`record_families.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError, SourceError
from triton_dsl.lowering.from_checkpoint import open_model
from triton_dsl.lowering.from_checkpoint.checkpoint import read_checkpoint
from triton_dsl.lowering.from_checkpoint.program import decoder_text
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.generation import open_session
from triton_dsl.runtime.generation import generate

from .families import FAMILIES, TOKENS, drawn, write_family

RECORDS = np.load(Path(__file__).with_name("families.npz"))


def shapes_of(family: str) -> dict[str, list[int]]:
    return json.loads(str(RECORDS[f"{family}.shapes"]))


def written(family: str, folder: Path, **changed: Any) -> Path:
    return write_family(family, folder, shapes_of(family), **changed)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_and_tokens_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    """The whole text, and its parts one behind the other with the caches between."""
    checkpoint = read_checkpoint(open_model(written(family, tmp_path)))
    decoder, expected = checkpoint.decoder, RECORDS[f"{family}.logits"]
    module = import_tri(decoder_text(decoder), weights=checkpoint.state())
    shape = (2, 0, decoder.groups, decoder.head_dim)
    empty = [np.zeros(shape, np.float32)] * (2 * decoder.layers)
    whole, *_ = run_module(module, [TOKENS, *empty])
    np.testing.assert_allclose(whole, expected, rtol=2e-5, atol=2e-5)
    parts, cache = list[np.ndarray](), empty
    for first, end in ((0, 4), (4, 5), (5, 6), (6, 9)):
        logits, *cache = run_module(module, [TOKENS[:, first:end], *cache])
        parts.append(logits)
    np.testing.assert_allclose(np.concatenate(parts, 1), expected, rtol=2e-5, atol=2e-5)
    greedy = RECORDS[f"{family}.greedy"].tolist()
    session = open_session(tmp_path, "interpreter")
    assert list(generate(session, greedy[:4], len(greedy) - 4)) == greedy[4:]


@pytest.mark.usefixtures("few_counts", "compiled_here")
@pytest.mark.parametrize(
    "family",
    [
        *("gpt2", "mixtral"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("cohere", "gemma2", "granite", "phi")
        ),
    ],
)
def test_native_sessions_give_the_same(family: str, tmp_path: Path) -> None:
    session = open_session(written(family, tmp_path), "native")
    logits = session.feed_all(TOKENS[1].tolist())
    np.testing.assert_allclose(logits, RECORDS[f"{family}.logits"][1], rtol=2e-5, atol=2e-5)
    session.reset()
    greedy = RECORDS[f"{family}.greedy"].tolist()
    assert list(generate(session, greedy[:4], len(greedy) - 4)) == greedy[4:]


@pytest.mark.parametrize(
    ("family", "target"), [("mixtral", "onnx"), ("gpt2", "pytorch"), ("gemma2", "onnx")]
)
def test_targets_give_the_same(family: str, target: str, tmp_path: Path) -> None:
    session = open_session(written(family, tmp_path), target)
    logits = session.feed_all(TOKENS[1].tolist())
    np.testing.assert_allclose(logits, RECORDS[f"{family}.logits"][1], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("family", "limit"), [("gpt2", 20), ("phi3-longrope", 32)])
def test_texts_are_as_long_as_positions_are_known(family: str, limit: int, tmp_path: Path) -> None:
    session = open_session(written(family, tmp_path), "interpreter")
    session.feed([1] * limit)
    with pytest.raises(OptionError, match=f"texts of {limit} tokens at most"):
        session.feed([1])
    assert session.length == limit


@pytest.mark.parametrize(
    ("family", "changed", "words"),
    [
        ("cohere", {"use_qk_norm": True}, "'use_qk_norm' is True, a setting that is not known"),
        ("gemma", {"logit_scale": 2.0}, "'logit_scale' is 2.0"),
        ("gemma2", {"use_bidirectional_attention": True}, "'use_bidirectional_attention'"),
        ("gemma2", {"hidden_act": "relu"}, "'hidden_act' is 'relu', but 'hidden_activation' is"),
        ("gemma3", {"attn_logit_softcapping": 1.0}, "'attn_logit_softcapping' is 1.0"),
        ("gemma3", {"rope_scaling": {"type": "linear", "factor": 3.0}}, "each kind of attention"),
        ("gemma3-new", {"rope_scaling": {"rope_type": "yarn"}}, "are both there"),
        ("gemma3-pattern", {"sliding_window_pattern": 1}, "'sliding_window_pattern' is 1"),
        ("gpt2", {"scale_attn_weights": False}, "'scale_attn_weights' is False; computed is True"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "'scale_attn_by_inverse_layer_idx'"),
        ("gpt_neox", {"rope_theta": 77.0}, "'rope_theta' is 77.0, but 'rotary_emb_base' is"),
        ("gpt_neox", {"hidden_act": "quick_gelu"}, "activation 'quick_gelu' is not known"),
        ("granite", {"partial_rotary_factor": 0.5}, "'partial_rotary_factor' is not computed"),
        ("mixtral", {"layer_types": ["sliding_attention"] * 3}, "'layer_types' does not agree"),
        ("mixtral", {"num_experts_per_tok": 6}, "'num_experts_per_tok' is 6"),
        ("olmo2", {"rope_parameters": {"full_attention": {"rope_theta": 9.0}}}, "by attention"),
        ("phi", {"qk_layernorm": True}, "'qk_layernorm' is True"),
        ("phi3-longrope", {"rope_scaling": {"rope_type": "su"}}, "'short_factor' is no list of 2"),
        (
            "phi3-longrope",
            {"rope_scaling": {"rope_type": "yarn", "short_factor": [1.0, 1.0], "factor": 2.0}},
            "'short_factor' is not for",
        ),
        ("olmo2", {"rotary_dim": 2}, "'rotary_dim' is 2, a setting that is not known"),
        ("olmo2", {"rope_scaling": {"rope_type": "factors"}}, "'factors' is no list of 2"),
        ("smollm3", {"use_sliding_window": True}, "'use_sliding_window' is True"),
        ("smollm3", {"no_rope_layers": [1]}, "not 0 or 1 for each of 5 blocks"),
        ("smollm3", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, ""),
        ("stablelm", {"use_qkv_bias": False}, "'use_qkv_bias' is False, which the tensors"),
        ("stablelm", {"use_parallel_residual": True}, "tensors without a meaning"),
    ],
)
def test_settings_that_are_not_computed_are_refused_by_name(
    family: str, changed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceError) as caught:
        read_checkpoint(open_model(written(family, tmp_path, **changed))).state()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("family", "others"),
    [
        ("gpt2", {"n_special": 0, "predict_special_tokens": True, "n_ctx": 20}),
        ("gpt2", {"task_specific_params": {"text-generation": {"do_sample": True}}}),
        ("olmo2", {"max_sequence_length": 2048, "do_sample": True, "max_length": 50}),
        ("olmo2", {"temperature": 0.6, "top_p": 0.9, "top_k": 40, "repetition_penalty": 1.1}),
        ("olmo2", {"rope_scaling": {"type": "linear", "factor": 1.0, "finetuned": True}}),
        ("olmo2", {"torchscript": True, "finetuning_task": "chat", "num_beams": 4}),
    ],
)
def test_settings_of_published_folders_that_change_no_value(
    family: str, others: dict[str, Any], tmp_path: Path
) -> None:
    session = open_session(written(family, tmp_path, **others), "interpreter")
    logits = session.feed_all(TOKENS[1].tolist())
    np.testing.assert_allclose(logits, RECORDS[f"{family}.logits"][1], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("family", ["gemma2", "gpt2", "mixtral"])
def test_shards_of_bfloat16_are_one_model(family: str, tmp_path: Path) -> None:
    """Names without what those of the body begin with, too, as published GPT-2 has them."""
    tensors = {
        name.removeprefix("transformer."): values.astype(ml_dtypes.bfloat16)
        for name, values in drawn(family, shapes_of(family)).items()
    }
    whole, shards = written(family, tmp_path / "whole"), written(family, tmp_path / "shards")
    floats = {name: values.astype(np.float32) for name, values in tensors.items()}
    safetensors.numpy.save_file(floats, whole / "model.safetensors")
    (shards / "model.safetensors").unlink()
    places = {name: f"model-{n % 3}.safetensors" for n, name in enumerate(sorted(tensors))}
    for file in set(places.values()):
        part = {name: values for name, values in tensors.items() if places[name] == file}
        safetensors.numpy.save_file(part, shards / file)
    index = json.dumps({"weight_map": places})
    (shards / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    text = TOKENS[0].tolist()
    one, other = (open_session(path, "interpreter").feed_all(text) for path in (whole, shards))
    np.testing.assert_array_equal(one, other)
