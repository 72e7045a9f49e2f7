"""Tokenizers out of GGUF files give the tokens of those that were written there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triton_dsl.ir.errors import SourceError
from triton_dsl.lowering.generation import open_tokenizer

gguf: Any = pytest.importorskip("gguf")
tokenizers: Any = pytest.importorskip("tokenizers")

TEXTS = [
    "The lazy fox's 12345 bottles, isn't it?\n\n  Indented;\ttabbed   ",
    "na\u00efve cafe\u0301 \u4f60\u597d \U0001f600 \u0661\u0662\u0663",
    "<s>not a token</s><|end|>the the<|end|>",
    "",
]
LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
FIRST = {"gpt-2": None, "llama-bpe": LETTERS + "{1,3}" + REST, "qwen2": LETTERS + REST}


def trained(pre: str) -> Any:
    """A tokenizer as models of a family have it."""
    kinds = tokenizers.pre_tokenizers
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=pre == "llama-bpe"))
    split = FIRST[pre]
    tokenizer.pre_tokenizer = kinds.ByteLevel(add_prefix_space=False)
    if split is not None:
        pattern = kinds.Split(tokenizers.Regex(split), "isolated")
        level = kinds.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = kinds.Sequence([pattern, level])
    if pre == "qwen2":
        tokenizer.normalizer = tokenizers.normalizers.NFC()
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=["<s>", "<|end|>"],
        initial_alphabet=kinds.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(["the bottles of the lazy fox, 12345 the isn't"] * 9, trainer)
    return tokenizer


def write(path: Path, tokenizer: Any, pre: str, **changed: Any) -> Path:
    model = json.loads(tokenizer.to_str())["model"]
    words = sorted(model["vocab"], key=model["vocab"].get)
    given: dict[str, Any] = {
        "model": "gpt2",
        "words": words,
        "merges": [m if isinstance(m, str) else " ".join(m) for m in model["merges"]],
        "types": [3 if word in ("<s>", "<|end|>") else 1 for word in words],
        **changed,
    }
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(given["model"])
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(given["words"])
    writer.add_token_merges(given["merges"])
    if isinstance(given["types"], list):
        writer.add_token_types(given["types"])
    else:
        writer.add_uint32("tokenizer.ggml.token_type", given["types"])
    writer.add_bos_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("pre", FIRST)
def test_texts_become_the_same_tokens(pre: str, tmp_path: Path) -> None:
    tokenizer = trained(pre)
    found = open_tokenizer(write(tmp_path / "model.gguf", tokenizer, pre), None)
    begin = [0] if pre == "llama-bpe" else []
    for text in TEXTS:
        expected = tokenizer.encode(text).ids
        assert found.encode(text) == begin + expected
        assert found.encode(text, special=False) == expected
        assert found.decode(expected) == tokenizer.decode(expected)


def test_what_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    tokenizer, path = trained("gpt-2"), tmp_path / "model.gguf"
    cases = (
        ("gpt-2", {"model": "llama"}, "of the kind 'llama', 'gpt-2', which is not read"),
        ("mystery", {}, "'mystery', which is not read: give its tokenizer.json by --tokenizer"),
        ("gpt-2", {"types": [1]}, "not all different, or have no types"),
        ("gpt-2", {"types": 7}, "not all different, or have no types"),
        ("gpt-2", {"merges": ["t h e"]}, "joins tokens that it does not have"),
        ("gpt-2", {"merges": ["th qq"]}, "joins tokens that it does not have"),
    )
    for pre, changed, message in cases:
        with pytest.raises(SourceError, match=message):
            open_tokenizer(write(path, tokenizer, pre, **changed), None)
