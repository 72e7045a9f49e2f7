"""Prints what CHANGELOG.md says of a tag: `python .github/release_notes.py v0.1.0`.

A tag that is not of the version in pyproject.toml, or that CHANGELOG.md does not know, is refused.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def notes(tag: str, changes: str, version: str) -> str:
    """The section of a tag.

    Raises:
        ValueError: the tag is not of this version, or has no section.
    """
    if tag != f"v{version}":
        raise ValueError(f"the tag {tag} is not v{version}, the version of pyproject.toml")
    heading = re.compile(rf"^## \[?{re.escape(version)}\]?(?: .*)?$", re.MULTILINE)
    found = heading.search(changes)
    if found is None:
        raise ValueError(f"CHANGELOG.md has no section '## {version}'")
    return changes[found.end() :].partition("\n## ")[0].strip() + "\n"


def main() -> int:
    """Print the notes of the tag that is named; the exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    try:
        sys.stdout.write(notes(sys.argv[1], changes, project["version"]))
    except (IndexError, ValueError) as wrong:
        print(f"release_notes: error: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
