"""What mkdocs must know of this repository: pages outside `docs`, the reference, links to sources.

README and its neighbours become pages; each public module gets a page of the names that it lists;
a link from a page to a file of the repository leads to a copy of that file, and one to a folder
becomes its text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
FOLDERS = ("ir", "dialects", "passes", "lowering", "runtime", "tools")
MODULES = ("", "backends", "dialects", "passes", "runtime", "spiking", "targets", "training")
LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
CODE = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)


QUICK = "SITE_WITHOUT_REFERENCE" in os.environ
"""Leave the words of the reference out, which take most of the time: for work on the pages."""


def on_config(config: Any) -> Any:
    """The package under its own name, and nothing else, where mkdocstrings looks for it."""
    source = ROOT / "build" / "site-source" / "triton_dsl"
    source.mkdir(parents=True, exist_ok=True)
    for part in (*(ROOT / name for name in FOLDERS), *ROOT.glob("*.py")):
        if not (source / part.name).exists():
            (source / part.name).symlink_to(part)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and files that do not stand in `docs`."""
    for name, page in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    for module in MODULES:
        page = f"reference/{module or 'triton_dsl'}.md"
        files.append(File.generated(config, page, content=reference(module)))
    for source in sorted(set(linked_files())):
        path = copy_of(source.relative_to(ROOT).as_posix())
        files.append(File.generated(config, path, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links of the repository into links of the site."""
    own = page.file.src_uri
    home = {site: ROOT / name for name, site in OUTSIDE.items()}.get(own, DOCS / own).parent

    def turned(link: re.Match[str]) -> str:
        target = target_of(link[3], home)
        if target is None:
            return link[0]
        if target.is_dir():
            return link[2]
        name = target.relative_to(ROOT).as_posix()
        site = OUTSIDE.get(name) or (
            target.relative_to(DOCS).as_posix() if target.is_relative_to(DOCS) else copy_of(name)
        )
        path = os.path.relpath(site, Path(own).parent).replace(os.sep, "/")
        return f"{link[1]}[{link[2]}]({path}{link[4] or ''})"

    return outside_code(markdown, lambda text: LINK.sub(turned, text))


def copy_of(name: str) -> str:
    """Where the copy of a file stands; one of Markdown is no page."""
    return f"source/{name}.txt" if name.endswith(".md") else f"source/{name}"


def reference(module: str) -> str:
    """The page of a public module: what it lists, each name with its documentation."""
    path = f"triton_dsl.{module}".rstrip(".")
    found = import_module(path)
    names = sorted(name for name in found.__all__ if not name.startswith("_"))
    parts = [f"# {path}", (found.__doc__ or "").strip()]
    for name in () if QUICK else names:
        value = getattr(found, name)
        documented = callable(value) and str(getattr(value, "__module__", "")).startswith("triton")
        parts.append(f"::: {path}.{name}" if documented else f"## {name}\n\n`{path}.{name}`")
    return "\n\n".join(parts) + "\n"


def target_of(link: str, home: Path) -> Path | None:
    """The file or folder of the repository that a link leads to."""
    if re.match(r"[a-z][a-z0-9+.-]*:|/", link):
        return None
    target = (home / link).resolve()
    return target if target.is_relative_to(ROOT) and target.exists() else None


def linked_files() -> Iterator[Path]:
    """Files outside `docs` that a page leads to."""
    pages = [*(ROOT / name for name in OUTSIDE), *DOCS.rglob("*.md")]
    outside = {ROOT / name for name in OUTSIDE}
    for page in pages:
        for link in LINK.finditer(CODE.sub("", page.read_text(encoding="utf-8"))):
            target = target_of(link[3], page.parent)
            is_file = target is not None and target.is_file()
            if is_file and target not in outside and not target.is_relative_to(DOCS):
                yield target


def outside_code(text: str, change: Any) -> str:
    """A text with a change of everything but its code."""
    parts: list[str] = []
    end = 0
    for code in CODE.finditer(text):
        parts += [change(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, change(text[end:])])
