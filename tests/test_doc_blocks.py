"""Every `python` and `sh` block of README and the pages does what it says.

`doc_blocks.py` runs them: pages share a process, so that each library loads once.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import doc_blocks
import pytest

ROOT = Path(__file__).resolve().parent.parent

WITH_TESTS = {
    page
    for file in (ROOT / "tests").rglob("test_*.py")
    for page in re.findall(r'\brun_guide\("([^"]+)"\)', file.read_text(encoding="utf-8"))
}
"""Pages whose Python a test beside what they are about runs, and looks at what it leaves."""
TUTORIALS = {page for page in doc_blocks.PAGES if page.startswith("docs/tutorials/")}
BOTH = {"docs/import_pytorch.md", "docs/packages.md", *TUTORIALS}
OF_TOOLS = {"docs/explorer.md", "docs/pictures.md", "docs/privacy.md"}
"""Pages about what has quick tests of its own."""


def pieces(kind: str) -> list[str]:
    """The pages that have blocks of a language, without those that run with the slow tests."""
    pages = [page for page in doc_blocks.PAGES if page not in BOTH | OF_TOOLS]
    return [page for page in pages if any(k == kind for k, _ in doc_blocks.blocks(page))]


def check(wanted: list[str], tmp_path: Path) -> None:
    """Run pages in one process; nothing may fail."""
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "doc_blocks.py", *wanted],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    results: dict[str, Any] = json.loads(done.stdout)
    assert set(results) == set(wanted)
    assert "\n".join(text for result in results.values() for text in result["failed"]) == ""


def test_python_of_the_pages(tmp_path: Path) -> None:
    assert "docs/training.md" in WITH_TESTS
    check([f"{page}:python" for page in pieces("python") if page not in WITH_TESTS], tmp_path)


def test_commands_of_the_pages(tmp_path: Path) -> None:
    check([f"{page}:sh" for page in pieces("sh")], tmp_path)


@pytest.mark.slow
def test_pages_whose_commands_take_what_their_python_makes(tmp_path: Path) -> None:
    check(sorted(BOTH | OF_TOOLS), tmp_path)


def test_blocks_are_found_and_few_are_left_out() -> None:
    found = [block for page in doc_blocks.PAGES for block in doc_blocks.blocks(page)]
    commands = [
        line
        for kind, block in found
        if kind == "sh"
        for line in block.replace("\\\n", "").splitlines()
        if line.strip()
    ]
    left = [line for line in commands if any(line.startswith(x) for x in doc_blocks.ELSEWHERE)]
    assert len([kind for kind, _ in found if kind == "python"]) >= 70
    assert len(commands) - len(left) >= 30
    unused = [x for x in doc_blocks.ELSEWHERE if not any(line.startswith(x) for line in commands)]
    assert unused == []


def test_a_block_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.md").write_text(
        "```python\nvalue = 1\n```\n\n```python\nassert value == 2\n```\n\n"
        "```sh\ntriton check missing.tri\n```\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(doc_blocks, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    failed = doc_blocks.run("page.md", ("python", "sh"))
    assert len(failed) == 2
    assert "assert value == 2" in failed[0] and "no such file" in failed[1]
