"""Tokenizers out of GGUF files give the tokens of those that were written there."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
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
FIRST = {
    "gpt-2": (None, True),
    "llama-bpe": (LETTERS + "{1,3}" + REST, False),
    "qwen2": (LETTERS + REST, False),
    "smollm": (r"\p{N}", True),
}


def trained(pre: str) -> Any:
    """A tokenizer as models of a family have it."""
    kinds = tokenizers.pre_tokenizers
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=pre == "llama-bpe"))
    split, as_gpt = FIRST[pre]
    tokenizer.pre_tokenizer = kinds.ByteLevel(add_prefix_space=False)
    if split is not None:
        pattern = kinds.Split(tokenizers.Regex(split), "isolated")
        level = kinds.ByteLevel(add_prefix_space=False, use_regex=as_gpt)
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


def sentence_pieces(path: Path, *, prefix: bool) -> Any:
    """SentencePiece's own processor, whose pairs have other scores each, and its file."""
    pieces: Any = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    pieces.SentencePieceTrainer.train(
        sentence_iterator=iter(["the bottles of the lazy fox, 12345 isn't it the other fox"] * 9),
        model_writer=model,
        vocab_size=330,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=prefix,
        user_defined_symbols=["<|end|>"],
        hard_vocab_limit=False,
        minloglevel=2,
    )
    processor = pieces.SentencePieceProcessor(model_proto=model.getvalue())
    every = range(processor.get_piece_size())
    words = [processor.id_to_piece(i) for i in every]
    kinds = {2: processor.is_unknown, 3: processor.is_control, 6: processor.is_byte}
    types = [next((number for number, of in kinds.items() if of(i)), 1) for i in every]
    types[words.index("<|end|>")] = 4
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words)
    writer.add_token_scores([processor.get_score(i) for i in every])
    writer.add_token_types(types)
    writer.add_bos_token_id(processor.bos_id())
    writer.add_unk_token_id(processor.unk_id())
    writer.add_add_space_prefix(prefix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return processor


@pytest.mark.parametrize("prefix", [True, False])
def test_pairs_by_score_are_sentence_pieces(prefix: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    processor = sentence_pieces(path, prefix=prefix)
    found = open_tokenizer(path, None)
    words = ["the", "fox", "isn't", "12345", " ", "  ", "caf\u00e9", "\U0001f600", "\n", "bottles,"]
    drawn = np.random.default_rng(0).integers(0, len(words), (200, 6))
    for text in [*TEXTS[:2], "", *(" ".join(words[n] for n in row) for row in drawn)]:
        expected = processor.encode(text)
        assert found.encode(text) == [processor.bos_id(), *expected]
        assert found.encode(text, special=False) == expected
        assert found.decode(expected) == processor.decode(expected)
    # Symbols of a model's own are found wherever they stand; those that are no text are no text.
    assert processor.piece_to_id("<|end|>") in found.encode("fox<|end|>fox")


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
        ("gpt-2", {"model": "bert"}, "of the kind 'bert', 'gpt-2', which is not read"),
        ("gpt-2", {"model": "llama"}, "its tokens have no scores"),
        ("mystery", {}, "'mystery', which is not read: give its tokenizer.json by --tokenizer"),
        ("gpt-2", {"types": [1]}, "not all different, or have no types"),
        ("gpt-2", {"types": 7}, "not all different, or have no types"),
        ("gpt-2", {"merges": ["t h e"]}, "joins tokens that it does not have"),
        ("gpt-2", {"merges": ["th qq"]}, "joins tokens that it does not have"),
    )
    for pre, changed, message in cases:
        with pytest.raises(SourceError, match=message):
            open_tokenizer(write(path, tokenizer, pre, **changed), None)
