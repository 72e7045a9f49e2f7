"""What tests of the target C share: programs, and their code on this machine and on others."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_c.engine import LoadedC
from triton_dsl.runtime.boards.boards import Port, Run, run_on_board
from triton_dsl.runtime.native.abi.interface import Interface

Array = NDArray[Any]
RequireTool = Callable[[str, str], str]
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
CHECKED = ("-std=c99", "-O1", "-g", *WARNINGS)


@pytest.fixture(autouse=True)
def compiler(require_tool: RequireTool) -> str:
    """The C compiler of this machine."""
    return require_tool("cc", "apt-get install gcc")


@pytest.fixture
def in_c() -> Callable[..., list[Array]]:
    """`in_c(module, *inputs, **options)`: the outputs of a program in C, compiled with all warnings
    as errors."""

    def run(module: ModuleOp, *inputs: Array, **options: object) -> list[Array]:
        artifact = compile_to_target(module, "c", options)
        return LoadedC(artifact, [*CHECKED, "-fPIC"])(*inputs)

    return run


def program_files(artifact: Artifact) -> dict[str, bytes]:
    """Header and code."""
    return {name: data for name, data in artifact.files.items() if name[-2:] in (".c", ".h")}


def ports_of(artifact: Artifact) -> tuple[list[Port], list[Port]]:
    """The arguments of the function."""
    data: Any = artifact.manifest["interface"]
    interface = Interface.from_dict(data)
    inputs, outputs = (
        [Port(t.dtype, int(np.prod(t.sizes(1)))) for t in ts]
        for ts in (interface.inputs, interface.outputs)
    )
    return inputs, outputs


@pytest.fixture
def on_board(require_tool: RequireTool) -> Callable[..., Run]:
    """`on_board(board, artifact, samples)`: a program under QEMU."""

    def run(board: str, artifact: Artifact, samples: Sequence[Array], optimize: str = "-O2") -> Run:
        if board == "cortex-m4":
            hint = "apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
            require_tool("arm-none-eabi-gcc", hint)
            require_tool("qemu-system-arm", hint)
        else:
            hint = "apt-get install gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf"
            require_tool("riscv64-unknown-elf-gcc", hint)
            require_tool("qemu-system-riscv32", "apt-get install qemu-system-misc")
        inputs, outputs = ports_of(artifact)
        files = program_files(artifact)
        return run_on_board(
            board, files, artifact.name, inputs, outputs, samples, optimize=optimize
        )

    return run


@pytest.fixture
def sanitized(tmp_path: Path, compiler: str) -> Callable[..., list[bytes]]:
    """`sanitized(artifact, samples)`: outputs of an executable with ASan and UBSan, where each
    tensor ends where its memory ends."""

    def run(artifact: Artifact, samples: Sequence[Array]) -> list[bytes]:
        inputs, outputs = ports_of(artifact)
        for name, content in program_files(artifact).items():
            (tmp_path / name).write_bytes(content)
        (tmp_path / "main.c").write_text(_caller(artifact.name, inputs, outputs))
        for number, sample in enumerate(samples):
            (tmp_path / f"in{number}.bin").write_bytes(np.ascontiguousarray(sample).tobytes())
        flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        build = [compiler, *CHECKED, *flags, "main.c", f"{artifact.name}.c", "-lm", "-o", "main"]
        subprocess.run(build, cwd=tmp_path, check=True)
        done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [(tmp_path / f"out{n}.bin").read_bytes() for n in range(len(outputs))]

    return run


def _caller(name: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> str:
    """A program that reads inputs, calls the function, and writes outputs."""
    sizes = [np.dtype(p.dtype).itemsize * p.count for p in (*inputs, *outputs)]
    lines = [f'#include "{name}.h"', "#include <stdio.h>", "#include <stdlib.h>", ""]
    lines += ["int main(void)", "{", "    FILE *file;"]
    for number, size in enumerate(sizes):
        lines.append(f"    void *p{number} = malloc({size});")
    for number in range(len(inputs)):
        lines.append(f'    file = fopen("in{number}.bin", "rb");')
        lines.append(f"    if (fread(p{number}, 1, {sizes[number]}, file) != {sizes[number]}) {{")
        lines += ["        return 2;", "    }", "    fclose(file);"]
    lines.append(f"    {name}({', '.join(f'p{n}' for n in range(len(sizes)))});")
    for number in range(len(outputs)):
        n = len(inputs) + number
        lines.append(f'    file = fopen("out{number}.bin", "wb");')
        lines += [f"    fwrite(p{n}, 1, {sizes[n]}, file);", "    fclose(file);"]
    lines += [f"    free(p{n});" for n in range(len(sizes))]
    return "\n".join([*lines, "    return 0;", "}"]) + "\n"
