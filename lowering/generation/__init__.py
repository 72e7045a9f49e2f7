"""Language models that are told tokens and remember them: sessions on every engine.

`engine_session` has those on targets of the compiler, `native_session` native code with weights and
caches in place, `transformers_session` the package of that name. Not here: what a session is
(`runtime.session`), the choice of tokens and text (`runtime.generation`), reading checkpoints
(`from_checkpoint`).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import resolve_name

from ...runtime.generation import Tokenizer
from ...runtime.language_model import LanguageModel
from ...runtime.session import Session
from ..from_checkpoint import open_model
from ..from_checkpoint.checkpoint import Checkpoint, read_checkpoint

__all__ = ["open_language_model", "open_session", "open_tokenizer"]

_SESSIONS: Mapping[str, str] = {
    "native": "native_session:NativeSession",
    "transformers": "transformers_session:TransformersSession",
}
_OTHER = "engine_session:EngineSession"


def open_session(model: str | Path, engine: str = "native") -> Session:
    """A session on a language model.

    Args:
        model: a Hugging Face folder, or a `.gguf` file.
        engine: `interpreter`, a target with its options, or `transformers`, which reads the files
            itself.

    Raises:
        SourceError, ParameterError: see `from_checkpoint.model_file.ModelFile`.
        TritonError: the engine is missing, or does not take the program.
    """
    return _session(read_checkpoint(open_model(Path(model))), engine)


def _session(checkpoint: Checkpoint, engine: str) -> Session:
    where = _SESSIONS.get(engine.partition("{")[0].strip(), _OTHER)
    kind: Callable[[Checkpoint, str], Session] = resolve_name(f"{__package__}.{where}")
    return kind(checkpoint, engine)


def open_language_model(
    model: str | Path, engine: str = "native", *, tokenizer: str | Path | None = None
) -> LanguageModel:
    """A language model that takes and gives text.

    Args:
        model: a Hugging Face folder, or a `.gguf` file.
        engine: see `open_session`.
        tokenizer: a file in the form of `tokenizer.json`; that of the model when not given.

    Raises:
        SourceError, ParameterError, BackendError: see `open_session` and `Tokenizer`.
    """
    file = open_model(Path(model))
    text = file.tokenizer() if tokenizer is None else Tokenizer.of_file(Path(tokenizer))
    facts = file.facts
    return LanguageModel(file.name, _session(read_checkpoint(file), engine), text, facts)


def open_tokenizer(model: Path, file: str | Path | None) -> Tokenizer:
    """The tokenizer of a model, or the one of a file.

    Raises:
        SourceError, BackendError: see `open_language_model`.
    """
    return open_model(model).tokenizer() if file is None else Tokenizer.of_file(Path(file))
