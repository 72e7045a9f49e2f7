"""Compiled programs from bytes and from shared libraries.

What was compiled for this process is one sequence of bytes, as the cache keeps it: interface,
object, constants. A shared library of the target `native` tells its interface itself. Not here:
compiling (`lowering.to_native`); whoever joins the two sides is `to_native.callables`; calling what
was loaded (`program`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from ctypes import CDLL, addressof, c_char, c_char_p, c_int64, c_void_p, string_at
from pathlib import Path

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError
from .abi.interface import (
    ARRAYS,
    FORWARD,
    INTERFACE_SUFFIX,
    KEPT,
    WORKSPACE_BYTES,
    WORKSPACE_SUFFIX,
    Interface,
)
from .abi.phases import PHASE
from .addresses import ARRAYS_HOLD_ADDRESSES
from .jit import Library
from .program import Functions, NativeProgram
from .threads import OURS, Crew

_LONG = 4 << 20
"""Bytes of code that is worth huge pages."""


def program_bytes(interface: Interface, code: bytes, constants: Array) -> bytes:
    """A compiled program as one sequence of bytes.

    Args:
        interface: of the program.
        code: the object file, with the functions of `abi.interface`.
        constants: uint8.
    """
    parts = [interface.to_json().encode(), code, constants.tobytes()]
    return b"".join([*(len(part).to_bytes(8, "little") for part in parts), *parts])


def load_program(
    content: bytes,
    *,
    threads: int = 1,
    held: Callable[[str], Array] | None = None,
    crew: Crew = OURS,
) -> NativeProgram:
    """The program in `program_bytes`, ready to be called.

    Args:
        content: of the program.
        threads: most threads that a call uses.
        held: gives the arrays of `Interface.held`, contiguous, which are used in place.
        crew: whose threads help.

    Raises:
        BackendError: llvmlite is missing, the bytes are no program, or it needs arrays.
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
    if interface.kept:
        library.in_huge_pages(KEPT, interface.kept)
    if len(code) >= _LONG:
        library.code_in_huge_pages(FORWARD)
    count = len(interface.inputs) + len(interface.outputs)
    free = [c_int64] * len(interface.names)
    functions = Functions(
        library.function(FORWARD, [*[c_void_p] * (count + 2), *free]),
        library.function(WORKSPACE_BYTES, free, c_int64),
        library.function(ARRAYS, [c_char_p]) if ARRAYS_HOLD_ADDRESSES else None,
        library.function(PHASE, [c_void_p, *[c_int64] * 4]) if interface.phases else None,
    )
    values = np.frombuffer(constants, np.uint8)
    if interface.held and held is None:
        names = ", ".join(name for name, _ in interface.held)
        raise BackendError(f"the program holds no sparse weights, and is run with {names}")
    arrays = {} if held is None else {name: held(name) for name, _ in interface.held}
    return NativeProgram(interface, functions, values, threads=threads, held=arrays, crew=crew)


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
    free = [c_int64] * len(interface.names)
    forward.argtypes, forward.restype = [*[c_void_p] * (count + 1), *free], None
    workspace_bytes.argtypes, workspace_bytes.restype = free, c_int64
    return NativeProgram(interface, Functions(forward, workspace_bytes), None, threads=threads)
