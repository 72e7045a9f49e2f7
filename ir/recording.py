"""Whether spiking layers are to be recorded as single operators while a module is exported.

The switch alone, which frontends set and layers read; see `runtime.spiking.recording`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_recording: ContextVar[bool] = ContextVar("recording", default=False)


@contextmanager
def recording() -> Generator[None]:
    """Record for a `with` block, in this thread or task alone."""
    token = _recording.set(True)
    try:
        yield
    finally:
        _recording.reset(token)


def is_recording() -> bool:
    """Whether the caller stands within `recording`."""
    return _recording.get()
