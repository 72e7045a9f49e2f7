"""Checkpoints as programs of the IR, with their weights.

Reading them needs no IR, which sessions on native code do without; hence this file. Not here: the
text of a program (`program`).
"""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..from_tri import import_tri
from .checkpoint import Checkpoint
from .folder import read_folder
from .gguf_file import read_gguf
from .program import decoder_text


def from_folder(path: Path) -> ModuleOp:
    """The program of a folder.

    Raises:
        SourceError, ParameterError: see `read_folder`.
    """
    return _module(read_folder(path))


def from_gguf(path: Path) -> ModuleOp:
    """The program of a GGUF file.

    Raises:
        SourceError, ParameterError, BackendError: see `read_gguf`.
    """
    return _module(read_gguf(path))


def _module(checkpoint: Checkpoint) -> ModuleOp:
    return import_tri(decoder_text(checkpoint.decoder), weights=checkpoint.state())
