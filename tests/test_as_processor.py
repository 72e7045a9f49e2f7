"""Benchmarks as on a processor with AVX2 alone: copies of libraries are told so by `cpuid`."""

import platform
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
X86 = sys.platform == "linux" and platform.machine() == "x86_64"
SOURCE = r"""
#include <stdint.h>

unsigned ask(unsigned leaf, unsigned subleaf, int place) {
    unsigned found[4];
    __asm__ volatile("cpuid" : "=a"(found[0]), "=b"(found[1]), "=c"(found[2]), "=d"(found[3])
                     : "a"(leaf), "c"(subleaf));
    return found[place];
}

unsigned bytes(void) { return 0x1234a20f; } /* bytes of cpuid, but no instruction */

void widen(void) { __asm__ volatile("kxnorw %k1, %k1, %k1"); }
"""
PROGRAM = """
import ctypes, sys
answers = ctypes.CDLL(sys.argv[1])
library = ctypes.CDLL(sys.argv[2])
library.ask.restype = library.bytes.restype = ctypes.c_uint
for question in ((0, 0, 1), (1, 0, 0), (7, 0, 1), (7, 0, 2), (7, 0, 3), (7, 1, 0)):
    print(library.ask(*question))
print(library.bytes(), answers.wide_registers())
if sys.argv[3] == "widen":
    library.widen()
    print(answers.wide_registers())
"""


def told(answers: Path, library: Path, *, widen: bool) -> list[int]:
    """What a process of its own prints, whose C library keeps off AVX-512."""
    command = [sys.executable, "-c", PROGRAM, str(answers), str(library), "widen" if widen else ""]
    switch = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW"
    made = subprocess.run(
        command, check=True, capture_output=True, text=True, env={"GLIBC_TUNABLES": switch}
    )
    return [int(word) for word in made.stdout.split()]


@pytest.mark.skipif(not X86, reason="for Linux on x86-64")
def test_cpuid_tells_of_avx2_alone(
    require_tool: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = require_tool("gcc", "apt install gcc")
    require_tool("objdump", "apt install binutils")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    made = import_module("measure.as_processor")

    path, patched, answers = (tmp_path / name for name in ("asks.so", "patched.so", "answers.so"))
    (tmp_path / "asks.c").write_text(SOURCE, encoding="utf-8")
    command = [compiler, "-O2", "-shared", "-fPIC", str(tmp_path / "asks.c"), "-o", str(path)]
    subprocess.run(command, check=True)
    made.compile_answers(answers)
    patched.write_bytes(made.without_cpuid(path))
    flags = Path("/proc/cpuinfo").read_text("utf-8")
    wide = "avx512f" in flags
    real, seen = (told(answers, p, widen=wide) for p in (path, patched))
    vendor, signature, wider, *others = seen[:6]
    assert [vendor, signature] == real[:2] and others == [0, 0, 0]
    lost = real[2] & ~wider
    names = {16: "avx512f", 17: "avx512dq", 21: "avx512ifma", 28: "avx512cd", 30: "avx512bw"}
    names[31] = "avx512vl"
    assert wider & real[2] == wider and wider >> 5 & 1 == ("avx2" in flags)
    assert {bit for bit in range(32) if lost >> bit & 1} == {
        bit for bit, name in names.items() if name in flags
    }
    assert seen[6:] == real[6:] == ([0x1234A20F, 0, 1] if wide else [0x1234A20F, 0])
