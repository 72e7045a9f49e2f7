"""The table of processors: LLVM must be able to make every recipe's code for them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.to_native.kernels.recipes import best_recipe
from triton_dsl.lowering.to_native.machine import PROCESSORS, host_machine, machine_of
from triton_dsl.lowering.to_native.object_code import compiled_object
from triton_dsl.lowering.to_native.target import NativeOptions, NativeTarget
from triton_dsl.runtime.native import processor
from triton_dsl.runtime.native.processor import (
    OPTIMIZE,
    Processor,
    host_features,
    host_processor,
    llvm_binding,
    optimization_level,
)

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.usefixtures("users_code")

TRIPLES = {
    "x86_64": "x86_64-unknown-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "armv7": "armv7-linux-gnueabihf",
    "riscv64": "riscv64-linux-gnu",
}
# LLVM ends the process where it lacks an instruction, hence another one. Instructions are as many
# as the features of a processor let; its name alone is asked for with nothing to compile.
COMPILE = """
import sys
from functools import cache
from xdsl.backend.llvm.convert import convert_module
from triton_dsl.runtime.native.abi.linear import KINDS
from triton_dsl.lowering.to_native.machine import machine_of
from triton_dsl.lowering.to_native.object_code import compile_text
from triton_dsl.lowering.to_native.kernels.kernel import kernel_module
from triton_dsl.lowering.to_native.kernels.recipes import recipe_named

@cache
def kernels(recipe):
    return str(convert_module(kernel_module(recipe, "panels", KINDS[0]), fallback_target_triple=""))

done = set()
for line in sys.argv[1:]:
    triple, cpu, name = line.split()
    machine = machine_of(triple, cpu)
    needed = name, machine.features
    text = 'target triple = ""' if needed in done else kernels(recipe_named(*needed))
    text = text.replace('target triple = ""', f'target triple = "{triple}"')
    assert len(compile_text(text, machine).object()) > (100 if needed in done else 1000)
    done.add(needed)
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
    assert chosen["x86-64"] == chosen["cortex-a7"] == "generic"
    assert chosen["cortex-a53"] == "neon" and chosen["cortex-a76"] == "neon-dotprod"
    assert chosen["x86-64-v3"] == "avx2" and chosen["znver4"] == "avx512vnni-gfni"
    assert chosen["cascadelake"] == "avx512vnni" and chosen["alderlake"] == "avxvnni"


# Functions that LLVM makes other code of where it has the feature of their name.
PROBES = {
    "avx": "<8 x float> @f(<8 x float> %a) { %r = fmul <8 x float> %a, %a ret <8 x float> %r }",
    "avx2": "<8 x i32> @f(<8 x i32> %a) { %r = mul <8 x i32> %a, %a ret <8 x i32> %r }",
    "fma": "float @f(float %a) { %r = call float @llvm.fma.f32(float %a, float %a, float %a) "
    "ret float %r }",
    "bmi2": "i64 @f(i64 %a, i64 %b) { %r = shl i64 %a, %b ret i64 %r }",
    "f16c": "<8 x float> @f(<8 x half> %a) { %r = fpext <8 x half> %a to <8 x float> "
    "ret <8 x float> %r }",
    "avx512f": "<16 x i32> @f(<16 x i32> %a) { %r = mul <16 x i32> %a, %a ret <16 x i32> %r }",
    "avx512dq": "<8 x i64> @f(<8 x i64> %a) { %r = mul <8 x i64> %a, %a ret <8 x i64> %r }",
    "avx512bw": "<64 x i8> @f(<64 x i8> %a) { %r = add <64 x i8> %a, %a ret <64 x i8> %r }",
    "avx512vl": "<4 x i64> @f(<4 x i64> %a) { %r = ashr <4 x i64> %a, splat (i64 5) "
    "ret <4 x i64> %r }",
    "avx512cd": "<8 x i64> @f(<8 x i64> %a) { %r = call <8 x i64> @llvm.ctlz.v8i64(<8 x i64> %a, "
    "i1 false) ret <8 x i64> %r }",
    "gfni": "<16 x i8> @f(<16 x i8> %a) { %r = call <16 x i8> @llvm.bitreverse.v16i8(<16 x i8> %a) "
    "ret <16 x i8> %r }",
    "avx512vbmi": "<64 x i8> @f(<64 x i8> %a) { %r = shufflevector <64 x i8> %a, <64 x i8> %a, "
    f"<64 x i32> <{', '.join(f'i32 {37 * i % 64}' for i in range(64))}> ret <64 x i8> %r }}",
    "vnni": "i32 @f(<64 x i8> %a, <64 x i8> %b) { %c = zext <64 x i8> %a to <64 x i32> "
    "%d = sext <64 x i8> %b to <64 x i32> %e = mul nsw <64 x i32> %c, %d "
    "%r = call i32 @llvm.vector.reduce.add.v64i32(<64 x i32> %e) ret i32 %r }",
}
DECLARED = """
declare float @llvm.fma.f32(float, float, float)
declare <8 x i64> @llvm.ctlz.v8i64(<8 x i64>, i1)
declare <16 x i8> @llvm.bitreverse.v16i8(<16 x i8>)
declare i32 @llvm.vector.reduce.add.v64i32(<64 x i32>)
"""


def assembly(generator: Any, probe: str, triple: str) -> str:
    text = f'target triple = "{triple}"\n{DECLARED}\ndefine {PROBES[probe]}'
    return generator.emit_assembly(llvm_binding().parse_assembly(text))


