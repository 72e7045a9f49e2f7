"""A compiled program as a callable on NumPy arrays.

What was compiled for this process is one sequence of bytes, as the cache keeps it: interface,
object, constants. A shared library of the target `native` tells its interface itself. Not here:
compiling (`lowering.to_native`); whoever joins the two sides is `tools.native`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from ctypes import CDLL, addressof, c_char, c_int64, c_void_p, string_at
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.errors import BackendError, OptionError
from ...ir.native_interface import (
    ALIGNMENT,
    FORWARD,
    INTERFACE_SUFFIX,
    WORKSPACE_BYTES,
    WORKSPACE_SUFFIX,
    Interface,
    TensorInterface,
)
from .jit import Library
from .threads import share, split

Array = NDArray[Any]

_WORTH_A_THREAD = 2_000_000
"""Multiplications below which waking a thread costs more than it saves."""

_MOST_PLANS = 256
"""Combinations of shapes for which a program remembers what to do."""


def program_bytes(interface: Interface, code: bytes, constants: Array) -> bytes:
    """A compiled program as one sequence of bytes.

    Args:
        interface: of the program.
        code: the object file, with the functions of `ir.native_interface`.
        constants: uint8.
    """
    parts = [interface.to_json().encode(), code, constants.tobytes()]
    return b"".join([*(len(part).to_bytes(8, "little") for part in parts), *parts])


def load_program(content: bytes, *, threads: int = 1) -> NativeProgram:
    """The program in `program_bytes`, ready to be called.

    Raises:
        BackendError: llvmlite is missing, or the bytes are no program.
    """
    ends = 24
    bounds: list[tuple[int, int]] = []
    for place in (0, 8, 16):
        start, ends = ends, ends + int.from_bytes(content[place : place + 8], "little")
        bounds.append((start, ends))
    if ends != len(content):
        raise BackendError("these bytes are no compiled program")
    text, code, constants = (content[start:end] for start, end in bounds)
    interface = Interface.from_dict(json.loads(text))
    library = Library(code)
    count = len(interface.inputs) + len(interface.outputs)
    functions = _Functions(
        library.function(FORWARD, [*[c_void_p] * (count + 2), c_int64]),
        library.function(WORKSPACE_BYTES, [c_int64], c_int64),
    )
    return NativeProgram(interface, functions, np.frombuffer(constants, np.uint8), threads=threads)


def load_shared(path: Path, name: str | None = None, *, threads: int = 1) -> NativeProgram:
    """The program in a shared library of the target `native`. Its code is executed: trust it.

    Args:
        path: of the library.
        name: of the C function; the stem of the path when not given.
        threads: most threads that a call uses.

    Raises:
        BackendError: no such library, or no program of that name in it.
    """
    name = path.stem if name is None else name
    try:
        library = CDLL(str(path.absolute()))
        forward, workspace_bytes = library[name], library[f"{name}{WORKSPACE_SUFFIX}"]
        text = c_char.in_dll(library, f"{name}{INTERFACE_SUFFIX}")
    except (OSError, AttributeError, ValueError) as error:
        raise BackendError(f"'{path}' holds no program '{name}': {error}") from None
    interface = Interface.from_dict(json.loads(string_at(addressof(text))))
    count = len(interface.inputs) + len(interface.outputs)
    forward.argtypes, forward.restype = [*[c_void_p] * (count + 1), c_int64], None
    workspace_bytes.argtypes, workspace_bytes.restype = [c_int64], c_int64
    return NativeProgram(interface, _Functions(forward, workspace_bytes), None, threads=threads)


@dataclass(frozen=True)
class _Functions:
    """A program's two functions, ready to be called."""

    forward: Callable[..., None]
    workspace_bytes: Callable[[int], int]


@dataclass(frozen=True)
class _Plan:
    """What a call with inputs of certain shapes does."""

    batch: int
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    workspace: int
    parts: tuple[tuple[int, int], ...]


