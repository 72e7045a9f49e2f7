"""Memory that compiled programs work in: aligned, and kept from call to call by each thread."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from .abi.interface import ALIGNMENT
from .addresses import address_of


def aligned(size: int) -> NDArray[np.uint8]:
    """`size` bytes, the first at a multiple of `abi.interface.ALIGNMENT`."""
    buffer = np.empty(size + ALIGNMENT, np.uint8)
    start = -address_of(buffer) % ALIGNMENT
    return buffer[start : start + size]


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
