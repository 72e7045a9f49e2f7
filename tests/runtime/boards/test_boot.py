"""Boot manifests: SHA-256 in C beside Python's, and emulated boards that start no other image."""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.ir.errors import BackendError, OptionError
from triton_dsl.runtime.boards.boards import BOARDS, Port, run_on_board
from triton_dsl.runtime.boards.boot import boot_manifest, boot_sources
from triton_dsl.tools import cli

DOUBLE = {
    "twice.h": b"void twice(const float *x, float *y);\n",
    "twice.c": b'#include "twice.h"\n'
    b"static const volatile float factors[3] = {2.0f, -4.0f, 0.5f};\n"
    b"void twice(const float *x, float *y)\n"
    b"{ for (int i = 0; i < 3; i++) { y[i] = factors[i] * x[i]; } }\n",
}


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The check in C, compiled for this machine without a warning."""
    folder = tmp_path_factory.mktemp("boot")
    for name, content in boot_sources().items():
        (folder / name).write_bytes(content)
    warnings = "-std=c99 -Wall -Wextra -Wconversion -pedantic -Werror"
    made = ["cc", *warnings.split(), "-O1", "-g", "-fsanitize=undefined"]
    made += ["-fno-sanitize-recover=all", "-shared", "-fPIC", "boot.c", "-o", "boot.so"]
    subprocess.run(made, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "boot.so"))


def checked(library: Any, image: bytes, manifest: bytes, anchor: bytes) -> int:
    return library.triton_boot_check(
        image, ctypes.c_uint32(len(image)), manifest, ctypes.c_uint32(len(manifest)), anchor
    )


def test_sha256_is_that_of_the_standard(check: Any) -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000, 70_001):
        data = rng.bytes(size)
        digest, middle = ctypes.create_string_buffer(32), size // 3
        parts = [(part, ctypes.c_uint32(len(part))) for part in (data[:middle], data[middle:])]
        check.triton_sha256(digest, *parts[0], *parts[1])
        assert digest.raw == hashlib.sha256(data).digest()


@pytest.mark.parametrize(
    ("size", "block"), [(1, 64), (64, 64), (65, 64), (5000, 512), (700, 1 << 20)]
)
def test_whole_images_pass_and_their_chain_is_what_is_said(
    check: Any, size: int, block: int
) -> None:
    image = np.random.default_rng(size).bytes(size)
    manifest, anchor = boot_manifest(image, block)
    assert checked(check, image, manifest, anchor) == 0
    assert checked(check, image + b"\xff" * 30, manifest + b"\xff" * 30, anchor) == 0
    value = hashlib.sha256(b"TRITBOO1" + struct.pack("<II", size, block)).digest()
    for start in range(0, size, block):
        value = hashlib.sha256(value + image[start : start + block]).digest()
    assert anchor == value == manifest[-32:]


def test_each_flipped_bit_of_image_manifest_and_anchor_is_noticed(check: Any) -> None:
    image = np.random.default_rng(1).bytes(900)
    manifest, anchor = boot_manifest(image, 256)
    parts = [image, manifest, anchor]
    for number, part in enumerate(parts):
        for bit in range(8 * len(part)):
            changed = bytearray(part)
            changed[bit // 8] ^= 1 << bit % 8
            given = [bytes(changed) if i == number else other for i, other in enumerate(parts)]
            found = checked(check, *given)
            assert found == bit // 8 // 256 + 1 if number == 0 else found != 0


def test_manifests_that_are_none_are_refused(check: Any) -> None:
    image = bytes(900)
    manifest, anchor = boot_manifest(image, 256)
    for size in (0, 15, 16, 47, len(manifest) - 1):
        assert checked(check, image, manifest[:size], anchor) == -1
    assert checked(check, image[:-1], manifest, anchor) == -1
    for head in ((0, 256), (900, 0), (900, 1), (0xFFFFFFFF, 0xFFFFFFFF)):
        wrong = manifest[:8] + struct.pack("<II", *head) + manifest[16:]
        assert checked(check, image, wrong, anchor) != 0
    for image, block in ((b"", 64), (b"x", 0)):
        with pytest.raises(OptionError, match="no boot manifest"):
            boot_manifest(image, block)


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


@pytest.mark.parametrize("board", ["cortex-m4", pytest.param("riscv32", marks=pytest.mark.slow)])
def test_boards_start_the_image_of_the_manifest_alone(
    board: str, require_tool: Callable[[str, str], str]
) -> None:
    tools = {
        "cortex-m4": ("arm-none-eabi-gcc", "qemu-system-arm"),
        "riscv32": ("riscv64-unknown-elf-gcc", "qemu-system-riscv32"),
    }
    for tool in tools[board]:
        require_tool(tool, f"apt-get install {BOARDS[board].packages}")
    port = Port("<f4", 3)
    x = np.array([[1, 2, 3], [0.5, -1, 8]], np.float32)

    def run(boot: Callable[[bytes, bytes], tuple[bytes, bytes]]) -> Any:
        (result,) = run_on_board(board, DOUBLE, "twice", [port], [port], [x], boot=boot).outputs
        return result

    seen: list[int] = []

    def whole(image: bytes, manifest: bytes) -> tuple[bytes, bytes]:
        seen.append(image.index(struct.pack("<fff", 2, -4, 0.5)))
        return image, manifest

    np.testing.assert_array_equal(run(whole), x * np.array([2, -4, 0.5], np.float32))
    (weights,) = seen
    changes: list[Callable[[bytes, bytes], tuple[bytes, bytes]]] = [
        lambda image, manifest: (flipped(image, weights), manifest),
        lambda image, manifest: (flipped(image, 9), manifest),
        lambda image, manifest: (image, flipped(manifest, 20)),
        lambda image, _: (flipped(image, weights), boot_manifest(flipped(image, weights))[0]),
    ]
    for change in changes:
        with pytest.raises(BackendError, match=re.escape("image is not the one of the manifest")):
            run(change)


def test_the_command_writes_what_the_check_takes(
    check: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = np.random.default_rng(2).bytes(10_000)
    (tmp_path / "fw.bin").write_bytes(image)
    assert cli.main(["boot", str(tmp_path / "fw.bin"), "--sources", str(tmp_path / "c")]) == 0
    anchor = bytes.fromhex(capsys.readouterr().out)
    manifest = (tmp_path / "fw.bin.boot").read_bytes()
    assert checked(check, image, manifest, anchor) == 0
    assert {path.name for path in (tmp_path / "c").iterdir()} == {"boot.c", "boot.h"}
    assert cli.main(["boot", str(tmp_path / "fw.bin"), "--json"]) == 0
    told = {"anchor": anchor.hex(), "manifest": str(tmp_path / "fw.bin.boot")}
    assert json.loads(capsys.readouterr().out) == told
    assert cli.main(["boot", str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err
