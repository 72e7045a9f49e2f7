"""`triton doctor`: what is installed, what is missing, how to get it, and which kernels run."""

from __future__ import annotations

import shutil

import typer

from ...ir.errors import BackendError
from ...ir.extras import install
from ...lowering.to_native.kernels.bitplanes_schemes import best_scheme
from ...lowering.to_native.kernels.recipes import best_recipe
from ...runtime.native.processor import host_processor
from ..console import print_json, show, table
from ..installation import PACKAGES, installed
from .options.programs import Doctor

PROGRAMS = (
    ("cc", "native shared libraries, running C", "gcc"),
    ("iverilog", "simulating circuits", "iverilog"),
    ("verilator", "simulating circuits on many samples", "verilator"),
    ("yosys", "synthesising circuits, proving them equal", "yosys"),
    ("qemu-system-arm", "running C as on a Cortex-M4", "qemu-system-arm gcc-arm-none-eabi"),
    ("mlir-opt", "checking linalg output against LLVM's own tool", "mlir-19-tools"),
)
"""Program, what it is for, and the Debian package that has it."""

KERNELS = (
    ("ternary products", "matrices of trits, in programs and layers"),
    ("ternary convolutions", "in programs and layers"),
    ("spiking layers", "synapses and neurons, in programs"),
    ("trits by trits", "products of two matrices of trits, in programs"),
    ("ternary_matmul", "the same, of arrays"),
)
"""A kind of native kernel, and what it is for."""


def doctor(options: Doctor) -> None:
    """Tell what is installed; exits with 1 when something always needed is missing."""
    rows = [(name, purpose, *_package(name, extra)) for name, purpose, extra in PACKAGES]
    rows += [(name, purpose, *_program(name, package)) for name, purpose, package in PROGRAMS]
    processor, kernels = _kernels()
    if options.json:
        keys = ("name", "purpose", "found", "advice")
        print_json([dict(zip(keys, row, strict=True)) for row in [*rows, *kernels]])
    else:
        show(table("installation", ["name", "for", "found", "to get it"], rows))
        show(table(f"kernels on {processor}", ["name", "for", "recipe", "to get it"], kernels))
    needed = {name for name, _, extra in PACKAGES if extra is None}
    if any(row[2] is None for row in rows if row[0] in needed):
        raise typer.Exit(1)


def _package(name: str, extra: str | None) -> tuple[str | None, str]:
    found = installed(name)
    return found, "" if found else install(extra or "")


def _program(name: str, package: str) -> tuple[str | None, str]:
    path = shutil.which(name) or shutil.which(f"{name}-19")
    return (path, "") if path else (None, f"apt install {package}")


def _kernels() -> tuple[str, list[tuple[str, str, str | None, str]]]:
    """LLVM's name of this processor, and the instruction set of each kind of kernel on it."""
    processor, advice, chosen = "this processor", "", dict.fromkeys(KERNELS)
    try:
        host = host_processor()
    except BackendError as error:
        advice = str(error).partition(": ")[2]
    else:
        recipe = best_recipe(host.features)
        inner = best_scheme(recipe.features, recipe.width)
        names = [*[recipe.name] * 3, inner.name, best_scheme(host.features).name]
        processor, chosen = host.cpu, dict(zip(KERNELS, names, strict=True))
    return processor, [(*kernel, recipe_name, advice) for kernel, recipe_name in chosen.items()]
