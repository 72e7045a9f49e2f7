"""Cache keys of compiled code: a digest of the source that makes it.

An object that was compiled by other code is then never loaded. Not here: where objects are kept
(`runtime.native.cache`).
"""

from __future__ import annotations

import hashlib
import os
import time
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = (".py", ".tri")
_STARTED = time.time()
"""Seconds of Unix. What is written later is not what runs here: a new version, most often."""

PROGRAM = ("ir", "dialects", "passes", "lowering", "runtime/native")
"""The code that decides what a program becomes."""
KERNELS = (
    "lowering/to_native/kernels",
    "lowering/to_native/llvm/llvm_builder.py",
    "lowering/to_native/llvm/types.py",
    "runtime/native/abi",
)
"""The code that decides what a kernel becomes."""
COMPILER = (
    "lowering/to_native/machine.py",
    "lowering/to_native/object_code.py",
    "runtime/native/processor.py",
)
"""The code that decides, beside LLVM and the processor, what becomes of a module."""


@cache
def source_digest(*places: str) -> bytes:
    """SHA-256 of the sources at and below some places, their names and what they hold.

    Args:
        places: files and folders, from the root of the package, as `runtime/native/abi`.

    Raises:
        FileNotFoundError: there is no Python file at a place.
    """
    digest = hashlib.sha256()
    for place in places:
        path = _ROOT / place
        sources = (
            [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.suffix in _SOURCES)
        )
        if not sources:
            raise FileNotFoundError(f"no source of the compiler at {path}")
        for source in sources:
            name = source.relative_to(_ROOT).as_posix()
            digest.update(name.encode() + b"\0" + source.read_bytes() + b"\0")
            # A time that is still to come is that of another clock.
            if _STARTED < source.stat().st_ctime <= time.time():
                digest.update(os.urandom(16))  # nobody is to take what is made here for its own
    return digest.digest()
