"""Manifests of images: a chain of hashes that firmware checks before it runs what it holds.

`boot.c` is the check, in C without a library, `bootloader.c` a first stage with it for the emulated
boards. The anchor, 32 bytes, stands where nobody can change it: in the first stage, in fuses, or in
a file that is signed. Not here: what the image does.
"""

from __future__ import annotations

import hashlib
import struct
from importlib.resources import files

from ...ir.errors import InputError

MAGIC = b"TRITBOO1"


def boot_manifest(image: bytes, block: int = 4096) -> tuple[bytes, bytes]:
    """The manifest of an image of flash, and its anchor.

    A value of the chain is for so many bytes; a damaged block is named by its number.

    Raises:
        OptionError: an image that is empty or of 4 GiB, or no such size of blocks.
    """
    if not 0 < len(image) < 1 << 32 or not 0 < block < 1 << 32:
        raise InputError(f"no boot manifest: {len(image)} bytes in blocks of {block}")
    head = MAGIC + struct.pack("<II", len(image), block)
    value, values = hashlib.sha256(head).digest(), list[bytes]()
    for start in range(0, len(image), block):
        value = hashlib.sha256(value + image[start : start + block]).digest()
        values.append(value)
    return head + b"".join(values), value


def boot_sources() -> dict[str, bytes]:
    """The check in C: `boot.c` and `boot.h`."""
    folder = files(__name__.rpartition(".")[0])
    return {name: folder.joinpath(name).read_bytes() for name in ("boot.c", "boot.h")}
