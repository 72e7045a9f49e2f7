"""Whether spiking layers are to be recorded as single operators while a module is exported.

The switch alone, which frontends set and layers read; see `runtime.spiking.recording`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

_BLOCKS = [0]
"""How many `recording` blocks are open: a plain number, which PyTorch's tracer can read."""


@contextmanager
def recording() -> Generator[None]:
    """Record for a `with` block, in all threads: exports run one at a time."""
    _BLOCKS[0] += 1
    try:
        yield
    finally:
        _BLOCKS[0] -= 1


def is_recording() -> bool:
    """Whether a `recording` block is open."""
    return _BLOCKS[0] > 0
