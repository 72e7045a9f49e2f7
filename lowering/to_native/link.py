"""A shared library from an object, by the C compiler of the system. Nothing else needs one."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ...ir.errors import BackendError
from ...runtime.outside import called

COMPILERS = ("cc", "gcc", "clang")
"""Commands that link, the first found is taken; the variable `CC` goes first."""

_SECONDS = 60

_SMALL = ("-s", "-nostartfiles", "-Wl,-z,noseparate-code")
"""What spares a library of one object, on Linux, 6 to 10 kilobytes: names that nobody looks up,
code that runs when it is loaded, and pages of its own for each kind of content."""


def _command() -> list[str]:
    """The path of the C compiler and what `CC` wants to be told to it; nothing without one."""
    chosen = os.environ.get("CC", "").strip()
    try:
        # A path with spaces, or a command with arguments, as in Makefiles.
        choices = [[chosen], shlex.split(chosen)] if chosen else [[name] for name in COMPILERS]
    except ValueError:
        choices = [[chosen]]
    for name, *arguments in choices:
        path = shutil.which(name)
        if path is not None:
            return [path, *arguments]
    return []


def shared_library(content: bytes, stem: str) -> bytes:
    """The object `content` linked to a shared library for this system.

    Raises:
        BackendError: no C compiler, or it refuses.
    """
    small = _SMALL if sys.platform == "linux" else ()
    files = {f"{stem}.o": content}
    return library_of(files, [*small, f"{stem}.o"], stem, "; form=object needs none")


def library_of(
    files: Mapping[str, bytes], arguments: Sequence[str], stem: str, hint: str = ""
) -> bytes:
    """What the C compiler makes of files as a shared library for this system.

    Args:
        files: content by name.
        arguments: for the compiler, which runs in their folder.
        stem: of the library.
        hint: what to do where there is no compiler, beside getting one.

    Raises:
        BackendError: no C compiler, or it refuses.
    """
    compiler = _command()
    if not compiler:
        looked = os.environ.get("CC") or ", ".join(COMPILERS)
        raise BackendError(
            f"a shared library is linked by the C compiler, and there is none (looked for "
            f"{looked}): apt-get install gcc, or set CC{hint}"
        )
    with TemporaryDirectory() as folder:
        target = Path(folder, f"{stem}.so")
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        command = [*compiler, "-shared", "-o", target.name, *arguments]
        try:
            done = called(command, Path(folder), _SECONDS)
        except subprocess.TimeoutExpired as error:
            raise BackendError(f"{compiler[0]} does not end: {error}") from error
        if done.returncode or not target.is_file():
            raise BackendError(f"{' '.join(command)}: {done.stderr.strip() or 'no output'}")
        return target.read_bytes()
