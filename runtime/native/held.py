"""A cache of weights in the layout of kernels: made once of a tensor, and kept as long as it.

It holds as long as the tensor's bytes are those that it was made of. PyTorch's counter of changes
does not see writes through `tensor.data` or by other libraries, so the bytes are read each time
(`digest`), but for tensors whose owner promised that there are no such writes (`promise_constant`).
Not here: what is made.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from torch import Tensor

from .digest import Digest, digest_function

_T = TypeVar("_T")
_MOST_ALIASES = 64
"""Places in memory whose content is known (`Contents`)."""


def digest_of(tensor: Tensor) -> int:
    """The digest of a tensor in main memory, in the order of its elements."""
    tensor = tensor.contiguous()
    return digest_function()(tensor.data_ptr(), tensor.numel() * tensor.element_size())


_PROMISE = "_triton_dsl_constant"


def promise_constant(tensor: Tensor) -> None:
    """Say that a tensor's bytes change in ways alone that PyTorch counts."""
    setattr(tensor, _PROMISE, True)


def state_of(tensor: Tensor) -> tuple[int, int]:
    """What PyTorch knows of changes: their number, and the place in memory."""
    return 0 if tensor.is_inference() else tensor._version, tensor.data_ptr()


class Held(Generic[_T]):
    """What was made of a tensor of bytes, and what must be the same for it to hold.

    Attributes:
        constant: of a tensor that was promised to be, its state when its bytes were read last.
        reference: to the tensor.
        digest: of its bytes, taken before the rest was made.
        taken: what takes it.
        value: what was made.
        key: what it was made for, if that matters.
    """

    __slots__ = ("constant", "digest", "key", "reference", "taken", "value")

    def __init__(
        self, tensor: Tensor, digest: int, value: _T, table: dict[int, Any], key: Hashable = None
    ) -> None:
        """Hold until the tensor is gone; the caller enters this under its `id` into the table."""
        name = id(tensor)

        def forget(reference: weakref.ref[Tensor]) -> None:
            held = table.get(name)
            if held is not None and held.reference is reference:
                del table[name]

        self.reference = weakref.ref(tensor, forget)
        self.constant: tuple[int, int] | None = None
        self.digest = digest
        self.taken: Digest = digest_function()
        self.value = value
        self.key = key

    def holds(self, tensor: Tensor) -> bool:
        """Whether this was made of the tensor as it is."""
        if self.reference() is not tensor or not tensor.is_cpu or not tensor.is_contiguous():
            return False
        if self.constant is not None:
            return self.constant == state_of(tensor)
        same = self.digest == self.taken(tensor.data_ptr(), tensor.numel() * tensor.element_size())
        if same and hasattr(tensor, _PROMISE):
            self.constant = state_of(tensor)
        return same


class Contents(Generic[_T]):
    """What was made of tensors that are made anew for each call, found by address and digest."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, None] = {}
        self._known: dict[Hashable, tuple[int, _T]] = {}

    def find(self, tensor: Tensor, digest: int, key: Hashable, make: Callable[[], _T]) -> _T:
        """What `make` makes of the tensor for a key; the caller holds a lock."""
        place = (tensor.data_ptr(), key)
        known = self._known.get(place)
        if known is not None and known[0] == digest:
            return known[1]
        value = make()
        if place in self._seen:
            self._known.pop(place, None)
            self._known[place] = (digest, value)
            _shorten(self._known)
        self._seen[place] = None
        _shorten(self._seen)
        return value


def _shorten(table: dict[Any, Any]) -> None:
    while len(table) > _MOST_ALIASES:
        del table[next(iter(table))]
