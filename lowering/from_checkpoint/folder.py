"""Hugging Face folders of language models: `config.json` and safetensors, read tensor by tensor.

Known are Llama-like models with dense weights, with trits as floats (TriLM), and those of BitNet
b1.58: packed, or as the floats that training rounds. Code and pickled weights are never read. Not
here: tokenizers (`runtime.generation`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn, cast

from ...ir.arrays import Array
from ...ir.errors import ParameterError
from ...ir.store import open_tensors, read_tensor
from .checkpoint import Checkpoint, read_checkpoint
from .embeddings import Embeddings
from .problems import refuse
from .text_facts import TextFacts, text_facts

CONFIG = "config.json"

_LARGEST_CONFIG = 1 << 24
_OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.gguf")


def read_folder(path: Path) -> Checkpoint:
    """What a folder holds; it is read only.

    Raises:
        SourceError: no such model, an unknown kind, or broken files.
        ParameterError: a tensor is missing, or has another shape.
    """
    what = path / CONFIG
    return read_checkpoint(read_json(what), Tensors(path), path, f"'{what}'")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a stranger.

    Raises:
        SourceError: it cannot be read, is too large, or holds something else.
    """
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        refuse(f"'{path}' is no JSON: {error}")
    if not isinstance(value, dict):
        refuse(f"'{path}' holds no object")
    return cast("dict[str, Any]", value)


def read_text(path: Path) -> str:
    """A text from a file of a stranger.

    Raises:
        SourceError: it cannot be read, is too large, or is no UTF-8.
    """
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            refuse(f"'{path}' is larger than 16 MB")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        refuse(f"'{path}': {error.strerror}")
    except UnicodeDecodeError as error:
        refuse(f"'{path}' is no text in UTF-8: {error}")


def folder_text_facts(path: Path) -> TextFacts:
    """What a folder says about text: see `TextFacts`.

    Raises:
        SourceError: a file that cannot be read, or says something else than expected.
    """

    def known(name: str) -> dict[str, Any]:
        return read_json(path / name) if (path / name).is_file() else {}

    config, chat = known(CONFIG), known("tokenizer_config.json")
    ends = (known("generation_config.json").get("eos_token_id"), config.get("eos_token_id"))
    template: Any = chat.get("chat_template")
    if isinstance(template, list):
        # Several, by name: of chats, of chats with tools, …
        entries: list[Any] = [e for e in cast("list[Any]", template) if isinstance(e, dict)]
        template = {e.get("name"): e.get("template") for e in entries}.get("default")
    alone = path / "chat_template.jinja"
    if alone.is_file():
        template = read_text(alone)
    return text_facts(
        next((end for end in ends if end is not None), None),
        template,
        {name: chat.get(name) for name in ("bos_token", "eos_token", "unk_token", "pad_token")},
        config.get("max_position_embeddings"),
        f"'{path}'",
    )


class Tensors:
    """The tensors of a folder's safetensors files, by name.

    Files are mapped into memory while a tensor is read, so that what was read is not held.
    """

    def __init__(self, folder: Path) -> None:
        """Open the files; no tensor is read yet.

        Raises:
            SourceError: no safetensors, or an index that is broken or names files elsewhere.
            ParameterError: a file that is no safetensors.
        """
        self.folder, self.what = folder, f"'{folder}'"
        self._files: dict[str, Path] = {}
        for file in self._paths():
            self._files.update(dict.fromkeys(open_tensors(file).keys(), file))
        self._prefix = "model." if any(n.startswith("model.") for n in self._files) else ""
        self.unread = set(self._files)

    def _paths(self) -> list[Path]:
        index = self.folder / "model.safetensors.index.json"
        if not index.is_file():
            found = sorted(self.folder.glob("*.safetensors"))
            return found or self._refuse_others()
        names = read_json(index).get("weight_map")
        if not isinstance(names, dict) or not names:
            refuse(f"'{index}' has no 'weight_map'")
        files = sorted({str(name) for name in cast("dict[str, object]", names).values()})
        for name in files:
            if Path(name).name != name or "\\" in name or "\0" in name:
                refuse(f"'{index}' names a file outside of its folder: {name!r}")
        return [self.folder / name for name in files]

    def _refuse_others(self) -> NoReturn:
        others = [file.name for pattern in _OTHER_WEIGHTS for file in self.folder.glob(pattern)]
        hint = f"; '{others[0]}' may run code when it is read: convert it" if others else ""
        refuse(f"'{self.folder}' holds no .safetensors file{hint}")

    def __contains__(self, name: str) -> bool:
        return self._full(name) is not None

    def read(self, name: str) -> Array:
        """A tensor, called with or without the prefix `model.`.

        Raises:
            ParameterError: there is none, or it cannot be read.
        """
        full = self._full(name)
        if full is None:
            raise ParameterError(f"'{self.folder}' has no tensor '{name}'")
        self.unread.discard(full)
        return read_tensor(open_tensors(self._files[full]), full, self._files[full])

    def embeddings(self, name: str) -> Embeddings:
        """See `checkpoint.TensorSource`."""
        table = self.read(name)
        if table.ndim != 2:
            refuse(f"{self.what}: '{name}' is no matrix, but of shape {list(table.shape)}")
        # Large memory of NumPy's own is in huge pages, which are read faster.
        return Embeddings.of(table.copy())

    def trits(self, name: str) -> None:
        """See `checkpoint.TensorSource`: what is packed in a folder has its scale elsewhere."""

    def _full(self, name: str) -> str | None:
        names = (name, f"{self._prefix}{name}")
        return next((known for known in names if known in self._files), None)
