"""The processor that this process runs on, in LLVM's words. Asked of llvmlite, when needed."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType

from ...ir.errors import BackendError, OptionError
from ...ir.extras import install

CPUINFO = Path("/proc/cpuinfo")
"""Where Linux tells what its processors have."""
OPTIMIZE = "TRITON_DSL_OPTIMIZE"
"""Environment variable: with `0` LLVM makes code as it stands, a few times as quickly, but slower
and larger; `2`, or nothing, is for what is used."""
_LEVELS = {"0": 0, "2": 2}
LLVM_LOCK = Lock()
"""Held around what parses, compiles or loads: modules of LLVM share one context."""


def llvm_binding() -> ModuleType:
    """llvmlite's binding of LLVM.

    Raises:
        BackendError: llvmlite is missing.
    """
    try:
        from llvmlite import binding
    except ImportError:
        raise BackendError(f"llvmlite is missing: {install('native')}") from None
    return binding


def optimization_level() -> int:
    """How far LLVM optimises what it makes code of: 2, or what the environment says.

    Raises:
        OptionError: it says what is no such level.
    """
    chosen = os.environ.get(OPTIMIZE) or "2"
    if chosen not in _LEVELS:
        raise OptionError(f"{OPTIMIZE} is '{chosen}'; it can be {' or '.join(_LEVELS)}")
    return _LEVELS[chosen]


@dataclass(frozen=True)
class Processor:
    """What a processor is called and has.

    Attributes:
        cpu: LLVM's name of it.
        features: what it has, in LLVM's names (`avx512vnni`, `neon`).
        lacks: what it does not have, whatever others of its name have.
    """

    cpu: str
    features: frozenset[str]
    lacks: frozenset[str]

    @property
    def flags(self) -> str:
        """All of it as LLVM reads it: `+avx,+avx2,-avx512f`.

        What is absent comes last: `+x` brings all that x needs, `-x` takes away all that need x.
        """
        present = [f"+{name}" for name in sorted(self.features)]
        return ",".join([*present, *(f"-{name}" for name in sorted(self.lacks))])


@cache
def host_processor() -> Processor:
    """The processor of this process, as the system lets programs use it.

    A name stands for all that processors of that name can have, and a hypervisor may have taken
    some of it away. So a name counts only where LLVM reports every feature, which it does on x86.

    Raises:
        BackendError: llvmlite is missing.
    """
    binding = llvm_binding()
    try:
        reported: dict[str, bool] = binding.get_host_cpu_features()
    except RuntimeError:
        reported = {}
    # Kernels ask Linux for the matrix unit; what other systems want to be asked is not known here.
    absent = () if sys.platform == "linux" else ("amx-",)
    features = frozenset(
        name for name, present in reported.items() if present and not name.startswith(absent)
    )
    triple: str = binding.get_process_triple()
    if triple.startswith(("aarch64", "arm64")):
        features |= _arm_features()
    if not features:
        return Processor(_LEAST, features, features)
    is_x86 = triple.startswith(("x86_64", "amd64", "i"))
    name: str = binding.get_host_cpu_name() if is_x86 else _LEAST
    return Processor(name, features, frozenset(reported) - features)


def _arm_features() -> frozenset[str]:
    """What LLVM does not report of a 64-bit ARM: dot products, which every Mac has."""
    if sys.platform == "darwin":
        return frozenset({"fp-armv8", "neon", "dotprod"})
    try:
        lines = CPUINFO.read_text("utf-8", "replace").splitlines()
    except OSError:
        return frozenset()
    # Processors of one system may differ, and a thread goes from one to another.
    told = [line.split() for line in lines if line.startswith("Features")]
    return frozenset({"dotprod"} if told and all("asimddp" in row for row in told) else ())


_LEAST = "generic"
"""LLVM's name of what every processor of an architecture has."""


def host_features() -> frozenset[str]:
    """What this processor has, in LLVM's names.

    Raises:
        BackendError: llvmlite is missing.
    """
    return host_processor().features
