"""Files written whole or not at all: beside their place first, then moved.

What was written is on the disk, not in its cache, before it takes its place: a file that was
reported as written survives a power cut.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from .errors import refuse


class PendingFiles:
    """Files that take their places together, at the end of a `with` block that succeeds.

    Each is written whole beside its place; an exception leaves everything as it was, also one that
    comes when some have taken their places. They do so in the order in which they were added: what
    names another file goes last, and a process killed in between leaves nothing that names what is
    not there. A symbolic link is followed and an existing file keeps its permissions; a device or
    pipe such as /dev/null is written to directly.
    """

    def __init__(self) -> None:
        self._staged: list[tuple[str, str]] = []
        self._unplaced: list[str] = []
        self._direct: list[tuple[Path, bytes]] = []
        self._folders: list[Path] = []

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
                self._folders.clear()
        finally:
            for temporary in [*self._unplaced, *(temporary for temporary, _ in self._staged)]:
                Path(temporary).unlink(missing_ok=True)
            for folder in reversed(self._folders):
                with suppress(OSError):  # others put something there
                    folder.rmdir()

    def make_folder(self, folder: Path) -> None:
        """Make a folder with those around it; those that were made go again where the block fails.

        Raises:
            OSError: it cannot be made.
        """
        missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
        self._folders += missing[::-1]
        folder.mkdir(parents=True, exist_ok=True)

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
        temporary = _beside(os.path.realpath(path), "tmp")
        self._unplaced.append(temporary)  # first of all: whatever happens, it is removed
        try:
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            write(Path(temporary))
            _synchronize(temporary)
        except OSError as error:
            raise _about(error, path) from None
        return Path(temporary)

    def place(self, temporary: Path, path: Path) -> None:
        """Let a staged file take its place at `path` in the end."""
        place = os.path.realpath(path)
        mode = _existing_mode(place)
        os.chmod(temporary, _new_file_mode() if mode is None else stat.S_IMODE(mode))
        self._staged.append((str(temporary), place))  # first: it is always in one of the lists
        self._unplaced.remove(str(temporary))

    def _commit(self) -> None:
        for path, content in self._direct:
            with path.open("wb") as file:
                file.write(content)
        # One file takes its place at once; several need a way back from the middle.
        earlier = _Earlier()
        place = ""
        try:
            if len(self._staged) > 1:
                for _, place in self._staged:
                    earlier.keep(place)
            folders = {os.path.dirname(place) for _, place in self._staged}
            while self._staged:
                temporary, place = self._staged[0]
                earlier.placed.append(place)  # first: whatever fails then, the way back is known
                os.replace(temporary, place)
                self._staged.pop(0)
            for folder in sorted({*folders, *map(os.path.dirname, folders)}):
                _synchronize(folder)
        except BaseException as error:
            earlier.restore()
            if isinstance(error, OSError):
                raise _about(error, Path(place)) from None
            raise
        finally:
            earlier.forget()


class _Earlier:
    """The files that stood where others are put, under other names, until all are in place.

    Attributes:
        kept: for each place the name that its file has meanwhile; `None` where there was no file.
        placed: the places that have their new file, and that which is about to.
    """

    def __init__(self) -> None:
        self.kept: dict[str, str | None] = {}
        self.placed: list[str] = []

    def keep(self, place: str) -> None:
        """Give the file at `place` a second name."""
        if not os.path.exists(place):
            self.kept[place] = None
            return
        self.kept[place] = second = _beside(place, "old")
        try:
            os.link(place, second)
        except OSError:  # a file system without links
            shutil.copy2(place, second)

    def restore(self) -> None:
        """Put the files that were kept back."""
        for place in self.placed:
            if place not in self.kept:
                continue
            second = self.kept.pop(place)
            if second is None:
                Path(place).unlink(missing_ok=True)
            else:
                os.replace(second, place)
                # Where both are one file, that does nothing.
                Path(second).unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove the second names that are left."""
        for second in self.kept.values():
            if second is not None:
                Path(second).unlink(missing_ok=True)


def _beside(place: str, kind: str) -> str:
    """A hidden name beside `place` that no other file has."""
    folder, name = os.path.split(place)
    return os.path.join(folder, f".{name[:64]}.{os.urandom(8).hex()}.{kind}")


def _synchronize(path: str) -> None:
    """Have a file's content, or a folder's entries, on the disk.

    A folder that may be written to but not read, or that the system does not open, is left alone.
    """
    folder = os.path.isdir(path)
    try:
        handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    except PermissionError:
        if folder:
            return
        raise
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that cannot
            raise
    finally:
        os.close(handle)


def _about(error: OSError, path: Path) -> OSError:
    """The same error, of the file that the user named."""
    return OSError(error.errno, error.strerror, str(path))


def keep_sources(output: Path | None, sources: Iterable[Path | None]) -> None:
    """Refuse an output that is one of the files that are read for it.

    Raises:
        OptionError: it is.
    """
    if output is not None:
        place = os.path.realpath(output)
        read = any(each is not None and os.path.realpath(each) == place for each in sources)
        refuse(read, f"'{output}' is read by this command; choose another output with -o")


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
