"""The tokenizer that a GGUF file holds, by the package `tokenizers`.

Read are byte pairs, split as the families of `_SPLITS` split texts, and SentencePiece's pairs by
score, as Llama 2, Mistral, Phi 3 and Gemma have them; both as llama.cpp reads them. Not here:
encoding (`runtime.generation`), words of BERT and T5, which need a file of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr
from typing import Any, NoReturn, cast

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
_LLAMA, _QWEN = (_WORDS.format(r"\p{N}" + most) for most in ("{1,3}", ""))
_SPLITS: Mapping[str, tuple[str | None, bool]] = {
    **dict.fromkeys(("gpt-2", "phi-2", "olmo"), (None, True)),
    **dict.fromkeys(("command-r", "refact", "smollm", "starcoder"), (r"\p{N}", True)),
    **dict.fromkeys(("falcon3", "llama-bpe", "llama-v3", "llama3"), (_LLAMA, False)),
    **dict.fromkeys(("qwen2", "stablelm2"), (_QWEN, False)),
}
"""By `tokenizer.ggml.pre` what texts are split by first, and whether GPT-2's way follows."""

_NORMAL, _CONTROL, _GIVEN = 1, 3, 4
"""Types of tokens: those of text, those that are no text, and those that are never split."""

_SPACE, _LONGEST = "\u2581", 1_000
"""What SentencePiece writes for a space; characters of a token that are taken apart."""


def gguf_tokenizer(header: Header, what: str) -> Tokenizer:
    """The tokenizer of a file.

    Raises:
        SourceError: there is none, or one of a kind that is not read.
        BackendError: the package is missing.
    """
    hint = "give its tokenizer.json by --tokenizer"
    kind, pre, words = (
        header.value(f"tokenizer.ggml.{name}") for name in ("model", "pre", "tokens")
    )
    if type(words) is not list:
        raise SourceError(f"{what} holds no tokenizer: {hint}")
    if kind != "llama" and (kind != "gpt2" or pre not in _SPLITS):
        named = f"{repr(kind)}, {repr(pre)}"
        raise SourceError(
            f"{what} holds a tokenizer of the kind {named}, which is not read: {hint}"
        )
    read = _Reader(header, what, cast("list[str]", words))
    try:
        return read.by_scores() if kind == "llama" else read.byte_pairs(str(pre))
    except SourceError:
        raise
    except Exception as error:  # the package has no type of its own for it
        raise SourceError(f"{what} holds no tokenizer: {error}") from None


class _Reader:
    """What metadata say of tokens.

    Args:
        header: of the file.
        what: the file, for messages.
        words: the tokens.
    """

    def __init__(self, header: Header, what: str, words: list[str]) -> None:
        self.header, self.what, self.words = header, what, words
        self.package = needed("tokenizers", "tokenizers", "language")
        self.vocabulary = {word: n for n, word in enumerate(words)}
        kinds = self._value("token_type")
        self.kinds: Array = np.ones(len(words), np.int32) if kinds is None else np.atleast_1d(kinds)
        if not len(self.kinds) == len(words) == len(self.vocabulary):
            self._damaged("its tokens are not all different, or have no types")

    def byte_pairs(self, pre: str) -> Tokenizer:
        """Pairs of bytes, joined in the order of a list."""
        package, (split, as_gpt) = self.package, _SPLITS[pre]
        merges = cast("list[str]", self._value("merges") or [])
        pairs = [tuple(merge.split(" ")) for merge in merges]
        if any(len(p) != 2 or not {*p, "".join(p)} <= self.vocabulary.keys() for p in pairs):
            self._damaged("it joins tokens that it does not have")
        # Llama 3 takes whole words that it has, however they would be joined.
        model = package.models.BPE(self.vocabulary, pairs, ignore_merges=split == _LLAMA)
        made = package.Tokenizer(model)
        before = package.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=as_gpt)
        if split is not None:
            first = package.pre_tokenizers.Split(package.Regex(split), "isolated")
            before = package.pre_tokenizers.Sequence([first, before])
        made.pre_tokenizer, made.decoder = before, package.decoders.ByteLevel()
        if pre == "qwen2":
            made.normalizer = package.normalizers.NFC()
        return self._ended(made, begins=split == _LLAMA)

    def by_scores(self) -> Tokenizer:
        """SentencePiece's pairs: those that make the token of the best score are joined first."""
        package, scores = self.package, self._value("scores")
        if np.shape(scores) != (len(self.words),):
            self._damaged("its tokens have no scores")
        prefix = self._value("add_space_prefix") is not False
        unknown = self._word("unknown_token_id")
        model = package.models.BPE(
            self.vocabulary,
            self._pairs(scores),
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
        made, decoders = package.Tokenizer(model), package.decoders
        spaces = package.normalizers.Replace(" ", _SPACE)
        first = [package.normalizers.Prepend(_SPACE)] if prefix else []
        made.normalizer = package.normalizers.Sequence([*first, spaces])
        strip = [decoders.Strip(" ", 1, 0)] if prefix else []
        made.decoder = decoders.Sequence(
            [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
        )
        return self._ended(made, begins=True)

    def _pairs(self, scores: Array) -> list[tuple[str, str]]:
        """Every two tokens that make a third, as `transformers` orders them.

        Of equal scores those with the longer first token come first, where SentencePiece takes the
        first in the text: runs of one character can be cut at other places.
        """
        if any(len(word) > _LONGEST for word in self.words):
            self._damaged(f"one of its tokens has more than {_LONGEST:,} characters")
        joined = {w for w, kind in zip(self.words, self.kinds, strict=True) if kind == _NORMAL}
        found = [
            (score, cut, (word[:cut], word[cut:]))
            for word, score in zip(self.words, scores.tolist(), strict=True)
            if word in joined
            for cut in range(1, len(word))
            if word[:cut] in joined and word[cut:] in joined
        ]
        found.sort(key=lambda pair: pair[:2], reverse=True)
        return [pair for _, _, pair in found]

    def _ended(self, made: Any, *, begins: bool) -> Tokenizer:
        """With tokens that are never split, and the one that begins a text."""
        package, words, kinds = self.package, self.words, self.kinds
        made.add_tokens(
            [
                package.AddedToken(words[n], special=bool(kinds[n] == _CONTROL), normalized=False)
                for n in np.flatnonzero((kinds == _CONTROL) | (kinds == _GIVEN)).tolist()
            ]
        )
        said, first = self._value("add_bos_token"), self._word("bos_token_id")
        if first is not None and (begins if said is None else said is True):
            pieces = [first, "$A"]
            made.post_processor = package.processors.TemplateProcessing(
                pieces, [*pieces, "$B:1"], [(first, self.vocabulary[first])]
            )
        return Tokenizer(made)

    def _value(self, name: str) -> Any:
        return self.header.value(f"tokenizer.ggml.{name}")

    def _word(self, name: str) -> str | None:
        """The token that metadata give by its number."""
        number = self._value(name)
        is_one = isinstance(number, int) and 0 <= number < len(self.words)
        return self.words[number] if is_one else None

    def _damaged(self, how: str) -> NoReturn:
        raise SourceError(f"{self.what} is damaged: {how}")
