"""Compiled objects on disk: read only if they are whole and nobody else could have written them.

An entry is one file: a magic number, the SHA-256 of its key and content, the content. It is written
beside its place and moved there, so that readers and other writers see a whole file or none; a
damaged one reads as absent. A folder or file that another user owns or may write to is not used at
all, since what stands there will be executed. Not here: compiling (`jit`).
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

_MAGIC = b"tritonDSLnative1"
_HEADER = len(_MAGIC) + 32
_LARGEST = 1 << 30
VARIABLE = "TRITON_DSL_CACHE"
"""Environment variable with the cache folder; `off` keeps nothing on disk."""


def default_folder() -> Path | None:
    """Where objects are kept, or `None` if the user wants none kept or has no home."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return None if chosen == "off" else Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "triton-dsl" / "native"
    except RuntimeError:
        return None


class ObjectCache:
    """A folder of compiled objects. Every failure reads as an absent entry.

    Attributes:
        folder: where the objects are, or `None` to keep nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def problem(self) -> str | None:
        """Why the folder cannot be trusted, or `None` if it can; makes it when it is missing."""
        if self.folder is None:
            return "the cache is off"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = self.folder.absolute()
            if folder.is_symlink():
                return f"{folder} is a symbolic link"
            folder = folder.resolve(strict=True)
            own = _problem(folder, os.stat(folder), own=True)
            above = (_problem(path, os.stat(path), own=False) for path in folder.parents)
            return own or next(filter(None, above), None)
        except OSError as error:
            return f"{self.folder}: {error.strerror}"

    def read(self, key: str) -> bytes | None:
        """The content kept under `key`, or `None`."""
        path = self._path(key)
        if path is None:
            return None
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            handle = os.open(path, flags | getattr(os, "O_BINARY", 0))
        except OSError:
            return None
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or not _HEADER <= status.st_size <= _LARGEST:
                return None
            if _problem(path, status, own=True):
                return None
            with open(handle, "rb", closefd=False) as file:
                whole = file.read()
        except OSError:
            return None
        finally:
            os.close(handle)
        content = whole[_HEADER:]
        return content if whole[:_HEADER] == _header(key, content) else None

    def write(self, key: str, content: bytes) -> bool:
        """Keep `content` under `key`; gives whether that succeeded."""
        path = self._path(key)
        if path is None:
            return False
        temporary = path.with_name(f".new-{secrets.token_hex(8)}")
        try:
            # A new file that only its owner may read or write.
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb") as file:
                file.write(_header(key, content) + content)
            os.replace(temporary, path)
        except OSError:
            return False
        finally:
            with suppress(OSError):
                os.unlink(temporary)  # still there where it did not take its place
        return True

    def _path(self, key: str) -> Path | None:
        if self.folder is None or self.problem() is not None:
            return None
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()}.o"


def _header(key: str, content: bytes) -> bytes:
    digest = hashlib.sha256(len(key).to_bytes(8, "little") + key.encode() + content)
    return _MAGIC + digest.digest()


def _problem(path: Path, status: os.stat_result, *, own: bool) -> str | None:
    """What lets another user change a file or folder, or `None`.

    A folder above the cache may also be root's, or one such as /tmp, where the sticky bit keeps
    users from each other's files.
    """
    if not hasattr(os, "geteuid"):
        return None
    user = os.geteuid()
    if status.st_uid != user and (own or status.st_uid != 0):
        return f"{path} belongs to another user"
    sticky = not own and status.st_mode & stat.S_ISVTX
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
        return f"{path} can be written by other users"
    return None
