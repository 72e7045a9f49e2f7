"""The card of a model on a hub: what it is, and what was measured of it."""

from __future__ import annotations

from collections.abc import Sequence

from ..packages.package import Package

_LIBRARY = "triton-dsl"
_HEAD = "| folder | target | bytes | read rightly |\n| --- | --- | --- | --- |"

_LOADING = '```python\nfrom triton_dsl import load_from_hub\n\nmodel = load_from_hub("{}")\n```'


def model_card(package: Package, repo_id: str, tags: Sequence[str] = ()) -> str:
    """A page in Markdown with the metadata that the Hub reads, the tag `triton-dsl` among it."""
    from huggingface_hub import ModelCardData

    license = str(package.manifest.get("license") or "").lower() or None
    named = [*dict.fromkeys((_LIBRARY, *tags))]
    data = ModelCardData(license=license, library_name=_LIBRARY, tags=named)
    source, accuracy, versions, files = package.tables("source", "accuracy", "versions", "files")

    def size(start: str) -> str:
        return f"{sum(facts['bytes'] for name, facts in files.items() if name.startswith(start)):,}"

    file, digest = source.get("file"), source.get("sha256")
    made_from = f", made from `{file}` (SHA-256 `{digest}`)" if file else ""
    rows: list[str] = []
    for folder, facts in package.targets.items():
        right = f"{accuracy[folder]:.2%}" if folder in accuracy else "not measured"
        rows.append(f"| `{folder}/` | `{facts['target']}` | {size(f'{folder}/')} | {right} |")
    made_with = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    parts = (
        f"---\n{data.to_yaml()}\n---",
        f"# {package.name}",
        str(package.manifest.get("card") or "").strip(),
        f"A model of Triton DSL: its program takes {size('program.')} bytes{made_from}.",
        "\n".join([_HEAD, *rows]) if rows else "",
        _LOADING.format(repo_id),
        f"Made with {made_with}. Each file's SHA-256 is in `{package.name}.manifest.json`.",
    )
    return "\n\n".join(filter(None, parts)) + "\n"
