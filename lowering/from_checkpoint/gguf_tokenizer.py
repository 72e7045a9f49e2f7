"""The tokenizer that a GGUF file holds, by the package `tokenizers`.

Read are byte pairs, as GPT-2, Llama 3 and Qwen2 have them. Not here: encoding
(`runtime.generation`), models of SentencePiece, which need a file of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr
from typing import cast

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import SourceError
from ...ir.extras import needed
from ...runtime.generation import Tokenizer
from .gguf_header import Header

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


def gguf_tokenizer(header: Header, what: str) -> Tokenizer:
    """The tokenizer of a file.

    Raises:
        SourceError: there is none, or one of a kind that is not read.
        BackendError: the package is missing.
    """

    names = ("model", "pre", "token_type", "bos_token_id", "add_bos_token", "tokens", "merges")
    *facts, first, second = (header.value(f"tokenizer.ggml.{name}") for name in names)
    model, pre, types, bos, begins = facts
    hint = "give its tokenizer.json by --tokenizer"
    if type(first) is not list:
        raise SourceError(f"{what} holds no tokenizer: {hint}")
    if model != "gpt2" or pre not in _SPLITS or type(second) is not list:
        kind = f"{repr(model)}, {repr(pre)}"
        raise SourceError(f"{what} holds a tokenizer of the kind {kind}, which is not read: {hint}")
    words, merges = cast("list[str]", first), cast("list[str]", second)
    kinds: Array = np.ones(len(words), np.int32) if types is None else np.atleast_1d(types)
    vocabulary = {word: n for n, word in enumerate(words)}
    if len(kinds) != len(words) or len(vocabulary) != len(words):
        raise SourceError(f"{what} is damaged: its tokens are not all different, or have no types")
    pairs = [tuple(merge.split(" ")) for merge in merges]
    if any(len(pair) != 2 or not {*pair, "".join(pair)} <= vocabulary.keys() for pair in pairs):
        raise SourceError(f"{what} is damaged: it joins tokens that it does not have")
    package, split = needed("tokenizers", "tokenizers", "language"), _SPLITS[str(pre)]
    is_llama = split == _SPLITS["llama-bpe"]
    begins = is_llama if begins is None else begins is True
    try:
        # Llama 3 takes whole words that it has, however they would be joined.
        made = package.Tokenizer(package.models.BPE(vocabulary, pairs, ignore_merges=is_llama))
        made.add_tokens(
            [
                package.AddedToken(words[n], special=bool(kinds[n] == _CONTROL), normalized=False)
                for n in np.flatnonzero((kinds == _CONTROL) | (kinds == _GIVEN)).tolist()
            ]
        )
        before = package.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
        if split is not None:
            first = package.pre_tokenizers.Split(package.Regex(split), "isolated")
            before = package.pre_tokenizers.Sequence([first, before])
        made.pre_tokenizer, made.decoder = before, package.decoders.ByteLevel()
        if pre == "qwen2":
            made.normalizer = package.normalizers.NFC()
        if begins and isinstance(bos, int) and bos < len(words):
            pieces = [words[bos], "$A"]
            made.post_processor = package.processors.TemplateProcessing(
                pieces, [*pieces, "$B:1"], [(words[bos], bos)]
            )
    except Exception as error:  # the package has no type of its own for it
        raise SourceError(f"{what} holds no tokenizer: {error}") from None
    return Tokenizer(made)
