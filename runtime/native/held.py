"""What is made once of a tensor and kept as long as it: weights in the layout of kernels.

It is found by the tensor, its version and its address, so that changes in place are noticed, but
not those through `tensor.data` or memory that is shared with other libraries. Tensors that PyTorch
counts no changes of are compared with a copy. Not here: what is made.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

_T = TypeVar("_T")
_MOST_ALIASES = 64
"""Tensors that are compared with their content (`Contents`)."""


class Held(Generic[_T]):
    """What was made of a tensor, and what must be the same for it to hold."""

    __slots__ = ("key", "made", "pointer", "reference", "storage", "version")

    def __init__(
        self, tensor: Tensor, made: _T, table: dict[int, Any], key: Hashable = None
    ) -> None:
        """Hold until the tensor is gone; the caller enters this under its `id` into the table.

        Args:
            tensor: the origin.
            made: what was made of it.
            table: what holds this.
            key: what it was made for, if that matters.
        """
        name = id(tensor)

        def forget(reference: weakref.ref[Tensor]) -> None:
            held = table.get(name)
            if held is not None and held.reference is reference:
                del table[name]

        self.reference = weakref.ref(tensor, forget)
        # While its memory is held, no other storage can come to stand at the same address.
        self.storage = tensor.untyped_storage()
        self.pointer = tensor.data_ptr()
        self.version: int = tensor._version
        self.made = made
        self.key = key

    def holds(self, tensor: Tensor) -> bool:
        """Whether this was made of the tensor as it is."""
        return (
            self.reference() is tensor
            and self.version == tensor._version
            and self.pointer == tensor.data_ptr()
        )


class Contents(Generic[_T]):
    """What was made of tensors without version, or of those that are made anew for each call.

    It is found by their address, and they are compared with a copy each time.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, None] = {}
        self._known: dict[Hashable, tuple[Tensor, _T]] = {}

    def find(self, tensor: Tensor, key: Hashable, make: Callable[[], _T]) -> _T:
        """What `make` makes of the tensor for a key; the caller holds a lock."""
        place = (tensor.data_ptr(), key)
        known = self._known.get(place)
        if known is not None and torch.equal(known[0], tensor):
            return known[1]
        made = make()
        if tensor.is_inference() or place in self._seen:
            self._known.pop(place, None)
            self._known[place] = (tensor.clone(), made)
            _shorten(self._known)
        self._seen[place] = None
        _shorten(self._seen)
        return made


def _shorten(kept: dict[Any, Any]) -> None:
    while len(kept) > _MOST_ALIASES:
        del kept[next(iter(kept))]
