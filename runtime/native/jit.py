"""Loads object files into this process, by way of llvmlite.

What was compiled once is kept on disk (`cache`) under the caller's fingerprint of the module, the
processor's name, what it has and lacks, how far LLVM optimises, and the versions of LLVM, llvmlite
and this package; then not even the module is generated. Not here: compiling
(`lowering.to_native`), what the functions do.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ...ir.collection import rare_collection
from ...ir.errors import BackendError
from .cache import ObjectCache, default_folder
from .processor import LLVM_LOCK, host_processor, llvm_binding, optimization_level

_HUGE = 1 << 21
"""Bytes of a huge page."""
_COLLAPSE = 25
"""`MADV_COLLAPSE` of Linux 6.1, which Python does not name yet."""


def code_generator() -> Any:
    """LLVM's `TargetMachine` for this processor, a new one: an engine destroys its own in the end.

    Raises:
        BackendError: llvmlite is missing.
    """
    binding, processor = llvm_binding(), host_processor()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
        cpu=processor.cpu, features=processor.flags, opt=3, jit=True
    )


def _surroundings() -> str:
    processor = host_processor()
    triple: str = llvm_binding().get_process_triple()
    level = f"O{optimization_level()}"
    return " ".join([*_versions(), triple, processor.cpu, processor.flags, level])


@cache
def _versions() -> tuple[str, ...]:
    try:
        own = version("triton-dsl")
    except PackageNotFoundError:
        own = "unknown"
    return own, version("llvmlite"), ".".join(map(str, llvm_binding().llvm_version_info))


class Library:
    """Functions in memory, ready to be called.

    The machine code stays for as long as the library or one of its functions is referred to.
    """

    def __init__(self, content: bytes) -> None:
        binding = llvm_binding()
        with LLVM_LOCK:
            empty = binding.parse_assembly("")
            self._engine: Any = binding.create_mcjit_compiler(empty, code_generator())
            self._engine.add_object_file(binding.ObjectFileRef.from_data(content))
            self._engine.finalize_object()

    def function(
        self, name: str, arguments: Sequence[type[Any]], result: type[Any] | None = None
    ) -> Callable[..., Any]:
        """A function by name, with the ctypes of its arguments and of its result, if it has one.

        It runs without Python's lock.

        Raises:
            BackendError: the library has no such function.
        """
        address: int = self._engine.get_function_address(name)
        if not address:
            raise BackendError(f"the compiled module has no function '{name}'")
        function: Any = ctypes.CFUNCTYPE(result, *arguments)(address)
        function.library = self
        return function

    def in_huge_pages(self, name: str, size: int) -> None:
        """Let memory by name, which holds nothing but zeros yet, stand in huge pages, on Linux."""
        start: int = self._engine.get_global_value_address(name)
        first = -(-start // _HUGE) * _HUGE
        length = (start + size - first) // _HUGE * _HUGE
        if sys.platform == "linux" and start and length > 0:
            # Pages that the loader cleared go, so that huge ones come in their place.
            for advice in mmap.MADV_DONTNEED, mmap.MADV_HUGEPAGE:
                ctypes.CDLL(None).madvise(
                    ctypes.c_void_p(first), ctypes.c_size_t(length), ctypes.c_int(advice)
                )

    def code_in_huge_pages(self, name: str) -> None:
        """Let long code, in which a function stands, be in huge pages, on Linux from 6.1 on.

        Trits that are code (`kernels.additions`) go through megabytes of it in each call, and a
        processor knows the places of few small pages of code at once.
        """
        address: int = self._engine.get_function_address(name)
        table = Path("/proc/self/maps")
        if sys.platform != "linux" or not table.is_file():
            return
        with table.open(encoding="utf-8") as lines:
            places = [[int(n, 16) for n in line.split()[0].split("-")] for line in lines]
        for start, end in places:
            first, last = -(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE
            if start <= address < end and first < last:
                ctypes.CDLL(None).madvise(
                    ctypes.c_void_p(first), ctypes.c_size_t(last - first), ctypes.c_int(_COLLAPSE)
                )


def assembled(text: str) -> Library:
    """The functions of a module in LLVM's language, which calls what is in this process.

    Raises:
        BackendError: llvmlite is missing.
    """
    binding = llvm_binding()
    generator = code_generator()
    with LLVM_LOCK:
        module = binding.parse_assembly(text)
        module.data_layout = str(generator.target_data)
        content = bytes(generator.emit_object(module))
    return Library(content)


def leave_compiler() -> None:
    """Hand the memory back in which Linux has what LLVM is made of; it is read again if needed.

    Code that was loaded runs without it, and it is more than all else that Python needs.
    """
    if sys.platform != "linux":
        return
    libc, place = ctypes.CDLL(None), None
    with open("/proc/self/smaps", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if not words[0].endswith(":"):
                ours = "/libllvmlite" in line and "w" not in words[1]
                place = [int(each, 16) for each in words[0].split("-")] if ours else None
            elif place is not None and words[0] == "Private_Dirty:" and words[1] == "0":
                # Nothing was written there, so that the file has all of it.
                start, size = place[0], place[1] - place[0]
                libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.MADV_DONTNEED)


def kept(
    fingerprint: str, generate: Callable[[], bytes], *, cache: ObjectCache | None = None
) -> bytes:
    """What `generate` makes; from disk if it was made before.

    Args:
        fingerprint: decides, with the processor and the versions, what is made.
        generate: called only if nothing is kept.
        cache: where it is kept; the user's cache folder when not given.

    Raises:
        BackendError: llvmlite is missing.
    """
    cache = ObjectCache(default_folder()) if cache is None else cache
    key = f"{fingerprint} {hashlib.sha256(_surroundings().encode()).hexdigest()}"
    content = cache.read(key)
    if content is None:
        with rare_collection():
            content = generate()
        cache.write(key, content)
    return content


def load(
    fingerprint: str, generate: Callable[[], bytes], *, cache: ObjectCache | None = None
) -> Library:
    """The object that `generate` makes, loaded; see `kept`.

    Raises:
        BackendError: llvmlite is missing.
    """
    return Library(kept(fingerprint, generate, cache=cache))
