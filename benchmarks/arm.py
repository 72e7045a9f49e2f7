"""Instructions of native code for 64-bit ARM, as QEMU counts them.

    python benchmarks/arm.py [--problems dense,keyword] [--json]

QEMU tells how many instructions run, not how long they take. Each problem is compiled for a
processor with dot products (`cortex-a76`) and for one without (`cortex-a53`), by the best recipe
and by `generic`, and must give the bits of the interpreter. Its figure is that of a call, the first
of which is left out. `dense` is a product of bytes, 196 rows of 64 values by 384 outputs, rescaled
to bytes; beside it stand plain C by GCC and a kernel by hand (`measure/arm_products.c`). Networks
are those of `models.py`, their inputs and outputs floats. Needs `qemu-user` and
`gcc-aarch64-linux-gnu`.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure.networks import SMALL, example
from measure.telling import chosen, load_average, print_table, tell
from models import INTEGER_FORMS, integers_of
from numpy.typing import NDArray
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.runtime.native.abi.interface import Interface

Array = NDArray[Any]
Problem = tuple[ModuleOp, Array]
HERE = Path(__file__).parent / "measure"
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
PROCESSORS = {"cortex-a76": "armv8.2-a+dotprod", "cortex-a53": "armv8-a"}
"""LLVM's and QEMU's names, and GCC's of what they have."""

