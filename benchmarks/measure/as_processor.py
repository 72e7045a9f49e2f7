"""A benchmark as on a processor with AVX2 and no later vectors, on one that has them.

Engines choose their kernels by `cpuid`. So the program starts again in a virtual environment of its
own, `build/as-avx2`: libraries there are copies that ask `answer_cpuid.c` in place of the
processor, all else is that of the environment it came from. Ours get their recipe that way, too.
"""

from __future__ import annotations

import argparse
import atexit
import ctypes
import importlib.util
import os
import platform
import shutil
import struct
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PROCESSORS = ("avx2",)
PACKAGES = ("onnxruntime", "ai_edge_litert", "torch", "numpy", "llvmlite")
"""Those whose libraries ask what the processor has: peers, and what our compiler asks."""
CPUID, TRAP = b"\x0f\xa2", b"\xcc\x90"
SOURCE = Path(__file__).with_name("answer_cpuid.c")
FOLDER = Path(__file__).parents[2] / "build" / "as-avx2"
MADE_OF, ANSWERS = FOLDER / "made_of.txt", FOLDER / "answer_cpuid.so"
TUNABLES = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW"}
"""The C library has a switch."""


def add_processor(parser: argparse.ArgumentParser) -> None:
    """The option `--as`, which `run_as` is told."""
    parser.add_argument(
        "--as", dest="processor", choices=PROCESSORS, help="what this x86-64 is taken for"
    )


def run_as(processor: str | None) -> None:
    """Start the program again as on such a processor, unless it runs there or on this one.

    At its end it stops with an error if anything used registers that only AVX-512 has.
    """
    if processor is None:
        return
    if Path(sys.prefix) == FOLDER:
        atexit.register(_check)
        return
    if sys.platform != "linux" or platform.machine() != "x86_64":
        _stop("is for Linux on x86-64")
    for tool in ("gcc", "objdump"):
        if shutil.which(tool) is None:
            _stop(f"needs {tool} (apt install gcc binutils)")
    found = dict(_libraries())
    made_of = _made_of(found)
    if not MADE_OF.exists() or MADE_OF.read_text("utf-8") != made_of:
        print("copying libraries, which takes some minutes", file=sys.stderr)
        _make(found)
        MADE_OF.write_text(made_of, "utf-8")
    python = str(FOLDER / "bin" / "python")
    os.execve(python, [python, *sys.argv], {**os.environ, **TUNABLES})


def _stop(problem: str) -> None:
    sys.exit(f"benchmarks/{Path(sys.argv[0]).name}: error: --as {problem}")


def _check() -> None:
    if ctypes.CDLL(str(ANSWERS)).wide_registers():
        sys.stdout.flush()
        print("error: something used AVX-512 all the same", file=sys.stderr, flush=True)
        os._exit(1)


def _libraries() -> Iterator[tuple[Path, list[Path]]]:
    """Each folder of a package, and those of its libraries that may ask."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        for place in (spec and spec.submodule_search_locations) or ():
            for folder in (Path(place), Path(f"{place}.libs")):
                files = [path for path in sorted(folder.rglob("*.so*")) if path.is_file()]
                asking = [path for path in files if CPUID in path.read_bytes()]
                if asking:
                    yield folder, asking


def _made_of(found: Mapping[Path, list[Path]]) -> str:
    """What the environment depends on."""
    lines = [sys.executable, sys.version, *_package_folders(), SOURCE.read_text("utf-8")]
    for path in (path for paths in found.values() for path in paths):
        status = path.stat()
        lines.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(lines)


def _package_folders() -> list[str]:
    return [path for path in sys.path if path.endswith("-packages")]


def _make(found: Mapping[Path, list[Path]]) -> None:
    """The environment."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    venv.create(FOLDER, symlinks=True)
    compile_answers(ANSWERS)
    site = next(FOLDER.glob("lib/python*/site-packages"))
    paths = [path for paths in found.values() for path in paths]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        patched = dict(zip(paths, pool.map(without_cpuid, paths), strict=True))
    for folder in found:
        _mirror(folder, site / folder.name, patched)
    # A line of this file that begins with `import` is executed as Python starts.
    lines = [f"import ctypes; ctypes.CDLL({str(ANSWERS)!r})"]
    lines += [f"import site; site.addsitedir({path!r})" for path in _package_folders()]
    (site / "as_processor.pth").write_text("\n".join(lines), "utf-8")


def compile_answers(path: Path) -> None:
    """The library that answers, which is to be loaded first."""
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", SOURCE, "-o", path], check=True)


def _mirror(source: Path, target: Path, patched: Mapping[Path, bytes]) -> None:
    """Copies of what is patched, links to all else."""
    if source in patched:
        target.write_bytes(patched[source])
    elif any(path.is_relative_to(source) for path in patched):
        target.mkdir()
        for inside in source.iterdir():
            _mirror(inside, target / inside.name, patched)
    else:
        target.symlink_to(source)


def without_cpuid(path: Path) -> bytes:
    """A library in which each `cpuid` traps."""
    command = ["objdump", "-d", "--no-show-raw-insn", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as listing:
        grep = ["grep", "-w", "cpuid"]
        lines = subprocess.run(grep, stdin=listing.stdout, stdout=subprocess.PIPE, check=False)
    code = bytearray(path.read_bytes())
    segments = _segments(code)
    for line in lines.stdout.decode().splitlines():
        address = int(line.split(":")[0], 16)
        offset = next(address - start for first, last, start in segments if first <= address < last)
        if not code.startswith(CPUID, offset):
            _stop(f"does not understand {path}: no cpuid at {address:#x}")
        code[offset : offset + 2] = TRAP
    return bytes(code)


def _segments(code: bytes | bytearray) -> list[tuple[int, int, int]]:
    """Of an ELF file's parts: first address, the one behind, and how far those of the file are."""
    (begin,) = struct.unpack_from("<Q", code, 32)
    size, count = struct.unpack_from("<HH", code, 54)
    headers = (struct.unpack_from("<IIQQQQ", code, begin + i * size) for i in range(count))
    return [
        (address, address + length, address - offset)
        for kind, _, offset, address, _, length in headers
        if kind == 1
    ]
