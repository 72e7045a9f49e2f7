"""The table of processors: LLVM must be able to make every recipe's code for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.processor import host_features
from triton_dsl.lowering.to_native.machine import PROCESSORS, host_machine, machine_of
from triton_dsl.lowering.to_native.target import NativeOptions, NativeTarget
from triton_dsl.passes.ternary_kernels.recipes import best_recipe

pytest.importorskip("llvmlite")

TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-linux-gnu"}
# LLVM ends the process where it lacks an instruction, hence another one.
COMPILE = """
import sys
from functools import cache
from xdsl.backend.llvm.convert import convert_module
from triton_dsl.ir.native_abi import KINDS
from triton_dsl.lowering.to_native.machine import machine_of
from triton_dsl.lowering.to_native.object_code import compile_text
from triton_dsl.passes.ternary_kernels.kernel import kernel_module
from triton_dsl.passes.ternary_kernels.recipes import recipe_named

@cache
def kernels(recipe):
    return str(convert_module(kernel_module(recipe, "panels", KINDS[0]), fallback_target_triple=""))

for line in sys.argv[1:]:
    triple, cpu, name = line.split()
    machine = machine_of(triple, cpu)
    text = kernels(recipe_named(name, machine.features))
    text = text.replace('target triple = ""', f'target triple = "{triple}"')
    assert len(compile_text(text, machine).object()) > 1000
    print(cpu, name)
"""


@pytest.mark.parametrize("architecture", PROCESSORS)
def test_llvm_compiles_the_best_recipe_of_every_processor(architecture: str) -> None:
    chosen = {cpu: best_recipe(features).name for cpu, features in PROCESSORS[architecture].items()}
    lines = [f"{TRIPLES[architecture]} {cpu} {recipe}" for cpu, recipe in chosen.items()]
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, *lines], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [word for pair in chosen.items() for word in pair]
    # A name that LLVM does not know is ignored with a word on stderr.
    assert "not a recognized processor" not in done.stderr


def test_the_recipes_of_known_processors() -> None:
    chosen = {
        cpu: best_recipe(features).name
        for rows in PROCESSORS.values()
        for cpu, features in rows.items()
    }
    assert chosen["x86-64"] == chosen["cortex-a53"] == "generic"
    assert chosen["x86-64-v3"] == "avx2" and chosen["znver4"] == "avx512vnni-gfni"
    assert chosen["cascadelake"] == "avx512vnni" and chosen["alderlake"] == "avxvnni"


def test_this_processor_is_the_default() -> None:
    machine = machine_of(None, None)
    assert machine == host_machine() == machine_of(None, "host")
    assert machine.host and machine.features == host_features()


def test_another_system_gets_the_least_processor() -> None:
    assert machine_of("aarch64-linux-gnu", None).cpu == "generic"
    assert machine_of("x86_64-pc-windows-msvc", None).cpu == "x86-64"
    assert not machine_of("arm64-apple-macos", "apple-m1").host


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpu": "x86-64-v9"}, "no processor 'x86-64-v9' is known"),
        ({"cpu": "znver44"}, "did you mean 'znver4'"),
        ({"triple": "sparc-sun-solaris"}, "triples start with x86_64- or aarch64-"),
        ({"triple": "aarch64-linux-gnu", "cpu": "host"}, "leave triple="),
        ({"triple": "aarch64-linux-gnu", "recipe": "avx2"}, "has no avx2"),
        ({"cpu": "x86-64-v3", "recipe": "avx512vnni"}, "avx512vnni"),
        ({"recipe": "sse9"}, "no SIMD recipe is named 'sse9'"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        NativeOptions(**options).kernels()  # pyright: ignore[reportArgumentType]


def test_stages_name_the_recipe_where_it_is_chosen() -> None:
    def memory(options: NativeOptions) -> str:
        return next(s.pipeline for s in NativeTarget().stages(options) if s.name == "memory")

    assert "recipe" not in memory(NativeOptions())
    assert "recipe=generic " in memory(NativeOptions(triple="aarch64-linux-gnu"))
    assert "recipe=avx2 precision=dynamic-int8" in memory(
        NativeOptions(cpu="x86-64-v3", precision="dynamic-int8")
    )