DENSE = """
func.func @forward(%x: tensor<196x64xi8>) -> tensor<196x384xi8> {
  %w = tensor.parameter "w" : tensor<64x384xi32>
  %b = tensor.parameter "b" : tensor<384xi32>
  %m = tensor.parameter "m" : tensor<384xi32>
  %s = tensor.parameter "s" : tensor<384xi32>
  %z = tensor.constant dense<-3> : tensor<i8>
  %wide = tensor.convert %x : (tensor<196x64xi8>) -> tensor<196x64xi32>
  %t = tensor.linear %wide, %w : (tensor<196x64xi32>, tensor<64x384xi32>) -> tensor<196x384xi32>
  %u = tensor.add %t, %b : (tensor<196x384xi32>, tensor<384xi32>) -> tensor<196x384xi32>
  %q = tensor.requantize %u, %m, %s, %z {axis = 1 : i64, low = -128 : i64, high = 127 : i64}
       : (tensor<196x384xi32>, tensor<384xi32>, tensor<384xi32>, tensor<i8>) -> tensor<196x384xi8>
  func.return %q : tensor<196x384xi8>
}
"""
TRITS = """
func.func @forward(%x: tensor<8x1024xi8>) -> tensor<8x1024xi32> {
  %w = ternary.parameter "w" : tensor<1024x1024x!ternary.trit>
  %y = ternary.matmul %x, %w : tensor<8x1024xi8>, tensor<1024x1024x!ternary.trit>
       -> tensor<8x1024xi32>
  func.return %y : tensor<8x1024xi32>
}
"""
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "m.h"
static char x[%d], y[%d];
int main(int count, char **arguments) {
    FILE *file = fopen("x", "rb");
    if (!file || fread(x, 1, sizeof x, file) != sizeof x) return 2;
    fclose(file);
    void *memory = malloc((size_t)%s_workspace_bytes(1));
    for (int i = count > 1 ? atoi(arguments[1]) : 1; i > 0; i--)
        %s((void *)x, (void *)y, memory, 1);
    file = fopen("y", "wb");
    return !file || fwrite(y, 1, sizeof y, file) != sizeof y || fclose(file);
}
"""


@dataclass(frozen=True)
class Figure:
    """Instructions of a call."""

    problem: str
    processor: str
    code: str
    instructions: int


def known(text: str, x: Array, **parameters: Array) -> Problem:
    """A program with known parameters, and its input."""
    module = parse_module(text)
    attach_store(module, ParameterStore.of(parameters))
    return module, x


def dense() -> Problem:
    """A product of bytes as layers of 1x1 windows have it."""
    rng = np.random.default_rng(0)
    return known(
        DENSE,
        rng.integers(-128, 128, (196, 64)).astype(np.int8),
        w=rng.integers(-127, 128, (64, 384)).astype(np.int32),
        b=rng.integers(-999, 999, 384).astype(np.int32),
        m=rng.integers(1 << 30, (1 << 31) - 1, 384).astype(np.int32),
        s=np.full(384, 38, np.int32),
    )


def trits() -> Problem:
    """Eight rows by a matrix of trits."""
    rng = np.random.default_rng(0)
    weights = pack_trits(rng.integers(-1, 2, (1024, 1024)).astype(np.int8))
    return known(TRITS, rng.integers(-128, 128, (8, 1024)).astype(np.int8), w=weights)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "dense": dense,
    "trits": trits,
    **{
        f"{name} {form.partition(',')[0]}": lambda name=name, form=form: (
            integers_of(name, form),
            example(name, 1).numpy(),
        )
        for name in ("keyword", *SMALL)
        for form in INTEGER_FORMS
    },
}


def counted(folder: Path, processor: str) -> int:
    """Instructions of a call of the program `main`, the first of which is left out."""
    plugin = folder.parent / "count.so"

    def count(calls: int) -> int:
        command = [EMULATOR, "-cpu", processor, "-plugin", str(plugin), "./main", str(calls)]
        run = subprocess.run(command, cwd=folder, capture_output=True, check=True)
        return int(run.stderr)

    return (count(3) - count(1)) // 2


def ours(
    folder: Path, problem: Problem, processor: str, options: dict[str, str]
) -> tuple[str, int]:
    """The recipe of our code, and its instructions."""
    module, x = problem
    chosen_ = {"triple": "aarch64-linux-gnu", "cpu": processor, "name": "m", **options}
    artifact = compile_to_target(module.clone(), "native", chosen_)
    for name, content in artifact.files.items():
        (folder / name).write_bytes(content)
    (expected,) = run_module(module, [x])
    (folder / "x").write_bytes(x.tobytes())
    prefix = str(artifact.manifest["prefix"])
    (folder / "main.c").write_text(
        MAIN % (x.nbytes, expected.nbytes, prefix, prefix), encoding="utf-8"
    )
    build(folder, ["main.c", "m.o", "-O1"])
    instructions = counted(folder, processor)
    if (folder / "y").read_bytes() != expected.tobytes():
        raise SystemExit(f"benchmarks/arm.py: error: {processor} gives other results")
    interface: Any = artifact.manifest["interface"]
    return Interface.from_dict(interface).recipe, instructions


def build(folder: Path, arguments: list[str]) -> None:
    """Make the program `main`."""
    command = [COMPILER, "-static", *arguments, "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)


def measured(name: str, folder: Path) -> list[Figure]:
    """The figures of a problem."""
    problem, figures = PROBLEMS[name](), list[Figure]()
    for processor, march in PROCESSORS.items():
        for options in dict[str, str](), {"recipe": "generic"}:
            recipe, instructions = ours(folder, problem, processor, options)
            figures.append(Figure(name, processor, recipe, instructions))
        peers = {"plain C": "", "by hand": "-DBY_HAND"} if "dot" in march else {"plain C": ""}
        for code, flag in peers.items() if name == "dense" else ():
            source = str(HERE / "arm_products.c")
            build(folder, [source, "-O3", f"-march={march}", *filter(None, [flag])])
            figures.append(Figure(name, processor, code, counted(folder, processor)))
    return figures


def show(figures: list[Figure]) -> None:
    """Print the table."""
    table = Table(
        "problem", "processor", "code", title="instructions of a call", title_justify="left"
    )
    table.add_column("instructions", justify="right")
    for figure in figures:
        row = figure.problem, figure.processor, figure.code, f"{figure.instructions:,}"
        table.add_row(*row)
    print_table(table, 80)


def main() -> None:
    """Count what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names, figures = chosen(arguments.problems, list(PROBLEMS), "problem"), list[Figure]()
    with TemporaryDirectory() as place:
        folder = Path(place, "program")
        folder.mkdir()
        plugin = [str(HERE / "count_instructions.c"), "-o", str(folder.parent / "count.so")]
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", *plugin], check=True)
        for name in names:
            figures += measured(name, folder)
    tell(figures, lambda: show(figures), as_json=arguments.json, load=load_average())


if __name__ == "__main__":
    main()
