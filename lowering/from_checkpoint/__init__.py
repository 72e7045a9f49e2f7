"""Language models from published files: Hugging Face folders and GGUF files become programs.

`model_file` says what a file of either form holds, `folder` and `gguf_file` read them; `decoder`
says what a model is made of, `checkpoint` finds that out; `rotary` computes frequencies,
`projections` turns matrices into trits; `program` writes the model in the language, of the standard
layers, and `modules` has it in the IR. Not here: the layers (`ir/language/prelude.tri`), and tokens
to text (`runtime.generation`).
"""

from pathlib import Path

from .folder import Folder
from .gguf_file import GgufFile
from .model_file import ModelFile

__all__ = ["open_model"]


def open_model(path: Path) -> ModelFile:
    """The model of a `.gguf` file, or of a Hugging Face folder; nothing of it is read yet."""
    return (GgufFile if path.suffix == ".gguf" else Folder)(path)
