"""Documents point at files and headings that exist, and use public names alone."""

import ast
import re
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/**/*.md")
    for path in ROOT.glob(pattern)
)

EXAMPLES = sorted(ROOT.glob("examples/**/*.py"))
PUBLIC = {
    "triton_dsl",
    *(f"triton_dsl.{name}" for name in ("backends", "dialects", "passes", "runtime")),
    *(f"triton_dsl.{name}" for name in ("spiking", "targets", "training")),
}
PYTHON = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INSIDE = "CONTRIBUTING.md"
"""Its programs are files of this project, which `test_contributing.py` writes and runs."""
CODE = re.compile(r"^(```|~~~).*?^\1[^\n]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(
    r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE
)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


def anchors(document: Path) -> set[str]:
    """The names by which the headings of `document` can be linked to, as GitHub forms them."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", document.read_text("utf-8"), flags=re.M | re.S)
    names: set[str] = set()
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = 0
        while (unique := f"{name}-{count}" if count else name) in names:
            count += 1
        names.add(unique)
    return names


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_relative_links_exist(document: Path) -> None:
    text = CODE.sub(lambda code: "`code`", document.read_text(encoding="utf-8"))
    broken: list[str] = []
    for found in LINK.finditer(text):
        link: str = found[1] or found[2]
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        is_broken = not target.is_relative_to(ROOT) or not target.exists()
        if not is_broken and anchor and target.suffix == ".md":
            is_broken = anchor not in anchors(target)
        if is_broken:
            broken.append(link)
    assert broken == []


def test_there_are_documents_to_check() -> None:
    assert {"README.md", "CONTRIBUTING.md"} <= {path.name for path in DOCUMENTS}


def imported(document: Path) -> set[tuple[str, str]]:
    """The modules of this package that a document or program imports from, with each name."""
    if document.name == INSIDE:
        return set()
    text = document.read_text("utf-8")
    blocks = [found[2] for found in PYTHON.finditer(text)] if document.suffix == ".md" else [text]
    names: set[tuple[str, str]] = set()
    for block in blocks:
        for node in ast.walk(ast.parse(dedent(block))):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names |= {(node.module, alias.name) for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {(alias.name, "") for alias in node.names}
    return {(module, name) for module, name in names if module.split(".")[0] == "triton_dsl"}


@pytest.mark.parametrize(
    "document", [*DOCUMENTS, *EXAMPLES], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_programs_of_documents_use_public_names(document: Path) -> None:
    for module, name in imported(document):
        assert module in PUBLIC
        assert not name or hasattr(import_module(module), name), f"{module} has no {name}"


def test_documents_import_from_few_modules() -> None:
    used = {module for document in (*DOCUMENTS, *EXAMPLES) for module, _ in imported(document)}
    assert used == PUBLIC
    assert len(used) <= 10
