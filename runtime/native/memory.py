"""Memory that compiled programs work in: aligned, and kept from call to call by each thread."""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.arrays import Array
from .abi.interface import ALIGNMENT
from .addresses import address_of

Bytes = NDArray[np.uint8]

_PIECE = 64 << 20


def aligned(size: int) -> Bytes:
    """`size` bytes, the first at a multiple of `abi.interface.ALIGNMENT`."""
    buffer = np.empty(size + ALIGNMENT, np.uint8)
    start = -address_of(buffer) % ALIGNMENT
    return buffer[start : start + size]


def trim_heap() -> None:
    """Hand what was freed back to the system, where the C library can (glibc's `malloc_trim`).

    It keeps arrays of up to 32 MB for later ones, and many of different sizes leave holes.
    """
    trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


class Memory(threading.local):
    """Workspace that a thread keeps from call to call.

    Attributes:
        size: in bytes.
        address: valid until the thread holds more.
    """

    def __init__(self) -> None:
        self.hold(0)

    def hold(self, size: int) -> int:
        """Have `size` bytes from now on; gives their address."""
        self.size = size
        self._buffer = aligned(size)
        self.address = address_of(self._buffer)
        return self.address

    def of(self, size: int) -> int:
        """The address of at least `size` bytes, valid until the thread's next call."""
        return self.address if self.size >= size else self.hold(size)


class Arena:
    """Memory for arrays that live as long as it, in large pieces: NumPy asks for huge pages there.

    What streams from memory is read about a third faster so.
    """

    def __init__(self) -> None:
        self._free = aligned(0)

    def take(self, size: int) -> Bytes:
        """So many bytes, which hold anything."""
        if size > self._free.size:
            self._free = aligned(max(_PIECE, size))
        taken = self._free[:size]
        self._free = self._free[-(-size // ALIGNMENT) * ALIGNMENT :]
        return taken

    def hold(self, array: Array) -> Bytes:
        """A copy of an array, as bytes."""
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        held = self.take(content.size)
        held[:] = content
        return held
