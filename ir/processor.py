"""The processor that this process runs on, in LLVM's words. Asked of llvmlite, when needed."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any

from .errors import BackendError

LLVM_LOCK = Lock()
"""Held around what parses, compiles or loads: modules of LLVM share one context."""


def llvm_binding() -> Any:
    """llvmlite's binding of LLVM.

    Raises:
        BackendError: llvmlite is missing.
    """
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
        features: dict[str, bool] = llvm_binding().get_host_cpu_features()
    except RuntimeError:
        return frozenset()
    return frozenset(name for name, present in features.items() if present)
