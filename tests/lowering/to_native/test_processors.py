"""Objects for many processors, linked to a caller in C and run under QEMU's user mode.

One program has every kind of kernel, in forms whose result is exact, so that each processor must
give the bits of the interpreter. What no emulator runs (AVX-512, AVX-VNNI) runs where this machine
has it, and is disassembled everywhere.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore, save_arrays
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.module_file import save_module
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_native.machine import machine_of
from triton_dsl.runtime.native.abi.interface import Interface
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.usefixtures("users_code")

LINUX = {
    "x86_64": "x86_64-unknown-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "armv7": "armv7-linux-gnueabihf",
    "riscv64": "riscv64-linux-gnu",
}
BATCH = 5

PROGRAM = """
func.func @forward(%x: tensor<?x70xi8>, %i: tensor<?x3x9x10xi8>, %f: tensor<?x4x7x6xf32>,
                   %g: tensor<?x70xf32>, %t: tensor<?x50x!ternary.trit>,
                   %s: !spike.train<6x?x37>, %h: tensor<?x11xf16>)
    -> (tensor<?x9xi8>, tensor<?x130xi32>, tensor<?x10x5x10xi8>, tensor<?x5x7x6xf32>,
        tensor<?x4x7x6xf32>, tensor<?x30xf32>, tensor<?x2000xf32>, tensor<?x21xi32>,
        !spike.train<6x?x40>, tensor<?x40xf32>, tensor<?x11xi32>, tensor<?x12x5x10xi8>,
        tensor<?x3x9x9xi32>, tensor<?x3x9x9xi32>) {
  %w = ternary.parameter "w" : tensor<70x130x!ternary.trit>
  %sums = ternary.matmul %x, %w : tensor<?x70xi8>, tensor<70x130x!ternary.trit>
          -> tensor<?x130xi32>
  %multiplier = tensor.constant dense<1103515245> : tensor<i32>
  %shift = tensor.constant dense<36> : tensor<i32>
  %zero = tensor.constant dense<-3> : tensor<i8>
  %q = tensor.requantize %sums, %multiplier, %shift, %zero {axis = 1 : i64, low = -128 : i64,
       high = 127 : i64} : (tensor<?x130xi32>, tensor<i32>, tensor<i32>, tensor<i8>)
       -> tensor<?x130xi8>
  %w2 = ternary.parameter "w2" : tensor<130x9x!ternary.trit>
  %thresholds = tensor.constant dense<[[-9, 0, 4]]> : tensor<1x3xi32>
  %counts = ternary.linear %q, %w2 thresholds(%thresholds : tensor<1x3xi32>)
            : tensor<?x130xi8>, tensor<130x9x!ternary.trit> -> tensor<?x9xi8>

  %wi = ternary.parameter "wi" : tensor<10x3x3x3x!ternary.trit>
  %ci = ternary.conv %i, %wi thresholds(%thresholds : tensor<1x3xi32>)
        {strides = array<i64: 2, 1>, padding = array<i64: 1, 1, 1, 1>,
        dilation = array<i64: 1, 1>, groups = 1 : i64}
        : tensor<?x3x9x10xi8>, tensor<10x3x3x3x!ternary.trit> -> tensor<?x10x5x10xi8>

  %offset = tensor.constant dense<-128> : tensor<i32>
  %i32 = tensor.convert %i : (tensor<?x3x9x10xi8>) -> tensor<?x3x9x10xi32>
  %image = tensor.sub %i32, %offset : (tensor<?x3x9x10xi32>, tensor<i32>) -> tensor<?x3x9x10xi32>
  %wb = tensor.parameter "wb" : tensor<12x3x3x3xi32>
  %sb = tensor.conv %image, %wb {strides = array<i64: 2, 1>, padding = array<i64: 1, 1, 1, 1>,
        dilation = array<i64: 1, 1>, groups = 1 : i64}
        : (tensor<?x3x9x10xi32>, tensor<12x3x3x3xi32>) -> tensor<?x12x5x10xi32>
  %bytes = tensor.requantize %sb, %multiplier, %shift, %zero {axis = 1 : i64, low = -128 : i64,
       high = 127 : i64} : (tensor<?x12x5x10xi32>, tensor<i32>, tensor<i32>, tensor<i8>)
       -> tensor<?x12x5x10xi8>

  %turned = tensor.permute %i32 {perm = array<i64: 0, 1, 3, 2>}
            : (tensor<?x3x9x10xi32>) -> tensor<?x3x10x9xi32>
  %own = tensor.matmul %i32, %turned
         : (tensor<?x3x9x10xi32>, tensor<?x3x10x9xi32>) -> tensor<?x3x9x9xi32>
  %other = tensor.matmul %image, %turned
           : (tensor<?x3x9x10xi32>, tensor<?x3x10x9xi32>) -> tensor<?x3x9x9xi32>

  %wf = ternary.parameter "wf" : tensor<5x4x3x3x!ternary.trit>
  %cf = ternary.conv %f, %wf {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
        dilation = array<i64: 1, 1>, groups = 1 : i64}
        : tensor<?x4x7x6xf32>, tensor<5x4x3x3x!ternary.trit> -> tensor<?x5x7x6xf32>
  %wd = ternary.parameter "wd" : tensor<4x1x3x3x!ternary.trit>
  %cd = ternary.conv %f, %wd {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
        dilation = array<i64: 1, 1>, groups = 4 : i64}
        : tensor<?x4x7x6xf32>, tensor<4x1x3x3x!ternary.trit> -> tensor<?x4x7x6xf32>

  %wg = ternary.parameter "wg" : tensor<70x30x!ternary.trit>
  %floats = ternary.linear %g, %wg {activation = "relu"}
            : tensor<?x70xf32>, tensor<70x30x!ternary.trit> -> tensor<?x30xf32>
  %ws = ternary.parameter "ws" : tensor<70x2000x!ternary.trit>
  %sparse = ternary.linear %g, %ws
            : tensor<?x70xf32>, tensor<70x2000x!ternary.trit> -> tensor<?x2000xf32>

  %wt = ternary.parameter "wt" : tensor<50x21x!ternary.trit>
  %trits = ternary.matmul %t, %wt : tensor<?x50x!ternary.trit>, tensor<50x21x!ternary.trit>
           -> tensor<?x21xi32>

  %we = ternary.parameter "we" : tensor<37x40x!ternary.trit>
  %quarter = tensor.constant dense<0.25> : tensor<f32>
  %current = spike.linear %s, %we scale(%quarter : tensor<f32>)
             : !spike.train<6x?x37>, tensor<37x40x!ternary.trit> -> tensor<6x?x40xf32>
  %fired, %potential = spike.lif %current {beta = 0.9 : f64, v_leak = 0.1 : f64}
                       : (tensor<6x?x40xf32>) -> (!spike.train<6x?x40>, tensor<?x40xf32>)

  %wide = tensor.convert %h : (tensor<?x11xf16>) -> tensor<?x11xf32>
  %halves = tensor.convert %wide : (tensor<?x11xf32>) -> tensor<?x11xi32>
  func.return %counts, %sums, %ci, %cf, %cd, %floats, %sparse, %trits, %fired, %potential,
              %halves, %bytes, %own, %other
      : tensor<?x9xi8>, tensor<?x130xi32>, tensor<?x10x5x10xi8>, tensor<?x5x7x6xf32>,
        tensor<?x4x7x6xf32>, tensor<?x30xf32>, tensor<?x2000xf32>, tensor<?x21xi32>,
        !spike.train<6x?x40>, tensor<?x40xf32>, tensor<?x11xi32>, tensor<?x12x5x10xi8>,
        tensor<?x3x9x9xi32>, tensor<?x3x9x9xi32>
}
"""


FEW = """
func.func @forward(%x: tensor<?x70xi8>, %g: tensor<?x70xf32>, %s: !spike.train<6x?x37>)
    -> (tensor<?x130xi32>, tensor<?x30xf32>, !spike.train<6x?x40>) {
  %w = ternary.parameter "w" : tensor<70x130x!ternary.trit>
  %sums = ternary.matmul %x, %w : tensor<?x70xi8>, tensor<70x130x!ternary.trit>
          -> tensor<?x130xi32>
  %wg = ternary.parameter "wg" : tensor<70x30x!ternary.trit>
  %floats = ternary.linear %g, %wg {activation = "relu"}
            : tensor<?x70xf32>, tensor<70x30x!ternary.trit> -> tensor<?x30xf32>
  %we = ternary.parameter "we" : tensor<37x40x!ternary.trit>
  %quarter = tensor.constant dense<0.25> : tensor<f32>
  %current = spike.linear %s, %we scale(%quarter : tensor<f32>)
             : !spike.train<6x?x37>, tensor<37x40x!ternary.trit> -> tensor<6x?x40xf32>
  %fired, %potential = spike.lif %current {beta = 0.9 : f64, v_leak = 0.1 : f64}
                       : (tensor<6x?x40xf32>) -> (!spike.train<6x?x40>, tensor<?x40xf32>)
  func.return %sums, %floats, %fired : tensor<?x130xi32>, tensor<?x30xf32>, !spike.train<6x?x40>
}
"""
"""Products of bytes, floats and spikes alone: what processes with other processors compile."""


@cache
def program(text: str = PROGRAM) -> ModuleOp:
    """A program, with known weights."""
    module = parse_module(text)
    rng = np.random.default_rng(1)
    arrays: dict[str, NDArray[Any]] = {}
    for name, sizes in re.findall(r'parameter "(\w+)" : tensor<([\dx]+)x!', text):
        trits = rng.integers(-1, 2, [int(size) for size in sizes.split("x")]).astype(np.int8)
        if name == "ws":
            trits[8:64] = 0
        arrays[name] = pack_trits(trits)
    if text == PROGRAM:
        arrays["wb"] = rng.integers(-127, 128, (12, 3, 3, 3)).astype(np.int32)
    attach_store(module, ParameterStore.of(arrays))
    return module


@cache
def inputs(text: str = PROGRAM) -> list[NDArray[Any]]:
    """Integers, also as floats, over all that they can be: sums of them are exact."""
    if text == FEW:
        return [inputs()[0], inputs()[3], inputs()[5]]
    rng = np.random.default_rng(2)

    def integers(*shape: int) -> NDArray[Any]:
        return rng.integers(-127, 128, (BATCH, *shape))

    return [
        rng.integers(-128, 128, (BATCH, 70)).astype(np.int8),
        rng.integers(-128, 128, (BATCH, 3, 9, 10)).astype(np.int8),
        integers(4, 7, 6).astype(np.float32),
        integers(70).astype(np.float32),
        rng.integers(-1, 2, (BATCH, 50)).astype(np.int8),
        rng.random((6, BATCH, 37)) < 0.4,
        integers(11).astype(np.float16),
    ]


@cache
def expected(text: str = PROGRAM) -> Sequence[NDArray[Any]]:
    """What the interpreter gives."""
    return run_module(program(text), inputs(text))


class Target(NamedTuple):
    """A processor of the table, what stands for it, and what its code must be.

    Attributes:
        emulated: QEMU's name of a processor that has no more than is needed; `None` where none has
            as much, and the code runs only on a machine that has it.
        text: the program, `FEW` where others of the same kernels compute all of `PROGRAM`.
    """

    architecture: str
    cpu: str
    emulated: str | None
    recipe: str
    text: str = PROGRAM


TARGETS = (
    Target("x86_64", "x86-64", "Nehalem", "generic"),
    Target("x86_64", "haswell", "Haswell", "avx2"),
    Target("x86_64", "alderlake", None, "avxvnni"),
    Target("x86_64", "icelake-server", None, "avx512vnni-gfni"),
    Target("aarch64", "cortex-a53", "cortex-a53", "neon"),
    Target("aarch64", "cortex-a76", "cortex-a76", "neon-dotprod"),
    Target("armv7", "cortex-a7", "cortex-a7", "generic"),
    Target("riscv64", "generic-rv64", "rv64", "generic", FEW),
)
MORE_TARGETS = (
    Target("x86_64", "x86-64-v2", "Nehalem", "generic"),
    Target("x86_64", "x86-64-v3", "Haswell", "avx2"),
    Target("x86_64", "znver3", "max", "avx2"),
    # AVX-512 without VNNI: no recipe of 512 bits.
    Target("x86_64", "skylake-avx512", None, "avx2"),
    Target("x86_64", "x86-64-v4", None, "avx2"),
    Target("x86_64", "cascadelake", None, "avx512vnni"),
    Target("x86_64", "sapphirerapids", None, "avx512vnni-gfni"),
    Target("x86_64", "znver4", None, "avx512vnni-gfni"),
    Target("x86_64", "znver5", None, "avx512vnni-gfni"),
    Target("aarch64", "generic", "cortex-a53", "neon"),
    Target("aarch64", "cortex-a72", "cortex-a72", "neon"),
    Target("aarch64", "neoverse-n1", "neoverse-n1", "neon-dotprod"),
    Target("aarch64", "neoverse-v1", "max", "neon-dotprod"),
    Target("armv7", "cortex-a9", "cortex-a9", "generic"),
    Target("armv7", "cortex-a15", "cortex-a15", "generic"),
    Target("riscv64", "sifive-u74", "sifive-u54", "generic"),
)
EVERY = [*TARGETS, *(pytest.param(target, marks=pytest.mark.slow) for target in MORE_TARGETS)]


def named(target: Target) -> str:
    return target.cpu


@cache
def compiled(architecture: str, cpu: str, text: str) -> Artifact:
    options = {"triple": LINUX[architecture], "cpu": cpu, "name": "model"}
    return compile_to_target(program(text), "native", options)


def recipe_of(artifact: Artifact) -> str:
    interface: Any = artifact.manifest["interface"]
    return Interface.from_dict(interface).recipe


def assert_bits(
    found: Sequence[NDArray[Any]], wanted: Sequence[NDArray[Any]] | None = None
) -> None:
    for number, (have, want) in enumerate(zip(found, wanted or expected(), strict=True)):
        assert have.dtype == want.dtype and have.shape == want.shape
        assert have.tobytes() == want.tobytes(), f"result {number}"


class Instructions(NamedTuple):
    """What stands in an object for x86-64.

    Attributes:
        names: of all instructions.
        wide: the widest registers, `x`, `y` or `z`.
        extended: whether any has the prefix EVEX, which AVX-512 alone has, at every width.
    """

    names: frozenset[str]
    wide: str
    extended: bool


def instructions(code: bytes, folder: Path, tool: str) -> Instructions:
    """The code of an object, disassembled by GNU's objdump."""
    (folder / "shown.o").write_bytes(code)
    command = [tool, "-d", "--insn-width=16", str(folder / "shown.o")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in text.splitlines() if line.count("\t") == 2]
    assert len(rows) > 1000
    # A prefix of the segment or of the size of addresses may come first.
    evex = re.compile(r"((26|2e|36|3e|64|65|67) )*62 ")
    widths = {letter for row in rows for letter in re.findall(r"%([xyz])mm", row[2])}
    names = frozenset(word for row in rows for word in row[2].split()[:2])
    return Instructions(names, max(widths), any(evex.match(row[1]) for row in rows))


