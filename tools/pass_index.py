"""What `--list-passes` says of each pass, kept in `passes.json` so that it is quick.

To describe a pass its file is imported; all of them take seconds. What the file says of a pass is
used where the sources that it was made from are the same: the files of the pass and its bases, or
xDSL's version. Other passes are described anew, those of plug-ins always. To renew the file, which
tests ask for: `python -m triton_dsl.tools.opt_describe`. Not here: how a pass is described.
"""

from __future__ import annotations

import hashlib
import json
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
    """Of one source: a file below our root, or `xdsl`, whose version tells."""
    if source == "xdsl":
        return version(source)
    try:
        return hashlib.sha256((_ROOT / source).read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


def index(describe: Describe) -> str:
    """What the file must hold; what cannot be loaded here is left out, it may be elsewhere."""
    entries: list[str] = []
    for name, getter in sorted(indexed().items()):
        description = describe(name, getter)
        if description["package"]:
            modules = [cls.__module__.split(".") for cls in getter().__mro__]
            files = {_file(m[1:]) for m in modules if m[0] == description["package"] != "xdsl"}
            sources = {source: _digest(source) for source in sorted(files) or ["xdsl"]}
            entry = {"description": description, "sources": sources}
            entries.append(f"{json.dumps(name)}: {json.dumps(entry, sort_keys=True)}")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _file(module: list[str]) -> str:
    path = Path(*module)
    is_package = (_ROOT / path).is_dir()
    return (path / "__init__.py" if is_package else path.with_suffix(".py")).as_posix()
