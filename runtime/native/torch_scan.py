"""Runs of neurons over time on PyTorch's tensors, by native kernels.

Not here: what a step computes (`runtime.spiking.native_steps`), other devices and types.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from struct import Struct
from threading import Lock
from typing import Protocol

import torch
from torch import Tensor

from ...ir.errors import BackendError
from .abi.scan import SCAN_CALL, SCAN_PART, UNIT, ScanCode
from .jit import Library
from .provider import SCAN
from .threads import default_threads, with_pytorch
from .torch_linear import is_unseen

WORTH_COMPILING = 4
"""Runs after which a kernel is compiled: fewer are over before that is."""

WORTH_A_MEMBER = 1 << 17
"""Values of neurons and steps for which one more thread saves more than it costs."""

_BITS = {torch.float32: 32, torch.float64: 64}
_LOCK = Lock()


class ScanProvider(Protocol):
    """Gives the kernel of a run on floats of so many bits. It may raise BackendError."""

    def __call__(self, scan: ScanCode, bits: int, *, forward: bool) -> Library: ...


class _Kernel:
    """A compiled run."""

    def __init__(self, library: Library) -> None:
        self.call = library.function(SCAN_CALL, [ctypes.c_char_p])
        self.part = library.function(SCAN_PART, [ctypes.c_char_p, *[ctypes.c_int64] * 4])


class NativeScan:
    """Runs of one kind, which become native code when there are many.

    Args:
        code: what is computed.
    """

    def __init__(self, code: ScanCode) -> None:
        self._code = code
        self._pack = Struct(f"{code.arguments}q").pack
        self._kernels: dict[tuple[torch.dtype, bool], _Kernel | None] = {}
        self._runs = 0

    def __call__(
        self,
        rows: Sequence[Tensor],
        states: Sequence[Tensor],
        scalars: Sequence[Tensor],
        *,
        forward: bool,
    ) -> tuple[list[Tensor], list[Tensor]] | None:
        """The results [T, …] and the states after the last step; `None` where no kernel does it.

        The values are those of PyTorch, bit by bit where sums have one order.

        Args:
            rows: what is given for each step [T, …].
            states: before the first step [...].
            scalars: numbers.
            forward: whether steps run from the first to the last.
        """
        if not states:
            return None
        shape, dtype = states[0].shape, states[0].dtype
        count, steps = states[0].numel(), len(rows[0]) if rows else 0
        if dtype not in _BITS or not count or not steps or not is_unseen(*rows, *states, *scalars):
            return None
        full = (steps, *shape)
        if not (
            all(row.dtype is dtype and row.shape == full for row in rows)
            and all(state.dtype is dtype and state.shape == shape for state in states)
            and all(scalar.dtype is dtype and scalar.numel() == 1 for scalar in scalars)
        ):
            return None
        kernel = self._kernel(dtype, forward)
        if kernel is None:
            return None
        given = [row.contiguous() for row in rows]
        after = [state.clone(memory_format=torch.contiguous_format) for state in states]
        results = [given[0].new_empty(full) for _ in self._code.results]
        tensors = (*given, *after, *scalars, *results)
        arguments = self._pack(*(tensor.data_ptr() for tensor in tensors), steps, count)
        units = -(-count // UNIT)
        threads = min(steps * count // WORTH_A_MEMBER, default_threads(), units)
        if threads > 1:
            with_pytorch(kernel.part, arguments, threads, (units, 0))
        else:
            kernel.call(arguments)
        return results, after

    def _kernel(self, dtype: torch.dtype, forward: bool) -> _Kernel | None:
        key = dtype, forward
        if key not in self._kernels:
            self._runs += 1
            if self._runs <= WORTH_COMPILING:
                return None
            with _LOCK:
                if key not in self._kernels:
                    self._kernels[key] = self._made(_BITS[dtype], forward)
        return self._kernels[key]

    def _made(self, bits: int, forward: bool) -> _Kernel | None:
        provider = SCAN.get()
        if provider is None:
            return None
        try:
            return _Kernel(provider(self._code, bits, forward=forward))
        except BackendError:
            return None
