"""Files of strangers, and what the system says where it refuses them.

Not here: what the files hold, and writing (`safe_write`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from .errors import InputError, TritonError


@contextmanager
def accessing(what: str, kind: type[TritonError] = InputError) -> Generator[None]:
    """A block in which what the system refuses, or what is no UTF-8, is an error about `what`."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise kind(f"{what}: not UTF-8 text at byte {error.start}") from None


@contextmanager
def opened(path: Path, most: int, kind: type[TritonError]) -> Generator[BufferedReader]:
    """A file that a block reads.

    Raises:
        kind: it cannot be read, is a device or a pipe, which may not end, or is larger than `most`
            bytes.
    """
    with accessing(f"'{path}'", kind):
        size = path.stat().st_size  # before all else: it says why where there is none
        if not path.is_file():
            raise kind(f"'{path}' is no file")
        if size > most:
            raise kind(f"'{path}' is larger than {most} bytes")
        with path.open("rb") as file:
            yield file
