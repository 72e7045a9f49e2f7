"""`triton inspect`: what a package holds, and where it comes from."""

from __future__ import annotations

from ...lowering.artifact import write_artifact
from ...lowering.packages.package import load_package
from ...runtime.security.encryption import key_from
from ..console import print_json, show, table
from .options.packages import Inspect


def inspect(options: Inspect) -> None:
    """Check a package and tell what is in it; unpack it if asked to.

    Raises:
        IntegrityError: it is not what was written.
    """
    key = None if options.key is None else key_from(options.key)
    package = load_package(options.file, key)
    if options.extract is not None:
        write_artifact(package, options.extract, manifest=True)
    if options.json:
        print_json(package.manifest)
        return
    source, accuracy, versions, files = package.tables("source", "accuracy", "versions", "files")
    facts = [
        ("licence", package.manifest.get("license")),
        ("made from", source.get("file")),
        ("its SHA-256", source.get("sha256")),
        ("weights' SHA-256", source.get("weights_sha256")),
        ("made with", ", ".join(f"{name} {at}" for name, at in sorted(versions.items()))),
    ]
    show(table(f"{options.file}: {package.name}", ["", ""], facts))
    targets = [
        (name, facts["target"], f"{accuracy[name]:.2%}" if name in accuracy else None)
        for name, facts in package.targets.items()
    ]
    if targets:
        show(table("targets", ["folder", "target", "read rightly"], targets))
    rows = [(name, facts["bytes"], facts["sha256"]) for name, facts in sorted(files.items())]
    show(table("files", ["file", "bytes", "SHA-256"], rows))
