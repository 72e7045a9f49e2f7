"""A ternary linear layer as a callable on NumPy arrays, run by native kernels.

Weights are held in panels unless told otherwise; their kernel has one tile for a single row of
activations and others for more. Not here: how the kernels are made; whoever joins the two
sides gives a `Provider` (`to_native.callables` does).
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_char_p, c_int64
from math import prod
from struct import Struct
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...ir.arrays import Array
from ...ir.errors import BackendError, OptionError
from .abi.linear import (
    ARRAYS,
    KIND_NAMED,
    LINEAR_ARGUMENTS,
    PANEL,
    PRECISIONS,
    Activations,
    Kind,
    Layout,
    Precision,
    scratch_bytes,
)
from .abi.parallel import CALL, PART
from .abi.tables import trit_sums
from .addresses import ARRAYS_HOLD_ADDRESSES, address_of
from .jit import Library
from .memory import Memory
from .packed import PackedWeights
from .threads import WORTH_A_MEMBER, together

_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)
_MOST_PLANS = 256
"""Shapes of activations for which a layer remembers what to do."""

_pack = Struct("4q").pack
_pack_rest = Struct(f"{len(LINEAR_ARGUMENTS) - 4}q").pack
assert LINEAR_ARGUMENTS[:4] == ("x", "weights", "y", "scratch")
_CALL, _place = (ARRAYS, id) if ARRAYS_HOLD_ADDRESSES else (CALL, address_of)
"""Array objects are handed over where that suffices: to find where their data is takes longer than
the product of a small layer."""
_empty, _contiguous = np.empty, np.ascontiguousarray


class _Call(NamedTuple):
    """How one thread multiplies activations of one shape and type.

    Attributes:
        shape, dtype: of the result.
        call: the kernel.
        weights: their address.
        size: bytes of scratch memory.
        rest: the arguments of the kernel that follow the scratch memory.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    call: Callable[[bytes], None]
    weights: int
    size: int
    rest: bytes


Plan = Callable[[Array], Array] | _Call


class Provider(Protocol):
    """Gives the compiled kernels of one layout and kind of activations."""

    def __call__(self, layout: Layout, kind: Kind) -> Library: ...


class _Kernels:
    """The functions of a library."""

    def __init__(self, library: Library) -> None:
        self.call = library.function(_CALL, [c_char_p])
        self.part = library.function(PART, [c_char_p, *[c_int64] * 4])


_MEMORY = Memory()


