"""Hugging Face folders of language models: `config.json` and safetensors, read tensor by tensor.

Weights are dense, trits as floats (TriLM), or those of BitNet b1.58: packed, or as the floats that
training rounds. Code and pickled weights are never read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from ...ir.arrays import Array
from ...ir.errors import SourceError
from ...ir.safe_read import opened
from ...ir.settings import Settings
from ...ir.store import open_tensors, read_tensor
from ...runtime.generation import Tokenizer
from .embeddings import Embeddings
from .model_file import ModelFile

CONFIG = "config.json"

_ABOUT_TEXT = ("tokenizer_config.json", CONFIG, "generation_config.json")
"""What the later ones say holds."""

_LARGEST_CONFIG = 1 << 24
_OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.gguf")


class Folder(ModelFile):
    """A folder; files are mapped while a tensor is read, so that what was read is not held."""

    @cached_property
    def said(self) -> Settings:
        """See `ModelFile`."""
        return _settings(self.path / CONFIG)

    @property
    def about_text(self) -> Mapping[str, Any]:
        """See `ModelFile`."""
        found: dict[str, Any] = {}
        for file in map(self.path.joinpath, _ABOUT_TEXT):
            values = _settings(file).values if file.is_file() else dict[str, Any]()
            found |= {name: value for name, value in values.items() if value is not None}
        if isinstance(template := found.get("chat_template"), list):
            # Several, by name: of chats, of chats with tools, …
            entries: list[Any] = [e for e in cast("list[Any]", template) if isinstance(e, dict)]
            several = {entry.get("name"): entry.get("template") for entry in entries}
            found["chat_template"] = several.get("default")
        alone = self.path / "chat_template.jinja"
        if alone.is_file():
            found["chat_template"] = _text(alone)
        return found

    def tokenizer(self) -> Tokenizer:
        """See `ModelFile`."""
        return Tokenizer.of_file(self.path / "tokenizer.json")

    @cached_property
    def places(self) -> Mapping[str, Path]:
        """See `ModelFile`: the file of each tensor."""
        found: dict[str, Path] = {}
        for file in self._files():
            found.update(dict.fromkeys(open_tensors(file).keys(), file))
        return found

    def own(self, name: str) -> str:
        """See `ModelFile`: names may lack what those of the body begin with."""
        stem, _, end = name.rpartition(".")
        full = f"{self.architecture.theirs(stem)}.{end}"
        is_whole = full.format(0) in self.places
        return full if is_whole else full.removeprefix(f"{self.architecture.body}.")

    def shape(self, own: str) -> Sequence[int]:
        """See `ModelFile`."""
        return open_tensors(self.places[own]).get_slice(own).get_shape()

    def values(self, own: str) -> Array:
        """See `ModelFile`."""
        return read_tensor(open_tensors(self.places[own]), own, self.places[own])

    def embeddings(self, name: str) -> Embeddings:
        """See `ModelFile`."""
        mapped = super().embeddings(name)
        # Large memory of NumPy's own is in huge pages, which are read faster.
        return replace(mapped, read=mapped.rows.copy().__getitem__)

    def _files(self) -> list[Path]:
        index = self.path / "model.safetensors.index.json"
        if not index.is_file():
            found = sorted(self.path.glob("*.safetensors"))
            if not found:
                others = [file.name for end in _OTHER_WEIGHTS for file in self.path.glob(end)]
                hint = f"; '{others[0]}' may run code when it is read: convert it" if others else ""
                raise SourceError(f"{self.what} holds no .safetensors file{hint}")
            return found
        names = _settings(index).values.get("weight_map")
        if not isinstance(names, dict) or not names:
            raise SourceError(f"'{index}' has no 'weight_map'")
        files = sorted({str(name) for name in cast("dict[str, object]", names).values()})
        for name in files:
            if Path(name).name != name or "\\" in name or "\0" in name:
                raise SourceError(f"'{index}' names a file outside of its folder: {name!r}")
        return [self.path / name for name in files]


def _settings(path: Path) -> Settings:
    return Settings.of_json(_text(path), f"'{path}'")


def _text(path: Path) -> str:
    with opened(path, _LARGEST_CONFIG, SourceError) as file:
        return file.read().decode()
