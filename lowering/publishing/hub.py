"""Models on the Hugging Face Hub: `push_to_hub`, `load_from_hub`.

What is pushed are the files of a package, one by one, so that those that arrived need not be sent
again; what is loaded was checked and is compiled here. No pickle, no code of the repository.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.extras import needed
from ..artifact import manifest_bytes
from ..models import Model
from ..packages.archive import SUFFIX
from ..packages.building import build_package
from ..packages.package import Package, load_package
from .card import model_card
from .sending import asked, token_of

if TYPE_CHECKING:
    from torch import nn

_SERVICE, _TOKEN = "the Hub", "HF_TOKEN"


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
    secret = token_of(token, _TOKEN, _SERVICE)
    if isinstance(model, str | Path) and Path(model).suffix == ".tpk":
        model = load_package(model)
    if not isinstance(model, Package):
        targets = packaging.pop("targets", ("pytorch", "onnx"))
        model = Package(**vars(build_package(model, targets, **packaging)))
    contents = {
        **model.files,
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

    return asked(push, _SERVICE, _TOKEN, repo_id, secret, attempts)


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
    given = token or os.environ.get(_TOKEN)
    secret = token_of(given, _TOKEN, _SERVICE) if given else ""
    api = library.HfApi(os.environ.get("HF_ENDPOINT"), secret or False)
    download = partial(api.snapshot_download, repo_id, revision=revision)
    return load_package(asked(download, _SERVICE, _TOKEN, repo_id, secret, attempts)).torch_module()