class TernaryLinear:
    """y = x · Wᵀ, times a scale and plus a bias for each output if x is float.

    Integer activations (int8, uint8, int16, int32) give the sums as int32, exact modulo 2^32; scale
    and bias are then not used. float32 activations give float32: `dynamic-int8` rounds each row to
    int8 with scale max|x| / 127, `float32` keeps the accuracy of float32. A row with an infinity or
    NaN gives a row of NaN; a row below 2^-118 counts as zero.

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
        layout: Layout | Literal["auto"] = "auto",
    ) -> None:
        """Make the callable; kernels are compiled, or loaded, on the first call that needs them.

        Args:
            weights: trits [outs, ins].
            provider: gives the kernels.
            scale: a number, or one for each output.
            bias: one for each output.
            precision: see `PRECISIONS`.
            threads: most threads that a call uses.
            layout: of the weights. `auto` takes `sparse` where enough blocks are zero, else
                `panels`, the quickest for every shape that was measured; `stored` needs no copy of
                the weights.

        Raises:
            OptionError: a wrong precision, thread count, layout or shape of scale or bias.
        """
        if precision not in PRECISIONS:
            raise OptionError(
                f"precision is one of {', '.join(sorted(PRECISIONS))}, not '{precision}'"
            )
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
        self._layout: Layout = weights.best_layout() if layout == "auto" else layout
        self._scale = _per_output(1.0 if scale is None else scale, weights.outs, "scale")
        self._bias = _per_output(0.0 if bias is None else bias, weights.outs, "bias")
        self._activations: dict[np.dtype[Any], Activations] = {
            np.dtype(np.int8): "i8",
            np.dtype(np.uint8): "u8",
            np.dtype(np.int16): "i16",
            np.dtype(np.int32): "i32",
            np.dtype(np.float32): PRECISIONS[precision],
        }
        self._plans: dict[tuple[tuple[int, ...], np.dtype[Any]], Plan] = {}
        self._corrections: dict[int, NDArray[np.int32]] = {}
        self._bound: dict[tuple[Layout, Activations], tuple[_Kernels, int]] = {}

    def __call__(self, x: Array) -> Array:
        """Multiply x [..., ins]; gives [..., outs], float32 for float32 and int32 for integers.

        Raises:
            BackendError: another dtype or last dimension, or no compiler.
        """
        plan = self._plans.get((x.shape, x.dtype))
        if plan is None:
            plan = self._plan(x)
        if not isinstance(plan, _Call):
            return plan(x)
        shape, dtype, call, weights, size, rest = plan
        y = _empty(shape, dtype)
        x = _contiguous(x)
        scratch = _MEMORY.address if _MEMORY.size >= size else _MEMORY.hold(size)
        call(_pack(_place(x), weights, _place(y), scratch) + rest)
        return y

    def _refusal(self, x: Array) -> str:
        if x.dtype not in self._activations:
            names = ", ".join(str(dtype) for dtype in self._activations)
            return f"expected activations of {names}, got {x.dtype}"
        return f"expected activations [..., {self.weights.ins}], got {list(x.shape)}"

    def _plan(self, x: Array) -> Plan:
        """What multiplies activations of one shape and type."""
        activations = self._activations.get(x.dtype)
        if activations is None or not x.shape or x.shape[-1] != self.weights.ins:
            raise BackendError(self._refusal(x))
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        plan = self._make_plan(KIND_NAMED[activations], x.shape[:-1])
        self._plans[x.shape, x.dtype] = plan
        return plan

    def _make_plan(self, kind: Kind, leading: tuple[int, ...]) -> Plan:
        ins, outs, rows = self.weights.ins, self.weights.outs, prod(leading)
        shape, dtype = (*leading, outs), _FLOAT32 if kind.floating else _INT32
        if ins == 0 or rows * outs == 0:
            filling: Any = self._bias if kind.floating else 0
            return lambda _: np.full(shape, filling, dtype)
        kernels, weights = self._bind(self._layout, kind)
        size = scratch_bytes(rows, ins, outs, kind.digits)
        scale, bias = address_of(self._scale), address_of(self._bias)
        if not kind.floating:
            bias = address_of(self._correction(kind))
        parts = min(self.threads, rows * ins * outs // WORTH_A_MEMBER)
        rest = _pack_rest(scale, bias, 0, 0, rows, ins, outs)
        if parts < 2:
            return _Call(shape, dtype, kernels.call, weights, size, rest)

        things = rows, -(-outs // PANEL)

        def shared(x: Array) -> Array:
            y = _empty(shape, dtype)
            x = _contiguous(x)
            scratch = _MEMORY.address if _MEMORY.size >= size else _MEMORY.hold(size)
            arguments = _pack(address_of(x), weights, address_of(y), scratch) + rest
            together(kernels.part, arguments, parts, things)
            return y

        return shared

    def _correction(self, kind: Kind) -> NDArray[np.int32]:
        """What a kind with an offset needs as its bias."""
        known = self._corrections.get(kind.offset)
        if known is None:
            known = kind.offset * trit_sums(self.weights.trits())
            self._corrections[kind.offset] = known
        return known

    def _bind(self, layout: Layout, kind: Kind) -> tuple[_Kernels, int]:
        known = self._bound.get((layout, kind.activations))
        if known is None:
            kernels = _Kernels(self._provider(layout, kind))
            known = (kernels, address_of(self.weights.layout(layout)))
            self._bound[layout, kind.activations] = known
        return known


def _per_output(value: Any, outs: int, name: str) -> NDArray[np.float32]:
    array = np.asarray(value, np.float32)
    if array.shape not in ((), (outs,)):
        raise OptionError(f"expected {name} of shape [{outs}], got {list(array.shape)}")
    return np.ascontiguousarray(np.broadcast_to(array, (outs,)))
