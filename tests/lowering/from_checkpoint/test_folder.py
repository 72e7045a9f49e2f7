"""Hugging Face folders beside what Transformers computed from them (`record.py`)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import ParameterError, SourceError, TritonError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_checkpoint import open_model
from triton_dsl.lowering.from_checkpoint.checkpoint import read_checkpoint
from triton_dsl.lowering.models import import_model

from .checkpoints import FEATURES, GROUPS, HEADS, KINDS, config_of, tokens, write_folder

RECORDS = np.load(Path(__file__).with_name("records.npz"))


def empty_cache(kind: str, count: int) -> list[np.ndarray]:
    config = config_of(kind)
    width = config.get("head_dim") or FEATURES // HEADS
    shape = (count, 0, GROUPS, width)
    return [np.zeros(shape, np.float32)] * (2 * config["num_hidden_layers"])


def greedy(module: ModuleOp, kind: str, start: list[int], count: int) -> list[int]:
    """Tokens one by one, each with the cache that the one before left."""
    cache, x, chosen = empty_cache(kind, 1), np.array([start]), list(start)
    for _ in range(count):
        logits, *cache = run_module(module, [x, *cache])
        chosen.append(int(logits[0, -1].argmax()))
        x = np.array([chosen[-1:]])
    return chosen


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_tokens_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    module = import_model(write_folder(kind, tmp_path))
    expected, given = RECORDS[f"{kind}.logits"], tokens()
    logits, *_ = run_module(module, [given, *empty_cache(kind, 2)])
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=2e-5)
    first, *cache = run_module(module, [given[:, :4], *empty_cache(kind, 2)])
    second, *_ = run_module(module, [given[:, 4:], *cache])
    np.testing.assert_allclose(np.concatenate([first, second], 1), expected, rtol=1e-4, atol=2e-5)
    chosen = RECORDS[f"{kind}.greedy"].tolist()
    assert greedy(module, kind, chosen[:4], len(chosen) - 4) == chosen


@pytest.mark.parametrize("target", ["pytorch", "onnx"])
@pytest.mark.parametrize("kind", ["bitnet-packed", "qwen3", "llama-trits"])
def test_targets_give_the_same(kind: str, target: str, tmp_path: Path) -> None:
    module = import_model(write_folder(kind, tmp_path))
    _, (logits, *cache), _ = run_target(module, target, [tokens()[:, :4], *empty_cache(kind, 2)])
    expected = RECORDS[f"{kind}.logits"]
    np.testing.assert_allclose(logits, expected[:, :4], rtol=1e-4, atol=2e-5)
    _, (logits, *_), _ = run_target(module, target, [tokens()[:, 4:], *cache])
    np.testing.assert_allclose(logits, expected[:, 4:], rtol=1e-4, atol=2e-5)


def test_bitnet_weights_are_trits(tmp_path: Path) -> None:
    module = import_model(write_folder("bitnet-online", tmp_path))
    assert sum(isinstance(op, ternary.ParameterOp) for op in module.walk()) == 14
    assert sum(isinstance(op, ternary.MatmulOp) for op in module.walk()) == 14


def test_shards_are_one_model(tmp_path: Path) -> None:
    whole = import_model(write_folder("llama", tmp_path / "llama"))
    parts = import_model(write_folder("llama", tmp_path / "shards" / "llama", shards=3))
    inputs = [tokens(), *empty_cache("llama", 2)]
    np.testing.assert_array_equal(run_module(whole, inputs)[0], run_module(parts, inputs)[0])


def changed(folder: Path, **config: Any) -> Path:
    write_folder("llama", folder)
    (folder / "config.json").write_text(json.dumps({**config_of("llama"), **config}))
    return folder


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "bloom"}, "models of type 'bloom' are not read; known are bitnet, cohere"),
        ({"hidden_act": "tanh"}, "activation 'tanh' is not known"),
        ({"hidden_size": -3}, "'hidden_size' is -3, expected a whole number"),
        ({"hidden_size": 25}, "hidden_size 25 is no multiple of 6 heads"),
        ({"num_hidden_layers": 10**6}, "1000000 blocks"),
        ({"num_key_value_heads": 4}, "cannot share 4 keys"),
        ({"rms_norm_eps": "small"}, "'rms_norm_eps' is 'small', expected a number"),
        ({"rope_scaling": {"rope_type": "dynamic"}}, "rotary embedding of type 'dynamic'"),
        ({"clip_qkv": 2.0}, "'clip_qkv' is 2.0, a setting that is not known"),
        ({"rope_scaling": {"rope_type": "linear", "power": 2}}, "'power' of rotary embeddings"),
        ({"partial_rotary_factor": 0.5}, "'partial_rotary_factor' is not computed"),
        ({"attention_bias": True}, "'attention_bias' is True, which the tensors contradict"),
        ({"tie_word_embeddings": True}, "but there is another output head"),
        ({"vocab_size": 62}, "'vocab_size' is not that of 61 token embeddings"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "'factor' is 0"),
        ({"rope_scaling": [1]}, "expected an object"),
        (
            {
                "rope_scaling": {
                    "rope_type": "yarn",
                    "factor": 2.0,
                    "original_max_position_embeddings": 64,
                    "beta_fast": 1e-310,
                }
            },
            "'beta_fast' is 1e-310, expected a number from 1e-06",
        ),
        ({"rope_theta": 1}, "'rope_theta' is 1.0, expected a number above 1"),
        ({"rms_norm_eps": 1e300}, "'rms_norm_eps' is 1e+300, expected a number from 1e-12"),
        ({"hidden_act": "x" * 10**6}, "xxx' is not known"),
        ({"intermediate_size": 1 << 24}, "gate_proj.weight' is of [40, 24], expected [16777216, "),
        (
            {"num_attention_heads": 1 << 24, "num_key_value_heads": 1, "head_dim": 2},
            "q_proj.weight' is of [24, 24], expected [33554432, 24]",
        ),
        ({"layer_types": ["full_attention"]}, "does not name 2 blocks"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "'linear_attention'"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised by 'gptq'"),
    ],
)
def test_a_configuration_that_is_not_known(
    config: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceError) as caught:
        import_model(changed(tmp_path, **config))
    assert words in str(caught.value) and "config.json" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_yarn_without_a_context_is_for_that_of_the_configuration(tmp_path: Path) -> None:
    """`rope_parameters` of Transformers get `max_position_embeddings` as the missing one."""
    told = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 48}
    stated, unstated = [
        read_checkpoint(
            open_model(changed(tmp_path, rope_scaling=scaling, max_position_embeddings=48))
        ).decoder.frequencies
        for scaling in (told, {"rope_type": "yarn", "factor": 4.0})
    ]
    np.testing.assert_array_equal(unstated, stated)


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 100_000, '{"model_type": NaN}', "\x00"])
def test_a_broken_configuration(text: str, tmp_path: Path) -> None:
    write_folder("llama", tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(SourceError, match=r"config\.json"):
        import_model(tmp_path)


def test_tensors_that_are_missing_or_too_many(tmp_path: Path) -> None:
    file = write_folder("llama", tmp_path) / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    part = {k: v for k, v in tensors.items() if "layers.1.mlp.up" not in k}
    safetensors.numpy.save_file(part, file)
    with pytest.raises(ParameterError, match=r"no tensor 'layers.1.mlp.up_proj.weight'"):
        import_model(tmp_path)
    safetensors.numpy.save_file({**tensors, "model.lora.weight": np.ones(3, np.float32)}, file)
    with pytest.raises(SourceError, match=r"tensors without a meaning: model.lora.weight"):
        import_model(tmp_path)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("norm.weight", np.ones(7, np.float32), "expected float32[24], got float32[7]"),
        ("layers.1.mlp.ffn_sub_norm.weight", np.ones((2, 20), np.float16), "got float16[2, 20]"),
        ("layers.0.mlp.up_proj.weight_scale", np.ones(2, np.float32), "expected float32[1]"),
        ("layers.0.mlp.up_proj.weight_scale", np.ones(0, np.float32), "expected float32[1]"),
    ],
)
def test_vectors_of_another_size(name: str, values: np.ndarray, words: str, tmp_path: Path) -> None:
    file = write_folder("bitnet-packed", tmp_path) / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    assert f"model.{name}" in tensors
    safetensors.numpy.save_file({**tensors, f"model.{name}": values}, file)
    message = re.escape(f"'{name}': ") + ".*" + re.escape(words)
    with pytest.raises(ParameterError, match=message):
        read_checkpoint(open_model(tmp_path)).state()


def test_a_trit_that_is_none(tmp_path: Path) -> None:
    file = write_folder("bitnet-packed", tmp_path) / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    tensors["model.layers.1.mlp.gate_proj.weight"][3, 5] |= 0b1100
    safetensors.numpy.save_file(tensors, file)
    with pytest.raises(SourceError, match=r"layers.1.mlp.gate_proj: a packed trit has the code 3"):
        import_model(tmp_path)


def test_files_elsewhere_and_pickles_are_not_read(tmp_path: Path) -> None:
    write_folder("llama", tmp_path, shards=2)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"model.norm.weight": "../model.safetensors"}}))
    with pytest.raises(SourceError, match="outside of its folder"):
        import_model(tmp_path)
    index.unlink()
    for file in tmp_path.glob("*.safetensors"):
        file.unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(SourceError, match=r"'pytorch_model.bin' may run code when it is read"):
        import_model(tmp_path)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"without a config.json"):
        import_model(tmp_path)


@pytest.mark.parametrize("place", range(0, 4000, 397))
def test_a_damaged_file_gives_one_error_or_the_model(place: int, tmp_path: Path) -> None:
    file = write_folder("bitnet-packed", tmp_path) / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[place % len(content)] ^= 0x5A
    file.write_bytes(content)
    try:
        import_model(tmp_path)
    except TritonError as error:
        assert str(error)
