"""The card of a model on a hub: what it is, and what was measured of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..packages.package import Package

_LIBRARY = "triton-dsl"


def model_card(package: Package, repo_id: str, tags: Sequence[str] = ()) -> str:
    """A page in Markdown with the metadata that the Hugging Face Hub reads.

    Args:
        package: of the model.
        repo_id: where it goes: `owner/name`.
        tags: in addition to `triton-dsl`.
    """
    from huggingface_hub import ModelCardData

    license = package.manifest.get("license")
    data = ModelCardData(
        license=None if license is None else str(license).lower(),
        library_name=_LIBRARY,
        tags=list(dict.fromkeys((_LIBRARY, *tags))),
    )
    return f"---\n{data.to_yaml()}\n---\n\n{described(package, repo_id)}"


def described(package: Package, repo_id: str) -> str:
    """The page without metadata."""
    manifest = package.manifest
    source = cast("dict[str, str]", manifest.get("source") or {})
    accuracy = cast("dict[str, float]", manifest.get("accuracy") or {})
    rows = [_row(folder, package, accuracy) for folder in package.targets]
    parts = [f"# {package.name}"]
    if manifest.get("card"):
        parts.append(str(manifest["card"]).strip())
    program = sum(n for name, n in _sizes(package).items() if name.startswith("program."))
    parts.append(
        f"A model of Triton DSL: its program takes {program:,} bytes"
        + (", made from `{}` (SHA-256 `{}`).".format(source["file"], source["sha256"])
           if source.get("file") else ".")
    )  # fmt: skip
    if rows:
        head = "| folder | target | bytes | read rightly |\n| --- | --- | --- | --- |"
        parts.append("\n".join([head, *rows]))
    parts.append(
        "```python\nfrom triton_dsl import load_from_hub\n\n"
        f'model = load_from_hub("{repo_id}")\n```'
    )
    versions = cast("dict[str, str]", manifest.get("versions") or {})
    made = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    parts.append(f"Made with {made}. Each file's SHA-256 is in `{package.name}.manifest.json`.")
    return "\n\n".join(parts) + "\n"


def _row(folder: str, package: Package, accuracy: dict[str, float]) -> str:
    size = sum(n for name, n in _sizes(package).items() if name.startswith(f"{folder}/"))
    right = f"{accuracy[folder]:.2%}" if folder in accuracy else "not measured"
    return f"| `{folder}/` | `{package.targets[folder]['target']}` | {size:,} | {right} |"


def _sizes(package: Package) -> dict[str, int]:
    files = cast("dict[str, Any]", package.manifest["files"])
    return {name: int(facts["bytes"]) for name, facts in files.items()}
