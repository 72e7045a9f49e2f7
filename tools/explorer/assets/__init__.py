"""What the page is made of: its HTML, its style, its scripts, and the layout of elkjs.

Not here: what puts them together (`explorer.page`). `elk-worker.min.js.gz` is the file
`lib/elk-worker.min.js` of the npm package elkjs 0.12.1, compressed and otherwise as it is, under
the Eclipse Public License 2.0; its source is at https://github.com/kieler/elkjs.
"""

from __future__ import annotations

from pathlib import Path

SCRIPTS = ("model.js", "layout.js", "graph.js", "text.js", "panels.js", "main.js")
"""In the order in which they run, as one script."""

_HERE = Path(__file__).parent


def asset(name: str) -> str:
    """The text of a file of this folder."""
    return (_HERE / name).read_text(encoding="utf-8")


def layout_worker() -> bytes:
    """elkjs, as gzip with nothing in it that changes."""
    return (_HERE / "elk-worker.min.js.gz").read_bytes()