@pytest.mark.parametrize("cpu", PROCESSORS["x86_64"])
def test_the_table_says_of_a_processor_what_llvm_says(cpu: str) -> None:
    machine = machine_of(TRIPLES["x86_64"], cpu)
    signed = machine.code_generator()
    by_name = (
        llvm_binding()
        .Target.from_triple(machine.triple)
        .create_target_machine(cpu=cpu, opt=3, reloc="pic", codemodel="default")
    )
    for probe in PROBES:
        made, wanted = (assembly(g, probe, machine.triple) for g in (signed, by_name))
        assert made == wanted, probe


def test_probes_see_each_feature() -> None:
    triple = TRIPLES["x86_64"]
    full = machine_of(triple, "znver5")
    for probe in PROBES:
        missing = {probe} if probe != "vnni" else {"avx512vnni", "avxvnni"}
        less = replace(full, features=full.features - missing, lacks=full.lacks | missing)
        made, other = (assembly(m.code_generator(), probe, triple) for m in (full, less))
        assert made != other, probe


def test_what_is_absent_comes_last() -> None:
    """`+avx512vnni` alone would bring all of AVX-512."""
    present, lacks = frozenset({"avx512vnni", "zz"}), frozenset({"avx512f", "aes"})
    assert Processor("x", present, lacks).flags == "+avx512vnni,+zz,-aes,-avx512f"


def test_this_processor_is_the_default() -> None:
    machine = machine_of(None, None)
    assert machine == host_machine() == machine_of(None, "host")
    assert machine.host and machine.features == host_features()


def test_another_system_gets_the_least_processor() -> None:
    assert machine_of("aarch64-linux-gnu", None).cpu == "generic"
    assert machine_of("x86_64-pc-windows-msvc", None).cpu == "x86-64"
    assert not machine_of("arm64-apple-macos", "apple-m1").host


def test_the_matrix_unit_is_asked_of_linux_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = {"avx2": True, "amx-tile": True, "amx-int8": True, "avx512f": False}
    monkeypatch.setattr(llvm_binding(), "get_host_cpu_features", lambda: reported)
    monkeypatch.setattr(sys, "platform", "linux")
    host = host_processor.__wrapped__()
    assert host.features == {"avx2", "amx-tile", "amx-int8"} and host.lacks == {"avx512f"}
    monkeypatch.setattr(sys, "platform", "win32")
    host = host_processor.__wrapped__()
    assert host.features == {"avx2"} and host.lacks == {"avx512f", "amx-tile", "amx-int8"}


@pytest.mark.parametrize(
    ("cpuinfo", "recipe"),
    [
        # A Neoverse N1, as Linux tells it.
        (["fp asimd evtstrm aes crc32 atomics asimdhp cpuid asimdrdm lrcpc asimddp ssbs"] * 2,
         "neon-dotprod"),
        (["fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"], "neon"),
        (["fp asimd asimddp", "fp asimd"], "neon"),
        ([], "neon"),
    ],
)  # fmt: skip
def test_linux_tells_of_dot_products(
    cpuinfo: list[str], recipe: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # What LLVM 22 reports of such a processor.
    reported = {"fp-armv8": True, "neon": True, "crc": True, "lse": True, "sve": False}
    binding = llvm_binding()
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: reported)
    monkeypatch.setattr(binding, "get_process_triple", lambda: "aarch64-unknown-linux-gnu")
    monkeypatch.setattr(sys, "platform", "linux")
    lines = [f"processor : {n}\nFeatures : {row}\n" for n, row in enumerate(cpuinfo)]
    (tmp_path / "cpuinfo").write_text("".join(lines))
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    host = host_processor.__wrapped__()
    assert host.cpu == "generic" and best_recipe(host.features).name == recipe
    assert host.lacks == {"sve"}


def test_macs_have_dot_products(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = llvm_binding()
    monkeypatch.setattr(binding, "get_host_cpu_features", dict[str, bool])
    monkeypatch.setattr(binding, "get_process_triple", lambda: "arm64-apple-darwin24.0.0")
    monkeypatch.setattr(sys, "platform", "darwin")
    host = host_processor.__wrapped__()
    assert host.cpu == "generic" and best_recipe(host.features).name == "neon-dotprod"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpu": "x86-64-v9"}, "no processor 'x86-64-v9' is known"),
        ({"cpu": "znver44"}, "did you mean 'znver4'"),
        ({"triple": "sparc-sun-solaris"}, "triples start with x86_64- or aarch64-"),
        ({"triple": "aarch64-linux-gnu", "cpu": "host"}, "leave triple="),
        ({"triple": "aarch64-linux-gnu", "recipe": "avx2"}, "has no avx, avx2"),
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
    assert "recipe=neon " in memory(NativeOptions(triple="aarch64-linux-gnu"))
    assert "recipe=avx2 precision=dynamic-int8" in memory(
        NativeOptions(cpu="x86-64-v3", precision="dynamic-int8")
    )


def test_code_is_kept_by_how_far_it_is_optimised(
    by_hand: ModuleOp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: set[bytes] = set()
    for level in ("0", "2", "0"):
        monkeypatch.setenv(OPTIMIZE, level)
        made.add(compiled_object("scaling", lambda: by_hand, cache_folder=tmp_path / "kept"))
    assert len(made) == len(list((tmp_path / "kept").iterdir())) == 2
    monkeypatch.setenv(OPTIMIZE, "1")
    with pytest.raises(OptionError, match="TRITON_DSL_OPTIMIZE is '1'; it can be 0 or 2"):
        optimization_level()
