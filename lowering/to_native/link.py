"""A shared library from an object, by the C compiler of the system. Nothing else needs one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from ...ir.errors import BackendError

COMPILERS = ("cc", "gcc", "clang")
"""Commands that link, the first found is taken; the variable `CC` goes first."""

_SECONDS = 60


def c_compiler() -> str | None:
    """The path of the C compiler, or `None`."""
    chosen = os.environ.get("CC")
    names = (chosen,) if chosen else COMPILERS
    return next((path for name in names if (path := shutil.which(name))), None)


def shared_library(content: bytes, stem: str) -> bytes:
    """The object `content` linked to a shared library for this system.

    Raises:
        BackendError: no C compiler, or it refuses.
    """
    compiler = c_compiler()
    if compiler is None:
        looked = os.environ.get("CC") or ", ".join(COMPILERS)
        raise BackendError(
            f"a shared library is linked by the C compiler, and there is none (looked for "
            f"{looked}): apt-get install gcc, or set CC; form=object needs none"
        )
    with TemporaryDirectory() as folder:
        source, target = Path(folder, f"{stem}.o"), Path(folder, f"{stem}.so")
        source.write_bytes(content)
        command = [compiler, "-shared", "-o", target.name, source.name]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BackendError(f"{compiler} does not run: {error}") from error
        if done.returncode or not target.is_file():
            raise BackendError(f"{' '.join(command)}: {done.stderr.strip() or 'no output'}")
        return target.read_bytes()
