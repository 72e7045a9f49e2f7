"""A session on the package `transformers`, which reads the files by itself: what ours are held to.

Weights and sums are float32, attention is written out. Code that a folder holds is not run, and
nothing is downloaded.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.util import find_spec
from inspect import signature
from pkgutil import resolve_name
from typing import Any

from ...ir.arrays import Array
from ...ir.errors import BackendError, OptionError, SourceError
from ...runtime.session import Session
from ..from_checkpoint.checkpoint import Checkpoint


class TransformersSession(Session):
    """Runs `AutoModelForCausalLM` on this processor.

    Args:
        checkpoint: its sizes and path; its weights are not read.
        target: `transformers`.

    Raises:
        OptionError: options, of which it has none.
        BackendError: the package, or one that it needs for this model, is missing.
        SourceError: it does not read the files.
    """

    def __init__(self, checkpoint: Checkpoint, target: str) -> None:
        if target.strip() != "transformers":
            raise OptionError(f"'{target}': the engine 'transformers' has no options")
        for package in ("torch", "transformers"):
            if find_spec(package) is None:
                raise BackendError(f"{package} is missing: pip install {package} accelerate")
        import torch

        resolve_name("transformers.utils.logging:disable_progress_bar")()
        load: Any = resolve_name("transformers:AutoModelForCausalLM.from_pretrained")
        path = checkpoint.path
        one_file = path.is_file()
        options: dict[str, Any] = {"gguf_file": path.name} if one_file else {}
        options |= {"dtype": torch.float32, "attn_implementation": "eager"}
        options |= {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
        try:
            with _as_written():
                self._model: Any = load(path.parent if one_file else path, **options).eval()
        except ImportError as error:
            raise BackendError(f"transformers cannot read '{path}': {error}") from None
        except Exception as error:  # it has no type of its own for what it refuses
            raise SourceError(f"transformers does not read '{path}': {error}") from None
        version = resolve_name("transformers:__version__")
        decoder = checkpoint.decoder
        super().__init__(decoder.vocabulary, f"{target} {version}", decoder.limit)
        parameters = signature(self._model.forward).parameters
        self._word = "cache" if "cache" in parameters else "past_key_values"  # before 5.20
        self._empty()

    def _told(self, tokens: Array, count: int) -> Array:
        import torch

        with torch.no_grad(), _as_written():
            given = torch.from_numpy(tokens[None])
            cache = {self._word: self._cache, "use_cache": True}
            logits = self._model(given, **cache, logits_to_keep=count).logits
        return logits[0].float().numpy()

    def rewind(self, length: int) -> None:
        """See `Session.rewind`."""
        gone = self.length - length
        super().rewind(length)
        if not length:
            self._empty()
        elif gone:
            self._cache.crop(-gone)

    def _empty(self) -> None:
        # Without the configuration: its windows would forget what `rewind` needs.
        self._cache: Any = resolve_name("transformers:DynamicCache")()


def _as_written() -> AbstractContextManager[Any]:
    """Where PyTorch compiles nothing, as `transformers` would have it unpack BitNet's bytes."""
    return resolve_name("torch.compiler:set_stance")("force_eager")
