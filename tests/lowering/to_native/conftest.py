"""What tests of the native target share: a program written by hand, and a caller in C.

The program is y = x · scale for x [batch, 4], in the `llvm` dialect. The scale is the constants;
`forward` copies x into the workspace before it multiplies, so that wrong constants, a wrong
workspace and a wrong batch all show.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    ModuleOp,
    StringAttr,
    f32,
    i64,
)
from xdsl.dialects.llvm import FuncOp

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.to_native.header import macro_prefix
from triton_dsl.lowering.to_native.kernels.code import POINTER, Code
from triton_dsl.runtime.native.abi.interface import Interface, TensorInterface
from triton_dsl.runtime.native.abi.sizes import BATCH, Size

pytest.importorskip("llvmlite")

SCALE = np.array([1.0, -2.0, 0.5, 4.0], np.float32)


@pytest.fixture
def by_hand() -> ModuleOp:
    """The program, as the passes would leave it."""
    return scaling_program()


@pytest.fixture
def overrunning() -> ModuleOp:
    """The program, but for an element too much that it handles."""
    return scaling_program(excess=1)


def scaling_program(excess: int = 0) -> ModuleOp:
    """The program, as the passes would leave it."""

    code = Code("forward", [POINTER] * 4 + [i64])
    x, y, constants, workspace, batch = code.arguments
    size = code.add(code.mul(batch, 4), excess)
    with code.each(0, size) as index:
        value = code.load(code.at(x, index, f32), f32)
        code.store(value, code.at(workspace, index, f32))
    with code.each(0, size) as index:
        factor = code.load(code.at(constants, code.and_(index, 3), f32), f32)
        value = code.load(code.at(workspace, index, f32), f32)
        code.store(code.fmul(value, factor), code.at(y, index, f32))
    module = ModuleOp([code.finish(), _workspace_bytes()], sym_name=StringAttr("Scaling"))
    x, y = (TensorInterface(name, "float32", (BATCH, Size.of(4))) for name in "xy")
    interface = Interface("Scaling", (x,), (y,), "generic", ("batch",), False, 0)
    module.attributes["native.interface"] = StringAttr(interface.to_json())
    attach_store(module, ParameterStore.of({"forward.constants": SCALE.view(np.uint8)}))
    return module


def _workspace_bytes() -> FuncOp:
    code = Code("forward_workspace_bytes", [i64])
    return code.finish(code.mul(code.arguments[0], 16))


CALLER = """\
#include <stdio.h>
#include <stdlib.h>
#include "{stem}.h"

static void *filled(const char *path, size_t bytes) {{
    FILE *file = fopen(path, "rb");
    void *memory = malloc(bytes);
    if (!file || (bytes && (!memory || fread(memory, 1, bytes, file) != bytes))) exit(2);
    fclose(file);
    return memory;
}}

static void keep(const char *path, const void *memory, size_t bytes) {{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(memory, 1, bytes, file) != bytes) exit(3);
    fclose(file);
}}

