"""The tokenizer that a GGUF file holds, in the form of `tokenizer.json`.

Read are byte pairs, as GPT-2, Llama 3 and Qwen2 have them. Not here: encoding
(`runtime.generation`), models of SentencePiece, which need a file of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...ir.arrays import Array
from .gguf_header import Texts, read_header
from .problems import refuse

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{}|"
    r" ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS: Mapping[str, str | None] = {
    "gpt-2": None,
    "llama-bpe": _WORDS.format(r"\p{N}{1,3}"),
    "llama3": _WORDS.format(r"\p{N}{1,3}"),
    "qwen2": _WORDS.format(r"\p{N}"),
}
"""By `tokenizer.ggml.pre` where texts are split first, as in the `tokenizer.json` of these models;
`None` for GPT-2's way."""

_CONTROL, _GIVEN = 3, 4
"""Types of tokens: those that are no text, and those that are never split."""


def gguf_tokenizer(path: Path) -> str:
    """The tokenizer, as JSON.

    Raises:
        SourceError: there is none, or one of a kind that is not read.
    """
    what, fields = f"'{path}'", read_header(path).fields

    def found(name: str) -> Any:
        return fields.get(f"tokenizer.ggml.{name}")

    model, pre = found("model"), found("pre")
    tokens, merges, types = found("tokens"), found("merges"), found("token_type")
    hint = "give its tokenizer.json by --tokenizer"
    if not isinstance(tokens, Texts):
        refuse(f"{what} holds no tokenizer: {hint}")
    if model != "gpt2" or pre not in _SPLITS or not isinstance(merges, Texts):
        refuse(
            f"{what} holds a tokenizer of the kind {model!r}, {pre!r}, which is not read: {hint}"
        )
    words = list(tokens)
    kinds: Array = np.ones(len(words), np.int32) if types is None else np.atleast_1d(types)
    if len(kinds) != len(words) or len(set(words)) != len(words):
        refuse(f"{what} is damaged: its tokens are not all different, or have no types")
    pairs = [merge.split(" ") for merge in merges]
    known = set(words)
    if any(len(pair) != 2 or not {*pair, "".join(pair)} <= known for pair in pairs):
        refuse(f"{what} is damaged: it joins tokens that it does not have")
    split = _SPLITS[str(pre)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    before: dict[str, Any] = {**level, "use_regex": split is None}
    if split is not None:
        first = {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated"}
        both = [{**first, "invert": False}, before]
        before = {"type": "Sequence", "pretokenizers": both}
    bos = found("bos_token_id")
    begins = found("add_bos_token")
    begins = split == _SPLITS["llama-bpe"] if begins is None else begins is True
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [
                _added(n, words[n], special=bool(kinds[n] == _CONTROL))
                for n in np.flatnonzero((kinds == _CONTROL) | (kinds == _GIVEN)).tolist()
            ],
            "normalizer": {"type": "NFC"} if pre == "qwen2" else None,
            "pre_tokenizer": before,
            "post_processor": (
                _begun(bos, words[bos])
                if begins and isinstance(bos, int) and 0 <= bos < len(words)
                else None
            ),
            "decoder": {**level, "use_regex": True},
            "model": {
                "type": "BPE",
                "vocab": {word: n for n, word in enumerate(words)},
                "merges": pairs,
                # Llama 3 takes whole words that it has, however they would be joined.
                "ignore_merges": split == _SPLITS["llama-bpe"],
            },
        }
    )


def _added(number: int, word: str, *, special: bool) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": word, "special": special, **plain}


def _begun(number: int, word: str) -> dict[str, Any]:
    """What puts a token before each text."""
    begin = {"SpecialToken": {"id": word, "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": n}} for n, name in enumerate("AB"))
    return {
        "type": "TemplateProcessing",
        "single": [begin, first],
        "pair": [begin, first, second],
        "special_tokens": {word: {"id": word, "ids": [number], "tokens": [word]}},
    }
