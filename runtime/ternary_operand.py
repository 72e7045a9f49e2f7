"""A matrix of trits as the right side of products: packed once, without the rows that are zero.

Not here: the tensor that users hold (`runtime.ternary_tensor`), the kernels (`runtime.operators`).
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor

from ..ir.errors import ParameterError
from .native.held import Held, digest_of, promise_constant
from .operators import ternary_linear
from .packing import pack_unchecked, unpack_unchecked

_WORTH_SKIPPING = 0.75
"""Rows that are zero are left out where at most this share of all is not."""


class TernaryOperand:
    """Trits `[K, N]`, packed, and the steps of K at which a row holds something else than zeros.

    Args:
        packed: the bytes, which never change.
        shape: K and N.
    """

    def __init__(self, packed: Tensor, shape: tuple[int, int]) -> None:
        self.outs = shape[1]
        self.packed = packed
        self.steps: Tensor | None = None
        if packed.is_cpu and not torch.compiler.is_compiling():
            trits = unpack_unchecked(packed, shape, torch.int8)
            steps = trits.any(dim=1).nonzero().flatten()
            if len(steps) <= _WORTH_SKIPPING * shape[0]:
                self.steps = steps
                self.packed = pack_unchecked(trits[steps])
        promise_constant(self.packed)

    @classmethod
    def of(cls, trits: Tensor) -> TernaryOperand:
        """The operand of values that are known to be trits."""
        return cls(pack_unchecked(trits), (trits.shape[0], trits.shape[1]))

    def multiply(self, x: Tensor) -> Tensor:
        """x · W for floats x `[..., K]`; `[..., N]`, in the type of x."""
        if self.steps is not None:
            x = x.index_select(-1, self.steps)
        return ternary_linear(x, self.packed, self.outs)


_KNOWN: dict[int, Held[TernaryOperand]] = {}
"""By the identity of the tensor."""
_LOCK = threading.Lock()


def promised(values: Tensor, name: str) -> TernaryOperand:
    """The operand of a matrix that its owner says to hold trits; kept as long as its bytes stay.

    Args:
        values: `[K, N]` in main memory, of any type.
        name: what errors call it.

    Raises:
        ParameterError: a value is none of -1, 0, 1.
    """
    held = _KNOWN.get(id(values))
    if held is not None and held.holds(values):
        return held.value
    with _LOCK:
        digest = digest_of(values)
        check_trits(values, name)
        operand = TernaryOperand.of(values)
        _KNOWN[id(values)] = Held(values, digest, operand, _KNOWN)
        return operand


def check_trits(values: Any, name: str) -> None:
    """Refuse a tensor with other values than -1, 0 and 1."""
    if not bool(((values == 0) | (values.abs() == 1)).all()):
        raise ParameterError(
            f"operand {name} is said to be ternary but holds other values than -1, 0 and 1; "
            f"ternarize it first, or leave {name}_ternary out"
        )
