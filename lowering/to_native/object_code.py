"""Modules of the `llvm` dialect to machine code. Not here: what the functions do, running them."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from ...ir.errors import BackendError
from ...ir.processor import host_features, llvm_binding

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

_LOCK = Lock()
"""LLVM parses and compiles one module at a time."""


def _machine() -> Any:
    binding = llvm_binding()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    features = ",".join(f"+{name}" for name in sorted(host_features()))
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features, opt=3, jit=True
    )


def compile_object(module: ModuleOp) -> bytes:
    """Machine code for this processor, as an object file.

    Raises:
        BackendError: llvmlite is missing or refuses the module.
    """
    binding = llvm_binding()
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