@pytest.fixture
def disassembled(
    require_tool: Callable[[str, str], str], tmp_path: Path
) -> Callable[[bytes], Instructions]:
    """The instructions of an object for x86-64."""
    tool = require_tool("objdump", "apt-get install binutils")
    return lambda code: instructions(code, tmp_path, tool)


@pytest.mark.parametrize("target", EVERY, ids=named)
def test_every_processor_gives_the_bits_of_the_interpreter(
    target: Target, c_caller: Callable[..., Any]
) -> None:
    artifact = compiled(target.architecture, target.cpu, target.text)
    assert recipe_of(artifact) == target.recipe
    if target.emulated is not None:
        caller = c_caller(emulated=(target.architecture, target.emulated))
    elif machine_of(LINUX[target.architecture], target.cpu).features <= host_features():
        caller = c_caller()
    else:
        pytest.skip(f"neither this processor nor an emulator has what {target.cpu} has")
    assert_bits(caller(artifact, inputs(target.text), BATCH), expected(target.text))


@pytest.mark.parametrize("target", [t for t in EVERY if "x86" in str(t)], ids=named)
def test_objects_have_the_instructions_of_their_recipe_and_no_others(
    target: Target, disassembled: Callable[[bytes], Instructions]
) -> None:
    found = disassembled(compiled(target.architecture, target.cpu, target.text).files["model.o"])
    features = machine_of(LINUX[target.architecture], target.cpu).features
    assert found.extended == ("avx512f" in features)
    assert found.wide == "z" or not target.recipe.startswith("avx512")
    # LLVM may join registers of an avx2 kernel where the processor has wider ones.
    assert found.wide != "z" or "avx512f" in features
    assert (found.wide == "x") == (target.recipe == "generic")
    assert ("vpdpbusd" in found.names) == ("vnni" in target.recipe)
    assert ("vpmaddubsw" in found.names) == (target.recipe == "avx2")
    assert any(name.startswith("v") for name in found.names) == ("avx" in features)


