"""Simulation of Verilog by Icarus Verilog or Verilator, whichever is installed.

Nothing here knows what is simulated, nor compiles a program to Verilog.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..ir.errors import BackendError
from .native.cache import ObjectCache, default_folder
from .outside import called

SIMULATORS = ("iverilog", "verilator")
"""In the order of preference: Icarus starts a simulation in less time."""

_EXACT = ("-fno-const-bit-op-tree",)
"""Verilator 5.006 gives wrong bits for some trees of bits with the optimisation that this leaves
out: with it, one in a hundred results of sums of single bits differed from Icarus Verilog's."""

_AT_ONCE = "OPT_FAST=-O0 OPT_GLOBAL=-O0"
"""C++ as it is: a fifth of the time to compile, twice that to run."""

_ONE_FILE = 1_500_000
"""Characters of Verilog up to which its C++ is compiled as one file, which takes a third of the
time and 900 bytes of memory a character."""

_LIBRARY = ("verilated", "verilated_timing", "verilated_threads")
"""What all simulations of Verilator have in common: two thirds of the time to compile a small one.
"""


@dataclass(frozen=True)
class Simulation:
    """A simulation that ran to its end.

    Attributes:
        engine: the simulator and its version.
        output: what the test bench printed.
    """

    engine: str
    output: str


def simulate(
    files: Mapping[str, str],
    top: str,
    folder: Path,
    simulator: str | None = None,
    *,
    short: bool = False,
) -> Simulation:
    """Write files into a folder and run the test bench `top` there.

    Args:
        files: names and contents; those that end in `.v` are compiled.
        top: the module to run.
        folder: for all files; what the test bench writes stays there.
        simulator: one of `SIMULATORS`; by default the first that is installed.
        short: whether the simulation has so few cycles that it is not worth while to optimise it.

    Raises:
        BackendError: no simulator is installed, or it refuses the files.
    """
    name = simulator or next((name for name in SIMULATORS if shutil.which(name)), None)
    if name is None:
        raise BackendError(
            "a Verilog simulator is missing: install iverilog or verilator, on Debian "
            "'apt-get install iverilog'"
        )
    for file, content in files.items():
        (folder / file).write_text(content, encoding="utf-8")
    sources = [file for file in files if file.endswith(".v")]
    if name == "iverilog":
        engine = run_tool(["iverilog", "-V"], folder).splitlines()[0]
        run_tool(["iverilog", "-g2001", "-s", top, "-o", "simulation", *sources], folder)
        return Simulation(_version(engine), run_tool(["vvp", "-N", "simulation"], folder))
    engine = run_tool(["verilator", "--version"], folder).splitlines()[0]
    parts = 0 if sum(len(files[name]) for name in sources) < _ONE_FILE else 1
    flags = f"VM_PARALLEL_BUILDS={parts} {_AT_ONCE if short else ''}".strip()
    build = ["verilator", "--binary", "-Wno-fatal", "--top-module", top, "-o", "simulation"]
    with _library(folder / "obj_dir", f"{engine} {_AT_ONCE if short else ''}"):
        run_tool([*build, *_EXACT, "-MAKEFLAGS", flags, *sources], folder)
    return Simulation(_version(engine), run_tool([str(folder / "obj_dir" / "simulation")], folder))


@contextmanager
def _library(build: Path, kind: str) -> Generator[None]:
    """Put the objects of `_LIBRARY` where Verilator builds, and keep those it makes there."""
    build.mkdir(exist_ok=True)
    cache = ObjectCache(default_folder())
    missing: list[str] = []
    for name in _LIBRARY:
        content = cache.read(f"{kind} {name}")
        if content is None:
            missing.append(name)
        else:
            (build / f"{name}.o").write_bytes(content)
    yield
    for name in missing:
        made = build / f"{name}.o"
        if made.exists():
            cache.write(f"{kind} {name}", made.read_bytes())


def _version(line: str) -> str:
    """`Icarus Verilog version 11.0 (stable) ()` without what stands in parentheses."""
    return line.partition("(")[0].strip().replace(" version", "")


def run_tool(
    command: Sequence[str], folder: Path, *, seconds: float | None = None, last: bool = False
) -> str:
    """What a tool for Verilog prints.

    Args:
        command: its name and arguments.
        folder: where it runs.
        seconds: that it may take; any number by default.
        last: whether the last lines say what is wrong, not the first.

    Raises:
        BackendError: it is missing, or refuses the Verilog.
        subprocess.TimeoutExpired: it takes too long.
    """
    done = called(command, folder, seconds)
    if done.returncode:
        message = (done.stderr or done.stdout).strip().splitlines()
        lines = message[-5:] if last else message[:5]
        shown = "\n".join(lines) or f"exit status {done.returncode}"
        raise BackendError(f"'{command[0]}' refuses the Verilog: {shown}")
    return done.stdout
