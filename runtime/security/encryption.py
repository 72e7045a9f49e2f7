"""Files encrypted at rest: AES-256-GCM in blocks, their key wrapped by a key file or a passphrase.

A file is the line `MAGIC`, a line of JSON, and blocks. Each file has a key of its own, which AES
key wrap (RFC 3394) encrypts by the key of a file, or by scrypt (RFC 7914) of a passphrase. Block i
has the nonce i, in twelve bytes, and is bound to i, to its being the last one and to the lines
before: blocks can be neither changed nor exchanged, left out, nor taken from another file.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ...ir.errors import InputError, IntegrityError, refuse
from ...ir.extras import needed
from ...ir.safe_read import accessing

MAGIC = b"triton-dsl encrypted 1\n"
BLOCK = 1 << 20
"""Bytes of a block, but for the last one."""

_TAG = 16
_SCRYPT = {"n": 1 << 15, "r": 8, "p": 1}
_MOST_SCRYPT = 1 << 28
"""The most bytes that the key of a file from whoever may take to compute."""


@dataclass(frozen=True, repr=False)
class Key:
    """What opens files: 32 bytes, or a passphrase. It is never shown."""

    secret: bytes
    is_passphrase: bool = False


def key_from(file: Path | None, passphrase: str | None = None) -> Key:
    """The key in a file of 32 bytes or 64 hexadecimal digits, or from a passphrase without a file.

    Raises:
        OptionError: there is neither, or the file holds no key.
    """
    if file is None:
        refuse(not passphrase, "a key file or a passphrase is needed")
        return Key((passphrase or "").encode(), is_passphrase=True)
    with accessing(f"key file '{file}'"):
        content, mode = file.read_bytes(), file.stat().st_mode
    is_open = os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO)
    refuse(is_open, f"key file '{file}' is open to others: chmod 600 it", InputError)
    with suppress(ValueError):
        content = content if len(content) == 32 else bytes.fromhex(content.decode("ascii"))
    said = f"key file '{file}' holds no key of 32 bytes; openssl rand -out FILE 32 makes one"
    refuse(len(content) != 32, said, InputError)
    return Key(content)


def encrypt(content: bytes, key: Key) -> bytes:
    """A file encrypted; each call gives other bytes.

    Raises:
        BackendError: the package `cryptography` is missing.
    """
    keywrap, aead = _library()
    data_key = os.urandom(32)
    how: dict[str, Any] = {"method": "key"}
    if key.is_passphrase:
        how = {"method": "scrypt", "salt": os.urandom(16).hex(), **_SCRYPT}
    wrapped = keywrap.aes_key_wrap(_wrapping_key(key, how), data_key)
    header = {"cipher": "AES-256-GCM", "block": BLOCK, "key": {**how, "wrapped": wrapped.hex()}}
    lines = MAGIC + json.dumps(header, sort_keys=True).encode() + b"\n"
    cipher = aead.AESGCM(data_key)
    parts = [lines]
    for index, start in enumerate(range(0, max(len(content), 1), BLOCK)):
        block = content[start : start + BLOCK]
        is_last = start + BLOCK >= len(content)
        parts.append(cipher.encrypt(*_place(lines, index, block, is_last)))
    return b"".join(parts)


def decrypt(file: BinaryIO, key: Key, what: str) -> Generator[bytes]:
    """The blocks of an encrypted file, named `what` in messages, each when it is asked for.

    Raises:
        IntegrityError: another key, or a file that was changed.
        BackendError: the package `cryptography` is missing.
    """
    keywrap, aead = _library()
    lines = file.readline(len(MAGIC)) + file.readline(4096)
    how, size = _header(lines, what)
    try:
        wrapping = _wrapping_key(key, how)
        data_key = keywrap.aes_key_unwrap(wrapping, bytes.fromhex(how["wrapped"]))
    except (keywrap.InvalidUnwrap, KeyError, OverflowError, TypeError, ValueError):
        raise IntegrityError(f"{what} is encrypted by another key, or was changed") from None
    cipher, index, block = aead.AESGCM(data_key), 0, file.read(size + _TAG)
    while True:
        following = file.read(size + _TAG)
        try:
            yield cipher.decrypt(*_place(lines, index, block, not following))
        except Exception:  # InvalidTag, and ValueError of what is too short for one
            raise IntegrityError(f"{what} is not what was encrypted, at block {index}") from None
        if not following:
            return
        index, block = index + 1, following


def _header(lines: bytes, what: str) -> tuple[dict[str, Any], int]:
    """How the key of a file is wrapped, and the bytes of its blocks."""
    start = lines.removeprefix(MAGIC)
    try:
        header: Any = json.loads(start)
        how, size = header["key"], int(header["block"])
        is_known = header["cipher"] == "AES-256-GCM" and how["method"] in ("key", "scrypt")
        is_known &= 0 < size <= 1 << 26 and start != lines and start.endswith(b"\n")
        if not is_known or not isinstance(how["wrapped"], str):
            raise ValueError
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise IntegrityError(f"{what} is no encrypted file of a form that is known here") from None
    return how, size


def _wrapping_key(key: Key, how: dict[str, Any]) -> bytes:
    if (how["method"] == "scrypt") is not key.is_passphrase:
        raise InputError("a key file opens no file of a passphrase, nor the other way round")
    if not key.is_passphrase:
        return key.secret
    import hashlib  # it loads OpenSSL

    n, r, p = (int(how[name]) for name in ("n", "r", "p"))
    if min(n, r, p) < 1 or 128 * n * r * p > _MOST_SCRYPT:
        raise ValueError("scrypt of such numbers takes too much memory")
    salt = bytes.fromhex(how["salt"])
    return hashlib.scrypt(key.secret, salt=salt, n=n, r=r, p=p, maxmem=2 * _MOST_SCRYPT, dklen=32)


def _place(lines: bytes, index: int, block: bytes, is_last: bool) -> tuple[bytes, bytes, bytes]:
    """The nonce of a block, the block, and what it is bound to."""
    return index.to_bytes(12, "big"), block, index.to_bytes(8, "big") + bytes([is_last]) + lines


def _library() -> list[Any]:
    """Key wrapping, and ciphers with tags."""
    names = (f"cryptography.hazmat.primitives.{part}" for part in ("keywrap", "ciphers.aead"))
    return [needed(name, "cryptography", "secure") for name in names]