class NativeProgram:
    """A compiled program; calls from several threads at once are safe.

    Attributes:
        interface: what it takes and gives.
        threads: most threads that a call uses.
    """

    def __init__(
        self,
        interface: Interface,
        functions: _Functions,
        constants: Array | None,
        *,
        threads: int = 1,
    ) -> None:
        """Make the callable; `load_program` and `load_shared` do.

        Args:
            interface: of the program.
            functions: those of `ir.native_interface`.
            constants: uint8, as the program was compiled with; `None` where they are in the code.
            threads: most threads that a call uses; more than one only where rows of the batch are
                computed apart.

        Raises:
            OptionError: a wrong thread count.
        """
        if threads < 1:
            raise OptionError(f"threads must be at least 1, not {threads}")
        self.interface = interface
        self.threads = threads
        tensors = [*interface.inputs, *interface.outputs]
        self._forward = functions.forward
        self._workspace_bytes = functions.workspace_bytes
        self._fixed: tuple[int, ...] = ()
        if constants is not None:
            self._constants = _aligned(constants.size)
            self._constants[:] = constants.view(np.uint8).reshape(-1)
            self._fixed = (_address(self._constants),)
        self._dtypes = [_dtype(tensor.dtype) for tensor in interface.inputs]
        self._output_dtypes = [_dtype(tensor.dtype) for tensor in interface.outputs]
        self._strides = [
            _row_bytes(tensor, dtype)
            for tensor, dtype in zip(tensors, [*self._dtypes, *self._output_dtypes], strict=True)
        ]
        self._plans: dict[tuple[tuple[int, ...], ...], _Plan] = {}
        # What one input and one output need, by the input's shape: a call of few instructions.
        self._short: dict[tuple[int, ...], tuple[tuple[int, ...], np.dtype[Any], int, int]] = {}
        self._memory = _Memory()

    def __call__(self, *inputs: Array) -> Any:
        """Run the program: an array for a single output, else a list of them.

        Raises:
            BackendError: inputs of a wrong number, shape or dtype.
        """
        if len(inputs) == 1 and type(inputs[0]) is np.ndarray:
            x = inputs[0]
            plan = self._short.get(x.shape)
            if plan is not None and x.dtype == self._dtypes[0] and x.flags.carray:
                shape, dtype, workspace, batch = plan
                y = np.empty(shape, dtype)
                memory = self._memory
                if memory.size < workspace:
                    memory.hold(workspace)
                self._forward(
                    addressof(_VIEW(x)),
                    addressof(_VIEW(y)),
                    *self._fixed,
                    memory.address,
                    batch,
                )
                return y
        outputs = self.run(inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the program; every output.

        Raises:
            BackendError: inputs of a wrong number, shape or dtype.
        """
        try:
            shapes = tuple([x.shape for x in inputs])
        except AttributeError:
            raise BackendError("a compiled program takes NumPy arrays") from None
        plan = self._plans.get(shapes)
        if plan is None:
            plan = self._plan(inputs)
        addresses: list[int] = []
        # What an address belongs to must outlive the call.
        held: list[Array] = []
        for x, dtype in zip(inputs, self._dtypes, strict=True):
            if x.dtype != dtype:
                raise BackendError(self._refusal(inputs))
            if not x.flags.c_contiguous:
                x = x.copy(order="C")
                held.append(x)
            addresses.append(_address(x))
        outputs = [np.empty(shape, dtype) for shape, dtype in plan.outputs]
        for y in outputs:
            addresses.append(_address(y))
        if plan.parts:
            self._together(plan, addresses)
        else:
            memory = self._memory.of(plan.workspace)
            self._forward(*addresses, *self._fixed, memory, plan.batch)
        return outputs

    def _shorten(self, plan: _Plan, shape: tuple[int, ...]) -> None:
        """Remember a plan for the short way, if it can go it."""
        if len(self._dtypes) != 1 or len(plan.outputs) != 1 or plan.parts:
            return
        (output,) = plan.outputs
        shown = {self._dtypes[0].char, output[1].char} <= _BUFFERS
        if shown and prod(shape) and prod(output[0]):
            self._short[shape] = (*output, plan.workspace, plan.batch)

    def _together(self, plan: _Plan, addresses: list[int]) -> None:
        def part(first: int, end: int) -> None:
            memory = self._memory.of(self._workspace_bytes(end - first))
            moved = [a + first * s for a, s in zip(addresses, self._strides, strict=True)]
            self._forward(*moved, *self._fixed, memory, end - first)

        share(part, plan.parts)

    def _plan(self, inputs: Sequence[Array]) -> _Plan:
        batch = self._batch(inputs)
        interface = self.interface
        shapes = [tensor.sizes(batch) for tensor in interface.outputs]
        wanted = [tensor.sizes(batch) for tensor in interface.inputs]
        if [x.shape for x in inputs] != wanted:
            raise BackendError(self._refusal(inputs))
        parts = 1
        if interface.row_wise:
            parts = min(self.threads, batch, batch * interface.work // _WORTH_A_THREAD)
        plan = _Plan(
            batch,
            tuple(zip(shapes, self._output_dtypes, strict=True)),
            self._workspace_bytes(batch),
            tuple(split(batch, parts)) if parts > 1 else (),
        )
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
            self._short.clear()
        self._plans[tuple(wanted)] = plan
        self._shorten(plan, wanted[0] if wanted else ())
        return plan

    def _batch(self, inputs: Sequence[Array]) -> int:
        if len(inputs) != len(self.interface.inputs):
            raise BackendError(self._refusal(inputs))
        for x, tensor in zip(inputs, self.interface.inputs, strict=True):
            for size, have in zip(tensor.shape, x.shape, strict=False):
                if len(size) > 1:
                    return have
        return 1

    def _refusal(self, inputs: Sequence[Array]) -> str:
        wanted = ", ".join(f"{t.name}: {t.dtype} {t.shown()}" for t in self.interface.inputs)
        given = ", ".join(f"{x.dtype} {list(x.shape)}" for x in inputs)
        return f"the program takes {wanted or 'no inputs'}; got {given or 'none'}"


class _Memory(threading.local):
    """Workspace that a thread keeps from call to call."""

    def __init__(self) -> None:
        self.hold(0)

    def hold(self, size: int) -> None:
        """Have `size` bytes from now on."""
        self.size = size
        self._buffer = _aligned(size)
        self.address = _address(self._buffer)

    def of(self, size: int) -> int:
        """The address of at least `size` bytes, valid until the thread's next call."""
        if self.size < size:
            self.hold(size)
        return self.address


def _aligned(size: int) -> Array:
    """`size` bytes of memory, aligned."""
    buffer = np.empty(size + ALIGNMENT, np.uint8)
    start = -_address(buffer) % ALIGNMENT
    return buffer[start : start + size]


def _dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _row_bytes(tensor: TensorInterface, dtype: np.dtype[Any]) -> int:
    """Bytes of one row of the batch; 0 for a tensor that all rows share."""
    return (tensor.rows or 0) * dtype.itemsize


def _address(array: Array) -> int:
    # The first way is the quicker, but ctypes takes only what can be written and is not empty.
    if array.flags.writeable and array.size and array.dtype.char in _BUFFERS:
        return addressof(_VIEW(array))
    return array.__array_interface__["data"][0]


_VIEW: Any = c_char.from_buffer
_BUFFERS = frozenset("?bBhHiIlLqQefd")
"""Dtypes whose arrays show their memory; those of other packages do not."""
