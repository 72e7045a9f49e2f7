"""Triton DSL: one neural network, written once, compiled for every target that can run it.

This file is the public face of the package: the few names that a user's program needs, loaded on
first use. It is not the place for code; each name lives in the module that `_HOME` says.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ir.errors import CompilationError as CompilationError
    from .ir.errors import TritonError as TritonError
    from .ir.language.checker import TypeChecker as TypeChecker
    from .ir.language.parser import TritonParser as TritonParser
    from .lowering.backend import BackendBase as BackendBase
    from .lowering.backend import compile_model as compile_model
    from .lowering.backend import register_backend as register_backend
    from .lowering.from_onnx import from_onnx as from_onnx
    from .lowering.from_tflite import from_tflite as from_tflite
    from .lowering.from_torch import from_torch as from_torch
    from .lowering.mobile import MobileModel as MobileModel
    from .lowering.mobile import optimize_for_mobile as optimize_for_mobile
    from .lowering.to_onnx import export_to_onnx as export_to_onnx
    from .lowering.to_onnx import optimize_onnx_model as optimize_onnx_model
    from .lowering.to_verilog.backend import FPGABackend as FPGABackend
    from .runtime.analysis import analyze_model_size as analyze_model_size
    from .runtime.layers import TernaryConv2d as TernaryConv2d
    from .runtime.layers import TernaryLinear as TernaryLinear
    from .runtime.profiler import profile_model as profile_model
    from .runtime.quantization import ternarize as ternarize
    from .runtime.quantization import ternarize_stochastic as ternarize_stochastic
    from .runtime.ternary_tensor import TernaryTensor as TernaryTensor
    from .runtime.ternary_tensor import ternary_matmul as ternary_matmul

    __version__: str

# What a star import brings: the compiler. The names that need PyTorch are imported one by one.
__all__ = (
    "BackendBase",
    "CompilationError",
    "TritonError",
    "TritonParser",
    "TypeChecker",
    "compile_model",
    "register_backend",
)

_HOME = {
    "BackendBase": "lowering.backend",
    "CompilationError": "ir.errors",
    "FPGABackend": "lowering.to_verilog.backend",
    "MobileModel": "lowering.mobile",
    "TernaryConv2d": "runtime.layers",
    "TernaryLinear": "runtime.layers",
    "TernaryTensor": "runtime.ternary_tensor",
    "TritonError": "ir.errors",
    "TritonParser": "ir.language.parser",
    "TypeChecker": "ir.language.checker",
    "analyze_model_size": "runtime.analysis",
    "compile_model": "lowering.backend",
    "export_to_onnx": "lowering.to_onnx",
    "from_onnx": "lowering.from_onnx",
    "from_tflite": "lowering.from_tflite",
    "from_torch": "lowering.from_torch",
    "optimize_for_mobile": "lowering.mobile",
    "optimize_onnx_model": "lowering.to_onnx",
    "profile_model": "runtime.profiler",
    "register_backend": "lowering.backend",
    "ternarize": "runtime.quantization",
    "ternarize_stochastic": "runtime.quantization",
    "ternary_matmul": "runtime.ternary_tensor",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("triton-dsl")
    elif name in _HOME:
        # Thousands of classes that stay are made; looking for garbage among them, and among those
        # of PyTorch, takes a third of the time.
        collects = gc.isenabled()
        gc.disable()
        try:
            value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            from .ir.errors import BackendError

            raise BackendError(f"{name} needs PyTorch: pip install 'triton-dsl[torch]'") from None
        finally:
            if collects:
                gc.enable()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, "__version__"})
