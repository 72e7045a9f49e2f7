"""The site is built of every page, and each of its links leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent


class _Loader(yaml.SafeLoader):
    """YAML as mkdocs reads it: its own tags stand for what they name."""


def test_every_page_is_in_the_navigation() -> None:
    config: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _Loader)
    listed = set(re.findall(r"[\w/.-]+\.md", str(config["nav"])))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert pages - listed == set()


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    page = (tmp_path / "reference" / "spiking.html").read_text("utf-8")
    assert ("LifNeuron" in page and "Args" in page) or "Parameters" in page
    for name in ("index", "tutorials/fpga_engineer", "targets/verilog", "contributing"):
        assert (tmp_path / f"{name}.html").is_file()
    # Nothing is fetched from elsewhere when a page is read.
    index = (tmp_path / "index.html").read_text("utf-8")
    assert re.findall(r'<(?:script|link)[^>]+(?:src|href)="https?://[^"]+', index) == []
