"""`triton publish`: a model on a hub, a file in a release."""

from __future__ import annotations

from typing import Any

from ...ir.errors import refuse
from ...lowering.publishing.github import publish_to_github
from ...lowering.publishing.hub import push_to_hub
from ..console import print_json, progress
from .options.packages import Place, Publish


def publish(options: Publish) -> None:
    """Publish a model and print its address.

    Raises:
        OptionError: options that do not go together.
        BackendError: the token is refused, or the place cannot be reached.
    """
    tags, file, repo = options.tag or [], options.file, options.repo
    with progress() as bar:
        bar.add_task(f"Publishing {file}", total=None)
        if options.place is Place.HUB:
            facts: dict[str, Any] = {"weights": options.weights, "license": options.license}
            facts["targets"] = options.target or ("pytorch", "onnx")
            address = push_to_hub(file, repo, options.message, options.private, tags=tags, **facts)
        else:
            refuse(len(tags) != 1, "a release has one tag: --tag v1.0.0")
            named = options.release_name, options.description
            address = publish_to_github(file, repo, tags[0], *named, replace=options.replace)
    if options.json:
        print_json({"address": address})
    else:
        print(address)
