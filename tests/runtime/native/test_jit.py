"""Compiling a module of the `llvm` dialect in this process, and keeping what was compiled."""

import ctypes
import gc
import platform
import sys
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import BackendError
from triton_dsl.lowering.to_native.object_code import compile_object
from triton_dsl.runtime.native import jit
from triton_dsl.runtime.native.cache import ObjectCache
from triton_dsl.runtime.native.jit import Library, assembled, kept, load
from triton_dsl.runtime.native.processor import Processor, host_features

pytest.importorskip("llvmlite")

PROGRAM = """
"llvm.func"() <{sym_name = "store", CConv = #llvm.cconv<ccc>, linkage = #llvm.linkage<"external">,
                function_type = !llvm.func<void (ptr, i64)>, visibility_ = 0 : i64}> ({
^bb0(%place: !llvm.ptr, %value: i64):
  "llvm.store"(%value, %place) <{ordering = 0 : i64}> : (i64, !llvm.ptr) -> ()
  "llvm.return"() : () -> ()
}) : () -> ()
"""


HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
LONG = """
module asm ".text"
module asm "padding: .fill 6000000, 1, 0xc3"
@padding = external global i8
define i64 @twice(i64 %x) {
  %y = add i64 %x, %x
  ret i64 %y
}
define ptr @where() {
  ret ptr @padding
}
"""


def program() -> ModuleOp:
    return parse_module(PROGRAM)


def stored(library: Library, value: int) -> int:
    place = ctypes.c_int64()
    function = library.function("store", [ctypes.c_void_p, ctypes.c_int64])
    function(ctypes.addressof(place), value)
    return place.value


def test_runs_a_compiled_function() -> None:
    assert stored(Library(compile_object(program())), -12345) == -12345


def test_a_function_outlives_its_library() -> None:
    library = Library(compile_object(program()))
    function = library.function("store", [ctypes.c_void_p, ctypes.c_int64])
    del library
    place = ctypes.c_int64()
    function(ctypes.addressof(place), 7)
    assert place.value == 7


def test_a_missing_function_is_named() -> None:
    with pytest.raises(BackendError, match="'absent'"):
        Library(compile_object(program())).function("absent", [])


def test_generates_only_once(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    calls: list[int] = []

    def generate() -> bytes:
        calls.append(1)
        return compile_object(program())

    for value in (1, 2, 3):
        assert stored(load("fingerprint", generate, cache=cache), value) == value
    assert len(calls) == 1
    load("another fingerprint", generate, cache=cache)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "other",
    [
        Processor("znver5", frozenset({"avx2"}), frozenset({"avx512f", "gfni"})),
        Processor("znver5", frozenset({"avx2", "gfni"}), frozenset({"avx512f"})),
        Processor("znver4", frozenset({"avx2"}), frozenset({"avx512f"})),
    ],
)
def test_an_object_belongs_to_what_the_processor_has_and_lacks(
    other: Processor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ObjectCache(tmp_path)
    first = Processor("znver5", frozenset({"avx2"}), frozenset({"avx512f"}))
    for processor, content in ((first, b"1"), (other, b"2"), (first, b"3")):
        monkeypatch.setattr(jit, "host_processor", lambda found=processor: found)
        made = kept("fingerprint", lambda found=content: found, cache=cache)
        assert made == (b"2" if processor is other else b"1")


def test_recompiles_a_damaged_entry(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    load("fingerprint", lambda: compile_object(program()), cache=cache)
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert stored(load("fingerprint", lambda: compile_object(program()), cache=cache), 5) == 5
    assert stored(load("fingerprint", lambda: compile_object(program()), cache=cache), 6) == 6


def test_knows_this_processor() -> None:
    assert all(isinstance(name, str) for name in host_features())


def test_collection_is_rare_while_code_is_made(tmp_path: Path) -> None:
    seen: list[int] = []

    def generate() -> bytes:
        seen.append(gc.get_threshold()[0])
        return b"x"

    def fail() -> bytes:
        raise BackendError("no code")

    cache, before = ObjectCache(tmp_path), gc.get_threshold()
    usual = (700, *before[1:])
    gc.set_threshold(*usual)
    try:
        kept("a", generate, cache=cache)
        assert seen[0] > usual[0] and gc.get_threshold() == usual
        with pytest.raises(BackendError, match="no code"):
            kept("b", fail, cache=cache)
        assert gc.get_threshold() == usual
    finally:
        gc.set_threshold(*before)


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages of code are asked for on Linux")
def test_long_code_stands_in_huge_pages() -> None:
    library = assembled(LONG)
    twice: Any = library.function("twice", [ctypes.c_int64], ctypes.c_int64)
    library.code_in_huge_pages("twice")
    assert twice(21) == 42
    address = ctypes.cast(twice, ctypes.c_void_p).value
    assert address is not None
    huge, inside = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            start, end = (int(n, 16) for n in first.split("-"))
            inside = start <= address < end
        elif inside and first == "AnonHugePages:":
            huge = int(rest[0])
    if tuple(map(int, platform.release().split(".")[:2])) >= (6, 1) and HUGE.is_file():
        assert huge >= 2048
