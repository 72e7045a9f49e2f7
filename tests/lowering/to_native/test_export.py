"""Artefacts made from a module of the `llvm` dialect: called from C, and in every form.

The module is written by hand (`conftest`), so that no pass takes part.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import BackendError, LoweringError, OptionError, UnsupportedError
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.to_native import object_code
from triton_dsl.lowering.to_native.elf import undefined_symbols
from triton_dsl.lowering.to_native.machine import machine_of
from triton_dsl.lowering.to_native.object_code import compile_text
from triton_dsl.lowering.to_native.target import NativeOptions, NativeTarget
from triton_dsl.runtime.native.loading import load_shared

pytestmark = pytest.mark.usefixtures("users_code")

SCALE = np.array([1.0, -2.0, 0.5, 4.0], np.float32)
X = np.random.default_rng(3).standard_normal((5, 4)).astype(np.float32)


def emit(module: ModuleOp, **options: Any) -> Artifact:
    return NativeTarget().emit(module.clone(), NativeOptions(**options))


@pytest.mark.parametrize("language", ["c99", "c++"])
def test_c_programs_call_the_object(
    by_hand: ModuleOp, c_caller: Callable[..., Any], language: str
) -> None:
    (y,) = c_caller(language)(emit(by_hand), [X], 5)
    np.testing.assert_array_equal(y, X * SCALE)


def test_no_byte_outside_the_buffers_is_touched(
    by_hand: ModuleOp, c_caller: Callable[..., Any]
) -> None:
    artifact = emit(by_hand, cpu="x86-64")
    (y,) = c_caller(memcheck=True)(artifact, [X], 5)
    np.testing.assert_array_equal(y, X * SCALE)


def test_valgrind_would_see_a_read_too_far(
    overrunning: ModuleOp, c_caller: Callable[..., Any]
) -> None:
    with pytest.raises(AssertionError, match="Invalid read"):
        c_caller(memcheck=True)(emit(overrunning, cpu="x86-64"), [X], 5)


@pytest.mark.parametrize("name", ["linear", "forward", "double", "memcpy", "a-b c"])
def test_any_name_can_be_given(by_hand: ModuleOp, c_caller: Callable[..., Any], name: str) -> None:
    artifact = emit(by_hand, name=name)
    (y,) = c_caller()(artifact, [X], 5)
    np.testing.assert_array_equal(y, X * SCALE)
    assert artifact.manifest["prefix"] not in ("double", "memcpy")


def test_the_same_program_gives_the_same_bytes(by_hand: ModuleOp) -> None:
    for form in ("object", "assembly", "llvm-ir"):
        assert emit(by_hand, form=form).files == emit(by_hand, form=form).files


def test_only_the_entry_says_where_constants_stand(by_hand: ModuleOp) -> None:
    """Every other address of theirs would be an entry of the object's table."""
    text = emit(by_hand, form="llvm-ir").text()
    defined, *uses = [line for line in text.splitlines() if "@Scaling.constants" in line]
    assert "private" in defined and len(uses) == 1 and "asm" in uses[0]


