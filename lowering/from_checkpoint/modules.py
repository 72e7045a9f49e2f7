"""Checkpoints as programs of the IR, with their weights.

Reading them needs no IR, which sessions on native code do without; hence this file. Not here: the
text of a program (`program`).
"""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..from_tri import import_tri
from . import open_model
from .checkpoint import read_checkpoint
from .program import decoder_text


def import_checkpoint(path: Path) -> ModuleOp:
    """The program of a folder or a GGUF file.

    Raises:
        TritonError: see `read_checkpoint`.
    """
    checkpoint = read_checkpoint(open_model(path))
    return import_tri(decoder_text(checkpoint.decoder), weights=checkpoint.state())
