"""How long the compiler takes: start-up, modules of many ops, modules of many parameters.

    python benchmarks/compiler.py [--rounds N] [--sizes 1000,10000,40000] [--gigabytes 1] [--json]

`triton-opt` and plain `xdsl-opt` run as processes, in turn, on the same text; a figure is the
median of the rounds in seconds of processor time, which other work on the machine disturbs less
than wall time. The exit code is 1 if a figure is over its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

PIPELINE = "canonicalize,cse,dce"
START_UP_LIMIT = 1.3
RUN_LIMIT = 1.2
MEMORY_LIMIT = 200.0
SECONDS_LIMIT = 3.0


@dataclass(frozen=True)
class Run:
    """One process: processor seconds, wall seconds, and its largest resident memory in MB."""

    seconds: float
    wall: float
    megabytes: float


@dataclass(frozen=True)
class Row:
    """One line of a table: medians in seconds, and the limit that the last figure must keep."""

    name: str
    xdsl_opt: float | None
    triton_opt: float
    wall: float
    ratio: float | None
    limit: float | None

    @property
    def kept(self) -> bool:
        """Whether the limit is kept."""
        return self.limit is None or (self.ratio is not None and self.ratio <= self.limit)


def tool(name: str) -> str:
    """The command of this environment."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        sys.exit(f"benchmarks/compiler.py: error: '{name}' is not installed")
    return found


def run(command: Sequence[str]) -> Run:
    """Run a command to its end, its output dropped."""
    start = perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"benchmarks/compiler.py: error: {' '.join(command)} failed")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Run(usage.ru_utime + usage.ru_stime, perf_counter() - start, usage.ru_maxrss / unit)


def compare(name: str, arguments: Sequence[str], rounds: int, limit: float) -> Row:
    """Both tools in turn on the same arguments."""
    ours, theirs = list[Run](), list[Run]()
    for _ in range(rounds):
        theirs.append(run([tool("xdsl-opt"), *arguments]))
        ours.append(run([tool("triton-opt"), *arguments]))
    a, b = median(theirs), median(ours)
    return Row(name, a, b, statistics.median(r.wall for r in ours), b / a, limit)


def alone(name: str, arguments: Sequence[str], rounds: int) -> Row:
    """`triton-opt` by itself."""
    runs = [run([tool("triton-opt"), *arguments]) for _ in range(rounds)]
    return Row(name, None, median(runs), statistics.median(r.wall for r in runs), None, None)


def median(runs: Sequence[Run]) -> float:
    """The median of the processor seconds."""
    return statistics.median(r.seconds for r in runs)


