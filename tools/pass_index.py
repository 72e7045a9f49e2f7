"""What `--list-passes` says of each pass, kept in `passes.json` so that it is quick.

To describe a pass its file is imported; all of them take seconds. What the file says of a pass is
used where what it was made from is the same: docstring and options of the class and its bases, read
as text, or xDSL's version. Other passes are described anew, those of plug-ins always. To renew the
file, which tests ask for: `python -m triton_dsl.tools.opt_describe`. Not here: how a pass is
described.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE

from ..passes.universe import UNIVERSE

Getter = Callable[[], type[ModulePass]]
Describe = Callable[[str, Getter], dict[str, Any]]

SAVED = Path(__file__).with_name("passes.json")
_ROOT = Path(__file__).resolve().parent.parent
_PACKAGE = __name__.split(".")[0]


def described_passes(passes: Mapping[str, Getter], describe: Describe) -> list[dict[str, Any]]:
    """One description a pass, in the order of `passes`."""
    try:
        saved: dict[str, dict[str, Any]] = json.loads(SAVED.read_bytes())
    except (OSError, ValueError):
        saved = {}
    known = indexed()
    found: list[dict[str, Any]] = []
    for name, getter in passes.items():
        entry = saved.get(name) if known.get(name) is getter else None
        if entry is None or any(_digest(file) != then for file, then in entry["sources"].items()):
            found.append(describe(name, getter))
        else:
            found.append(entry["description"])
    return found


def indexed() -> dict[str, Getter]:
    """The passes that are in the file: ours and xDSL's."""
    return {**XDSL_UNIVERSE.all_passes, **UNIVERSE.all_passes}


@cache
def _digest(source: str) -> str:
    """Of one source: a class, `FILE:NAME` below our root, or `xdsl`, whose version tells."""
    if source == "xdsl":
        return version(source)
    file, _, name = source.partition(":")
    try:
        text = (_ROOT / file).read_text(encoding="utf-8")
    except OSError:
        return ""
    # Up to its first method, or what follows the class.
    head = re.search(rf"(?ms)^class {name}\b.*?(?=^    def |^    @|^[^\s)]|\Z)", text)
    return hashlib.sha256(head[0].strip().encode()).hexdigest()[:16] if head is not None else ""


def index(describe: Describe) -> str:
    """What the file must hold; what cannot be loaded here is left out, it may be elsewhere."""
    entries: list[str] = []
    for name, getter in sorted(indexed().items()):
        description = describe(name, getter)
        if description["package"]:
            ours = [c for c in getter().__mro__ if c.__module__.startswith(f"{_PACKAGE}.")]
            classes = sorted(f"{_file(cls)}:{cls.__name__}" for cls in ours)
            sources = {source: _digest(source) for source in classes or ["xdsl"]}
            entry = {"description": description, "sources": sources}
            entries.append(f"{json.dumps(name)}: {json.dumps(entry, sort_keys=True)}")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _file(cls: type) -> str:
    path = Path(*cls.__module__.split(".")[1:])
    is_package = (_ROOT / path).is_dir()
    return (path / "__init__.py" if is_package else path.with_suffix(".py")).as_posix()
