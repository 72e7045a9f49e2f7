"""A ternary linear layer as a callable on NumPy arrays, run by native kernels.

Weights are held in panels unless told otherwise; their kernel has one tile for a single row of
activations and others for more. Not here: how the kernels are made; whoever joins the two
sides gives a `Provider` (`tools.native` does).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from ctypes import addressof, c_char, c_int64, c_void_p
from math import prod
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ...ir.errors import BackendError, OptionError
from ...ir.native_abi import (
    COMPUTE_ARGUMENTS,
    KINDS,
    LINEAR_ARGUMENTS,
    PANEL,
    PREPARE_ARGUMENTS,
    Activations,
    Kind,
    Layout,
    round_up,
    scratch_bytes,
)
from .jit import Library
from .packed import PackedWeights
from .threads import share, split

Precision = Literal["dynamic-int8", "float32"]
PRECISIONS: dict[Precision, Activations] = {"dynamic-int8": "f32", "float32": "f32x3"}
"""How float activations are multiplied: rounded to int8 row by row, or in three int8 digits."""

_WORTH_A_THREAD = 2_000_000
"""Products below which waking a thread costs more than it saves."""

_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)
_MOST_PLANS = 256
"""Numbers of rows for which a layer remembers what to do."""

_SIGNATURES: dict[str, list[type[Any]]] = {
    "linear": [c_void_p] * 8 + [c_int64] * 3,
    "prepare": [c_void_p] * 2 + [c_int64] * 4,
    "compute": [c_void_p] * 7 + [c_int64] * 5,
}
assert [len(names) for names in (LINEAR_ARGUMENTS, PREPARE_ARGUMENTS, COMPUTE_ARGUMENTS)] == [
    len(signature) for signature in _SIGNATURES.values()
]
_KINDS = {kind.activations: kind for kind in KINDS}


class Provider(Protocol):
    """Gives the compiled kernels of one layout and kind of activations.

    With `parallel` they have the function `linear_task`, which needs `threads.openmp()`.
    """

    def __call__(self, layout: Layout, kind: Kind, *, parallel: bool = False) -> Library: ...


class _Kernels:
    """The three functions of a library."""

    def __init__(self, library: Library) -> None:
        self.linear = library.function("linear", _SIGNATURES["linear"])
        self.prepare = library.function("prepare", _SIGNATURES["prepare"])
        self.compute = library.function("compute", _SIGNATURES["compute"])


def _address(array: NDArray[Any]) -> int:
    # The first way is the quicker, but ctypes takes only what can be written and is not empty.
    if array.flags.writeable and array.size:
        buffer: Any = array
        return addressof(c_char.from_buffer(buffer))
    return array.__array_interface__["data"][0]


class _Memory(threading.local):
    """Scratch memory that a thread keeps from call to call."""

    def __init__(self) -> None:
        self._hold(64)

    def _hold(self, size: int) -> None:
        self._size = size
        self._buffer = np.empty(size, np.uint8)
        self._address = _address(self._buffer)

    def of(self, size: int) -> int:
        """The address of at least `size` bytes, valid until the next call."""
        if self._size < size:
            self._hold(size)
        return self._address


_MEMORY = _Memory()


class TernaryLinear:
    """y = x · Wᵀ, times a scale and plus a bias for each output if x is float.

    int8 activations give the exact int32 sums; scale and bias are then not used. float32
    activations give float32: `dynamic-int8` rounds each row to int8 with scale max|x| / 127,
    `float32` keeps the accuracy of float32. A row with an infinity or NaN gives a row of NaN; a row
    below 2^-118 counts as zero.

    Attributes:
        weights: the matrix.
        precision: what is done with float activations.
        threads: most threads that a call uses.
    """

    def __init__(
        self,
        weights: PackedWeights,
        provider: Provider,
        *,
        scale: NDArray[np.float32] | float | None = None,
        bias: NDArray[np.float32] | None = None,
        precision: Precision = "dynamic-int8",
        threads: int = 1,
        layout: Layout = "panels",
    ) -> None:
        """Make the callable; kernels are compiled, or loaded, on the first call that needs them.

        Args:
            weights: trits [outs, ins].
            provider: gives the kernels.
            scale: a number, or one for each output.
            bias: one for each output.
            precision: see `PRECISIONS`.
            threads: most threads that a call uses.
            layout: of the weights. `panels` was the quickest for every shape that was measured, and
                its tiles are chosen for each number of rows; `stored` needs no copy of the weights.

        Raises:
            OptionError: a wrong precision, thread count, layout or shape of scale or bias.
        """
        if precision not in PRECISIONS:
            raise OptionError(f"precision is one of {', '.join(PRECISIONS)}, not '{precision}'")
        if threads < 1:
            raise OptionError(f"threads must be at least 1, not {threads}")
        if layout == "stored" and not weights.in_place:
            raise OptionError(
                f"rows of {weights.ins} trits cannot be read in place: not a multiple of 256"
            )
        self.weights = weights
        self.precision: Precision = precision
        self.threads = threads
        self._provider = provider
        self._layout: Layout = layout
        self._scale = _per_output(1.0 if scale is None else scale, weights.outs, "scale")
        self._bias = _per_output(0.0 if bias is None else bias, weights.outs, "bias")
        self._addresses = _address(self._scale), _address(self._bias)
        self._activations: dict[np.dtype[Any], Activations] = {
            np.dtype(np.int8): "i8",
            np.dtype(np.float32): PRECISIONS[precision],
        }
        self._plans: dict[tuple[int, Activations], Callable[[int, int], None]] = {}
        self._bound: dict[tuple[Layout, Activations], tuple[_Kernels, int]] = {}

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """Multiply x [..., ins], int8 or float32; gives [..., outs], int32 or float32.

        Raises:
            BackendError: another dtype or last dimension, or no compiler.
        """
        shape = x.shape
        activations = self._activations.get(x.dtype)
        if activations is None or not shape or shape[-1] != self.weights.ins:
            raise BackendError(self._refusal(x))
        leading = shape[:-1]
        rows = leading[0] if len(leading) == 1 else prod(leading)
        exact = activations == "i8"
        y = np.empty((*leading, self.weights.outs), _INT32 if exact else _FLOAT32)
        if y.size == 0:
            return y
        if self.weights.ins == 0:
            y[...] = 0 if exact else self._bias
            return y
        plan = self._plans.get((rows, activations))
        if plan is None:
            plan = self._plan(rows, activations)
        x = np.ascontiguousarray(x)
        plan(_address(x), _address(y))
        return y

    def _refusal(self, x: NDArray[Any]) -> str:
        if x.dtype not in self._activations:
            return f"expected int8 or float32 activations, got {x.dtype}"
        return f"expected activations [..., {self.weights.ins}], got {list(x.shape)}"

    def _plan(self, rows: int, activations: Activations) -> Callable[[int, int], None]:
        """What runs a call with so many rows, given the addresses of x and y."""
        ins, outs = self.weights.ins, self.weights.outs
        kind = _KINDS[activations]
        kernels, weights = self._bind(self._layout, kind)
        size = scratch_bytes(rows, ins, outs, kind.digits)
        scale, bias = self._addresses
        linear, memory = kernels.linear, _MEMORY.of
        parts = min(self.threads, rows * ins * outs // _WORTH_A_THREAD)

        def alone(x: int, y: int) -> None:
            linear(x, weights, y, memory(size), scale, bias, 0, 0, rows, ins, outs)

        def together(x: int, y: int) -> None:
            scratch = memory(size)

            def prepare(first: int, end: int) -> None:
                kernels.prepare(x, scratch, rows, ins, first, end)

            def compute(first: int, end: int) -> None:
                bounds = (first * PANEL, min(end * PANEL, outs))
                kernels.compute(weights, y, scratch, scale, bias, 0, 0, rows, ins, outs, *bounds)

            share(prepare, split(rows, parts if rows >= parts else 1))
            share(compute, split(round_up(outs, PANEL) // PANEL, parts))

        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        plan = self._plans[rows, activations] = alone if parts < 2 else together
        return plan

    def _bind(self, layout: Layout, kind: Kind) -> tuple[_Kernels, int]:
        known = self._bound.get((layout, kind.activations))
        if known is None:
            kernels = _Kernels(self._provider(layout, kind))
            known = (kernels, _address(self.weights.layout(layout)))
            self._bound[layout, kind.activations] = known
        return known


def _per_output(value: Any, outs: int, name: str) -> NDArray[np.float32]:
    array = np.asarray(value, np.float32)
    if array.shape not in ((), (outs,)):
        raise OptionError(f"expected {name} of shape [{outs}], got {list(array.shape)}")
    return np.ascontiguousarray(np.broadcast_to(array, (outs,)))
