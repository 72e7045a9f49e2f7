"""Triton DSL: one neural network, written once, compiled for every target that can run it.

This file is the public face of the package: the few names that a user's program needs, loaded on
first use. It is not the place for code; each name lives in the module that `_HOME` says.
"""

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

    __version__: str

_HOME = {
    "BackendBase": "lowering.backend",
    "CompilationError": "ir.errors",
    "TritonError": "ir.errors",
    "TritonParser": "ir.language.parser",
    "TypeChecker": "ir.language.checker",
    "compile_model": "lowering.backend",
    "register_backend": "lowering.backend",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("triton-dsl")
    elif name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, "__version__"})
