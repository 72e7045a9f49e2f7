"""Kernels of 64-bit ARM that programs of `test_processors` have not, run under QEMU's user mode.

They are what a process on such a processor calls: products with rows of trits, and tables of rows.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.backend.llvm.convert import convert_module
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.to_native.kernels.kernel import kernel_module
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES, Recipe
from triton_dsl.lowering.to_native.kernels.row_products import row_products_module
from triton_dsl.lowering.to_native.machine import machine_of
from triton_dsl.lowering.to_native.object_code import compile_text
from triton_dsl.runtime.native.abi.linear import KIND_NAMED, Layout, scratch_bytes
from triton_dsl.runtime.native.abi.row_products import BLOCKS, RowKind
from triton_dsl.runtime.native.packed import PackedWeights
from triton_dsl.runtime.native.row_products import prepared

pytest.importorskip("llvmlite")

Array = NDArray[Any]
Run = Callable[[Recipe, ModuleOp, Mapping[str, Array], str, Array], Array]
PROCESSORS = {"neon-dotprod": ("cortex-a76", "cortex-a76"), "neon": ("cortex-a53", "cortex-a53")}
"""LLVM's and QEMU's names of a processor for each recipe."""
CASES = [
    pytest.param(recipe, marks=() if recipe.name == "neon-dotprod" else pytest.mark.slow)
    for recipe in RECIPES
    if recipe.name in PROCESSORS
]

MAIN = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
void rows_part(int64_t *, int64_t, int64_t, int64_t, int64_t);
void linear(const void *, const void *, void *, void *, const void *, const void *, const void *,
            const void *, int64_t, int64_t, int64_t);
static void *filled(const char *name, size_t size) {
    void *memory = aligned_alloc(64, (size + 127) / 64 * 64);
    FILE *file = fopen(name, "rb");
    if (!file || fread(memory, 1, size, file) != size) exit(2);
    fclose(file);
    return memory;
}
int main(void) {
%s
    FILE *file = fopen("y", "wb");
    return !file || fwrite(y, 1, %d, file) != %d || fclose(file);
}
"""


@pytest.fixture
def run(require_tool: Callable[[str, str], str], tmp_path: Path) -> Run:
    """Calls the functions of a module from C: arrays by name, the call, and what `y` is like."""
    emulator = require_tool("qemu-aarch64", "apt-get install qemu-user")
    compiler = require_tool("aarch64-linux-gnu-gcc", "apt-get install gcc-aarch64-linux-gnu")

    def call(
        recipe: Recipe, module: ModuleOp, arrays: Mapping[str, Array], text: str, y: Array
    ) -> Array:
        cpu, emulated = PROCESSORS[recipe.name]
        machine = machine_of("aarch64-linux-gnu", cpu)
        code = str(convert_module(module, fallback_target_triple=machine.triple))
        (tmp_path / "k.o").write_bytes(compile_text(code, machine).object())
        lines = [f'    char *y = filled("y", {y.nbytes});']
        for name, array in {**arrays, "y": y}.items():
            (tmp_path / name).write_bytes(array.tobytes())
            if name != "y":
                lines.append(f'    char *{name} = filled("{name}", {array.nbytes});')
        source = MAIN % ("\n".join([*lines, f"    {text}"]), y.nbytes, y.nbytes)
        (tmp_path / "main.c").write_text(source)
        run_in(tmp_path, [compiler, "-static", "main.c", "k.o", "-o", "main"])
        run_in(tmp_path, [emulator, "-cpu", emulated, "./main"])
        return np.frombuffer((tmp_path / "y").read_bytes(), y.dtype).reshape(y.shape)

    return call


def run_in(folder: Path, command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"


@pytest.mark.parametrize("layout", ["stored", "rows"])
@pytest.mark.parametrize("recipe", CASES, ids=lambda recipe: recipe.name)
def test_rows_of_trits(recipe: Recipe, layout: Layout, run: Run) -> None:
    rng, (rows, ins, outs) = np.random.default_rng(0), (2, 512, 7)
    trits = rng.integers(-1, 2, (outs, ins))
    trits[0], trits[1] = 1, -1
    x = rng.integers(-128, 128, (rows, ins)).astype(np.int8)
    x[0, :256] = -128
    arrays = {
        "x": x,
        "w": PackedWeights.of(trits).layout(layout),
        "scratch": np.zeros(scratch_bytes(rows, ins, outs, 1), np.uint8),
    }
    text = f"linear(x, w, y, scratch, 0, 0, 0, 0, {rows}, {ins}, {outs});"
    module = kernel_module(recipe, layout, KIND_NAMED["i8"])
    found = run(recipe, module, arrays, text, np.zeros((rows, outs), np.int32))
    np.testing.assert_array_equal(found, x.astype(np.int64) @ trits.T)


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("recipe", CASES, ids=lambda recipe: recipe.name)
def test_rows_of_blocks(recipe: Recipe, kind: RowKind, run: Run) -> None:
    """Whole numbers as scales and vector, so that nothing is rounded but the last sum."""
    gguf: Any = pytest.importorskip("gguf")
    block, rng = BLOCKS[kind], np.random.default_rng(0)
    rows = rng.integers(0, 256, (5, 2, block.bytes), np.uint8)
    rows[0], rows[1] = 0xFF, 0x80
    place = 208 if kind == "Q6_K" else 0
    rows[:, :, place : place + 2] = np.array([1], np.float16).view(np.uint8)
    rows = rows.reshape(5, -1)
    x = rng.integers(-126, 127, 2 * block.values).astype(np.float32)
    x[:: block.values] = 127
    arrays = {"rows": rows, "x": prepared(kind, x)}
    words = f"(int64_t)rows, (int64_t)x, (int64_t)y, {rows.shape[1]}, {len(x)}"
    text = f"int64_t words[] = {{{words}}};\n    rows_part(words, 0, 0, 5, 0);"
    found = run(recipe, row_products_module(recipe, kind), arrays, text, np.zeros(5, np.float32))
    table = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType[kind]).astype(np.float64)
    np.testing.assert_allclose(found, table @ x, rtol=2e-7)
