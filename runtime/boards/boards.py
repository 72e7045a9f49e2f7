"""Boards that QEMU emulates: building a program for one, and running it on samples.

QEMU counts instructions, not cycles. Not here: what the program does.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import BackendError, OptionError
from ..outside import called
from .boot import boot_manifest

_SECONDS = 600
_IMAGE, _MANIFEST, _END = 1 << 20, 3 << 20, 4 << 20
"""Where in flash image and manifest stand behind a first stage that checks them, and its end."""

Flashing = Callable[[bytes, bytes], tuple[bytes, bytes]]
"""From image and manifest, those that are in flash."""

_BUILD = (
    "-std=gnu99 -ffp-contract=off -ffunction-sections -fdata-sections -Wl,--gc-sections "
    "-nostartfiles -T board.ld"
)
_EMULATE = (
    "-nographic -monitor none -serial none -icount shift=0 "
    "-semihosting-config enable=on,target=native"
)


@dataclass(frozen=True)
class Board:
    """A microcontroller that QEMU emulates.

    Attributes:
        compiler: the command of its C compiler.
        flags: for the compiler.
        flash, ram: where they start.
        emulator: the command, but for the program.
        packages: Debian's, with compiler, C library and emulator.
    """

    compiler: str
    flags: tuple[str, ...]
    flash: int
    ram: int
    emulator: tuple[str, ...]
    packages: str


BOARDS: Mapping[str, Board] = {
    "cortex-m4": Board(
        "arm-none-eabi-gcc",
        ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
        0,
        0x20000000,
        ("qemu-system-arm", "-M", "mps2-an386"),
        "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
    ),
    "riscv32": Board(
        "riscv64-unknown-elf-gcc",
        ("-march=rv32imac", "-mabi=ilp32", "-mcmodel=medany", "--specs=picolibc.specs"),
        0x80000000,
        0x80400000,
        ("qemu-system-riscv32", "-M", "virt", "-bios", "none", "-m", "16M"),
        "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-misc",
    ),
}
"""By name: a Cortex-M4 with floats of 32 bits, and a RISC-V without floats."""


@dataclass(frozen=True)
class Port:
    """An argument of the function: elements as NumPy names them, and their number."""

    dtype: str
    count: int

    @property
    def bytes(self) -> int:
        """Its bytes, up to the next word of eight."""
        return -(-np.dtype(self.dtype).itemsize * self.count // 8) * 8


@dataclass(frozen=True)
class Run:
    """What a board did.

    Attributes:
        outputs: for each output [samples, elements].
        instructions: for each sample.
        flash: bytes of code and constants of the whole image, what starts it included.
        ram: bytes of static memory of the program, without arguments and stack.
        stack: the most bytes of stack.
    """

    outputs: list[Array]
    instructions: list[int]
    flash: int
    ram: int
    stack: int


def board_named(name: str) -> Board:
    """The board of that name.

    Raises:
        OptionError: there is none.
        BackendError: its compiler or its emulator is missing; says what to install.
    """
    board = BOARDS.get(name)
    if board is None:
        raise OptionError(f"no board is named '{name}'; there are {', '.join(BOARDS)}")
    for command in (board.compiler, board.emulator[0]):
        if shutil.which(command) is None:
            raise BackendError(f"{command} is missing: apt-get install {board.packages}")
    return board


def run_on_board(
    name: str,
    sources: Mapping[str, bytes],
    function: str,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    samples: Sequence[Array],
    *,
    optimize: str = "-O2",
    boot: Flashing | None = None,
) -> Run:
    """Build a program for a board and run it there on samples.

    Args:
        name: of the board.
        sources: files by name; `FUNCTION.h` declares the function.
        function: takes pointers to inputs, then to outputs.
        inputs, outputs: its arguments.
        samples: for each input [samples, …], of its type.
        optimize: how the compiler optimises.
        boot: given, a first stage checks the program's image before it starts it (`boot`).

    Raises:
        OptionError: no such board.
        BackendError: a tool is missing or refuses, or the first stage does.
    """
    board = board_named(name)
    with TemporaryDirectory() as place:
        folder = Path(place)
        for file, content in sources.items():
            (folder / file).write_bytes(content)
        flash_start = board.flash if boot is None else board.flash + _IMAGE
        _build(board, folder, function, inputs, outputs, optimize, flash_start)
        loaded = ["-kernel", "program.elf"] if boot is None else _verified(board, folder, boot)
        flash, ram = _sizes(board, folder, f"{function}.c", optimize)
        count = len(samples[0]) if samples else 1
        (folder / "samples.bin").write_bytes(_joined(inputs, samples, count))
        _call([*board.emulator, *_EMULATE.split(), *loaded], folder)
        records = np.fromfile(folder / "counts.bin", np.uint32).reshape(-1, 2)
        content = (folder / "results.bin").read_bytes()
    if len(records) != count:
        raise BackendError(f"board '{name}' ended after {len(records)} of {count} samples")
    return Run(
        _parted(outputs, content, count),
        records[:, 0].tolist(),
        flash,
        ram,
        int(records[:, 1].max(initial=0)),
    )


def _build(
    board: Board,
    folder: Path,
    function: str,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    optimize: str,
    flash_start: int,
) -> None:
    _copy(folder, "harness.c", "start.h", "board.ld")
    arguments = [*_places("const void *", "input", inputs), *_places("void *", "output", outputs)]
    size = [max(sum(port.bytes for port in ports), 1) for ports in (inputs, outputs)]
    sources = sorted(path.name for path in folder.glob("*.c") if path.name != "main.c")
    defined = [
        *_placed(board, flash_start),
        f'-DHEADER="{function}.h"',
        f"-DINPUT={size[0]}",
        f"-DOUTPUT={size[1]}",
        f"-DCALL={function}({', '.join(arguments)})",
    ]
    options = [*board.flags, optimize, *_BUILD.split(), *defined]
    _call([board.compiler, *options, *sources, "-lm", "-o", "program.elf"], folder)


def _verified(board: Board, folder: Path, boot: Flashing) -> list[str]:
    """A first stage with the anchor of the program; what the emulator loads."""
    copy = board.compiler.replace("gcc", "objcopy")
    _call([copy, "-O", "binary", "program.elf", "image"], folder)
    image = (folder / "image").read_bytes()
    manifest, anchor = boot_manifest(image)
    for name, content in zip(("image", "manifest"), boot(image, manifest), strict=True):
        (folder / name).write_bytes(content)
    _copy(folder, "boot.c", "boot.h", "bootloader.c", "start.h")
    defined = [
        *_placed(board, board.flash),
        f"-DANCHOR={','.join(map(str, anchor))}",
        f"-DIMAGE={board.flash + _IMAGE}u",
        f"-DIMAGE_SIZE={_MANIFEST - _IMAGE}u",
        f"-DMANIFEST={board.flash + _MANIFEST}u",
        f"-DMANIFEST_SIZE={_END - _MANIFEST}u",
    ]
    options = [*board.flags, "-Os", *_BUILD.split(), *defined]
    _call([board.compiler, *options, "bootloader.c", "boot.c", "-o", "boot.elf"], folder)
    loaded = ["-kernel", "boot.elf"]
    for name, place in (("image", _IMAGE), ("manifest", _MANIFEST)):
        loaded += ["-device", f"loader,file={name},addr={board.flash + place:#x},force-raw=on"]
    return loaded


def _copy(folder: Path, *names: str) -> None:
    """Files of this folder."""
    for name in names:
        (folder / name).write_bytes(files(__name__.rpartition(".")[0]).joinpath(name).read_bytes())


def _placed(board: Board, flash_start: int) -> list[str]:
    """Where the linker puts flash and RAM."""
    return [f"-Wl,--defsym=FLASH_START={flash_start}", f"-Wl,--defsym=RAM_START={board.ram}"]


def _places(type: str, name: str, ports: Sequence[Port]) -> list[str]:
    """Where arguments stand in the memory of a sample."""
    offset, places = 0, list[str]()
    for port in ports:
        places.append(f"({type})({name} + {offset})")
        offset += port.bytes
    return places


def _sizes(board: Board, folder: Path, source: str, optimize: str) -> tuple[int, int]:
    """Bytes of flash of the image, and of static memory of one source."""
    tool = board.compiler.replace("gcc", "size")
    _call([board.compiler, *board.flags, optimize, "-std=c99", "-c", source, "-o", "one.o"], folder)
    image = _call([tool, "program.elf"], folder).splitlines()[1].split()
    one = _call([tool, "one.o"], folder).splitlines()[1].split()
    return int(image[0]) + int(image[1]), int(one[1]) + int(one[2])


def _joined(ports: Sequence[Port], samples: Sequence[Array], count: int) -> bytes:
    """The inputs of each sample one after the other."""
    rows = [np.zeros((count, 0), np.uint8)]
    for port, values in zip(ports, samples, strict=True):
        row = np.ascontiguousarray(values).reshape(count, -1).view(np.uint8)
        rows.append(np.pad(row, ((0, 0), (0, port.bytes - row.shape[1]))))
    joined = np.concatenate(rows, axis=1)
    return joined.tobytes() if joined.size else bytes(count)


def _parted(ports: Sequence[Port], content: bytes, count: int) -> list[Array]:
    """The inverse of `_joined`."""
    rows = np.frombuffer(content, np.uint8).reshape(count, -1)
    offset, outputs = 0, list[Array]()
    for port in ports:
        used = np.dtype(port.dtype).itemsize * port.count
        part = np.ascontiguousarray(rows[:, offset : offset + used])
        outputs.append(part.view(port.dtype))
        offset += port.bytes
    return outputs


def _call(command: Sequence[str], folder: Path) -> str:
    try:
        done = called(command, folder, _SECONDS)
    except subprocess.TimeoutExpired as error:
        raise BackendError(f"{command[0]} does not end: {error}") from error
    if done.returncode:
        said = re.sub(r"\s+", " ", done.stderr.strip())[-400:]
        raise BackendError(f"{command[0]} ends with {done.returncode}: {said}")
    return done.stdout
