"""The walks of CONTRIBUTING.md are true: a copy of the project takes them and runs their tests."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
STEP = re.compile(
    r"^(?P<how>At the end of|As|In the table(?: `(?P<table>\w+)`)? of) `(?P<path>[\w./-]+)`"
    r"(?:, after `(?P<row>[\w.]+)`)?:\n\n```\w+\n(?P<text>.*?)```$",
    re.MULTILINE | re.DOTALL,
)
WALKS = ("An operation", "A model of neurons", "A pass")


def section(walk: str) -> str:
    """The text of a walk."""
    return GUIDE.partition(f"## {walk}, step by step\n")[2].partition("\n## ")[0]


def take(step: re.Match[str], project: Path) -> None:
    """Do what a step says to a copy of the project."""
    path, text = project / step["path"], step["text"]
    if step["how"] == "As":
        assert not path.exists()
        path.write_text(text, encoding="utf-8")
        return
    before = path.read_text(encoding="utf-8")
    if step["how"] == "At the end of":
        path.write_text(f"{before}\n\n{text}", encoding="utf-8")
        return
    start = rf"^{step['table']}\b.*{{$" if step["table"] else rf"^\| `{re.escape(step['row'])}` .*$"
    (place,) = re.finditer(start, before, re.MULTILINE)
    end = place.end() + 1
    path.write_text(before[:end] + text + before[end:], encoding="utf-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which the steps of all walks are done."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("ir", "dialects", "passes", "lowering", "runtime", "tools", "tests", "docs"):
        shutil.copytree(
            ROOT / name, folder / name
        )  # with the bytecode, so that nothing is compiled
    for path in (*ROOT.glob("*.py"), ROOT / "pyproject.toml"):
        shutil.copy(path, folder)
    for walk in WALKS:
        for step in STEP.finditer(section(walk)):
            take(step, folder)
    (folder / "here").mkdir()
    (folder / "here" / "triton_dsl").symlink_to(folder, target_is_directory=True)
    return folder


@pytest.mark.parametrize("walk", WALKS)
def test_every_block_of_a_walk_is_a_step(walk: str) -> None:
    blocks = re.findall(r"^```(\w+)$", section(walk), re.MULTILINE)
    assert len(list(STEP.finditer(section(walk)))) == len([b for b in blocks if b != "sh"]) > 0


@pytest.mark.parametrize(
    "walk", [*(pytest.param(walk, marks=pytest.mark.slow) for walk in WALKS[:2]), WALKS[2]]
)
def test_a_walk_leads_there(walk: str, project: Path) -> None:
    (command,) = re.findall(r"^\.venv/bin/pytest (.*)$", section(walk), re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *shlex.split(command)],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "here")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r"\b(skipped|xfailed)\b", done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("walk", "most"), [("An operation", 5), ("A model of neurons", 2)])
def test_a_walk_touches_few_source_files(walk: str, most: int) -> None:
    paths = {Path(step["path"]) for step in STEP.finditer(section(walk))}
    assert len([path for path in paths if path.parts[0] not in ("tests", "docs")]) <= most
