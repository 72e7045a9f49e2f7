"""Modules of the `llvm` dialect to machine code. Not here: what the functions do, running them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ...ir.errors import BackendError
from ...ir.progress import doing
from ...runtime.native.cache import ObjectCache
from ...runtime.native.jit import Library, kept
from ...runtime.native.processor import LLVM_LOCK, llvm_binding, optimization_level
from .kept import define_kept
from .machine import Machine, host_machine
from .source_digest import COMPILER, source_digest

_ELF, _SOURCE = "@progbits", '\t.file\t"<string>"\n'
_POOL = re.compile(r"^\t\.section\t\.rodata.*\n(?=(\t\.p2align.*\n)?\.LCPI)", re.MULTILINE)
"""Where assembly text goes over to numbers that code loads."""
_BEHIND = "\t.text\t1\n"
"""Behind all code, in its section."""
_AS_DATA = (
    f"{_BEHIND}.numbers:\n\t.type\t.numbers,@object\n\t.text\n"
    f"{{text}}\n{_BEHIND}\t.size\t.numbers, .-.numbers\n"
)
"""A name by which disassemblers tell these numbers from code."""
_LARGE = 1 << 23
"""Characters of LLVM IR from which on an object is not assembled: it would take long, and what it
has besides weights is little."""

if TYPE_CHECKING:
    from llvmlite import ir
    from llvmlite.binding import ModuleRef, TargetMachine
    from xdsl.dialects.builtin import ModuleOp


@cache
def compiler_fingerprint() -> str:
    """SHA-256 of what decides, beside LLVM and the processor, which code becomes of a module.

    It is the source of this step; objects are kept under it, so that none outlives a change.
    """
    return source_digest(*COMPILER).hex()


def compile_object(module: ModuleOp, exported: Collection[str] = ()) -> bytes:
    """Machine code for this process, as an object file that `runtime.native.jit` loads.

    Args:
        module: of the `llvm` dialect.
        exported: the functions that are called from outside; all when none is named.

    Raises:
        BackendError: llvmlite is missing or refuses the module.
    """
    from xdsl.backend.llvm.convert import convert_module

    machine = host_machine()
    llvm_module = convert_module(module, fallback_target_triple=machine.triple)
    define_kept(llvm_module)
    if exported:
        make_internal(llvm_module, exported)
    text = str(llvm_module)
    with LLVM_LOCK, doing("Compiling by LLVM"):
        generator = machine.code_generator(jit=True)
        return bytes(generator.emit_object(_optimized(text, generator)))


def compiled_object(
    key: str,
    build: Callable[[], ModuleOp],
    exported: Collection[str] = (),
    *,
    cache_folder: Path | None = None,
) -> bytes:
    """The object of a module, from a folder of compiled kernels where it is there.

    Args:
        key: says all that decides what `build` gives.
        build: makes the module, of the `llvm` dialect.
        exported: see `compile_object`.
        cache_folder: the user's cache folder when not given.

    Raises:
        BackendError: llvmlite is missing or refuses the module.
    """
    cache = None if cache_folder is None else ObjectCache(cache_folder)
    full = f"{key} {compiler_fingerprint()}"
    return kept(full, lambda: compile_object(build(), exported), cache=cache)


def compiled_library(
    key: str,
    build: Callable[[], ModuleOp],
    exported: Collection[str] = (),
    *,
    cache_folder: Path | None = None,
) -> Library:
    """The functions of a module, see `compiled_object`."""
    return Library(compiled_object(key, build, exported, cache_folder=cache_folder))


def make_internal(module: ir.Module, exported: Collection[str] = ()) -> None:
    """Hide what a module of llvmlite defines from other objects, but for `exported`."""
    for value in cast("Iterable[ir.GlobalValue]", module.global_values):
        if value.name not in exported and not getattr(value, "is_declaration", False):
            value.linkage = "internal"


def compile_text(text: str, machine: Machine) -> Compiled:
    """LLVM IR for `machine`, optimised, to be linked with other objects.

    Raises:
        BackendError: llvmlite is missing or refuses the module.
    """
    with LLVM_LOCK:
        generator = machine.code_generator()
        packed = machine.assembles and machine.triple.startswith("x86_64-") and len(text) < _LARGE
        return Compiled(_optimized(text, generator), generator, packed=packed)


class Compiled:
    """A module after LLVM's passes, in the forms that files can have.

    LLVM changes a module while it makes code of it, hence the copies.
    """

    def __init__(self, parsed: ModuleRef, generator: TargetMachine, *, packed: bool) -> None:
        self._parsed = parsed
        self._generator = generator
        self._packed = packed

    def object(self) -> bytes:
        """An object file, position-independent.

        Of x86-64 on ELF, numbers that small code loads stand beside it: in sections of their own
        each takes a symbol and relocations, some 60 bytes for 4.
        """
        if self._packed and _ELF in (text := self.assembly()):
            text, pools = _POOL.subn(_BEHIND, text.replace(_SOURCE, ""))
            return self._assembled(_AS_DATA.format(text=text) if pools else text)
        with LLVM_LOCK:
            return bytes(self._generator.emit_object(self._parsed.clone()))

    def _assembled(self, text: str) -> bytes:
        """The object of an assembly text."""
        quoted = text.replace("\\", r"\5C").replace('"', r"\22").replace("\n", r"\0A")
        with LLVM_LOCK:
            module = llvm_binding().parse_assembly(f'module asm "{quoted}"')
            return bytes(self._generator.emit_object(module))

    def assembly(self) -> str:
        """Assembly text."""
        with LLVM_LOCK:
            return str(self._generator.emit_assembly(self._parsed.clone()))

    def llvm_ir(self) -> str:
        """LLVM IR text."""
        with LLVM_LOCK:
            return str(self._parsed)


def _optimized(text: str, generator: TargetMachine) -> ModuleRef:
    binding = llvm_binding()
    try:
        parsed = binding.parse_assembly(text)
        parsed.verify()
    except RuntimeError as error:
        raise BackendError(f"LLVM refuses a generated module: {error}") from error
    parsed.data_layout = str(generator.target_data)
    # The modules are vectorised and unrolled as they shall be.
    # Functions that belong together are one already; a copy of a kernel in its caller would only
    # double the time to compile it.
    options = binding.PipelineTuningOptions(speed_level=optimization_level())
    options.inlining_threshold = 0
    options.loop_unrolling = False
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = binding.create_pass_builder(generator, options)
    builder.getModulePassManager().run(parsed, builder)
    return parsed
