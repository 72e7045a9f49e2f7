"""A log of who asked for what: JSON lines, each with the hash of the one before.

A line that was changed, moved or taken out breaks the chain at its place. Lines taken from the end
do not, so that the newest hash is worth keeping elsewhere. Not here: what is worth a line.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ...ir.errors import BackendError, IntegrityError
from ...ir.safe_read import accessing

START = "0" * 64
"""What stands before the first line."""
_TEXT = partial(json.dumps, sort_keys=True, separators=(",", ":"))


def _line(previous: str, entry: dict[str, Any]) -> tuple[bytes, str]:
    """The line of an entry behind that of a hash, and its own hash."""
    import hashlib  # it loads OpenSSL

    text = _TEXT(entry)
    digest = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
    return f"{_TEXT({**entry, 'sha256': digest})}\n".encode(), digest


class AuditLog:
    """A file that lines are added to; what is in it already is checked first.

    It is made for its owner alone. The clock gives seconds since 1970.

    Raises:
        IntegrityError: what is in it was changed.
        BackendError: it cannot be written.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            # Two that add lines to one chain would break it.
            if os.name == "posix":
                fcntl: Any = import_module("fcntl")  # Windows has none
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackendError(f"audit log '{path}': another server writes it") from None
        except OSError as error:
            raise BackendError(f"audit log '{path}': {error.strerror}") from None
        try:
            self.count, self.last = read_audit(path)
        except IntegrityError:
            self.close()
            raise

    def add(self, **facts: Any) -> None:
        """Add a line with the time, and have it in the system's hands.

        Raises:
            OSError: it cannot be written.
        """
        entry = {"n": self.count, "time": round(self._clock(), 3), **facts}
        line, digest = _line(self.last, entry)
        end = os.fstat(self._file).st_size
        if os.write(self._file, line) != len(line):
            os.ftruncate(self._file, end)  # the next line must not follow a part of one
            raise OSError("the audit log took a part of a line")
        self.count, self.last = self.count + 1, digest

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def read_audit(path: Path) -> tuple[int, str]:
    """How many lines a log has, and the newest hash.

    Raises:
        IntegrityError: a line is not what was written; says which.
        OptionError: no such file.
    """
    count, last = 0, START
    with accessing(f"audit log '{path}'"), path.open("rb") as file:
        for line in file:
            try:
                entry: Any = json.loads(line)
                del entry["sha256"]
                wanted, last = _line(last, entry)
                is_right = line == wanted and entry["n"] == count
            except (ValueError, KeyError, TypeError, RecursionError):
                is_right = False
            count += 1
            if not is_right:
                raise IntegrityError(f"audit log '{path}': line {count} was changed")
    return count, last
