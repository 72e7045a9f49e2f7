"""The processor that code is made for: this one, or another by triple and name.

LLVM does not say what a named processor has, and code with an instruction that it lacks ends the
whole process; so the processors that can be named stand in a table. Not here: what this processor
has (`runtime.native.processor`), what a SIMD recipe needs (`to_native.kernels.recipes`), compiling
(`object_code`).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from ...ir.errors import OptionError, did_you_mean
from ...runtime.native.processor import (
    Processor,
    host_processor,
    llvm_binding,
    optimization_level,
)

if TYPE_CHECKING:
    from llvmlite.binding import TargetMachine

HOST = "host"
"""The name of the processor that this process runs on."""

_V3 = "avx avx2 bmi2 f16c fma"
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"
_ICE_LAKE = f"{_V4} avx512vnni avx512vbmi gfni"
_ARMV8 = "fp-armv8 neon"

PROCESSORS: dict[str, dict[str, frozenset[str]]] = {
    architecture: {name: frozenset(features.split()) for name, features in rows.items()}
    for architecture, rows in {
        "x86_64": {
            "x86-64": "",
            "x86-64-v2": "",
            "x86-64-v3": _V3,
            "x86-64-v4": _V4,
            "haswell": _V3,
            "skylake-avx512": _V4,
            "cascadelake": f"{_V4} avx512vnni",
            "icelake-server": _ICE_LAKE,
            "sapphirerapids": f"{_ICE_LAKE} avxvnni",
            "alderlake": f"{_V3} avxvnni gfni",
            "znver3": _V3,
            "znver4": _ICE_LAKE,
            "znver5": f"{_ICE_LAKE} avxvnni",
        },
        "aarch64": {
            "generic": _ARMV8,
            "cortex-a53": _ARMV8,
            "cortex-a72": _ARMV8,
            "cortex-a76": f"{_ARMV8} dotprod",
            "neoverse-n1": f"{_ARMV8} dotprod",
            "neoverse-v1": f"{_ARMV8} dotprod i8mm",
            "apple-m1": f"{_ARMV8} dotprod",
        },
        "armv7": {
            "cortex-a7": "neon",
            "cortex-a9": "neon",
            "cortex-a15": "neon",
        },
        "riscv64": {
            "generic-rv64": "m a f d c",
            "sifive-u74": "m a f d c",
        },
    }.items()
}
"""Architecture, LLVM's name of a processor, and those of its features that recipes ask for. The
first of each architecture is what every such processor has."""


_CALLS = {"riscv64": "lp64d"}
"""How numbers are handed over where LLVM does not take what Linux does."""


@dataclass(frozen=True)
class Machine(Processor):
    """What code is made for: of the table, a processor has and lacks what the table says.

    Attributes:
        triple: architecture, vendor, system, in LLVM's form.
        host: whether it is the processor of this process.
    """

    triple: str
    host: bool

    @property
    def assembles(self) -> bool:
        """Whether LLVM reads assembly for it here: llvmlite brings what reads this machine's."""
        own: str = llvm_binding().get_process_triple()
        return _architecture(self.triple) == _architecture(own)

    def code_generator(self, *, jit: bool = False) -> TargetMachine:
        """LLVM's `TargetMachine`, a new one: for this process, or for objects that get linked."""
        binding = llvm_binding()
        _initialize(binding, everything=not self.host)
        return binding.Target.from_triple(_with_vendor(self.triple)).create_target_machine(
            cpu=self.cpu,
            features=self.flags,
            opt=3 if optimization_level() else 0,
            reloc="default" if jit else "pic",
            codemodel="jitdefault" if jit else "default",
            jit=jit,
            abiname=_CALLS.get(_architecture(self.triple), ""),
        )


def host_machine() -> Machine:
    """The processor of this process.

    Raises:
        BackendError: llvmlite is missing.
    """
    own = host_processor()
    triple: str = llvm_binding().get_process_triple()
    return Machine(own.cpu, own.features, own.lacks, triple, True)


def machine_of(triple: str | None, cpu: str | None) -> Machine:
    """A processor by triple and name; `None` for both is this one, else what is the least.

    Raises:
        OptionError: an architecture or a processor that is in no table, or `host` of another.
        BackendError: llvmlite is missing.
    """
    if triple is None and cpu in (None, HOST):
        return host_machine()
    own: str = llvm_binding().get_process_triple()
    triple = own if triple is None else triple
    if cpu == HOST:
        raise OptionError(f"cpu=host is the processor of this machine; leave triple={triple} away")
    known = PROCESSORS.get(_architecture(triple))
    if known is None:
        raise OptionError(
            f"no processor of '{triple}' is known; triples start with "
            f"{' or '.join(f'{name}-' for name in PROCESSORS)}, as in aarch64-linux-gnu"
        )
    cpu = next(iter(known)) if cpu is None else cpu
    if cpu not in known:
        hint = did_you_mean(cpu, known) or f"; there are {', '.join(known)}"
        raise OptionError(f"no processor '{cpu}' is known for '{triple}'{hint}")
    features = known[cpu]
    lacks = frozenset[str]().union(*known.values()) - features
    return Machine(cpu, features, lacks, triple, False)


def _architecture(triple: str) -> str:
    name = triple.partition("-")[0]
    return {"amd64": "x86_64", "arm64": "aarch64", "armv7l": "armv7", "armv7a": "armv7"}.get(
        name, name
    )


def _with_vendor(triple: str) -> str:
    """A triple as LLVM reads it: in `armv7-linux-gnueabihf` the system is not the vendor."""
    architecture, _, rest = triple.partition("-")
    return f"{architecture}-unknown-{rest}" if rest.startswith("linux-") else triple


def _initialize(binding: ModuleType, *, everything: bool) -> None:
    if everything:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    else:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()
