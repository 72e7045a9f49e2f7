"""Language models from published files: Hugging Face folders and GGUF files become programs.

`model_file` says what a file of either form holds, `folder` and `gguf_file` read them; `decoder`
says what a model is made of, `checkpoint` finds that out; `rotary` computes frequencies,
`projections` turns matrices into trits; `program` writes the model in the language, of the standard
layers. Not here: the layers (`ir/language/prelude.tri`), and tokens to text (`runtime.generation`).
"""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from ...ir.extras import needed
from .checkpoint import read_checkpoint
from .folder import Folder
from .model_file import ModelFile
from .program import decoder_text

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

__all__ = ["import_checkpoint", "open_model"]


def open_model(path: Path) -> ModelFile:
    """The model of a `.gguf` file, or of a Hugging Face folder; nothing of it is read yet."""
    if path.suffix != ".gguf":
        return Folder(path)
    needed("gguf", "gguf", "language")
    return resolve_name(f"{__name__}.gguf_file:GgufFile")(path)


def import_checkpoint(path: Path) -> ModuleOp:
    """The program of a folder or a GGUF file, in the IR, which sessions on native code do without.

    Raises:
        TritonError: see `read_checkpoint`.
    """
    checkpoint = read_checkpoint(open_model(path))
    import_tri = resolve_name(f"{__name__.rpartition('.')[0]}.from_tri:import_tri")
    return import_tri(decoder_text(checkpoint.decoder), weights=checkpoint.state())
