"""LiteRT tells once a process, on file descriptor 2, that it made its XNNPACK delegate.

It has no switch for that, and a tool's standard error is for what its user must know. Not here:
running a model (`engine`).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

_REMARK = b"INFO: Created TensorFlow Lite XNNPACK delegate"
_lock = Lock()
_told = False


@contextmanager
def without_first_remark() -> Generator[None]:
    """Let the remark pass in silence; whatever else is written meanwhile appears afterwards."""
    global _told
    with _lock:
        if _told:
            yield
            return
        try:
            kept = os.dup(2)
        except OSError:  # closed
            yield
            return
        try:
            with tempfile.TemporaryFile() as written:
                sys.stderr.flush()
                os.dup2(written.fileno(), 2)
                try:
                    yield
                finally:
                    os.dup2(kept, 2)
                    written.seek(0)
                    for line in written:
                        if line.startswith(_REMARK):
                            _told = True
                        else:
                            os.write(2, line)
        finally:
            os.close(kept)