def arith_module(ops: int) -> str:
    """A function of `ops` upstream ops: a third folds away, some are twice there, some are dead."""
    lines = ["func.func @forward(%a: i32, %b: i32) -> i32 {"]
    last, before = "%a", "%b"
    for n in range(ops // 6):
        lines += [
            f"  %c{n} = arith.constant {n % 7} : i32",
            f"  %d{n} = arith.addi {last}, %c{n} : i32",
            f"  %e{n} = arith.addi {last}, %c{n} : i32",
            f"  %f{n} = arith.muli %d{n}, {before} : i32",
            f"  %g{n} = arith.subi %e{n}, %f{n} : i32",
            f"  %h{n} = arith.xori %f{n}, {last} : i32",
        ]
        last, before = f"%g{n}", f"%d{n}"
    lines += [f"  func.return {last} : i32", "}"]
    return "\n".join(lines) + "\n"


def ternary_module(ops: int) -> str:
    """A function of `ops` of our ops: ternary layers with a bias and an activation."""
    lines = ["func.func @forward(%x0: tensor<?x16xf32>) -> tensor<?x16xf32> {"]
    for n in range(ops // 6):
        lines += [
            f'  %w{n} = ternary.parameter "l{n}.weight" : tensor<16x16x!ternary.trit>',
            f'  %b{n} = tensor.parameter "l{n}.bias" : tensor<16xf32>',
            f"  %m{n} = ternary.linear %x{n}, %w{n} : tensor<?x16xf32>, "
            "tensor<16x16x!ternary.trit> -> tensor<?x16xf32>",
            f"  %s{n} = tensor.add %m{n}, %b{n} : (tensor<?x16xf32>, tensor<16xf32>) "
            "-> tensor<?x16xf32>",
            f"  %r{n} = tensor.relu %s{n} : (tensor<?x16xf32>) -> tensor<?x16xf32>",
            f"  %x{n + 1} = tensor.add %r{n}, %x{n} : (tensor<?x16xf32>, tensor<?x16xf32>) "
            "-> tensor<?x16xf32>",
        ]
    lines += [f"  func.return %x{ops // 6} : tensor<?x16xf32>", "}"]
    return "\n".join(lines) + "\n"


def large_module(folder: Path, gigabytes: float) -> Path:
    """A module whose parameter file has the given size."""
    import numpy as np

    from triton_dsl.ir.store import save_arrays

    layers, width = 16, 1024
    rows = max(int(gigabytes * 2**30 / layers / 4 / width), 1)
    weights = np.zeros((width, rows), dtype=np.float32)
    digest = save_arrays(
        folder / "large.safetensors", {f"l{n}.weight": weights for n in range(layers)}
    )
    type = f"tensor<{width}x{rows}xf32>"
    lines = [
        "builtin.module attributes {tensor.parameters = "
        f'#tensor.store<"large.safetensors", sha256 = "{digest}">}} {{',
        f"func.func @forward() -> ({', '.join([type] * layers)}) {{",
        *(f'  %w{n} = tensor.parameter "l{n}.weight" : {type}' for n in range(layers)),
        f"  func.return {', '.join(f'%w{n}' for n in range(layers))} : "
        f"{', '.join([type] * layers)}",
        "}",
        "}",
    ]
    path = folder / "large.mlir"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@dataclass(frozen=True)
class Parameters:
    """What a large parameter file costs beyond a module without one."""

    gigabytes: float
    seconds: float
    wall: float
    megabytes: float

    @property
    def kept(self) -> bool:
        """Whether both limits are kept."""
        return self.wall <= SECONDS_LIMIT and self.megabytes <= MEMORY_LIMIT


def measure_parameters(folder: Path, gigabytes: float, rounds: int) -> Parameters:
    """The same pipeline on a module with a large parameter file and on an empty one."""
    large = large_module(folder, gigabytes)
    empty = folder / "empty.mlir"
    empty.write_text("func.func @forward() { func.return }\n", encoding="utf-8")
    output = str(folder / "printed.mlir")
    commands = [
        [tool("triton-opt"), str(path), "-p", PIPELINE, "-o", output] for path in (empty, large)
    ]
    bases, runs = list[Run](), list[Run]()
    for _ in range(rounds):
        bases.append(run(commands[0]))
        runs.append(run(commands[1]))
    return Parameters(
        gigabytes,
        median(runs) - median(bases),
        statistics.median(r.wall for r in runs) - statistics.median(r.wall for r in bases),
        statistics.median(r.megabytes for r in runs)
        - statistics.median(r.megabytes for r in bases),
    )


def measure(folder: Path, sizes: Sequence[int], rounds: int) -> list[Row]:
    """Start-up and pipelines, smallest first."""
    tiny = folder / "tiny.mlir"
    tiny.write_text("func.func @forward() { func.return }\n", encoding="utf-8")
    rows = [
        compare("start-up: --version", ["--version"], max(rounds, 5), START_UP_LIMIT),
        compare("start-up: --help", ["--help"], max(rounds, 5), START_UP_LIMIT),
        compare("start-up: empty function", [str(tiny)], max(rounds, 5), START_UP_LIMIT),
    ]
    for size in sizes:
        path = folder / f"arith{size}.mlir"
        path.write_text(arith_module(size), encoding="utf-8")
        rows.append(compare(f"{size:,} arith ops", [str(path), "-p", PIPELINE], rounds, RUN_LIMIT))
    for size in sizes:
        path = folder / f"ternary{size}.mlir"
        path.write_text(ternary_module(size), encoding="utf-8")
        rows.append(alone(f"{size:,} ternary/tensor ops", [str(path), "-p", PIPELINE], rounds))
    return rows


def show(rows: Sequence[Row], parameters: Parameters | None) -> None:
    """Print the tables."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{PIPELINE}, text to text; processor seconds, medians")
    for column in ("what", "xdsl-opt", "triton-opt", "wall", "ratio", "limit"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for row in rows:
        colour = "green" if row.kept else "red"
        table.add_row(
            row.name,
            "-" if row.xdsl_opt is None else f"{row.xdsl_opt:.3f}",
            f"{row.triton_opt:.3f}",
            f"{row.wall:.3f}",
            "-" if row.ratio is None else f"[{colour}]{row.ratio:.2f}×[/]",
            "-" if row.limit is None else f"{row.limit:.1f}×",
        )
    console = Console(width=None if sys.stdout.isatty() else 100)
    console.print(table)
    if parameters is None:
        return
    table = Table(title=f"{parameters.gigabytes:g} GB of parameters, beyond an empty module")
    for column in ("what", "measured", "limit"):
        table.add_column(column, justify="left" if column == "what" else "right")
    table.add_row("wall seconds", f"{parameters.wall:.3f}", f"{SECONDS_LIMIT:g}")
    table.add_row("processor seconds", f"{parameters.seconds:.3f}", "-")
    table.add_row("memory (MB)", f"{parameters.megabytes:.1f}", f"{MEMORY_LIMIT:g}")
    console.print(table)


def main() -> int:
    """Measure and print; 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description="Benchmarks of the compiler.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="1000,10000,40000", help="numbers of ops")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="0 leaves that part out")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",") if size]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = measure(folder, sizes, arguments.rounds)
        parameters = (
            measure_parameters(folder, arguments.gigabytes, arguments.rounds)
            if arguments.gigabytes
            else None
        )
    if arguments.json:
        found = {
            "rows": [{**asdict(row), "kept": row.kept} for row in rows],
            "parameters": asdict(parameters) if parameters else None,
        }
        print(json.dumps(found, indent=2))
    else:
        show(rows, parameters)
    return int(not all([*(row.kept for row in rows), parameters is None or parameters.kept]))


if __name__ == "__main__":
    sys.exit(main())
