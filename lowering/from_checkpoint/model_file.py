"""A published model, whatever form its files have: Hugging Face's words for all that it holds.

Not here: the two forms (`folder`, `gguf_file`), and what becomes of them (`checkpoint`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from reprlib import repr
from typing import Any, cast

from ...ir.arrays import Array
from ...ir.errors import ParameterError, SourceError
from ...ir.settings import Settings
from ...runtime.generation import Tokenizer
from ...runtime.language_model import TextFacts
from .architectures import Architecture, architecture_of
from .embeddings import Embeddings
from .projections import recognized

_SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")


class ModelFile(ABC):
    """A folder or file, of which nothing is read before it is asked for.

    What is damaged or not known raises a `SourceError`, a tensor that is missing or cannot be read
    a `ParameterError`, a missing package a `BackendError`.

    Attributes:
        path: of it.
        what: the same, for errors.
        name: what the model is called.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.what = path, f"'{path}'"
        self.name = path.stem if path.is_file() else os.path.basename(os.path.realpath(path))
        self._read = set[str]()

    @cached_property
    @abstractmethod
    def said(self) -> Settings:
        """The configuration in the words of `config.json`, as it stands there."""

    @cached_property
    def architecture(self) -> Architecture:
        """What the model is, as far as this form of files tells it so."""
        return architecture_of(self.said)

    @cached_property
    def config(self) -> Settings:
        """The configuration in the words of Llama's, with what is not said."""
        return self.architecture.told(self.said)

    @property
    @abstractmethod
    def about_text(self) -> Mapping[str, Any]:
        """What it says about text, in the words of Hugging Face's files; a token may be an object.

        `eos_token_id` is a token or a list of them.
        """

    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that it holds."""

    @cached_property
    @abstractmethod
    def places(self) -> Mapping[str, Any]:
        """Where tensors are, by their own names."""

    @abstractmethod
    def own(self, name: str) -> str:
        """The tensor's own name."""

    @abstractmethod
    def shape(self, own: str) -> Sequence[int]:
        """Of a tensor by its own name; bytes of trits are of their own."""

    @abstractmethod
    def values(self, own: str) -> Array:
        """A tensor by its own name, as floats but for types that NumPy has."""

    @property
    def facts(self) -> TextFacts:
        """What it says about text besides its tokenizer."""
        values = self.about_text
        given = Settings(values, f"{self.what}: ")
        ends = values.get("eos_token_id")
        listed = cast("list[int]", ends if isinstance(ends, list) else [ends])
        if ends is not None and any(type(token) is not int for token in listed):
            given.refuse(f"'eos_token_id' is {repr(listed)}, expected numbers of tokens")
        template = values.get("chat_template")
        if not isinstance(template, str | None):
            given.refuse("the chat template is no text")
        words: dict[str, str] = {}
        for name in _SPECIAL:
            text = values.get(name)
            if isinstance(text, dict):
                text = cast("dict[str, Any]", text).get("content")
            if isinstance(text, str):
                words[name] = text
            elif text is not None:
                given.refuse(f"'{name}' is {repr(text)}, expected a text")
        name = "max_position_embeddings"
        length = None if values.get(name) is None else given.whole(name)
        return TextFacts(frozenset(listed if ends is not None else ()), template, words, length)

    @property
    def unread(self) -> set[str]:
        """The tensors' own names that nobody asked for yet."""
        return {*self.places} - self._read

    def __contains__(self, name: str) -> bool:
        return self.own(name) in self.places

    def found(self, name: str) -> str:
        """The own name of a tensor that there is, which is read now."""
        return self.found_own(self.own(name))

    def found_own(self, own: str) -> str:
        """The same of a tensor by its own name."""
        if own not in self.places:
            raise ParameterError(f"{self.what} has no tensor '{own}'")
        self._read.add(own)
        return own

    def read(self, name: str) -> Array:
        """A tensor, see `values`."""
        return self.values(self.found(name))

    def trits(self, name: str) -> tuple[Array, Array] | None:
        """Trits int8 [outs, ins] and a scale for each output, float32; `None` for other tensors."""
        return recognized(self.read(name), f"{self.what}: '{name}'")

    def embeddings(self, name: str) -> Embeddings:
        """A matrix that `read` would give, as it is held."""
        table = self.read(name)
        if table.ndim != 2:
            raise SourceError(f"{self.what}: '{name}' is no matrix, but of shape {[*table.shape]}")
        return Embeddings.of(table)
