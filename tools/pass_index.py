"""What `--list-passes` says of each pass, kept beside the compiled kernels so that it is quick.

To describe a pass its file is imported; all of them take seconds. What comes out is kept under a
key of all that it was made from: the files of this package, xDSL's version and Python's. Passes of
plug-ins are described each time: they are loaded anyway. Not here: how a pass is described.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE

from ..passes.universe import UNIVERSE

Getter = Callable[[], type[ModulePass]]
_ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = ("dialects", "ir", "lowering", "passes", "runtime", "tools")


def described_passes(
    passes: Mapping[str, Getter], describe: Callable[[str, Getter], dict[str, Any]]
) -> list[dict[str, Any]]:
    """One description a pass, in the order of `passes`."""
    from ..runtime.native.cache import ObjectCache, default_folder

    known = {**XDSL_UNIVERSE.all_passes, **UNIVERSE.all_passes}
    stable = {name for name, getter in passes.items() if known.get(name) is getter}
    cache, key = ObjectCache(default_folder()), f"passes-{_digest(stable)}"
    kept = cache.read(key)
    index: dict[str, Any] = json.loads(kept) if kept is not None else {}
    if kept is None:
        index = {name: describe(name, passes[name]) for name in sorted(stable)}
        # What cannot be loaded today may be loaded tomorrow.
        if all(entry["package"] for entry in index.values()):
            cache.write(key, json.dumps(index).encode())
    return [index.get(name) or describe(name, getter) for name, getter in passes.items()]


def _digest(names: set[str]) -> str:
    """Of what the descriptions are made from; files by size and time, as compilers' caches do."""
    digest = hashlib.sha256(f"{sys.version} {version('xdsl')} {sorted(names)}".encode())
    for folder in _FOLDERS:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            status = path.stat()
            digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
