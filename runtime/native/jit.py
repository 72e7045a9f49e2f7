"""Modules of the `llvm` dialect to machine code in this process, by way of llvmlite.

The code is made for the processor it runs on. What was compiled once is kept on disk (`cache`)
under the caller's fingerprint of the module, the processor's name and features, and the versions
of LLVM, llvmlite and this package; then not even the module is generated. Not here: what the
functions do.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from typing import TYPE_CHECKING, Any

from ...ir.errors import BackendError
from .cache import ObjectCache, default_folder

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

_LOCK = Lock()
"""LLVM's engines are made and linked one at a time."""


def _binding() -> Any:
    try:
        from llvmlite import binding
    except ImportError:
        raise BackendError("llvmlite is missing: pip install 'triton-dsl[native]'") from None
    return binding


@cache
def host_features() -> frozenset[str]:
    """What this processor has, in LLVM's names (`avx512vnni`, `neon`).

    Raises:
        BackendError: llvmlite is missing.
    """
    try:
        features: dict[str, bool] = _binding().get_host_cpu_features()
    except RuntimeError:
        return frozenset()
    return frozenset(name for name, present in features.items() if present)


def _machine() -> Any:
    """A new code generator for this processor: an engine destroys its own when it ends."""
    binding = _binding()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    features = ",".join(f"+{name}" for name in sorted(host_features()))
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features, opt=3, jit=True
    )


@cache
def _surroundings() -> str:
    binding = _binding()
    try:
        own = version("triton-dsl")
    except PackageNotFoundError:
        own = "unknown"
    parts = [
        own,
        version("llvmlite"),
        ".".join(map(str, binding.llvm_version_info)),
        binding.get_process_triple(),
        binding.get_host_cpu_name(),
        *sorted(host_features()),
    ]
    return " ".join(parts)


def compile_object(module: ModuleOp) -> bytes:
    """Machine code for this processor, as an object file.

    Raises:
        BackendError: llvmlite is missing or refuses the module.
    """
    binding = _binding()
    from xdsl.backend.llvm.convert import convert_module

    text = str(convert_module(module, fallback_target_triple=binding.get_process_triple()))
    with _LOCK:
        machine = _machine()
        try:
            parsed = binding.parse_assembly(text)
            parsed.verify()
        except RuntimeError as error:
            raise BackendError(f"LLVM refuses a generated module: {error}") from error
        parsed.data_layout = str(machine.target_data)
        # The modules are vectorised and unrolled as they shall be.
        options = binding.PipelineTuningOptions(speed_level=3)
        options.loop_unrolling = False
        options.loop_vectorization = False
        options.slp_vectorization = False
        builder = binding.create_pass_builder(machine, options)
        builder.getModulePassManager().run(parsed, builder)
        return bytes(machine.emit_object(parsed))


class Library:
    """Functions in memory, ready to be called.

    The machine code stays for as long as the library or one of its functions is referred to.
    """

    def __init__(self, content: bytes) -> None:
        binding = _binding()
        with _LOCK:
            empty = binding.parse_assembly("")
            self._engine: Any = binding.create_mcjit_compiler(empty, _machine())
            self._engine.add_object_file(binding.ObjectFileRef.from_data(content))
            self._engine.finalize_object()

    def function(self, name: str, arguments: Sequence[type[Any]]) -> Callable[..., None]:
        """A function that returns nothing, by name, with the ctypes of its arguments.

        It runs without Python's lock.

        Raises:
            BackendError: the library has no such function.
        """
        address: int = self._engine.get_function_address(name)
        if not address:
            raise BackendError(f"the compiled module has no function '{name}'")
        function: Any = ctypes.CFUNCTYPE(None, *arguments)(address)
        function.library = self
        return function


def load(
    fingerprint: str, generate: Callable[[], ModuleOp], *, cache: ObjectCache | None = None
) -> Library:
    """The compiled form of the module that `generate` makes; from disk if it was compiled before.

    Args:
        fingerprint: decides, with the processor and the versions, what the module is.
        generate: makes the module; called only if nothing is kept.
        cache: where objects are kept; the user's cache folder when not given.

    Raises:
        BackendError: llvmlite is missing or refuses the module.
    """
    kept = ObjectCache(default_folder()) if cache is None else cache
    key = f"{fingerprint} {hashlib.sha256(_surroundings().encode()).hexdigest()}"
    content = kept.read(key)
    if content is None:
        content = compile_object(generate())
        kept.write(key, content)
    return Library(content)
