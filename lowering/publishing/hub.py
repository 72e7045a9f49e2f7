"""Models on the Hugging Face Hub: `push_to_hub`, `load_from_hub`.

What is pushed are the files of a package, one by one, so that those that arrived need not be sent
again; what is loaded was checked and is compiled here. No pickle, no code of the repository.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.errors import BackendError
from ...ir.extras import needed
from ..artifact import manifest_bytes
from ..models import Model
from ..packages.archive import SUFFIX
from ..packages.building import build_package
from ..packages.package import Package, load_package
from .card import model_card
from .sending import persistently, token_of, without

if TYPE_CHECKING:
    from torch import nn


def push_to_hub(
    model: Model | Package,
    repo_id: str,
    commit_message: str = "Add the model",
    private: bool = False,
    token: str | None = None,
    tags: Sequence[str] = (),
    *,
    attempts: int = 5,
    **packaging: Any,
) -> str:
    """Push a model to the Hub (or to what `HF_ENDPOINT` names) with a card; the commit's address.

    What broke off is sent on by the next call: files that arrived are not sent again.

    Args:
        model: a package, its path, or what `build_package` takes, which becomes one.
        repo_id: `owner/name`; it is made if need be.
        commit_message: of the commit.
        private: whether a repository that is made is for its owner alone.
        token: by default that in `HF_TOKEN`.
        tags: on the card.
        attempts: at most, if connections break.
        packaging: what `build_package` takes besides, for a model that is no package: `targets`, by
            default PyTorch and ONNX, `weights`, `example_inputs`, `input_shape`, `license`, …

    Raises:
        BackendError: the token is refused, or the Hub cannot be reached.
        TritonError: the model cannot be packaged.
    """
    library = needed("huggingface_hub", "huggingface_hub", "hub")
    secret = token_of(token, "HF_TOKEN", "the Hugging Face Hub")
    if isinstance(model, str | Path) and Path(model).suffix == ".tpk":
        model = load_package(model)
    if not isinstance(model, Package):
        targets = packaging.pop("targets", ("pytorch", "onnx"))
        model = Package(build_package(model, targets, **packaging))
    contents = {
        **model.artifact.files,
        f"{model.name}{SUFFIX}": manifest_bytes(model.manifest),
        "README.md": model_card(model, repo_id, tags).encode(),
    }

    def push() -> str:
        api = library.HfApi(os.environ.get("HF_ENDPOINT"), secret)
        api.create_repo(repo_id, private=private, exist_ok=True)
        there = [name for name in api.list_repo_files(repo_id) if "/" not in name]
        stale = [name for name in there if name.endswith(SUFFIX) and name not in contents]
        added = [library.CommitOperationAdd(name, data) for name, data in contents.items()]
        removed = [library.CommitOperationDelete(name) for name in stale]
        done = api.create_commit(repo_id, [*added, *removed], commit_message=commit_message)
        return str(done.commit_url)

    return _asked(push, repo_id, secret, attempts)


def load_from_hub(
    repo_id: str, revision: str = "main", token: str | None = None, *, attempts: int = 5
) -> nn.Module:
    """A model of the Hub as a module of PyTorch, ready for inference.

    Args:
        repo_id: `owner/name`, of what `push_to_hub` pushed.
        revision: a branch, a tag or a commit.
        token: by default that in `HF_TOKEN`, if any.
        attempts: at most, if connections break.

    Raises:
        BackendError: there is no such repository for this token, or the Hub cannot be reached.
        IntegrityError: what is there is not what was pushed.
    """
    library = needed("huggingface_hub", "huggingface_hub", "hub")
    given = token or os.environ.get("HF_TOKEN")
    secret = token_of(given, "HF_TOKEN", "the Hugging Face Hub") if given else ""
    api = library.HfApi(os.environ.get("HF_ENDPOINT"), secret or False)
    download = partial(api.snapshot_download, repo_id, revision=revision)
    return load_package(_asked(download, repo_id, secret, attempts)).torch_module()


def _asked(action: Callable[[], str], repo_id: str, secret: str, attempts: int) -> str:
    """What an action gives that asks the Hub; where it fails, why, without the token."""
    try:
        return persistently(action, _passes, attempts)
    except Exception as error:  # of the library and of those below it
        said = f"the Hub and '{repo_id}': {without(secret, _causes(error)[-1])}"
        status = _status(error)
        if status in (401, 403):
            said = f"the Hub refuses the token for '{repo_id}' (status {status}); see HF_TOKEN"
        elif status == 404:
            said = f"the Hub has no '{repo_id}', or not for this token"
        raise BackendError(said) from None


def _causes(error: BaseException | None) -> list[BaseException]:
    """An error and what led to it: the library tells of failed uploads by errors of its own."""
    return [] if error is None else [error, *_causes(error.__cause__)]


def _status(error: BaseException) -> int | None:
    """The status that an answer had."""
    responses: list[Any] = [getattr(cause, "response", None) for cause in _causes(error)]
    return next((each.status_code for each in responses if each is not None), None)


def _passes(error: Exception) -> bool:
    """Whether a connection broke, or the server has trouble of its own."""
    status = _status(error)
    if status is not None:
        return status >= 500 or status == 429
    kinds = (kind for cause in _causes(error) for kind in type(cause).__mro__)
    return any(kind is OSError or "httpx" in kind.__module__ for kind in kinds)