@pytest.mark.parametrize("target", [t for t in EVERY if "aarch64" in str(t)], ids=named)
def test_objects_for_arm_have_dot_products_where_the_processor_has(target: Target) -> None:
    code = compiled(target.architecture, target.cpu, target.text).files["model.o"]
    words = np.frombuffer(code[: len(code) // 4 * 4], "<u4")
    # SDOT (vector) and SDOT (by element) of the Arm Architecture Reference Manual.
    dots = (words & 0xFFE0FC00 == 0x4E809400) | (words & 0xFFC0F400 == 0x4F80E000)
    has = "dotprod" in machine_of(LINUX[target.architecture], target.cpu).features
    assert (dots.sum() > 50) == has and (has or dots.sum() < 3)


ROUNDED = """
func.func @forward(%x: tensor<?x21xf32>, %s: tensor<f32>, %z: tensor<i8>) -> tensor<?x21xi8> {
  %y = tensor.quantize %x, %s, %z : (tensor<?x21xf32>, tensor<f32>, tensor<i8>) -> tensor<?x21xi8>
  func.return %y : tensor<?x21xi8>
}
"""


def test_floats_are_bounded_without_the_library_of_mathematics(
    c_caller: Callable[..., Any],
) -> None:
    options = {"triple": LINUX["armv7"], "name": "model"}
    artifact = compile_to_target(parse_module(ROUNDED), "native", {**options, "form": "assembly"})
    assert not re.search(r"\bf(min|max)f?\b", artifact.files["model.s"].decode())
    artifact = compile_to_target(parse_module(ROUNDED), "native", options)
    x = np.array([[*range(-9, 9), np.nan, np.inf, -np.inf]], np.float32) * np.float32(17.25)
    caller = c_caller(emulated=("armv7", "cortex-a7"))
    (found,) = caller(artifact, [x, np.float32(1.5), np.int8(-3)], 1)
    rounded = np.rint(np.nan_to_num(x, nan=4.5) / np.float32(1.5)) - 3
    np.testing.assert_array_equal(found, np.clip(rounded, -128, 127).astype(np.int8))


DOUBLES = """
func.func @forward(%x: tensor<?x21xf64>, %y: tensor<21xf64>)
    -> (tensor<?x21xf64>, tensor<?x21xf64>, tensor<?xf64>, tensor<?x21xf64>) {
  %most = tensor.maximum %x, %y : (tensor<?x21xf64>, tensor<21xf64>) -> tensor<?x21xf64>
  %least = tensor.minimum %x, %y : (tensor<?x21xf64>, tensor<21xf64>) -> tensor<?x21xf64>
  %low = tensor.reduce_min %x {axes = array<i64: 1>} : (tensor<?x21xf64>) -> tensor<?xf64>
  %cut = tensor.relu6 %x : (tensor<?x21xf64>) -> tensor<?x21xf64>
  func.return %most, %least, %low, %cut
      : tensor<?x21xf64>, tensor<?x21xf64>, tensor<?xf64>, tensor<?x21xf64>
}
"""


def test_doubles_are_bounded_on_32_bit_arm(c_caller: Callable[..., Any]) -> None:
    options = {"triple": LINUX["armv7"], "name": "model"}
    artifact = compile_to_target(parse_module(DOUBLES), "native", options)
    rng = np.random.default_rng(0)
    x, y = rng.normal(scale=9, size=(3, 21)), rng.normal(scale=9, size=21)
    x[1, 3:5], y[4:7] = (np.nan, -np.inf), (np.nan, np.inf, 1.0)
    found = c_caller(emulated=("armv7", "cortex-a7"))(artifact, [x, y], 3)
    wanted = [np.maximum(x, y), np.minimum(x, y), x.min(axis=1)]
    wanted.append(np.minimum(np.maximum(x, 0), 6))
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(have, want)


RESCALED = """
func.func @forward(%x: tensor<?x7xi32>, %m: tensor<7xi32>, %s: tensor<7xi32>) -> tensor<?x7xi8> {
  %z = tensor.constant dense<-5> : tensor<i8>
  %y = tensor.requantize %x, %m, %s, %z {axis = 1 : i64, low = -128 : i64, high = 127 : i64}
       : (tensor<?x7xi32>, tensor<7xi32>, tensor<7xi32>, tensor<i8>) -> tensor<?x7xi8>
  func.return %y : tensor<?x7xi8>
}
"""


@pytest.mark.parametrize("cpu", ["cortex-a53", "cortex-a76"])
def test_three_sums_behind_whole_vectors_are_rescaled(
    cpu: str, c_caller: Callable[..., Any]
) -> None:
    options = {"triple": LINUX["aarch64"], "cpu": cpu, "name": "model"}
    artifact = compile_to_target(parse_module(RESCALED), "native", options)
    rng = np.random.default_rng(0)
    x = rng.integers(-(1 << 31), 1 << 31, (5, 7)).astype(np.int32)
    m = rng.integers(-(1 << 31), 1 << 31, 7).astype(np.int32)
    s = np.array([62, 50, 40, 54, 56, 57, 55], np.int32)
    (found,) = c_caller(emulated=("aarch64", cpu))(artifact, [x, m, s], 5)
    for row, column in np.ndindex(x.shape):
        shift = int(s[column])
        exact = (int(x[row, column]) * int(m[column]) + (1 << (shift - 1))) >> shift
        assert found[row, column] == max(-128, min(exact - 5, 127))


def test_the_emulator_stops_at_what_a_processor_lacks(c_caller: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match=r"llegal|signal 4"):
        c_caller(emulated=("x86_64", "Nehalem"))(
            compiled("x86_64", "haswell", PROGRAM), inputs(), BATCH
        )


HASWELL = (
    "64bit avx avx2 bmi bmi2 cmov crc32 cx16 cx8 f16c fma fsgsbase fxsr lzcnt mmx movbe popcnt "
    "sahf sse sse2 sse3 sse4.1 sse4.2 ssse3 xsave"
)
"""LLVM's names of what a Haswell has and QEMU has of it."""

# A process with a false idea of its processor: arguments are LLVM's name of it, what it has (`none`
# where LLVM cannot say), and a command of `triton`.
PRETEND = """
import sys
from llvmlite import binding

name, present, *command = sys.argv[1:]
reported = dict.fromkeys(binding.get_host_cpu_features(), False)
assert present == "none" or set(present.split()) <= set(reported), "LLVM has other names"
reported |= dict.fromkeys(present.split(), True)
binding.get_host_cpu_name = lambda: name
binding.get_host_cpu_features = lambda: {} if present == "none" else reported

from triton_dsl.tools.cli import main
sys.exit(main(command))
"""


@pytest.fixture
def pretend(tmp_path: Path) -> Callable[..., str]:
    """Run `triton` with a false processor: `pretend(name, features, *command)`; what it prints.

    `FEW` stands in `program.mlir`.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("LLVM knows the features of x86 only on x86")
    save_module(program(FEW), tmp_path / "program.mlir")

    def run(name: str, present: str, *command: str) -> str:
        words = [sys.executable, "-c", PRETEND, name, present, *command]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


MASKED = [
    ("znver4", HASWELL, "avx2", "Haswell"),
    pytest.param("znver5", f"{HASWELL} gfni vaes", "avx2", None, marks=pytest.mark.slow),
    # Only the first of AVX-512 is masked, and what needs it is not.
    pytest.param(
        *("icelake-server", f"{HASWELL} avx512bw avx512vl avx512dq avx512vnni", "avx2", "Haswell"),
        marks=pytest.mark.slow,
    ),
    pytest.param("znver5", "64bit cmov sse sse2", "generic", "Nehalem", marks=pytest.mark.slow),
    pytest.param("znver5", "", "generic", "Nehalem", marks=pytest.mark.slow),
    ("znver5", "none", "generic", "Nehalem"),
]


@pytest.mark.parametrize(("name", "present", "recipe", "emulated"), MASKED)
def test_a_name_brings_nothing_back_that_is_masked(
    name: str,
    present: str,
    recipe: str,
    emulated: str | None,
    pretend: Callable[..., str],
    disassembled: Callable[[bytes], Instructions],
    c_caller: Callable[..., Any],
    tmp_path: Path,
) -> None:
    pretend(
        name, present, "compile", "program.mlir", "-t", "native{name=model}", "-o", "out/model.o"
    )
    files = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert f"recipe {recipe}" in files["model.h"].decode()
    code = disassembled(files["model.o"])
    assert not code.extended
    assert code.wide == ("x" if recipe == "generic" else "y")
    if emulated is not None:
        artifact = Artifact("model", files, manifest=compiled("x86_64", "x86-64", FEW).manifest)
        found = c_caller(emulated=("x86_64", emulated))(artifact, inputs(FEW), BATCH)
        assert_bits(found, expected(FEW))


@pytest.mark.parametrize("present", ["none", pytest.param("", marks=pytest.mark.slow)])
def test_this_process_runs_without_any_feature(
    present: str, pretend: Callable[..., str], tmp_path: Path
) -> None:
    names = re.findall(r"%(\w+): ", FEW.partition("->")[0])
    save_arrays(tmp_path / "in.safetensors", dict(zip(names, inputs(FEW), strict=True)))
    command = ("run", "program.mlir", "-i", "in.safetensors", "--engine", "native", "-o", "out.npz")
    pretend("znver5", present, *command)
    with np.load(tmp_path / "out.npz") as results:
        found = [results[name] for name in results.files]
    assert_bits(found, expected(FEW))


@pytest.mark.parametrize(
    ("name", "present", "recipes"),
    [
        ("znver4", HASWELL, ["avx2"] * 5),
        ("znver5", "none", ["generic"] * 5),
        ("x", f"{HASWELL} avx512f avx512bw avx512vl avx512dq", [*["avx2"] * 4, "avx512bw"]),
    ],
)
def test_doctor_tells_the_kernels(
    name: str, present: str, recipes: list[str], pretend: Callable[..., str]
) -> None:
    rows = json.loads(pretend(name, present, "doctor", "--json"))[-5:]
    assert [row["found"] for row in rows] == recipes
    assert rows[0]["name"] == "ternary products"
