"""`triton publish`: a model on a hub, a file in a release."""

from __future__ import annotations

from ...ir.errors import OptionError
from ...lowering.publishing.github import publish_to_github
from ...lowering.publishing.hub import push_to_hub
from ..console import progress
from .options.packages import Place, Publish


def publish(options: Publish) -> None:
    """Publish a model and print its address.

    Raises:
        OptionError: options that do not go together.
        BackendError: the token is refused, or the place cannot be reached.
    """
    tags = options.tag or []
    with progress() as bar:
        bar.add_task(f"Publishing {options.file}", total=None)
        if options.place is Place.HUB:
            address = push_to_hub(
                options.file, options.repo, options.message, options.private, tags=tags,
                targets=options.target or ("pytorch", "onnx"), weights=options.weights,
                license=options.license,
            )  # fmt: skip
        elif len(tags) != 1:
            raise OptionError("a release has one tag: --tag v1.0.0")
        else:
            address = publish_to_github(
                options.file, options.repo, tags[0], options.release_name, options.description,
                replace=options.replace,
            )  # fmt: skip
    print(address)
