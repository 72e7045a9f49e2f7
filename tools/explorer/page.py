"""The page: one HTML file that holds a record, its scripts and its style, and asks for nothing.

Text of models never becomes HTML: the record is compressed, in base64, and the scripts write it as
text. Not here: the record (`record`), and the scripts (`assets`).
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from html import escape
from typing import Any

from .assets import SCRIPTS, asset, layout_worker
from .record import json_bytes


def page(data: dict[str, Any]) -> str:
    """The page of a record."""
    parts = {
        "TITLE": escape(str(data["title"])),
        "STYLE": asset("page.css"),
        "RECORD": b64encode(gzip.compress(json_bytes(data), 9, mtime=0)).decode(),
        "LAYOUT": b64encode(layout_worker()).decode(),
        "SCRIPT": "\n".join(map(asset, SCRIPTS)),
    }
    text = asset("page.html")
    for name, content in parts.items():
        before, _, after = text.partition(f"<!--{name}-->")
        text = before + content + after
    return text


def frame(data: dict[str, Any], height: int = 640) -> str:
    """The page within a notebook."""
    content = escape(page(data), quote=True)
    style = f"width:100%;height:{height}px;border:1px solid #8884;border-radius:8px"
    return f'<iframe srcdoc="{content}" sandbox="allow-scripts" style="{style}"></iframe>'
