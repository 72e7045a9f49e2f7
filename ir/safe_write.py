"""Files written whole or not at all: beside their place first, then moved."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType


class PendingFiles:
    """Files that take their places together, at the end of a `with` block that succeeds.

    Each is written whole beside its place; an exception leaves everything as it was. A symbolic
    link is followed and an existing file keeps its permissions; a device or pipe such as /dev/null
    is written to directly.
    """

    def __init__(self) -> None:
        self._staged: list[tuple[str, str]] = []
        self._unplaced: list[str] = []
        self._direct: list[tuple[Path, bytes]] = []

    def __enter__(self) -> PendingFiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._commit()
        finally:
            for temporary in [*self._unplaced, *(temporary for temporary, _ in self._staged)]:
                Path(temporary).unlink(missing_ok=True)

    def add(self, path: Path, content: bytes) -> None:
        """Put a file of `content` at `path`.

        Raises:
            OSError: the file cannot be written; `filename` is `path`.
        """
        mode = _existing_mode(os.path.realpath(path))
        if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            self._direct.append((path, content))
        else:
            self.add_written(path, lambda temporary: temporary.write_bytes(content))

    def add_written(self, path: Path, write: Callable[[Path], object]) -> None:
        """Put at `path` the file that `write` makes when it is given a temporary path.

        Raises:
            OSError: the file cannot be written; `filename` is `path`.
        """
        self.place(self.stage(path, write), path)

    def stage(self, path: Path, write: Callable[[Path], object]) -> Path:
        """The temporary file that `write` made beside `path`; it is removed unless placed."""
        check_writable(path)
        folder, name = os.path.split(os.path.realpath(path))
        try:
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name[:64]}.", suffix=".tmp")
            os.close(handle)
            self._unplaced.append(temporary)
            write(Path(temporary))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None
        return Path(temporary)

    def place(self, temporary: Path, path: Path) -> None:
        """Let a staged file take its place at `path` in the end."""
        place = os.path.realpath(path)
        mode = _existing_mode(place)
        os.chmod(temporary, _new_file_mode() if mode is None else stat.S_IMODE(mode))
        self._unplaced.remove(str(temporary))
        self._staged.append((str(temporary), place))

    def _commit(self) -> None:
        for path, content in self._direct:
            with path.open("wb") as file:
                file.write(content)
        while self._staged:
            os.replace(*self._staged[0])
            self._staged.pop(0)


def check_writable(path: Path) -> None:
    """Refuse a place that can never be written, before any work is done.

    Raises:
        OSError: `path` is a folder, or its folder is missing or read-only.
    """
    place = os.path.realpath(path)
    mode = _existing_mode(place)
    folder = os.path.dirname(place)
    if mode is not None and stat.S_ISDIR(mode):
        problem = errno.EISDIR
    elif not os.path.isdir(folder):
        problem = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
    elif (mode is None or stat.S_ISREG(mode)) and not os.access(folder, os.W_OK):
        problem = errno.EACCES
    else:
        return
    raise OSError(problem, os.strerror(problem), str(path))


def _existing_mode(place: str) -> int | None:
    try:
        return os.stat(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _new_file_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