int main(int count, char **arguments) {{
{sizes}
    size_t workspace_bytes = (size_t){prefix}_workspace_bytes({names});
    char *memory = (char *)malloc(workspace_bytes);
{body}
    free(memory);
    return 0;
}}
"""


@dataclass(frozen=True)
class CCaller:
    """Calls an object from C (or C++), every buffer of exactly its size on the heap."""

    folder: Path
    compiler: str
    flags: Sequence[str]
    wrapper: Sequence[str]

    def __call__(self, artifact: Artifact, inputs: Sequence[Any], *free: int) -> list[Any]:
        """The outputs of the program in `artifact`."""
        interface = Interface.from_dict(artifact.manifest["interface"])  # pyright: ignore[reportArgumentType]
        for name, content in artifact.files.items():
            (self.folder / name).write_bytes(content)
        (self.folder / "main.c").write_text(self._source(artifact, interface))
        for index, array in enumerate(inputs):
            (self.folder / f"in{index}").write_bytes(np.ascontiguousarray(array).tobytes())
        command = [self.compiler, *self.flags, "main.c", "-x", "none", f"{artifact.name}.o"]
        self._run([*command, "-o", "main"])
        self._run([*self.wrapper, str(self.folder / "main"), *map(str, free)])
        outputs: list[Any] = []
        for index, tensor in enumerate(interface.outputs):
            data = (self.folder / f"out{index}").read_bytes()
            outputs.append(np.frombuffer(data, tensor.dtype).reshape(tensor.sizes(*free)))
        return outputs

    def _run(self, command: Sequence[str]) -> None:
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    def _source(self, artifact: Artifact, interface: Interface) -> str:
        prefix = str(artifact.manifest["prefix"])
        lines: list[str] = []
        names: list[str] = []
        for role, tensors in (("IN", interface.inputs), ("OUT", interface.outputs)):
            for index, tensor in enumerate(tensors):
                name = f"{role.lower()}{index}"
                names.append(name)
                macro = f"{macro_prefix(prefix)}_{role}PUT_{index}_ELEMENTS"
                needed = sorted({n for size in tensor.shape for n in size.depends})
                macro += f"({', '.join(interface.free[n] for n in needed)})" if needed else ""
                element = C_TYPES[tensor.dtype]
                lines.append(f"size_t n_{name} = (size_t){macro} * sizeof({element});")
                made = f'filled("{name}", n_{name})' if role == "IN" else f"malloc(n_{name})"
                lines.append(f"{element} *{name} = ({element} *){made};")
        lines.append(f"{prefix}({', '.join([*names, 'memory', *interface.names])});")
        lines += [f'keep("{n}", {n}, n_{n});' for n in names if n.startswith("out")]
        lines += [f"free({n});" for n in names]
        body = "\n".join(f"    {line}" for line in lines)
        sizes = "\n".join(
            f"    int64_t {name} = count > {n} ? atoll(arguments[{n}]) : 1;"
            for n, name in enumerate(interface.names, start=1)
        )
        given = ", ".join(interface.names)
        return CALLER.format(stem=artifact.name, prefix=prefix, body=body, sizes=sizes, names=given)


C_TYPES = {
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
    **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
}
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")
LANGUAGES = {
    "c99": ("cc", ["-x", "c", "-std=c99", *WARNINGS]),
    "c++": ("c++", ["-x", "c++", "-std=c++11", *WARNINGS]),
}


EMULATORS = {
    "x86_64": ("qemu-x86_64", "cc", "gcc"),
    "aarch64": ("qemu-aarch64", "aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    "armv7": ("qemu-arm", "arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"),
    "riscv64": ("qemu-riscv64", "riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu"),
}
"""Of an architecture: the emulator, the compiler, and the Debian package that has it."""


@pytest.fixture
def c_caller(require_tool: Callable[[str, str], str], tmp_path: Path) -> Callable[..., CCaller]:
    """Makes a `CCaller` for a language: `c_caller("c99")`; `memcheck=True` runs it in valgrind.

    `emulated=("aarch64", "cortex-a53")` compiles for another architecture and runs the program on
    that processor in QEMU's user mode, which stops it at an instruction that this has not.
    """

    def make(
        language: str = "c99", *, memcheck: bool = False, emulated: tuple[str, str] | None = None
    ) -> CCaller:
        name, flags = LANGUAGES[language]
        wrapper: list[str] = []
        if emulated is not None:
            emulator, name, package = EMULATORS[emulated[0]]
            tool = require_tool(emulator, "apt-get install qemu-user")
            wrapper = [tool, "-cpu", emulated[1]]
            # Without the other system's libraries, what is linked has to bring them.
            compiler = require_tool(name, f"apt-get install {package}")
            return CCaller(tmp_path, compiler, [*flags, "-static"], wrapper)
        compiler = require_tool(name, "apt-get install gcc g++")
        if memcheck:
            valgrind = require_tool("valgrind", "apt-get install valgrind")
            wrapper = [valgrind, "--quiet", "--error-exitcode=9"]
        return CCaller(tmp_path, compiler, flags, wrapper)

    return make
