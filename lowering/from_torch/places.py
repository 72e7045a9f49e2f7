"""Where a node of the graph comes from: the path of its module, and a line of the user's source."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from torch.fx import Node
from xdsl.dialects.builtin import LocationAttr, NameLoc, StringAttr, UnknownLoc

from ...ir.locations import file_location


def place_of(node: Node) -> tuple[str, str, int]:
    """The path of the module that a node belongs to, the file and the line."""
    stack: dict[str, tuple[str, object]] = node.meta.get("nn_module_stack") or {}
    path = [entry[0] for entry in stack.values()][-1] if stack else ""
    trace: str = node.meta.get("stack_trace") or ""
    frames = [frame for frame in _frames(trace) if not _is_within(frame[0], _HERE)]
    users = [frame for frame in frames if not _is_within(frame[0], _torch(), _RUNTIME)]
    file, line = (users or frames or [("", 0)])[-1]
    return path, file, line


def _frames(trace: str) -> list[tuple[str, int]]:
    """Files and lines of a Python stack trace, outermost first."""
    frames: list[tuple[str, int]] = []
    for text in trace.splitlines():
        head, _, rest = text.strip().partition('", line ')
        number = rest.partition(",")[0]
        if head.startswith('File "') and number.isdigit():
            frames.append((head[6:], int(number)))
    return frames


@cache
def _torch() -> Path:
    return Path(torch.__path__[0]).resolve()


@cache
def _is_within(file: str, *folders: Path) -> bool:
    place = Path(file).resolve()  # either may be reached through a link
    return any(place.is_relative_to(folder) for folder in folders)


_HERE = Path(__file__).resolve().parent
_RUNTIME = Path(__file__).resolve().parents[2] / "runtime"


def location(node: Node) -> LocationAttr:
    """`loc("layer1.0.conv1"("model.py":12:1))`."""
    path, file, line = place_of(node)
    place = file_location(file, line) if file else UnknownLoc()
    return NameLoc(StringAttr(path), place) if path else place