def test_numbers_of_small_code_stand_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each is a symbol and a relocation, ten times its bytes."""
    machine = machine_of("x86_64-unknown-linux-gnu", "x86-64-v3")
    if not machine.assembles:
        pytest.skip("LLVM assembles for its own processor alone")
    text = """
        target triple = "x86_64-unknown-linux-gnu"
        define <8 x float> @f(<8 x float> %x) {
            %y = fmul <8 x float> %x, splat (float 3.0)
            %z = fadd <8 x float> %y, <float 1.0, float 2.0, float 3.0, float 4.0, float 5.0,
                                       float 6.0, float 7.0, float 8.0>
            ret <8 x float> %z
        }"""
    beside = compile_text(text, machine).object()
    monkeypatch.setattr(object_code, "_LARGE", 0)
    apart = compile_text(text, machine).object()
    assert b".rodata" in apart and b".LCPI" in apart and b".rela" in apart
    assert b".rodata" not in beside and b".LCPI" not in beside and b".rela" not in beside


def test_forms_of_other_processors(by_hand: ModuleOp) -> None:
    arm = emit(by_hand, triple="aarch64-linux-gnu", form="assembly").text()
    assert "adrp" in arm and "fmul" in arm
    assert "define" in emit(by_hand, form="llvm-ir").text()
    other = emit(by_hand, triple="aarch64-linux-gnu").files["Scaling.o"]
    assert other[:4] == b"\x7fELF" and other[18] == 183  # EM_AARCH64
    windows = emit(by_hand, triple="x86_64-pc-windows-msvc").files["Scaling.o"]
    assert windows[:2] == b"\x64\x86" and undefined_symbols(windows) is None


def test_the_object_defines_two_symbols_and_needs_none(
    by_hand: ModuleOp, require_tool: Callable[[str, str], str], tmp_path: Path
) -> None:
    nm = require_tool("nm", "apt-get install binutils")
    artifact = emit(by_hand)
    (tmp_path / "a.o").write_bytes(artifact.files["Scaling.o"])
    shown = subprocess.run([nm, "-g", tmp_path / "a.o"], capture_output=True, text=True, check=True)
    symbols = {line.split()[-1]: line.split()[-2] for line in shown.stdout.splitlines()}
    assert symbols == {"Scaling": "T", "Scaling_workspace_bytes": "T", "Scaling_interface": "R"}
    assert undefined_symbols(artifact.files["Scaling.o"]) == []
    assert "calls no function" in artifact.text("Scaling.h")


def test_undefined_symbols_are_those_that_nm_finds(
    require_tool: Callable[[str, str], str], tmp_path: Path
) -> None:
    compiler = require_tool("cc", "apt-get install gcc")
    source = tmp_path / "a.c"
    source.write_text("int f(int); int memory[9]; int g(int x) { return f(x) + memory[x]; }")
    subprocess.run([compiler, "-c", source, "-o", tmp_path / "a.o", "-fno-pic"], check=True)
    assert undefined_symbols((tmp_path / "a.o").read_bytes()) == ["f"]


def test_a_shared_library_is_loaded(
    by_hand: ModuleOp, require_tool: Callable[[str, str], str], tmp_path: Path
) -> None:
    require_tool("cc", "apt-get install gcc")
    artifact = emit(by_hand, form="shared")
    assert artifact.files.keys() == {"Scaling.so", "Scaling.h"}
    (tmp_path / "a.so").write_bytes(artifact.files["Scaling.so"])
    program = load_shared(tmp_path / "a.so", "Scaling", threads=2)
    for x in (X, X[:1], X[:0]):
        np.testing.assert_array_equal(program(x), x * SCALE)
        np.testing.assert_array_equal(program(x), x * SCALE)
    x = X.copy()
    bound = program.bind(x)
    for factor in (1, 2):
        x[...] = X * factor
        np.testing.assert_array_equal(bound(), x * SCALE)
    assert program.interface.to_dict() == artifact.manifest["interface"]
    with pytest.raises(BackendError, match="holds no program 'a'"):
        load_shared(tmp_path / "a.so")
    with pytest.raises(BackendError, match="holds no program 'b'"):
        load_shared(tmp_path / "b.so")


def test_a_shared_library_needs_a_compiler(
    by_hand: ModuleOp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(BackendError, match=r"looked for cc, gcc, clang.*form=object needs none"):
        emit(by_hand, form="shared")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(BackendError, match="looked for no-such-compiler"):
        emit(by_hand, form="shared")
    assert emit(by_hand).files
    monkeypatch.undo()
    with pytest.raises(OptionError, match="take form=object"):
        emit(by_hand, form="shared", triple="aarch64-linux-gnu")


def test_a_compiler_that_refuses_is_quoted(
    by_hand: ModuleOp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = tmp_path / "grumpy"
    compiler.write_text("#!/bin/sh\necho no licence >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(BackendError, match="no licence"):
        emit(by_hand, form="shared")


def test_the_compiler_may_have_arguments_and_spaces_in_its_path(
    by_hand: ModuleOp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = tmp_path / "my compiler"
    compiler.write_text('#!/bin/sh\necho "$@" >&2\nexit 1\n')
    compiler.chmod(0o755)
    for value, quoted in ((f"{compiler}", "-shared -o"), (f"'{compiler}' -m64", "-m64 -shared -o")):
        monkeypatch.setenv("CC", value)
        with pytest.raises(BackendError, match=f": {quoted}"):
            emit(by_hand, form="shared")


def test_what_did_not_reach_llvm_is_listed() -> None:
    text = """
    func.func @forward(%x : tensor<4xf32>) -> tensor<4xf32> {
      %0 = tensor.relu %x : (tensor<4xf32>) -> tensor<4xf32>
      func.return %0 : tensor<4xf32>
    }
    """
    with pytest.raises(UnsupportedError) as raised:
        emit(parse_module(text, "net.mlir"))
    names = [name for name, _, _ in raised.value.problems]
    assert names == ["func.func", "tensor.relu", "func.return"]


def test_a_module_without_a_program_is_refused(by_hand: ModuleOp) -> None:
    with pytest.raises(LoweringError, match="no function 'forward'"):
        emit(ModuleOp([]))
    del by_hand.attributes["native.interface"]
    with pytest.raises(LoweringError, match="did not go through the stages"):
        emit(by_hand)


def test_the_file_name_decides_the_form() -> None:
    target, plain = NativeTarget(), NativeOptions()
    forms = {
        name: target.options_for(plain, Path(name)).form
        for name in ("a.o", "a.so", "a.ll", "a.s", "out/a")
    }
    assert list(forms.values()) == ["object", "shared", "llvm-ir", "assembly", None]
    with pytest.raises(OptionError, match=r"'out/a\.bin' does not say.* \.o, .*\.so, .*\.s, \.ll"):
        target.options_for(plain, Path("out/a.bin"))
    assert target.options_for(NativeOptions(form="object"), Path("a.bin")).form == "object"
    with pytest.raises(OptionError, match=r"'a\.so' is a file of form=shared"):
        target.options_for(NativeOptions(form="object"), Path("a.so"))


@pytest.mark.parametrize("name", ["NULL", "EOF", "errno", "int", "memcpy", "INT_MAX", "float"])
def test_names_that_c_has_already_are_changed(
    by_hand: ModuleOp, c_caller: Callable[..., Any], name: str
) -> None:
    artifact = emit(by_hand, name=name)
    assert artifact.name == f"{name}_"
    (y,) = c_caller("c99")(artifact, [X], 5)
    np.testing.assert_array_equal(y, X * SCALE)


def test_headers_of_names_that_differ_in_case_go_together(by_hand: ModuleOp) -> None:
    macros: list[str] = []
    for name in ("two", "TWO", "Two", "_2"):
        header = emit(by_hand, name=name).files[f"{name}.h"].decode()
        macros += [
            line.split()[1].split("(")[0] for line in header.splitlines() if "#define" in line
        ]
    assert len(macros) == 4 * 5
    assert len(set(macros)) == len(macros)
